//! Names and values that users give to a stack, in a file beside its state.

use std::{collections::BTreeMap, io};

use pulumi_engine_model::urn::StackIdentity;
use serde::{Deserialize, Serialize};

use super::{backend::Backend, bucket::BucketError};

/// The one version of the format.
const FORMAT: u32 = 1;

/// Tags by name.
pub type Tags = BTreeMap<String, String>;

#[derive(Serialize, Deserialize)]
struct Document {
    version: u32,
    #[serde(default)]
    tags: Tags,
}

pub fn read(backend: &Backend, stack: &StackIdentity) -> Result<Tags, BucketError> {
    let Some(content) = backend.bucket().read(&key(stack))? else {
        return Ok(Tags::new());
    };
    let document: Document = serde_json::from_slice(&content).map_err(io::Error::from)?;
    if document.version == FORMAT {
        Ok(document.tags)
    } else {
        let message = format!(
            "unsupported stack tags version: {} (expected {FORMAT})",
            document.version
        );
        Err(io::Error::other(message).into())
    }
}

/// Writes all tags of a stack; without any there is no file.
pub fn write(backend: &Backend, stack: &StackIdentity, tags: Tags) -> Result<(), BucketError> {
    if tags.is_empty() {
        return remove(backend, stack);
    }
    let document = Document {
        version: FORMAT,
        tags,
    };
    let content = serde_json::to_vec(&document).map_err(io::Error::from)?;
    backend.bucket().write(&key(stack), &content)
}

/// Forgets all tags of a stack.
pub fn remove(backend: &Backend, stack: &StackIdentity) -> Result<(), BucketError> {
    backend.bucket().remove(&key(stack))
}

fn key(stack: &StackIdentity) -> String {
    format!(
        ".pulumi/stacks/{}/{}.pulumi-tags",
        stack.project, stack.name
    )
}

//! The tags of a stack, in a file beside its state.

use std::{collections::BTreeMap, io};

use pulumi_engine_model::urn::StackIdentity;
use serde::{Deserialize, Serialize};

use super::{backend::Backend, bucket::BucketError};

/// The only version of the format.
const FORMAT: u32 = 1;

/// Tags by name.
pub type Tags = BTreeMap<String, String>;

#[derive(Serialize, Deserialize)]
struct TagsFile {
    version: u32,
    #[serde(default)]
    tags: Tags,
}

pub fn read(backend: &Backend, stack: &StackIdentity) -> Result<Tags, BucketError> {
    let Some(content) = backend.bucket().read(&key(stack))? else {
        return Ok(Tags::new());
    };
    let document: TagsFile = serde_json::from_slice(&content).map_err(io::Error::from)?;
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

/// Writes all tags of a stack. Removes the file if there are none.
pub fn write(backend: &Backend, stack: &StackIdentity, tags: Tags) -> Result<(), BucketError> {
    if tags.is_empty() {
        return remove(backend, stack);
    }
    let document = TagsFile {
        version: FORMAT,
        tags,
    };
    let content = serde_json::to_vec(&document).map_err(io::Error::from)?;
    backend.bucket().write(&key(stack), &content)
}

/// Removes all tags of a stack.
pub fn remove(backend: &Backend, stack: &StackIdentity) -> Result<(), BucketError> {
    backend.bucket().remove(&key(stack))
}

fn key(stack: &StackIdentity) -> String {
    format!(
        ".pulumi/stacks/{}/{}.pulumi-tags",
        stack.project, stack.name
    )
}

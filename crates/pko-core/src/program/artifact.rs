//! Archives of Programs as Pulumi projects, with deterministic bytes.

use std::{io::Write as _, sync::Arc};

use flate2::{Compression, GzBuilder};
use pko_api::Program;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The only file in the archive.
pub const PROJECT_FILE: &str = "Pulumi.yaml";
/// Upstream's mode of the file in the archive.
const MODE: u32 = 0o775;

/// The archive of a Pulumi project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive {
    /// A compressed tar file.
    pub bytes: Arc<[u8]>,
    /// Its digest, such as `sha256:…`.
    pub digest: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("failed to write the project file")]
    Document(#[from] serde_json::Error),
    #[error("failed to write the archive")]
    Archive(#[from] std::io::Error),
}

/// Builds the archive of a Program.
///
/// # Errors
/// See [`ArchiveError`].
pub fn archive(program: &Program) -> Result<Archive, ArchiveError> {
    archive_of(&project_file(program)?)
}

/// Builds the archive of a project file, with the single file [`PROJECT_FILE`].
///
/// # Errors
/// See [`ArchiveError`].
pub fn archive_of(document: &str) -> Result<Archive, ArchiveError> {
    let mut header = tar::Header::new_ustar();
    header.set_size(document.len() as u64);
    header.set_mode(MODE);
    header.set_mtime(0);
    header.set_cksum();
    let mut tar = tar::Builder::new(Vec::new());
    tar.append_data(&mut header, PROJECT_FILE, document.as_bytes())?;
    let mut gzip = GzBuilder::new().write(Vec::new(), Compression::default());
    gzip.write_all(&tar.into_inner()?)?;
    let bytes = gzip.finish()?;
    let digest = sha256(&bytes);
    Ok(Archive {
        bytes: bytes.into(),
        digest,
    })
}

/// The project file. It is JSON, which is valid YAML and quotes every string, so that no reader
/// mistakes one for a number or a boolean.
pub(super) fn project_file(program: &Program) -> Result<String, serde_json::Error> {
    let mut project = serde_json::to_value(&program.program)?;
    if let Value::Object(fields) = &mut project {
        let name = program.metadata.name.clone().unwrap_or_default();
        fields.insert("name".to_owned(), name.into());
        fields.insert("runtime".to_owned(), "yaml".into());
    }
    serde_json::to_string_pretty(&project).map(|text| text + "\n")
}

fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use serde_json::json;

    use super::*;

    fn program() -> Program {
        serde_json::from_value(json!({
            "metadata": { "name": "hello" },
            "program": {
                "outputs": { "on": "yes", "precise": 9_007_199_254_740_993_i64, "nothing": null },
                "novelty": true,
            },
        }))
        .unwrap()
    }

    fn unpacked(archive: &Archive) -> Vec<(String, u32, String)> {
        let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(archive.bytes.as_ref()));
        let entries = tar.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            let path = entry.path().unwrap().display().to_string();
            (path, entry.header().mode().unwrap(), text)
        });
        entries.collect()
    }

    #[test]
    fn archive_has_one_project_file() {
        let files = unpacked(&archive(&program()).unwrap());
        let [(path, mode, text)] = files.as_slice() else {
            panic!("{files:?}")
        };
        assert_eq!((path.as_str(), *mode), (PROJECT_FILE, MODE));
        let project: Value = serde_json::from_str(text).unwrap();
        assert_eq!(
            project,
            json!({
                "name": "hello",
                "runtime": "yaml",
                "outputs": { "on": "yes", "precise": 9_007_199_254_740_993_i64, "nothing": null },
                "novelty": true,
            })
        );
    }

    #[test]
    fn archive_bytes_are_deterministic() {
        assert_eq!(archive(&program()).unwrap(), archive(&program()).unwrap());
    }
}

//! Objects from YAML files, and their restoration in a cluster without changes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

mod restore;
mod storage;

pub use restore::{RestoreError, restore};

/// Reads the objects of a YAML file, or of all YAML files of a folder in order of their names.
///
/// A file may hold several documents; the items of a `List` count as objects of their own.
pub fn load(path: &Path) -> Result<Vec<Value>, LoadError> {
    let mut objects = Vec::new();
    for file in files(path).map_err(|source| LoadError::Read {
        path: path.to_owned(),
        source,
    })? {
        let text = fs::read_to_string(&file).map_err(|source| LoadError::Read {
            path: file.clone(),
            source,
        })?;
        let parsed = parse(&text).map_err(|source| LoadError::Parse { path: file, source })?;
        objects.extend(parsed);
    }
    Ok(objects)
}

/// Reads the objects of a YAML text.
pub fn parse(text: &str) -> Result<Vec<Value>, Box<serde_saphyr::Error>> {
    // As Kubernetes reads a file mode such as 0644
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options)?;
    Ok(documents
        .into_iter()
        .filter(|document| !document.is_null())
        .flat_map(flatten)
        .collect())
}

fn flatten(mut document: Value) -> Vec<Value> {
    let is_list = document.get("kind").is_some_and(|kind| kind == "List");
    match document
        .get_mut("items")
        .filter(|_| is_list)
        .map(Value::take)
    {
        Some(Value::Array(items)) => items,
        _ => vec![document],
    }
}

fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
    let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    files.retain(|file| {
        file.extension()
            .is_some_and(|suffix| suffix == "yaml" || suffix == "yml")
    });
    files.sort();
    Ok(files)
}

/// Why fixtures can't be loaded.
#[derive(thiserror::Error)]
pub enum LoadError {
    /// A file can't be read.
    #[error("failed to read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A file is no YAML.
    #[error("failed to parse {}", path.display())]
    Parse {
        path: PathBuf,
        source: Box<serde_saphyr::Error>,
    },
}

crate::error_text::debug_is_text!(LoadError);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_documents_and_lists_are_flattened() {
        let text = "\
# nothing here
---
kind: A
mode: 0644
text: \"0644\"
---
kind: List
items:
- kind: B
- kind: C
---
kind: D
items: [1]
";
        let expected = [
            json!({ "kind": "A", "mode": 420, "text": "0644" }),
            json!({ "kind": "B" }),
            json!({ "kind": "C" }),
            json!({ "kind": "D", "items": [1] }),
        ];
        assert_eq!(parse(text).unwrap(), expected);
    }

    #[test]
    fn folder_is_loaded_in_order_and_errors_name_file() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("b.yaml", "kind: B"),
            ("a.yml", "kind: A"),
            ("README.md", "# no"),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        assert_eq!(
            load(folder.path()).unwrap(),
            [json!({ "kind": "A" }), json!({ "kind": "B" })]
        );
        fs::write(folder.path().join("c.yaml"), "a: [").unwrap();
        let error = load(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with("c.yaml"), "{error}");
    }
}

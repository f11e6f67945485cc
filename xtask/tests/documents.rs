//! The documents name files and folders that exist.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The folders that a path in backticks begins with.
const FOLDERS: [&str; 7] = [
    "crates/",
    "deploy/",
    "docs/",
    "engine/",
    "examples/",
    "testing/",
    "xtask/",
];

#[test]
fn documents_name_existing_paths() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut missing = Vec::new();
    for document in documents(root) {
        let text = fs::read_to_string(&document).unwrap();
        let folder = document.parent().unwrap();
        let linked = links(&text).map(|path| (path, folder.join(path)));
        let quoted = quotes(&text).map(|path| (path, root.join(path)));
        for (path, file) in linked.chain(quoted) {
            if !file.exists() {
                missing.push(format!("{}: {path}", document.display()));
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}

fn documents(root: &Path) -> Vec<PathBuf> {
    let folders = [
        "",
        "docs",
        "crates",
        "crates/pko-source",
        "engine",
        "testing",
    ];
    let files = folders
        .iter()
        .flat_map(|folder| fs::read_dir(root.join(folder)).unwrap());
    let files = files.map(|file| file.unwrap().path());
    let documents: Vec<PathBuf> = files
        .filter(|file| file.extension().is_some_and(|extension| extension == "md"))
        .collect();
    assert!(documents.len() > 5, "{documents:?}");
    documents
}

/// The targets of links to files, without anchors.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .filter(|target| !target.contains("://"))
        .filter_map(|target| target.split('#').next())
        .filter(|path| !path.is_empty())
}

/// Paths in backticks, unless they have a placeholder.
fn quotes(text: &str) -> impl Iterator<Item = &str> {
    text.split('`')
        .filter(|quote| FOLDERS.iter().any(|folder| quote.starts_with(folder)))
        .filter(|quote| !quote.contains(['<', '{', '*', '…', ' ', '\n']))
}

//! The files of a program. Only [`Folder`] does I/O.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

/// What a program may read.
pub trait Files: fmt::Debug + Sync {
    /// A file.
    fn read(&self, path: &str) -> Result<Vec<u8>, String>;
    /// The files below a folder, as sorted relative paths; none if there is no such folder.
    fn list(&self, path: &str) -> Result<Option<Vec<String>>, String>;
    /// The content of a URL.
    fn download(&self, address: &str) -> Result<Vec<u8>, String>;
}

/// Files relative to the folder of a program.
#[derive(Debug, Clone)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// Files relative to `root`.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }
}

impl Files for Folder {
    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        std::fs::read(self.root.join(path))
            .map_err(|error| format!("failed to read file {path:?}: {error}"))
    }

    fn list(&self, path: &str) -> Result<Option<Vec<String>>, String> {
        let folder = self.root.join(path);
        if !folder.is_dir() {
            return Ok(None);
        }
        let mut names = Vec::new();
        walk(&folder, "", &mut names)
            .map_err(|error| format!("failed to read folder {path:?}: {error}"))?;
        Ok(Some(names))
    }

    fn download(&self, address: &str) -> Result<Vec<u8>, String> {
        let failed = |error: ureq::Error| format!("failed to download {address:?}: {error}");
        let mut response = ureq::get(address).call().map_err(failed)?;
        response.body_mut().read_to_vec().map_err(failed)
    }
}

/// Collects files. Skips Pulumi's own folder, and links to folders.
fn walk(folder: &Path, prefix: &str, names: &mut Vec<String>) -> std::io::Result<()> {
    let mut entries = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == ".pulumi" {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(&entry.path(), &format!("{prefix}{name}/"), names)?;
        } else if !(kind.is_symlink() && entry.path().is_dir()) {
            names.push(format!("{prefix}{name}"));
        }
    }
    Ok(())
}

/// Files in memory, for programs without a folder.
#[derive(Debug, Clone, Default)]
pub struct InMemory(BTreeMap<String, String>);

impl<const N: usize> From<[(&str, &str); N]> for InMemory {
    fn from(files: [(&str, &str); N]) -> Self {
        Self(
            files
                .map(|(name, text)| (name.to_owned(), text.to_owned()))
                .into(),
        )
    }
}

impl Files for InMemory {
    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        let text = self.0.get(path).ok_or_else(|| format!("no file {path}"))?;
        Ok(text.clone().into_bytes())
    }

    fn list(&self, path: &str) -> Result<Option<Vec<String>>, String> {
        let inside = |name: &String| Some(name.strip_prefix(path)?.strip_prefix('/')?.to_owned());
        let names: Vec<_> = self.0.keys().filter_map(inside).collect();
        Ok((!names.is_empty()).then_some(names))
    }

    fn download(&self, address: &str) -> Result<Vec<u8>, String> {
        self.read(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_list_is_sorted_and_skips_pulumi_folder() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["site/b", "site/a/z", "site/a.txt", "site/.pulumi/x"] {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, name).unwrap();
        }
        let files = Folder::new(directory.path().to_owned());
        let names = files.list("site").unwrap().unwrap();
        assert_eq!(names, ["a/z", "a.txt", "b"]);
        assert_eq!(files.list("nosuch"), Ok(None));
        assert_eq!(files.read("site/b"), Ok(b"site/b".to_vec()));
    }
}

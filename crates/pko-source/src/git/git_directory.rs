//! The `.git` folder: configuration, references, and a marker that the clone is complete.

use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

use gix_hash::{Kind, ObjectId};

use super::{Address, CommitId, GitError, References, checkout::write_error};

/// Written last.
const MARKER: &str = "pko-source";

pub(super) struct GitDirectory {
    folder: PathBuf,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct CloneSpec<'a> {
    pub(super) address: &'a Address,
    pub(super) commit: CommitId,
    pub(super) shallow: bool,
    pub(super) submodules: bool,
}

impl CloneSpec<'_> {
    fn text(&self) -> String {
        let Self {
            address,
            commit,
            shallow,
            submodules,
        } = self;
        format!("commit {commit}\nshallow {shallow}\nsubmodules {submodules}\naddress {address}\n")
    }
}

impl GitDirectory {
    pub(super) fn of_worktree(worktree: &Path) -> Self {
        Self {
            folder: worktree.join(".git"),
        }
    }

    /// Whether the clone is complete and matches the spec.
    pub(super) fn is_complete(&self, contents: &CloneSpec<'_>) -> bool {
        let read = |name| fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        read(MARKER) == contents.text() && read("HEAD").trim_end() == contents.commit.to_string()
    }

    pub(super) fn create(&self) -> Result<(), GitError> {
        for name in [
            "objects/pack",
            "objects/info",
            "refs/heads",
            "refs/tags",
            "info",
        ] {
            let path = self.folder.join(name);
            fs::create_dir_all(&path).map_err(|source| write_error(&path, source))?;
        }
        Ok(())
    }

    pub(super) fn packs(&self) -> PathBuf {
        self.folder.join("objects/pack")
    }

    /// Writes everything but the objects: configuration, references, `HEAD`.
    pub(super) fn describe(
        &self,
        contents: &CloneSpec<'_>,
        hash: Kind,
        references: &References,
        shallow: &[ObjectId],
    ) -> Result<(), GitError> {
        self.write("config", &config(contents.address, hash))?;
        self.write("HEAD", &format!("{}\n", contents.commit))?;
        if !shallow.is_empty() {
            let ids: Vec<String> = shallow.iter().map(ObjectId::to_string).collect();
            self.write("shallow", &format!("{}\n", ids.join("\n")))?;
        }
        if !references.is_empty() {
            self.write("packed-refs", &packed_refs(references))?;
        }
        if let Some(head) = references
            .head()
            .and_then(|name| name.strip_prefix("refs/heads/"))
        {
            let folder = self.folder.join("refs/remotes/origin");
            fs::create_dir_all(&folder).map_err(|source| write_error(&folder, source))?;
            self.write(
                "refs/remotes/origin/HEAD",
                &format!("ref: refs/remotes/origin/{head}\n"),
            )?;
        }
        Ok(())
    }

    pub(super) fn finish(&self, contents: &CloneSpec<'_>) -> Result<(), GitError> {
        self.write(MARKER, &contents.text())
    }

    fn write(&self, name: &str, text: &str) -> Result<(), GitError> {
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(|source: io::Error| write_error(&path, source))
    }
}

/// Pulumi shows the remote's URL, so credentials stay out of it.
fn config(address: &Address, hash: Kind) -> String {
    let (version, extension) = match hash {
        Kind::Sha256 => (1, "[extensions]\n\tobjectformat = sha256\n"),
        _ => (0, ""),
    };
    let address = quote(&address.to_string());
    format!(
        "[core]\n\trepositoryformatversion = {version}\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n\
         {extension}[remote \"origin\"]\n\turl = {address}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n"
    )
}

fn quote(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Branches become those of `origin`. The server's default branch also becomes a local one.
fn packed_refs(references: &References) -> String {
    let mut lines: Vec<(String, ObjectId, Option<ObjectId>)> = Vec::new();
    for (name, target) in &references.targets {
        if let Some(branch) = name.strip_prefix("refs/heads/") {
            lines.push((format!("refs/remotes/origin/{branch}"), target.id, None));
            if references.head() == Some(name) {
                lines.push((name.clone(), target.id, None));
            }
        } else if name.starts_with("refs/tags/") {
            lines.push((name.clone(), target.id, target.peeled));
        }
    }
    lines.sort_unstable();
    let mut text = "# pack-refs with: peeled fully-peeled sorted \n".to_owned();
    for (name, id, peeled) in lines {
        let _ = writeln!(text, "{id} {name}");
        if let Some(peeled) = peeled {
            let _ = writeln!(text, "^{peeled}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_refs_format_matches_git() {
        let mut references = References::of(&[
            ("HEAD", "1", None),
            ("refs/heads/main", "1", None),
            ("refs/heads/b", "2", None),
            ("refs/tags/v1", "3", Some("4")),
            ("refs/pull/1/head", "5", None),
        ]);
        references.head = Some("refs/heads/main".to_owned());
        let short = packed_refs(&references).replace(&"1".repeat(40), "1");
        let short = short
            .replace(&"2".repeat(40), "2")
            .replace(&"3".repeat(40), "3");
        assert_eq!(
            short.replace(&"4".repeat(40), "4"),
            "# pack-refs with: peeled fully-peeled sorted \n\
             1 refs/heads/main\n2 refs/remotes/origin/b\n1 refs/remotes/origin/main\n3 refs/tags/v1\n^4\n"
        );
    }

    #[test]
    fn git_config_contains_no_password() {
        let address = Address::parse("https://canary:canary@host/r\"s.git").unwrap();
        let config = config(&address, Kind::Sha1);
        assert!(
            config.contains("\turl = \"https://host/r\\\"s.git\"\n"),
            "{config}"
        );
        assert!(!config.contains("canary"));
    }
}

//! A bare repository to serve, created with git.

use std::{
    fmt::Write as _,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A bare repository whose `HEAD` is `main`.
#[derive(Debug, Clone)]
pub struct TestRepository {
    path: PathBuf,
}

/// A file of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestFile {
    pub path: String,
    /// As git has it: `100644`, `100755`, `120000`, or `160000` with a commit's hash as content
    pub mode: &'static str,
    pub content: Vec<u8>,
}

impl TestFile {
    pub fn plain(path: &str, content: impl Into<Vec<u8>>) -> Self {
        Self::with_mode("100644", path, content)
    }

    pub fn executable(path: &str, content: impl Into<Vec<u8>>) -> Self {
        Self::with_mode("100755", path, content)
    }

    #[must_use]
    pub fn link(path: &str, target: &str) -> Self {
        Self::with_mode("120000", path, target)
    }

    /// A submodule at a commit.
    #[must_use]
    pub fn submodule(path: &str, commit: &str) -> Self {
        Self::with_mode("160000", path, commit)
    }

    fn with_mode(mode: &'static str, path: &str, content: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.to_owned(),
            mode,
            content: content.into(),
        }
    }
}

impl TestRepository {
    /// Makes an empty one in a folder.
    pub fn create(root: &Path, name: &str) -> io::Result<Self> {
        Self::create_with(root, name, "sha1")
    }

    /// The same with another hash.
    pub fn create_with(root: &Path, name: &str, hash: &str) -> io::Result<Self> {
        let path = root.join(name);
        fs::create_dir_all(&path)?;
        let repository = Self { path };
        let format = format!("--object-format={hash}");
        repository.git(&[
            "init",
            "--quiet",
            "--bare",
            "--initial-branch=main",
            &format,
        ])?;
        Ok(repository)
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs git and returns its output.
    pub fn git(&self, arguments: &[&str]) -> io::Result<String> {
        self.git_with_input(arguments, b"")
    }

    /// Runs git with this standard input and returns its output.
    pub fn git_with_input(&self, arguments: &[&str], input: &[u8]) -> io::Result<String> {
        let output = run(&self.path, arguments, input)?;
        Ok(String::from_utf8_lossy(&output).trim_end().to_owned())
    }

    /// Commits exactly these files to a branch. Returns the commit's hash.
    pub fn commit(&self, branch: &str, files: &[TestFile]) -> io::Result<String> {
        let reference = format!("refs/heads/{branch}");
        let mut stream = format!(
            "commit {reference}\ncommitter T <t@example.com> 1700000000 +0000\ndata 4\ntest\n"
        );
        if self
            .git(&["rev-parse", "--verify", "--quiet", &reference])
            .is_ok()
        {
            let _ = writeln!(stream, "from {reference}^0");
        }
        let mut stream = stream.into_bytes();
        stream.extend_from_slice(b"deleteall\n");
        for file in files {
            add(&mut stream, file)?;
        }
        self.git_with_input(&["fast-import", "--quiet", "--force"], &stream)?;
        self.git(&["rev-parse", &reference])
    }

    /// Writes a tree of `(mode, name, hash)` entries, valid or not.
    pub fn raw_tree(&self, entries: &[(&str, &[u8], &str)]) -> io::Result<String> {
        let mut bytes = Vec::new();
        for (mode, name, hash) in entries {
            bytes.extend_from_slice(mode.as_bytes());
            bytes.push(b' ');
            bytes.extend_from_slice(name);
            bytes.push(0);
            bytes.extend(hex::decode(hash).map_err(io::Error::other)?);
        }
        let arguments = ["hash-object", "-t", "tree", "-w", "--literally", "--stdin"];
        self.git_with_input(&arguments, &bytes)
    }

    pub fn blob(&self, content: &[u8]) -> io::Result<String> {
        self.git_with_input(&["hash-object", "-w", "--stdin"], content)
    }

    /// Commits a tree to a branch.
    pub fn commit_tree(&self, branch: &str, tree: &str) -> io::Result<String> {
        let text = format!(
            "tree {tree}\nauthor T <t@example.com> 1700000000 +0000\ncommitter T <t@example.com> 1700000000 +0000\n\ntest\n"
        );
        let arguments = [
            "hash-object",
            "-t",
            "commit",
            "-w",
            "--literally",
            "--stdin",
        ];
        let commit = self.git_with_input(&arguments, text.as_bytes())?;
        self.git(&["update-ref", &format!("refs/heads/{branch}"), &commit])?;
        Ok(commit)
    }
}

fn add(stream: &mut Vec<u8>, file: &TestFile) -> io::Result<()> {
    let TestFile {
        path,
        mode,
        content,
    } = file;
    if *mode == "160000" {
        let hash = String::from_utf8_lossy(content);
        return writeln!(stream, "M {mode} {hash} {path}");
    }
    write!(stream, "M {mode} inline {path}\ndata {}\n", content.len())?;
    stream.extend_from_slice(content);
    stream.push(b'\n');
    Ok(())
}

/// Runs git with nothing of this machine's configuration.
fn run(folder: &Path, arguments: &[&str], input: &[u8]) -> io::Result<Vec<u8>> {
    let mut child = Command::new("git")
        .args(["-c", "safe.directory=*"])
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_NAME", "T")
        .env("GIT_AUTHOR_EMAIL", "t@example.com")
        .env("GIT_COMMITTER_NAME", "T")
        .env("GIT_COMMITTER_EMAIL", "t@example.com")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| {
            io::Error::other(format!("git could not be started; install git: {error}"))
        })?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input)?;
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!(
        "git {}: {words}",
        arguments.join(" ")
    )))
}

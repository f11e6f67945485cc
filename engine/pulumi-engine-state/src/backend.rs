//! The backend: a folder or a bucket in Pulumi's own layout.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use jiff::Timestamp;
use parking_lot::Mutex;
use pulumi_engine_model::urn::StackIdentity;

use super::{
    bucket::{Bucket, BucketError, Folder},
    checkpoint::{Checkpoint, CheckpointError},
    cloud::{self, AddressError},
    history, tags,
};

/// The only organization of self-managed backends.
pub const ORGANIZATION: &str = "organization";
const META: &str = ".pulumi/meta.yaml";
const STACKS: &str = ".pulumi/stacks";

#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// Pulumi Cloud without a token. The text is that of Pulumi's CLI.
    #[error("PULUMI_ACCESS_TOKEN must be set for login during non-interactive CLI sessions")]
    Unauthenticated,
    /// A kind of backend that is not supported.
    #[error(
        "backend {0:?} is not supported by pulumi-engine, which has file://, s3://, gs:// and azblob:// backends; use an image with Pulumi's CLI"
    )]
    Unsupported(String),
    /// The folder does not exist. The text begins as that of Pulumi's CLI does.
    #[error("unable to open state directory {0:?}: no such file or directory; {advice}", advice = advice(.0))]
    NoFolder(String),
    /// The folder is not writable.
    #[error("unable to access state directory {0:?}: {1}; {advice}", advice = advice(.0))]
    Unwritable(String, io::Error),
    /// An unsupported layout.
    #[error("the state is in a layout that pulumi-engine does not support: {0}")]
    Layout(&'static str),
    /// No bucket can be opened for the URL.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The folder or bucket failed.
    #[error("failed to access the state in {0}")]
    Access(String, #[source] BucketError),
    /// The current directory is unknown.
    #[error("failed to find the directory of the backend")]
    Directory(#[source] io::Error),
    /// A checkpoint is unusable.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}

/// The hint for a workspace pod, where the engine mostly runs.
fn advice(url: &str) -> String {
    let path = url.strip_prefix("file://").unwrap_or(url);
    format!(
        "in a workspace, mount a volume at {path} that the pod's group can write to: `volumes`, \
         `volumeMounts` and `securityContext.fsGroup` in \
         spec.workspaceTemplate.spec.podTemplate.spec of the Stack, as in examples/hello/stack.yaml"
    )
}

#[derive(Debug)]
pub struct Backend {
    url: String,
    bucket: Box<dyn Bucket>,
    /// Checkpoints that this process has read or written.
    cache: Mutex<HashMap<String, CachedCheckpoint>>,
    marked: AtomicBool,
}

#[derive(Debug)]
struct CachedCheckpoint {
    content: Vec<u8>,
    /// Whether the previous checkpoint is backed up already.
    backed_up: bool,
    /// Whether the file is complete with its attributes.
    complete: bool,
}

impl Backend {
    pub fn open(url: &str) -> Result<Self, BackendError> {
        let (url, bucket) = open_bucket(url)?;
        Self::of(url, bucket)
    }

    fn of(url: String, bucket: Box<dyn Bucket>) -> Result<Self, BackendError> {
        let backend = Self {
            url,
            bucket,
            cache: Mutex::default(),
            marked: AtomicBool::default(),
        };
        backend.check_layout()?;
        Ok(backend)
    }

    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its files.
    #[must_use]
    pub fn bucket(&self) -> &dyn Bucket {
        self.bucket.as_ref()
    }

    /// The location of a file, for messages.
    #[must_use]
    pub fn place(&self, key: &str) -> String {
        let url = self.url.split('?').next().unwrap_or_default();
        format!("{}/{key}", url.trim_end_matches('/'))
    }

    fn checkpoint_key(stack: &StackIdentity) -> String {
        format!("{STACKS}/{}/{}.json", stack.project, stack.name)
    }

    fn access(&self) -> impl Fn(BucketError) -> BackendError {
        let place = self.url.split('?').next().unwrap_or_default().to_owned();
        move |error| match error {
            BucketError::Folder(reason) if is_unwritable(&reason) => {
                BackendError::Unwritable(place.clone(), reason)
            }
            error => BackendError::Access(place.clone(), error),
        }
    }

    /// The error of a file of this backend.
    pub(super) fn error(&self, error: BucketError) -> BackendError {
        self.access()(error)
    }

    /// Rejects the old layout, in which stacks of all projects share a folder.
    fn check_layout(&self) -> Result<(), BackendError> {
        let meta = self.bucket.read(META).map_err(self.access())?;
        let Some(meta) = meta else {
            let old = self.bucket.list(STACKS, ".json").map_err(self.access())?;
            return if old.is_empty() {
                Ok(())
            } else {
                Err(BackendError::Layout(
                    "no meta.yaml; run `pulumi state upgrade`",
                ))
            };
        };
        let text = String::from_utf8_lossy(&meta);
        let version = pulumi_yaml::syntax::parse(&text).ok();
        let version = version.and_then(|root| {
            root.get("version")
                .map(pulumi_yaml::syntax::Node::scalar_text)
        });
        match version.as_deref() {
            Some("1") => {
                self.marked.store(true, Ordering::SeqCst);
                Ok(())
            }
            Some("0") => Err(BackendError::Layout(
                "version 0 in meta.yaml; run `pulumi state upgrade`",
            )),
            _ => Err(BackendError::Layout(
                "an unknown version in meta.yaml; use a newer Pulumi CLI",
            )),
        }
    }

    /// Names of the stacks of a project.
    pub fn list(&self, project: &str) -> Result<Vec<String>, BackendError> {
        let keys = self
            .bucket
            .list(&format!("{STACKS}/{project}"), ".json")
            .map_err(self.access())?;
        let name = |key: &String| Some(key.rsplit_once('/')?.1.strip_suffix(".json")?.to_owned());
        Ok(keys.iter().filter_map(name).collect())
    }

    /// The checkpoint of a stack; none if there is no such stack.
    pub fn load(&self, stack: &StackIdentity) -> Result<Option<Checkpoint>, BackendError> {
        match self.content(stack)? {
            Some(content) => Ok(Some(Checkpoint::parse(&content)?)),
            None => Ok(None),
        }
    }

    /// Reads the file of a stack's checkpoint again.
    fn content(&self, stack: &StackIdentity) -> Result<Option<Vec<u8>>, BackendError> {
        let key = Self::checkpoint_key(stack);
        let content = self.bucket.read(&key).map_err(self.access())?;
        match &content {
            Some(content) => {
                let mut cache = self.cache.lock();
                let backed_up = cache.get(&key).is_some_and(|cache| cache.backed_up);
                cache.insert(
                    key,
                    CachedCheckpoint {
                        content: content.clone(),
                        backed_up,
                        complete: true,
                    },
                );
            }
            None => self.refuse_compressed(stack)?,
        }
        Ok(content)
    }

    fn refuse_compressed(&self, stack: &StackIdentity) -> Result<(), BackendError> {
        let folder = format!("{STACKS}/{}", stack.project);
        let key = Self::checkpoint_key(stack);
        for ending in [".json.gz", ".json.zst"] {
            let found = self.bucket.list(&folder, ending).map_err(self.access())?;
            if found.iter().any(|found| found.strip_prefix(&key).is_some()) {
                return Err(BackendError::Layout(
                    "a compressed checkpoint; have the CLI write it without PULUMI_DIY_BACKEND_GZIP",
                ));
            }
        }
        Ok(())
    }

    /// Writes the checkpoint of a stack: one file. The one before this command stays as a backup.
    pub fn save(&self, stack: &StackIdentity, checkpoint: &Checkpoint) -> Result<(), BackendError> {
        self.save_content(stack, checkpoint.encode()?, true)
    }

    /// Writes a checkpoint that is JSON already. More writes follow unless it is the last one.
    pub fn save_content(
        &self,
        stack: &StackIdentity,
        content: Vec<u8>,
        last: bool,
    ) -> Result<(), BackendError> {
        if !self.marked.swap(true, Ordering::SeqCst) {
            self.bucket
                .write(META, b"version: 1\n")
                .map_err(self.access())?;
        }
        let key = Self::checkpoint_key(stack);
        if !self.cache.lock().contains_key(&key) {
            self.content(stack)?;
        }
        let mut cache = self.cache.lock();
        if let Some(before) = cache.get_mut(&key) {
            if before.content == content && (before.complete || !last) {
                return Ok(());
            }
            if !before.backed_up {
                self.bucket
                    .write(&format!("{key}.bak"), &before.content)
                    .map_err(self.access())?;
            }
        }
        let written = if last {
            self.bucket.write(&key, &content)
        } else {
            self.bucket.write_for_now(&key, &content)
        };
        written.map_err(self.access())?;
        cache.insert(
            key,
            CachedCheckpoint {
                content,
                backed_up: true,
                complete: last,
            },
        );
        Ok(())
    }

    /// The content of a stack's checkpoint as last read or written.
    #[must_use]
    pub fn latest(&self, stack: &StackIdentity) -> Vec<u8> {
        let cache = self.cache.lock();
        let latest = cache.get(&Self::checkpoint_key(stack));
        latest
            .map(|cache| cache.content.clone())
            .unwrap_or_default()
    }

    /// Backs up a checkpoint, as the CLI does after each run.
    pub fn back_up(&self, stack: &StackIdentity, content: &[u8]) -> Result<(), BackendError> {
        let (project, name) = (&stack.project, &stack.name);
        let now = Timestamp::now().as_nanosecond();
        let key = format!(".pulumi/backups/{project}/{name}/{name}.{now}.json");
        self.bucket.write(&key, content).map_err(self.access())
    }

    /// Removes a stack and its history. Its last state stays as a backup.
    pub fn remove(&self, stack: &StackIdentity) -> Result<(), BackendError> {
        let key = Self::checkpoint_key(stack);
        if let Some(content) = self.bucket.read(&key).map_err(self.access())? {
            self.bucket
                .write(&format!("{key}.bak"), &content)
                .map_err(self.access())?;
        }
        self.bucket.remove(&key).map_err(self.access())?;
        self.cache.lock().remove(&key);
        tags::remove(self, stack).map_err(self.access())?;
        history::remove(self, stack).map_err(self.access())
    }
}

/// The normalized URL, and its files.
fn open_bucket(url: &str) -> Result<(String, Box<dyn Bucket>), BackendError> {
    if let Some(rest) = url.strip_prefix("file://") {
        let path = rest.split_once('?').map_or(rest, |(path, _)| path);
        let url = format!("file://{}", path.trim_end_matches('/'));
        let directory = directory(path)?;
        // a folder created here would be lost with the pod's own file system
        if !directory.exists() {
            return Err(BackendError::NoFolder(url));
        }
        return Ok((url, Box::new(Folder::new(directory))));
    }
    if let Some(bucket) = cloud::open(url)? {
        return Ok((url.to_owned(), Box::new(bucket)));
    }
    let cloud = url.starts_with("http://") || url.starts_with("https://");
    if cloud && std::env::var_os("PULUMI_ACCESS_TOKEN").is_none() {
        Err(BackendError::Unauthenticated)
    } else {
        Err(BackendError::Unsupported(url.to_owned()))
    }
}

fn is_unwritable(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem)
}

fn directory(path: &str) -> Result<PathBuf, BackendError> {
    match path.strip_prefix('~') {
        Some(inside) => {
            let home = std::env::var("HOME").unwrap_or_default();
            Ok(Path::new(&home).join(inside.trim_start_matches('/')))
        }
        None => std::path::absolute(path).map_err(BackendError::Directory),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::file;

    fn stack() -> StackIdentity {
        StackIdentity {
            organization: ORGANIZATION.into(),
            project: "demo".into(),
            name: "dev".into(),
        }
    }

    #[test]
    fn backend_unsupported_scheme_is_rejected() {
        let error = Backend::open("postgres://u@h/d").unwrap_err().to_string();
        assert!(
            error.starts_with("backend \"postgres://u@h/d\" is not supported")
                && error.contains("azblob://"),
            "{error}"
        );
    }

    #[test]
    fn backend_missing_folder_is_not_created() {
        let parent = tempfile::tempdir().unwrap();
        let missing = parent.path().join("state");
        let url = format!("file://{}", missing.display());
        let error = Backend::open(&url).unwrap_err().to_string();
        let start = format!("unable to open state directory {url:?}: no such file or directory; ");
        assert!(error.starts_with(&start), "{error}");
        let advice = format!("mount a volume at {} that", missing.display());
        assert!(error.contains(&advice), "{error}");
        assert!(!missing.exists());
    }

    /// Rejects every write.
    #[derive(Debug)]
    struct ReadOnly(io::ErrorKind);

    impl Bucket for ReadOnly {
        fn read(&self, _: &str) -> Result<Option<Vec<u8>>, BucketError> {
            Ok(None)
        }

        fn write(&self, _: &str, _: &[u8]) -> Result<(), BucketError> {
            Err(io::Error::from(self.0).into())
        }

        fn remove(&self, _: &str) -> Result<(), BucketError> {
            Ok(())
        }

        fn list(&self, _: &str, _: &str) -> Result<Vec<String>, BucketError> {
            Ok(Vec::new())
        }

        fn remove_folder(&self, _: &str) -> Result<(), BucketError> {
            Ok(())
        }
    }

    #[test]
    fn backend_readonly_folder_suggests_volume() {
        use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, StorageFull};
        let saved = |kind| {
            let url = "file:///state".to_owned();
            let backend = Backend::of(url, Box::new(ReadOnly(kind))).unwrap();
            let checkpoint = Checkpoint::new("a".into(), None);
            let locked = crate::lock::Lock::acquire(&backend, &stack(), |_| ()).unwrap_err();
            let saved = backend.save(&stack(), &checkpoint).unwrap_err();
            [anyhow::Error::from(locked), saved.into()].map(|error| format!("{error:#}"))
        };
        for kind in [PermissionDenied, ReadOnlyFilesystem] {
            for error in saved(kind) {
                let text = "unable to access state directory \"file:///state\": ";
                assert!(error.contains(text), "{error}");
                assert!(error.contains("mount a volume at /state that"), "{error}");
            }
        }
        for error in saved(StorageFull) {
            assert!(!error.contains("volume"), "{error}");
        }
    }

    /// Records its calls.
    #[derive(Debug, Default)]
    struct Counted {
        files: Mutex<HashMap<String, Vec<u8>>>,
        calls: Arc<Mutex<Vec<String>>>,
    }

    impl Counted {
        fn called(&self, call: &str, key: &str) {
            self.calls.lock().push(format!("{call} {key}"));
        }
    }

    impl Bucket for Counted {
        fn read(&self, key: &str) -> Result<Option<Vec<u8>>, BucketError> {
            self.called("read", key);
            Ok(self.files.lock().get(key).cloned())
        }

        fn write(&self, key: &str, content: &[u8]) -> Result<(), BucketError> {
            self.called("write", key);
            self.files.lock().insert(key.to_owned(), content.to_vec());
            Ok(())
        }

        fn remove(&self, key: &str) -> Result<(), BucketError> {
            self.called("remove", key);
            self.files.lock().remove(key);
            Ok(())
        }

        fn list(&self, folder: &str, _: &str) -> Result<Vec<String>, BucketError> {
            self.called("list", folder);
            Ok(Vec::new())
        }

        fn remove_folder(&self, folder: &str) -> Result<(), BucketError> {
            self.called("remove", folder);
            Ok(())
        }
    }

    #[test]
    fn backend_save_is_one_write() {
        let bucket = Counted::default();
        let calls = Arc::clone(&bucket.calls);
        let backend = Backend::of("s3://states".to_owned(), Box::new(bucket)).unwrap();
        let stack = stack();
        backend
            .save(&stack, &Checkpoint::new("a".into(), None))
            .unwrap();
        backend.load(&stack).unwrap();
        calls.lock().clear();
        for name in ["b", "c", "c", "d"] {
            let checkpoint = Checkpoint::new(name.into(), None);
            backend.save(&stack, &checkpoint).unwrap();
        }
        let write = "write .pulumi/stacks/demo/dev.json";
        assert_eq!(*calls.lock(), [write; 3]);
    }

    #[test]
    fn backend_last_save_writes_attributes() {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("file://{}", directory.path().display());
        let backend = Backend::open(&url).unwrap();
        let stack = stack();
        let attributes = directory.path().join(".pulumi/stacks/demo/dev.json.attrs");
        for (content, last) in [("a", true), ("b", false), ("b", false), ("b", true)] {
            let content = content.as_bytes().to_vec();
            backend.save_content(&stack, content, last).unwrap();
            assert_eq!(attributes.exists(), last);
        }
        assert_eq!(backend.latest(&stack), b"b");
    }

    #[test]
    fn backend_old_layout_is_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("file://{}", directory.path().display());
        let refused = |url: &str| Backend::open(url).unwrap_err().to_string();
        let meta = directory.path().join(META);
        file::write(&meta, b"version: 2\n", false).unwrap();
        assert!(refused(&url).contains("unknown version"));
        file::write(&meta, b"version: 0\n", false).unwrap();
        assert!(refused(&url).contains("state upgrade"));
        file::remove(&meta).unwrap();
        file::write(
            &directory.path().join(".pulumi/stacks/dev.json"),
            b"{}",
            false,
        )
        .unwrap();
        assert!(refused(&url).contains("state upgrade"));
    }
}

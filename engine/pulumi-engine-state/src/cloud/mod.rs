//! Buckets of clouds: S3 and compatible servers, Google Cloud Storage, Azure Blob Storage.

mod address;
mod azure;
mod gcs;
mod http;
mod s3;

use std::{sync::Arc, sync::OnceLock, time::Duration};

use object_store::{
    BackoffConfig, ClientOptions, ObjectStore, ObjectStoreExt as _, PutPayload, RetryConfig,
    path::Path,
};
use tokio::runtime::{Builder, Runtime};

use super::bucket::{Bucket, BucketError};
pub(crate) use address::{Address, AddressError};

/// Environment variables.
type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A bucket of a cloud, or the part of it below a prefix.
#[derive(Debug)]
pub(crate) struct CloudBucket {
    store: Arc<dyn ObjectStore>,
    prefix: String,
    /// Created at the first call: most commands need none.
    runtime: OnceLock<Runtime>,
}

/// Opens the bucket of a URL; none if its scheme is not that of a cloud. It sends nothing yet.
pub(crate) fn open(url: &str) -> Result<Option<CloudBucket>, AddressError> {
    let Some(address) = Address::parse(url)? else {
        return Ok(None);
    };
    let variables = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let store = match address.scheme {
        "s3" => s3::open(&address, &variables)?,
        "gs" => gcs::open(&address, &variables)?,
        _ => azure::open(&address, &variables)?,
    };
    Ok(Some(CloudBucket {
        store,
        prefix: address.prefix,
        runtime: OnceLock::new(),
    }))
}

/// How often and for how long a call is retried.
fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: 8,
        retry_timeout: Duration::from_mins(1),
    }
}

/// Allows plain HTTP only if the URL requests it.
fn client_options() -> ClientOptions {
    ClientOptions::new().with_allow_http(true)
}

impl CloudBucket {
    fn path(&self, key: &str) -> Result<Path, BucketError> {
        let whole = format!("{}{key}", self.prefix);
        Path::parse(&whole).map_err(|_| BucketError::Name(whole))
    }

    /// Runs a call to its end.
    fn wait<T>(
        &self,
        call: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, BucketError> {
        let runtime = if let Some(runtime) = self.runtime.get() {
            runtime
        } else {
            let new = Builder::new_current_thread().enable_time().build()?;
            self.runtime.get_or_init(|| new)
        };
        runtime.block_on(call).map_err(BucketError::Service)
    }

    fn key(&self, path: &Path) -> String {
        let whole = path.as_ref();
        whole.strip_prefix(&self.prefix).unwrap_or(whole).to_owned()
    }

    async fn everything_below(&self, path: &Path) -> object_store::Result<Vec<Path>> {
        use futures::TryStreamExt as _;
        let listed = self.store.list(Some(path));
        listed.map_ok(|found| found.location).try_collect().await
    }
}

impl Bucket for CloudBucket {
    fn read(&self, key: &str) -> Result<Option<Vec<u8>>, BucketError> {
        let path = self.path(key)?;
        let read = self.wait(async { self.store.get(&path).await?.bytes().await });
        match read {
            Ok(content) => Ok(Some(content.to_vec())),
            Err(BucketError::Service(object_store::Error::NotFound { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write(&self, key: &str, content: &[u8]) -> Result<(), BucketError> {
        let path = self.path(key)?;
        let payload = PutPayload::from(content.to_vec());
        self.wait(async { self.store.put(&path, payload).await.map(|_| ()) })
    }

    fn remove(&self, key: &str) -> Result<(), BucketError> {
        let path = self.path(key)?;
        match self.wait(async { self.store.delete(&path).await }) {
            Err(BucketError::Service(object_store::Error::NotFound { .. })) => Ok(()),
            other => other,
        }
    }

    fn list(&self, folder: &str, ending: &str) -> Result<Vec<String>, BucketError> {
        let path = self.path(folder)?;
        let found = self.wait(async { self.store.list_with_delimiter(Some(&path)).await })?;
        let mut keys: Vec<_> = found
            .objects
            .iter()
            .map(|object| self.key(&object.location))
            .filter(|key| key.ends_with(ending))
            .collect();
        keys.sort();
        Ok(keys)
    }

    fn remove_folder(&self, folder: &str) -> Result<(), BucketError> {
        let path = self.path(folder)?;
        for found in self.wait(self.everything_below(&path))? {
            self.remove(&self.key(&found))?;
        }
        Ok(())
    }
}

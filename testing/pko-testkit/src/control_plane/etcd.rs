//! Direct access to etcd, for objects that the API server would reject or change.

use http::Request;
use http::header::CONTENT_TYPE;
use k8s_openapi::ByteString;
use kube::Client;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::ControlPlane;
use super::access::{AccessError, config};

/// Reads and writes keys of a plane's etcd.
///
/// It speaks etcd's JSON gateway through kube's HTTP client, which is here anyway: two requests do
/// not need a gRPC client with generated code.
pub struct Etcd(Client);

impl ControlPlane {
    /// Its etcd, past the API server.
    pub fn etcd(&self) -> Result<Etcd, AccessError> {
        let identity = self.authority.client("etcd-client", &[])?;
        let url = format!("https://127.0.0.1:{}", self.etcd_port);
        Ok(Etcd(Client::try_from(config(
            &url,
            &self.authority,
            &identity,
        )?)?))
    }
}

#[derive(Deserialize)]
struct Range {
    #[serde(default)]
    kvs: Vec<KeyValue>,
}

#[derive(Deserialize)]
struct KeyValue {
    value: ByteString,
}

impl Etcd {
    /// Sets the value of a key.
    pub async fn put(&self, key: &str, value: &[u8]) -> Result<(), EtcdError> {
        let body = json!({ "key": ByteString(key.into()), "value": ByteString(value.into()) });
        let _: Value = self.call("/v3/kv/put", &body).await?;
        Ok(())
    }

    /// The value of a key.
    pub async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, EtcdError> {
        let body = json!({ "key": ByteString(key.into()) });
        let range: Range = self.call("/v3/kv/range", &body).await?;
        Ok(range.kvs.into_iter().next().map(|found| found.value.0))
    }

    async fn call<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, EtcdError> {
        let request = Request::post(path)
            .header(CONTENT_TYPE, "application/json")
            .body(body.to_string().into_bytes())
            .map_err(kube::Error::HttpError)?;
        Ok(self.0.request(request).await?)
    }
}

/// Why etcd did not do it.
#[derive(thiserror::Error)]
#[error("failed to call etcd")]
pub struct EtcdError(#[from] kube::Error);

crate::error_text::debug_is_text!(EtcdError);

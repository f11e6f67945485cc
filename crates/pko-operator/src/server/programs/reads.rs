//! The requests that the server of Programs makes of the API server.

use k8s_openapi::{
    api::apps::v1::ControllerRevision, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::Client;
use pko_api::{Decoded, Program};
use pko_kube::RequestError;

pub(crate) trait ProgramReads: Send + Sync + 'static {
    /// The metadata of a Program.
    fn metadata(
        &self,
        namespace: &str,
        name: &str,
    ) -> impl Future<Output = Result<Option<ObjectMeta>, RequestError>> + Send;

    /// A Program with its body, which no cache has.
    fn program(
        &self,
        namespace: &str,
        name: &str,
    ) -> impl Future<Output = Result<Option<Decoded<Program>>, RequestError>> + Send;

    /// A stored generation.
    fn revision(
        &self,
        namespace: &str,
        name: &str,
    ) -> impl Future<Output = Result<Option<ControllerRevision>, RequestError>> + Send;
}

impl ProgramReads for Client {
    async fn metadata(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<ObjectMeta>, RequestError> {
        pko_kube::find_metadata::<Program>(self, namespace, name).await
    }

    async fn program(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Decoded<Program>>, RequestError> {
        pko_kube::find(self, namespace, name).await
    }

    async fn revision(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<ControllerRevision>, RequestError> {
        pko_kube::find(self, namespace, name).await
    }
}

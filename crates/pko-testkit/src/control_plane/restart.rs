//! An API server that goes away and comes back, with the same port, certificates and data.

use super::ControlPlane;
use super::start::StartError;
use crate::components::Component;

impl ControlPlane {
    /// Kills the API server, as a crash does. etcd keeps what was written, and the controllers wait.
    ///
    /// Not for a plane that other tests share.
    pub fn stop_api_server(&self) -> Result<(), StartError> {
        let name = Component::KubeApiserver.name();
        Ok(self.processes().stop(name)?)
    }

    /// Starts the API server and waits until it is ready.
    pub async fn start_api_server(&self) -> Result<(), StartError> {
        let component = Component::KubeApiserver;
        let (port, etcd_port) = (self.port, self.etcd_port);
        let command = self.layout.apiserver(&self.apiserver, port, etcd_port);
        self.run(component, command)?;
        self.wait_for(component, "/readyz").await?;
        // `default` appears a moment after the server calls itself ready
        self.wait_for(component, "/api/v1/namespaces/default").await
    }

    /// [`ControlPlane::stop_api_server`], then [`ControlPlane::start_api_server`].
    pub async fn restart_api_server(&self) -> Result<(), StartError> {
        self.stop_api_server()?;
        self.start_api_server().await
    }
}

//! Stops and starts components, with the same ports, certificates and data.

use super::ControlPlane;
use super::start::{CONTROLLERS, StartError};
use crate::components::Component;

impl ControlPlane {
    /// Kills the API server, as a crash does. etcd keeps the data, and the controllers wait.
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

    /// Kills the built-in controllers.
    ///
    /// Not for a plane that other tests share.
    pub fn stop_controllers(&self) -> Result<(), StartError> {
        let name = Component::KubeControllerManager.name();
        Ok(self.processes().stop(name)?)
    }

    /// Starts the built-in controllers, and does not wait for them.
    pub fn start_controllers(&self) -> Result<(), StartError> {
        let component = Component::KubeControllerManager;
        let program = self.components.path(component)?;
        let kubeconfig = self.layout.kubeconfig(CONTROLLERS);
        self.run(
            component,
            self.layout.controller_manager(&program, &kubeconfig),
        )
    }
}

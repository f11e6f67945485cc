//! The control plane that these tests share, with our CRDs.

use std::sync::Arc;

use pko_testkit::ControlPlane;

/// A control plane that serves the four kinds.
pub(crate) async fn with_our_crds() -> Arc<ControlPlane> {
    let plane = ControlPlane::shared().await.unwrap();
    plane.install_crds(&pko_api::crd::all()).await.unwrap();
    plane
}

/// Runs `kubectl`; returns whether it succeeded, and its output.
pub(crate) fn kubectl(plane: &ControlPlane, arguments: &[&str]) -> (bool, String) {
    let output = plane.kubectl().unwrap().args(arguments).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

//! Authentication of gRPC callers by `--auth-mode`: `none`, `kube` (a token for this workspace,
//! whose user has the right to use it), `manager` (a token that our manager signed), or both of
//! them.

mod auth_delegator;
mod kube_client;
mod kubernetes;
mod layer;
mod manager;
mod settings;

pub(crate) use settings::auth_layer;

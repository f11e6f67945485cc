//! Who may call: everybody, or who has a token for this workspace and the right to use it.

mod cache;
mod gate;
mod kubernetes;
mod reviews;

pub(crate) use gate::Gate;
pub(crate) use kubernetes::{KubernetesAuthorizer, WorkspaceName};
pub(crate) use reviews::ApiReviews;

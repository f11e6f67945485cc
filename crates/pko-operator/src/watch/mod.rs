//! Watches of the API server: one for each kind, shared by all controllers.

pub(crate) mod pods;
pub(crate) mod shared;
pub(crate) mod streams;
pub(crate) mod versions;

use kube::runtime::reflector::ObjectRef;
use pko_api::{Decoded, Stack, Update, Workspace};
use tokio::sync::mpsc::UnboundedSender;

pub(crate) type UpdateRef = ObjectRef<Decoded<Update>>;

/// Reconciles a Stack for a reason that no watch shows.
pub(crate) type StackTrigger = UnboundedSender<ObjectRef<Decoded<Stack>>>;
/// Reconciles a Workspace for a reason that no watch shows.
pub(crate) type WorkspaceTrigger = UnboundedSender<ObjectRef<Decoded<Workspace>>>;
/// Reconciles an Update for a reason that no watch shows.
pub(crate) type UpdateTrigger = UnboundedSender<UpdateRef>;

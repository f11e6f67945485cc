//! The Secret with a run's outputs. It exists before the result is recorded, and retries write it
//! once.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use pko_api::{Update, names::field_managers};
use pko_core::update::other_outputs_name;
use pko_kube::RequestError;

use super::{Context, ReconcileError};

enum KeepResult {
    /// From this attempt or an earlier one.
    Stored,
    /// The Secret of this name belongs to another owner.
    NameTaken,
    /// The API server rejects it for good.
    Rejected(String),
}

/// Stores the outputs. Returns the name of the Secret, or why it was rejected for good.
pub(super) async fn keep(
    update: &Update,
    mut secret: Secret,
    context: &Context,
) -> Result<Result<String, String>, ReconcileError> {
    let uid = update.uid().unwrap_or_default();
    let names = [secret.name_any(), other_outputs_name(&secret, &uid)];
    for name in &names {
        secret.metadata.name = Some(name.clone());
        match attempt(&secret, &uid, context).await? {
            KeepResult::Stored => return Ok(Ok(name.clone())),
            KeepResult::Rejected(why) => return Ok(Err(why)),
            KeepResult::NameTaken => {}
        }
    }
    let why = format!(
        "the Secrets {} exist and have another owner",
        names.join(" and ")
    );
    Ok(Err(why))
}

async fn attempt(
    secret: &Secret,
    uid: &str,
    context: &Context,
) -> Result<KeepResult, RequestError> {
    let created = pko_kube::create(&context.client, secret, field_managers::OPERATOR).await;
    let Err(error) = created else {
        return Ok(KeepResult::Stored);
    };
    match error.status_code() {
        Some(409) => {}
        // Credentials may work again on a retry.
        Some(401) => return Err(error),
        _ if error.is_refusal() => return Ok(KeepResult::Rejected(error.full_text())),
        _ => return Err(error),
    }
    let namespace = secret.namespace().unwrap_or_default();
    let found: Option<Secret> =
        pko_kube::find(&context.client, &namespace, &secret.name_any()).await?;
    let is_ours = |found: &Secret| {
        found
            .owner_references()
            .iter()
            .any(|owner| owner.uid == uid)
    };
    match found {
        Some(found) if is_ours(&found) => Ok(KeepResult::Stored),
        Some(_) => Ok(KeepResult::NameTaken),
        // It was deleted in between: the next reconcile finds the name free.
        None => Err(error),
    }
}

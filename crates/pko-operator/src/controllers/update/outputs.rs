//! The Secret with a run's outputs: there before the result is recorded, and kept once however often it is tried.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use pko_api::{Update, names::field_managers};
use pko_core::update::other_outputs_name;
use pko_kube::RequestError;

use super::{Context, PassError};

/// What became of a try.
enum Kept {
    /// It is there, from now on or from an earlier try.
    Here,
    /// What has this name is another's.
    Occupied,
    /// It will never be taken.
    Refused(String),
}

/// Keeps the outputs, and says under which name; or why they were refused for good.
pub(super) async fn keep(
    update: &Update,
    mut secret: Secret,
    context: &Context,
) -> Result<Result<String, String>, PassError> {
    let uid = update.uid().unwrap_or_default();
    let names = [secret.name_any(), other_outputs_name(&secret, &uid)];
    for name in &names {
        secret.metadata.name = Some(name.clone());
        match attempt(&secret, &uid, context).await? {
            Kept::Here => return Ok(Ok(name.clone())),
            Kept::Refused(why) => return Ok(Err(why)),
            Kept::Occupied => {}
        }
    }
    let why = format!(
        "the Secrets {} are there and are another's",
        names.join(" and ")
    );
    Ok(Err(why))
}

async fn attempt(secret: &Secret, uid: &str, context: &Context) -> Result<Kept, RequestError> {
    let created = pko_kube::create(&context.client, secret, field_managers::OPERATOR).await;
    let Err(error) = created else {
        return Ok(Kept::Here);
    };
    match error.status_code() {
        Some(409) => {}
        // Who we are may be known again in a moment.
        Some(401) => return Err(error),
        _ if error.is_refusal() => return Ok(Kept::Refused(error.full_text())),
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
        Some(found) if is_ours(&found) => Ok(Kept::Here),
        Some(_) => Ok(Kept::Occupied),
        // It went in between: the next pass finds the name free.
        None => Err(error),
    }
}

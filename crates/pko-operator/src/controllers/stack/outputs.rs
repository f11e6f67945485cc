//! Publishes stack outputs to the Secrets and ConfigMaps that the Stack names.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use pko_api::{Stack, names::field_managers};
use pko_core::stack::{Published, publication};
use pko_kube::{Namespaced, RequestError};
use serde::Serialize;

use super::belongs_to;
use crate::controllers::{Context, ReconcileError};

/// Writes all of them. Returns permanent failures as one message; transient ones are errors, which
/// are retried.
pub(super) async fn publish(
    stack: &Stack,
    context: &Context,
    secret: Option<&str>,
) -> Result<Result<(), String>, ReconcileError> {
    let namespace = stack.namespace().unwrap_or_default();
    let outputs: Option<Secret> = match secret {
        Some(name) => pko_kube::find(&context.client, &namespace, name).await?,
        None => None,
    };
    let publication = publication(stack, outputs.as_ref());
    let mut problems = publication.problems;
    for (field, object) in publication.objects {
        let written = match object {
            Published::Secret(secret) => keep(stack, context, secret).await?,
            Published::ConfigMap(config_map) => keep(stack, context, config_map).await?,
        };
        if let Err(problem) = written {
            problems.push(format!("{field}: {problem}"));
        }
    }
    if problems.is_empty() {
        return Ok(Ok(()));
    }
    Ok(Err(problems.join("; ")))
}

/// Writes one object, unless the one of that name does not belong to the Stack.
async fn keep<K>(
    stack: &Stack,
    context: &Context,
    mut object: K,
) -> Result<Result<(), String>, ReconcileError>
where
    K: Namespaced + Serialize,
{
    let client = &context.client;
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let manager = field_managers::OPERATOR;
    let written = match pko_kube::find_metadata::<K>(client, &namespace, &name).await {
        Ok(Some(found)) if !belongs_to(&found, stack) => {
            let kind = K::kind(&());
            return Ok(Err(format!(
                "the {kind} \"{name}\" does not belong to this Stack: delete it or choose another name"
            )));
        }
        Ok(Some(found)) => {
            object.meta_mut().uid = found.uid;
            pko_kube::apply_forced(client, &object, manager).await
        }
        // Does not take over an object that another client creates now.
        Ok(None) => pko_kube::apply(client, &object, manager).await,
        Err(error) => Err(error),
    };
    permanent_failure(written.map(drop))
}

/// Returns a permanent failure as a message. A conflict counts: the name was taken just now.
fn permanent_failure(
    written: Result<(), RequestError>,
) -> Result<Result<(), String>, ReconcileError> {
    match written {
        Ok(()) => Ok(Ok(())),
        // Credentials may work again on a retry.
        Err(error) if error.status_code() == Some(401) => Err(error.into()),
        Err(error) if error.is_refusal() || error.status_code() == Some(409) => {
            Ok(Err(error.full_text()))
        }
        Err(error) => Err(error.into()),
    }
}

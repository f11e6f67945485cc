//! Writes a stack's outputs into the Secrets and ConfigMaps that its Stack names.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use pko_api::{Stack, names::field_managers};
use pko_core::stack::{Published, publication};
use pko_kube::{Namespaced, RequestError};
use serde::Serialize;

use super::belongs_to;
use crate::controllers::{Context, PassError};

/// Writes them all; what could not be done for good is told in one sentence. What may work in a moment is an error, and
/// is tried again.
pub(super) async fn publish(
    stack: &Stack,
    context: &Context,
    secret: Option<&str>,
) -> Result<Result<(), String>, PassError> {
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

/// Writes one object. What has its name and does not belong to the Stack is left alone.
async fn keep<K>(
    stack: &Stack,
    context: &Context,
    mut object: K,
) -> Result<Result<(), String>, PassError>
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
                "the {kind} \"{name}\" does not belong to this Stack and is left alone: delete it or choose another name"
            )));
        }
        Ok(Some(found)) => {
            object.meta_mut().uid = found.uid;
            pko_kube::apply_forced(client, &object, manager).await
        }
        // One that somebody makes in this moment is not overruled.
        Ok(None) => pko_kube::apply(client, &object, manager).await,
        Err(error) => Err(error),
    };
    refused(written.map(drop))
}

/// What the API server refused for good is told; a name that was taken in this moment is, too.
fn refused(written: Result<(), RequestError>) -> Result<Result<(), String>, PassError> {
    match written {
        Ok(()) => Ok(Ok(())),
        // Who we are may be known again in a moment.
        Err(error) if error.status_code() == Some(401) => Err(error.into()),
        Err(error) if error.is_refusal() || error.status_code() == Some(409) => {
            Ok(Err(error.full_text()))
        }
        Err(error) => Err(error.into()),
    }
}

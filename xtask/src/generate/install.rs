//! `deploy/quickstart/install.yaml`: the whole installation, for one `kubectl apply`. Does no I/O.
//!
//! Names, labels, ports, flags and variables are those of upstream's file, so that either can be
//! applied over the other.

mod manager;
mod network;
mod rights;
#[cfg(test)]
mod tests;

use pko_api::{admission, crd};
use serde_json::{Map, Value, json};

use super::{GeneratedFile, rbac};

const PATH: &str = "deploy/quickstart/install.yaml";

const NAMESPACE: &str = "pulumi-kubernetes-operator";
const ACCOUNT: &str = "controller-manager";
/// The selector of the Deployment and the Services. It is immutable in an existing Deployment.
const SELECTOR_LABEL: (&str, &str) = ("control-plane", "controller-manager");
const NAME_LABEL: (&str, &str) = ("app.kubernetes.io/name", "pulumi-kubernetes-operator");

pub(super) fn file() -> anyhow::Result<GeneratedFile> {
    let mut text = String::from(HEAD);
    for document in documents()? {
        text.push_str("---\n");
        text.push_str(&document);
    }
    Ok(GeneratedFile {
        path: PATH.into(),
        text,
    })
}

const HEAD: &str = "\
# Made by `cargo xtask generate` from xtask/src/generate/install.
# The operator with all that it needs: kubectl apply -f install.yaml
# To use another image, change its name in the Deployment in both places: the container's `image`, and `AGENT_IMAGE`.
";

/// In the order of their dependencies.
fn documents() -> anyhow::Result<Vec<String>> {
    let mut documents = vec![yaml(&manager::namespace())?];
    for crd in crd::all() {
        documents.push(yaml(&crd)?);
    }
    documents.push(yaml(&manager::account())?);
    documents.push(yaml(&rights::workspace_account())?);
    documents.extend(
        rights::ROLES
            .iter()
            .map(|role| rbac::document(role, own_namespace(role))),
    );
    let others = rights::bindings().into_iter();
    let others = others
        .chain(manager::services())
        .chain([manager::deployment()]);
    let others = others.chain(network::policies());
    let others = others.chain([admission::policy(), admission::binding()]);
    for object in others {
        documents.push(yaml(&object)?);
    }
    Ok(documents)
}

fn own_namespace(role: &pko_api::rbac::Role) -> Option<&'static str> {
    (role.scope == pko_api::rbac::Scope::OwnNamespace).then_some(NAMESPACE)
}

fn yaml(object: &Value) -> anyhow::Result<String> {
    Ok(serde_saphyr::to_string(object)?)
}

/// Metadata in the operator's namespace.
fn namespaced(name: &str, labels: &[(&str, &str)]) -> Value {
    json!({"name": name, "namespace": NAMESPACE, "labels": pairs(labels)})
}

fn pairs(labels: &[(&str, &str)]) -> Map<String, Value> {
    let pairs = labels.iter();
    pairs
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect()
}

//! The config of a Workspace's stack.

use pko_api::{
    auto::v1alpha1::{ConfigItem, ConfigValueFrom},
    pulumi::v1::{ResourceRef, ResourceRefType, StackSpec},
};
use serde_json::Value;

use super::volumes::Volumes;

/// A config value, or the file that holds it.
enum Content {
    Inline(Value),
    File { path: String, json: Option<bool> },
}

/// Config in a fixed order: inline, from ConfigMaps, secret, from Secrets; each by key.
pub(super) fn items(spec: &StackSpec, volumes: &mut Volumes) -> Vec<ConfigItem> {
    let mut items = Vec::new();
    for (key, value) in &spec.config {
        items.push(item(key, Content::Inline(value.clone()), false));
    }
    for (key, reference) in spec.config_map_refs().iter() {
        let path = volumes.config_map(&reference.name, &reference.key);
        let json = reference.json;
        items.push(item(key, Content::File { path, json }, false));
    }
    for (key, value) in &spec.secrets {
        items.push(item(key, Content::Inline(value.as_str().into()), true));
    }
    for (key, reference) in &spec.secrets_ref {
        let content = secret_content(reference, volumes);
        items.extend(content.map(|content| item(key, content, true)));
    }
    items
}

/// The value of a reference; none for one that the check of references rejects.
fn secret_content(reference: &ResourceRef, volumes: &mut Volumes) -> Option<Content> {
    match &reference.reference_type {
        ResourceRefType::Literal => {
            let literal = reference.literal.as_ref()?;
            Some(Content::Inline(literal.value.as_str().into()))
        }
        ResourceRefType::Secret => {
            let secret = reference.secret.as_ref()?;
            let path = volumes.secret(&secret.name, &secret.key);
            Some(Content::File { path, json: None })
        }
        _ => None,
    }
}

fn item(key: &str, content: Content, secret: bool) -> ConfigItem {
    let (value, value_from) = match content {
        Content::Inline(value) => (Some(value), None),
        Content::File { path, json } => {
            let path = Some(path);
            (
                None,
                Some(ConfigValueFrom {
                    path,
                    json,
                    env: None,
                }),
            )
        }
    };
    ConfigItem {
        key: key.to_owned(),
        path: None,
        value,
        value_from,
        secret: Some(secret),
    }
}

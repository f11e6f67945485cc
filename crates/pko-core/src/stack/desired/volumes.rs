//! The volumes with the Secrets and ConfigMaps that config refers to.

use pko_api::JsonObject;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Where Secrets are mounted.
const SECRETS: &str = "/var/run/secrets/stacks.pulumi.com/secrets";
/// Where ConfigMaps are mounted.
const CONFIG_MAPS: &str = "/var/run/configmaps/stacks.pulumi.com/configmaps";

/// The volumes that config needs, one for each Secret or ConfigMap, in the order of their first
/// use.
#[derive(Default)]
pub(super) struct Volumes {
    volumes: Vec<Value>,
    mounts: Vec<Value>,
}

impl Volumes {
    /// The path of a Secret's key.
    pub(super) fn secret(&mut self, name: &str, key: &str) -> String {
        let volume = volume_name(format!("secret-{name}"));
        let folder = format!("{SECRETS}/{name}");
        self.mount(
            json!({ "name": volume, "secret": { "secretName": name } }),
            json!({ "name": volume, "mountPath": folder }),
        );
        format!("{folder}/{key}")
    }

    /// The path of a ConfigMap's key.
    pub(super) fn config_map(&mut self, name: &str, key: &str) -> String {
        let volume = volume_name(format!("configmap-{name}"));
        let folder = format!("{CONFIG_MAPS}/{name}");
        self.mount(
            json!({ "name": volume, "configMap": { "name": name } }),
            json!({ "name": volume, "mountPath": folder }),
        );
        format!("{folder}/{key}")
    }

    fn mount(&mut self, volume: Value, mount: Value) {
        if !self.volumes.contains(&volume) {
            self.volumes.push(volume);
            self.mounts.push(mount);
        }
    }

    /// The part of a pod that mounts the volumes into the workspace's container.
    pub(super) fn pod_spec(self) -> JsonObject {
        let mut container = JsonObject::new();
        container.insert("name".to_owned(), "pulumi".into());
        container.insert("resources".to_owned(), json!({}));
        let mut pod = JsonObject::new();
        if !self.volumes.is_empty() {
            container.insert("volumeMounts".to_owned(), self.mounts.into());
            pod.insert("volumes".to_owned(), self.volumes.into());
        }
        pod.insert("containers".to_owned(), json!([container]));
        pod
    }
}

/// The longest name of a volume.
const MAX_NAME_LENGTH: usize = 63;
/// Digits of the hash in a shortened name.
const DIGITS: usize = 10;

/// Upstream's name of a volume if it is valid. Names of objects may be longer than those of volumes
/// and may contain dots.
fn volume_name(plain: String) -> String {
    let is_usable = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if plain.len() <= MAX_NAME_LENGTH && plain.chars().all(is_usable) && !plain.ends_with('-') {
        return plain;
    }
    let start = plain.chars().take(MAX_NAME_LENGTH - DIGITS - 1);
    let start: String = start.map(|c| if is_usable(c) { c } else { '-' }).collect();
    let digits: String = hex::encode(Sha256::digest(&plain))
        .chars()
        .take(DIGITS)
        .collect();
    format!("{start}-{digits}")
}

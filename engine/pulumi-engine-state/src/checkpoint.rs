//! The checkpoint file: the state of one stack.

use pulumi_engine_model::{VERSION, resource::Resource};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::integrity::sha256;

/// The format that this engine writes, unless a state needs a feature.
const FORMAT: u32 = 3;
/// The format that names the features that a state needs.
const FORMAT_WITH_FEATURES: u32 = 4;
/// The only supported feature.
const REPLACE_WITH: &str = "replaceWith";
/// The only supported secrets provider.
const PASSPHRASE: &str = "passphrase";

#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// Malformed JSON.
    #[error("failed to read the checkpoint")]
    Malformed(#[source] serde_json::Error),
    /// An unsupported format.
    #[error(
        "checkpoint format {0} is not supported by pulumi-engine, which has formats {FORMAT} and {FORMAT_WITH_FEATURES}"
    )]
    Format(u32),
    /// An unsupported feature.
    #[error(
        "this stack's deployment needs support for the following features, which pulumi-engine lacks: {0}; use an image with Pulumi's CLI"
    )]
    Features(String),
    /// An unsupported secrets provider.
    #[error("secrets provider {0:?} is not supported by pulumi-engine, which has \"passphrase\"")]
    SecretsProvider(String),
}

/// A checkpoint file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Checkpoint {
    pub version: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    pub checkpoint: CheckpointBody,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CheckpointBody {
    #[serde(default)]
    pub stack: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest: Option<Deployment>,
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The state of a stack.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Deployment {
    pub manifest: Manifest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets_providers: Option<SecretsProvider>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<Resource<Map<String, Value>>>,
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// Unknown fields, which are preserved.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The version and time of a state's writer.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Manifest {
    pub time: String,
    pub magic: String,
    pub version: String,
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Manifest {
    /// This engine's manifest. Readers check that the magic is the hash of the version.
    #[must_use]
    pub fn new(time: String) -> Self {
        Self {
            time,
            magic: sha256(VERSION),
            version: VERSION.to_owned(),
            other: Map::new(),
        }
    }
}

/// The secrets provider of a state.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SecretsProvider {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub state: Map<String, Value>,
}

impl SecretsProvider {
    /// The passphrase provider with this salt.
    #[must_use]
    pub fn passphrase(salt: &str) -> Self {
        let state = Map::from_iter([("salt".to_owned(), Value::String(salt.to_owned()))]);
        Self {
            kind: PASSPHRASE.to_owned(),
            state,
        }
    }
}

impl Checkpoint {
    /// An empty checkpoint.
    #[must_use]
    pub fn new(stack: String, latest: Option<Deployment>) -> Self {
        let resources = latest.iter().flat_map(|latest| &latest.resources);
        let mut features = Vec::new();
        let mut version = FORMAT;
        if resources
            .into_iter()
            .any(|resource| !resource.replace_with.is_empty())
        {
            features.push(REPLACE_WITH.to_owned());
            version = FORMAT_WITH_FEATURES;
        }
        Self {
            version,
            features,
            checkpoint: CheckpointBody {
                stack,
                latest,
                other: Map::new(),
            },
        }
    }

    /// Assembles a file from resources that are JSON already, so a save only costs what changed.
    pub fn assemble(
        stack: &str,
        latest: &Deployment,
        resources: &[&str],
        replace_with: bool,
    ) -> Result<Vec<u8>, CheckpointError> {
        let features = if replace_with {
            format!("{FORMAT_WITH_FEATURES},\"features\":[\"{REPLACE_WITH}\"]")
        } else {
            FORMAT.to_string()
        };
        let latest = serde_json::to_string(latest).map_err(CheckpointError::Malformed)?;
        let stack = serde_json::to_string(stack).map_err(CheckpointError::Malformed)?;
        let size: usize = resources.iter().map(|resource| resource.len() + 1).sum();
        // one allocation: states are large, and saved often
        let mut text = String::with_capacity(size + latest.len() + stack.len() + 128);
        text.extend([
            "{\"version\":",
            &features,
            ",\"checkpoint\":{\"stack\":",
            &stack,
        ]);
        text.push_str(",\"latest\":{");
        for (number, resource) in resources.iter().enumerate() {
            text.push_str(if number == 0 { "\"resources\":[" } else { "," });
            text.push_str(resource);
        }
        if !resources.is_empty() {
            // the state's other fields, of which there is always one, follow the resources
            text.push_str("],");
        }
        text.push_str(latest.strip_prefix('{').unwrap_or_default());
        text.push_str("}}");
        Ok(text.into_bytes())
    }

    /// Parses a file.
    pub fn parse(content: &[u8]) -> Result<Self, CheckpointError> {
        let checkpoint: Self =
            serde_json::from_slice(content).map_err(CheckpointError::Malformed)?;
        Self::check_features(&checkpoint.features)?;
        match (checkpoint.version, &checkpoint.checkpoint.latest) {
            // the CLI writes 0 for a stack without a state
            (FORMAT | FORMAT_WITH_FEATURES, _) | (0, None) => Ok(checkpoint),
            (other, _) => Err(CheckpointError::Format(other)),
        }
    }

    /// Rejects states with unsupported features.
    pub fn check_features(features: &[String]) -> Result<(), CheckpointError> {
        let lacking = features.iter().filter(|feature| *feature != REPLACE_WITH);
        let lacking: Vec<_> = lacking.map(String::as_str).collect();
        if lacking.is_empty() {
            Ok(())
        } else {
            Err(CheckpointError::Features(lacking.join(", ")))
        }
    }

    /// Encodes the file.
    pub fn encode(&self) -> Result<Vec<u8>, CheckpointError> {
        serde_json::to_vec(self).map_err(CheckpointError::Malformed)
    }

    /// The state in it.
    #[must_use]
    pub fn deployment(&self) -> Deployment {
        self.checkpoint.latest.clone().unwrap_or_default()
    }
}

impl Deployment {
    /// The salt of the passphrase provider; none for a state without secrets.
    pub fn salt(&self) -> Result<Option<&str>, CheckpointError> {
        match &self.secrets_providers {
            None => Ok(None),
            Some(provider) if provider.kind == PASSPHRASE => {
                Ok(provider.state.get("salt").and_then(Value::as_str))
            }
            Some(provider) if provider.kind.is_empty() => Ok(None),
            Some(provider) => Err(CheckpointError::SecretsProvider(provider.kind.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoint_keeps_unknown_fields() {
        let text = r#"{"version":3,"checkpoint":{"stack":"organization/p/s","latest":{"manifest":{"time":"t","magic":"m","version":"v","plugins":[]},"resources":[{"urn":"u","custom":true,"type":"t","future":{"a":1}}],"metadata":{},"pending_operations":[]}}}"#;
        let checkpoint = Checkpoint::parse(text.as_bytes()).unwrap();
        let again: Value = serde_json::from_slice(&checkpoint.encode().unwrap()).unwrap();
        assert_eq!(again, serde_json::from_str::<Value>(text).unwrap());
    }

    #[test]
    fn checkpoint_of_unsupported_format_is_rejected() {
        let newer = br#"{"version":5,"checkpoint":{}}"#;
        let error = Checkpoint::parse(newer).unwrap_err().to_string();
        assert!(error.contains("format 5 is not supported"), "{error}");
        let lacking =
            br#"{"version":4,"features":["replaceWith","views","taint"],"checkpoint":{}}"#;
        let error = Checkpoint::parse(lacking).unwrap_err().to_string();
        assert!(error.contains("lacks: views, taint;"), "{error}");
        let provider = SecretsProvider {
            kind: "cloud".into(),
            ..SecretsProvider::default()
        };
        let deployment = Deployment {
            secrets_providers: Some(provider),
            ..Deployment::default()
        };
        assert!(
            deployment
                .salt()
                .unwrap_err()
                .to_string()
                .contains("\"cloud\"")
        );
    }

    #[test]
    fn checkpoint_assembled_equals_encoded() {
        let resource = Resource {
            urn: pulumi_engine_model::urn::Urn::new("u"),
            ..Resource::default()
        };
        let text = serde_json::to_string(&resource).unwrap();
        for count in 0..3 {
            let mut latest = Deployment::default();
            let assembled =
                Checkpoint::assemble("s\"", &latest, &vec![text.as_str(); count], false).unwrap();
            latest.resources = vec![resource.clone(); count];
            let encoded = Checkpoint::new("s\"".into(), Some(latest))
                .encode()
                .unwrap();
            let value = |content: &[u8]| serde_json::from_slice::<Value>(content).unwrap();
            assert_eq!(value(&assembled), value(&encoded));
        }
    }

    #[test]
    fn checkpoint_names_its_features() {
        let plain = Checkpoint::new("s".into(), Some(Deployment::default()));
        assert_eq!((plain.version, plain.features.len()), (3, 0));
        let resource = Resource {
            replace_with: vec![pulumi_engine_model::urn::Urn::new("u")],
            ..Resource::default()
        };
        let latest = Deployment {
            resources: vec![resource],
            ..Deployment::default()
        };
        let written = Checkpoint::new("s".into(), Some(latest)).encode().unwrap();
        let read = Checkpoint::parse(&written).unwrap();
        assert_eq!(read.version, 4);
        assert_eq!(read.features, ["replaceWith"]);
    }

    #[test]
    fn manifest_magic_is_hash_of_version() {
        let manifest = Manifest::new("t".into());
        assert_eq!(manifest.magic, sha256(&manifest.version));
    }
}

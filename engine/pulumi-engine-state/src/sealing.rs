//! Encrypts and decrypts the secrets of resources, between memory and checkpoint.

use std::collections::HashMap;

use pulumi_engine_model::{
    property::{Properties, Property, SECRET_SIGNATURE, SIGNATURE_KEY},
    resource::Resource,
};
use serde_json::{Map, Value, json};

use crate::secrets::{Crypter, SecretsError};

#[derive(Debug, thiserror::Error)]
pub enum SealingError {
    /// The secrets provider failed.
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    /// A secret in a state without a secrets provider.
    #[error("the state holds secrets but names no secrets provider")]
    NoProvider,
    /// A decrypted secret that is not JSON.
    #[error("a secret of the state is malformed")]
    Malformed,
}

/// Encrypts and decrypts the secrets of a state.
///
/// An unchanged secret keeps its ciphertext, so states do not differ without reason. Two secrets
/// with the same value have different ciphertexts.
pub struct Vault {
    crypter: Option<Crypter>,
    remembered: HashMap<String, (String, String)>,
}

impl Vault {
    /// A vault. Without a crypter it only handles states without secrets.
    #[must_use]
    pub fn new(crypter: Option<Crypter>) -> Self {
        Self {
            crypter,
            remembered: HashMap::new(),
        }
    }

    /// Opens all resources of a state.
    pub fn open(
        &mut self,
        resources: Vec<Resource<Map<String, Value>>>,
    ) -> Result<Vec<Resource>, SealingError> {
        resources
            .into_iter()
            .map(|resource| {
                let place = format!("{} {}", resource.urn, resource.id);
                resource.map(|section, properties| {
                    self.open_all(&format!("{place} {section}"), properties)
                })
            })
            .collect()
    }

    fn open_all(
        &mut self,
        place: &str,
        properties: Map<String, Value>,
    ) -> Result<Properties, SealingError> {
        properties
            .into_iter()
            .map(|(key, value)| {
                let value = self.open_value(&format!("{place}/{key}"), value)?;
                Ok((key, value))
            })
            .collect()
    }

    fn open_value(&mut self, place: &str, value: Value) -> Result<Property, SealingError> {
        Ok(match value {
            Value::Object(entries) if is_secret(&entries) => self.open_secret(place, &entries)?,
            Value::Object(entries) => Property::Object(self.open_all(place, entries)?),
            Value::Array(values) => Property::List(
                values
                    .into_iter()
                    .enumerate()
                    .map(|(index, value)| self.open_value(&format!("{place}/{index}"), value))
                    .collect::<Result<_, _>>()?,
            ),
            plain => Property::from_json(plain),
        })
    }

    fn open_secret(
        &mut self,
        place: &str,
        entries: &Map<String, Value>,
    ) -> Result<Property, SealingError> {
        let text = |key: &str| entries.get(key).and_then(Value::as_str);
        if let Some(plain) = text("plaintext") {
            let value = serde_json::from_str(plain).map_err(|_| SealingError::Malformed)?;
            let inner = self.open_value(place, value)?;
            return Ok(Property::Secret(Box::new(inner.opened().0)));
        }
        let sealed = text("ciphertext").ok_or(SealingError::Malformed)?;
        let crypter = self.crypter.as_ref().ok_or(SealingError::NoProvider)?;
        let plain = crypter.decrypt(sealed)?;
        let value = serde_json::from_str(&plain).map_err(|_| SealingError::Malformed)?;
        self.remembered
            .insert(place.to_owned(), (plain, sealed.to_owned()));
        // nested secrets were encrypted before the whole
        let inner = self.open_value(place, value)?;
        Ok(Property::Secret(Box::new(inner.opened().0)))
    }

    /// Seals all resources of a state.
    pub fn seal(
        &mut self,
        resources: Vec<Resource>,
    ) -> Result<Vec<Resource<Map<String, Value>>>, SealingError> {
        resources
            .into_iter()
            .map(|resource| self.seal_one(resource))
            .collect()
    }

    /// Seals one resource.
    pub fn seal_one(
        &mut self,
        resource: Resource,
    ) -> Result<Resource<Map<String, Value>>, SealingError> {
        let place = format!("{} {}", resource.urn, resource.id);
        resource.map(|section, properties| {
            let place = format!("{place} {section}");
            properties
                .into_iter()
                .map(|(key, value)| {
                    let value = value
                        .to_json_with(&format!("{place}/{key}"), &mut |place, inner| {
                            self.seal_secret(place, inner)
                        })?;
                    Ok((key, value))
                })
                .collect::<Result<Map<_, _>, SealingError>>()
        })
    }

    fn seal_secret(&mut self, place: &str, inner: &Property) -> Result<Value, SealingError> {
        let plain = inner.revealed().to_string();
        let sealed = match self.remembered.get(place) {
            Some((known, sealed)) if *known == plain => sealed.clone(),
            _ => {
                let crypter = self.crypter.as_ref().ok_or(SealingError::NoProvider)?;
                let sealed = crypter.encrypt(&plain)?;
                self.remembered
                    .insert(place.to_owned(), (plain, sealed.clone()));
                sealed
            }
        };
        Ok(json!({ SIGNATURE_KEY: SECRET_SIGNATURE, "ciphertext": sealed }))
    }
}

fn is_secret(entries: &Map<String, Value>) -> bool {
    entries.get(SIGNATURE_KEY).and_then(Value::as_str) == Some(SECRET_SIGNATURE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::Passphrase;

    fn resource(value: Property) -> Resource {
        Resource {
            kind: "t".to_owned(),
            outputs: Some(Properties::from([("x".to_owned(), value)])),
            ..Resource::default()
        }
    }

    #[test]
    fn vault_keeps_ciphertext_of_unchanged_secret() {
        let crypter = Crypter::create(&Passphrase::new("p".into())).unwrap();
        let secret = Property::from_json(json!({"k": [1, "v"]})).into_secret();
        let resources = vec![resource(Property::List(vec![Property::Null, secret]))];
        let mut vault = Vault::new(Some(crypter));
        let sealed = vault.seal(resources.clone()).unwrap();
        assert!(!serde_json::to_string(&sealed).unwrap().contains("\"v\""));
        assert_eq!(vault.open(sealed.clone()).unwrap(), resources);
        assert_eq!(vault.seal(resources).unwrap(), sealed);
    }

    #[test]
    fn vault_without_secrets_needs_no_provider() {
        let plain = vec![resource(Property::from_json(json!({"a": [1.5, null]})))];
        let sealed = Vault::new(None).seal(plain.clone()).unwrap();
        assert_eq!(Vault::new(None).open(sealed).unwrap(), plain);
        let secret = vec![resource(Property::Null.into_secret())];
        assert!(matches!(
            Vault::new(None).seal(secret),
            Err(SealingError::NoProvider)
        ));
    }
}

//! The last segment of a Program's URL, if URLs must not be guessable.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pko_auth::token::{MacKey, SigningKey};

const PURPOSE: &str = "addresses of programs";

/// All replicas have the same key, so each accepts the signatures of the others.
pub(crate) struct UrlSigner(MacKey);

impl UrlSigner {
    pub(crate) fn new(key: &SigningKey) -> Self {
        Self(key.derive_mac_key(PURPOSE))
    }

    /// The signature of a generation of a Program.
    pub(crate) fn sign(&self, program: &ObjectMeta, generation: i64) -> String {
        self.0.tag(&message(program, generation))
    }

    pub(crate) fn is_valid(&self, program: &ObjectMeta, generation: i64, seal: &str) -> bool {
        self.0.verifies(&message(program, generation), seal)
    }
}

/// Includes the uid, so that a later Program of the same name has another signature.
fn message(program: &ObjectMeta, generation: i64) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let parts = [
        text(&program.uid),
        text(&program.namespace),
        text(&program.name),
        generation.to_string(),
    ];
    // Names have no line breaks.
    parts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(namespace: &str, name: &str, uid: &str) -> ObjectMeta {
        ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            uid: Some(uid.to_owned()),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn url_signature_is_for_one_generation_of_one_program() {
        let signer = UrlSigner::new(&SigningKey::generate().unwrap());
        let seal = signer.sign(&program("a", "b", "1"), 3);
        assert!(signer.is_valid(&program("a", "b", "1"), 3, &seal));
        for (other, generation) in [
            (program("a", "b", "1"), 4),
            (program("a", "b", "2"), 3),
            (program("a", "c", "1"), 3),
            (program("c", "b", "1"), 3),
            (program("ab", "", "1"), 3),
        ] {
            assert!(!signer.is_valid(&other, generation, &seal), "{other:?}");
        }
    }

    #[test]
    fn url_signature_is_valid_at_other_replicas() {
        let key = SigningKey::generate().unwrap();
        let replica = SigningKey::from_pem(&key.to_pem()).unwrap();
        let seal = UrlSigner::new(&key).sign(&program("a", "b", "1"), 3);
        assert!(UrlSigner::new(&replica).is_valid(&program("a", "b", "1"), 3, &seal));
        let stranger = SigningKey::generate().unwrap();
        assert!(!UrlSigner::new(&stranger).is_valid(&program("a", "b", "1"), 3, &seal));
    }
}

//! The last segment of a Program's URL, if URLs must not be guessable.
//!
//! It has the Program's uid and a signature, so that a request is checked before anything is read.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pko_auth::token::{MacKey, SigningKey};

const PURPOSE: &str = "addresses of programs";
/// Neither a uid nor a signature has one.
const SEPARATOR: char = '.';

/// All replicas have the same key, so each accepts the signatures of the others.
pub(crate) struct UrlSigner(MacKey);

impl UrlSigner {
    pub(crate) fn new(key: &SigningKey) -> Self {
        Self(key.derive_mac_key(PURPOSE))
    }

    /// The seal of a generation of a Program.
    pub(crate) fn sign(&self, program: &ObjectMeta, generation: i64) -> String {
        let text = |text: &'_ Option<String>| text.clone().unwrap_or_default();
        let (namespace, name) = (text(&program.namespace), text(&program.name));
        let uid = text(&program.uid);
        let tag = self.0.tag(&message(&uid, (&namespace, &name), generation));
        format!("{uid}{SEPARATOR}{tag}")
    }

    /// The uid of the Program of this name that a seal is for, if this key has made it.
    pub(crate) fn uid_in<'seal>(
        &self,
        seal: &'seal str,
        program: (&str, &str),
        generation: i64,
    ) -> Option<&'seal str> {
        let (uid, tag) = seal.rsplit_once(SEPARATOR)?;
        let message = message(uid, program, generation);
        self.0.verifies(&message, tag).then_some(uid)
    }
}

/// Includes the uid, so that a later Program of the same name has another seal.
fn message(uid: &str, (namespace, name): (&str, &str), generation: i64) -> String {
    // None of them has a line break.
    format!("{uid}\n{namespace}\n{name}\n{generation}")
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
    fn url_seal_is_for_one_generation_of_one_program() {
        let signer = UrlSigner::new(&SigningKey::generate().unwrap());
        let seal = signer.sign(&program("a", "b", "1"), 3);
        assert_eq!(signer.uid_in(&seal, ("a", "b"), 3), Some("1"));
        for (name, generation) in [
            (("a", "b"), 4),
            (("a", "c"), 3),
            (("c", "b"), 3),
            (("ab", ""), 3),
        ] {
            assert_eq!(signer.uid_in(&seal, name, generation), None, "{name:?}");
        }
        let (_, tag) = seal.split_once('.').unwrap();
        for seal in ["", ".", "1", "1.", tag, &format!("2.{tag}")] {
            assert_eq!(signer.uid_in(seal, ("a", "b"), 3), None, "{seal}");
        }
    }

    #[test]
    fn url_seal_is_valid_at_other_replicas() {
        let key = SigningKey::generate().unwrap();
        let replica = SigningKey::from_pem(&key.to_pem()).unwrap();
        let seal = UrlSigner::new(&key).sign(&program("a", "b", "1"), 3);
        let uid = |key: &SigningKey| {
            UrlSigner::new(key)
                .uid_in(&seal, ("a", "b"), 3)
                .map(str::to_owned)
        };
        assert_eq!(uid(&replica).as_deref(), Some("1"));
        assert_eq!(uid(&SigningKey::generate().unwrap()), None);
    }
}

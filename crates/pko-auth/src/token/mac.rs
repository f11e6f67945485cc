//! Message authentication codes that all replicas of a manager can make and verify.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::hmac;

/// Derived from the manager's signing key, which all replicas share. It has no `Debug`.
pub struct MacKey(hmac::Key);

impl MacKey {
    pub(super) fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// The tag of a message, in characters that are safe in a URL.
    #[must_use]
    pub fn tag(&self, message: &str) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(hmac::sign(&self.0, message.as_bytes()))
    }

    /// Whether this is the message's tag, compared in constant time.
    #[must_use]
    pub fn verifies(&self, message: &str, tag: &str) -> bool {
        let tag = BASE64_URL_SAFE_NO_PAD.decode(tag);
        tag.is_ok_and(|tag| hmac::verify(&self.0, message.as_bytes(), &tag).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::super::SigningKey;

    #[test]
    fn tag_is_specific_to_message_and_key() {
        let (key, other) = (
            SigningKey::generate().unwrap(),
            SigningKey::generate().unwrap(),
        );
        let mac = key.derive_mac_key("addresses");
        let tag = mac.tag("a");
        assert!(mac.verifies("a", &tag));
        assert!(!mac.verifies("b", &tag));
        assert!(!key.derive_mac_key("something else").verifies("a", &tag));
        assert!(!other.derive_mac_key("addresses").verifies("a", &tag));
    }

    #[test]
    fn tags_of_replicas_with_one_key_are_equal() {
        let key = SigningKey::generate().unwrap();
        let replica = SigningKey::from_pem(&key.to_pem()).unwrap();
        let (one, other) = (
            key.derive_mac_key("addresses"),
            replica.derive_mac_key("addresses"),
        );
        assert_eq!(one.tag("a"), other.tag("a"));
    }

    #[test]
    fn tag_is_url_safe() {
        let mac = SigningKey::generate().unwrap().derive_mac_key("addresses");
        for message in 0..100 {
            let tag = mac.tag(&message.to_string());
            let plain =
                |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
            assert!(tag.len() == 43 && tag.chars().all(plain), "{tag}");
        }
    }

    #[test]
    fn altered_tag_is_rejected() {
        let mac = SigningKey::generate().unwrap().derive_mac_key("addresses");
        let tag = mac.tag("a");
        for other in [
            "",
            "=",
            "ü",
            &tag[1..],
            &format!("{tag}A"),
            &tag.to_lowercase(),
        ] {
            assert!(!mac.verifies("a", other), "{other}");
        }
    }
}

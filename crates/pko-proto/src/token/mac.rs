//! Texts that only the holders of a key can make, and that they know again.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::hmac;

/// A key that all replicas of a manager derive from the one that they share. It can't be printed.
pub struct MacKey(hmac::Key);

impl MacKey {
    pub(super) fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// The tag of a message, as a text that may stand in an address.
    #[must_use]
    pub fn tag(&self, message: &str) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(hmac::sign(&self.0, message.as_bytes()))
    }

    /// Whether this is the tag of the message. How long that takes says nothing about the right one.
    #[must_use]
    pub fn is_tag(&self, message: &str, tag: &str) -> bool {
        let tag = BASE64_URL_SAFE_NO_PAD.decode(tag);
        tag.is_ok_and(|tag| hmac::verify(&self.0, message.as_bytes(), &tag).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::super::SigningKey;

    #[test]
    fn a_tag_is_of_one_message_and_one_key() {
        let (key, other) = (
            SigningKey::generate().unwrap(),
            SigningKey::generate().unwrap(),
        );
        let mac = key.derived("addresses");
        let tag = mac.tag("a");
        assert!(mac.is_tag("a", &tag));
        assert!(!mac.is_tag("b", &tag));
        assert!(!key.derived("something else").is_tag("a", &tag));
        assert!(!other.derived("addresses").is_tag("a", &tag));
    }

    #[test]
    fn replicas_with_the_same_key_make_the_same_tags() {
        let key = SigningKey::generate().unwrap();
        let replica = SigningKey::from_pem(&key.to_pem()).unwrap();
        let (one, other) = (key.derived("addresses"), replica.derived("addresses"));
        assert_eq!(one.tag("a"), other.tag("a"));
    }

    #[test]
    fn a_tag_may_stand_in_an_address() {
        let mac = SigningKey::generate().unwrap().derived("addresses");
        for message in 0..100 {
            let tag = mac.tag(&message.to_string());
            let plain =
                |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
            assert!(tag.len() == 43 && tag.chars().all(plain), "{tag}");
        }
    }

    #[test]
    fn anything_else_is_no_tag() {
        let mac = SigningKey::generate().unwrap().derived("addresses");
        let tag = mac.tag("a");
        for other in [
            "",
            "=",
            "ü",
            &tag[1..],
            &format!("{tag}A"),
            &tag.to_lowercase(),
        ] {
            assert!(!mac.is_tag("a", other), "{other}");
        }
    }
}

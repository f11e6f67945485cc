//! The last segment of a Program's address, where addresses are not to be guessed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pko_proto::token::{MacKey, SigningKey};

const PURPOSE: &str = "addresses of programs";

/// Makes seals and knows them again. All replicas have the same key, so a seal of one opens the door of another.
pub(crate) struct Seals(MacKey);

impl Seals {
    pub(crate) fn new(key: &SigningKey) -> Self {
        Self(key.derived(PURPOSE))
    }

    /// The seal of a generation of a Program.
    pub(crate) fn seal(&self, program: &ObjectMeta, generation: i64) -> String {
        self.0.tag(&message(program, generation))
    }

    /// Whether this is the seal of a generation of a Program.
    pub(crate) fn is_seal(&self, program: &ObjectMeta, generation: i64, seal: &str) -> bool {
        self.0.is_tag(&message(program, generation), seal)
    }
}

/// What is sealed: the Program with its uid, so that one of the same name later has another seal.
fn message(program: &ObjectMeta, generation: i64) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let parts = [
        text(&program.uid),
        text(&program.namespace),
        text(&program.name),
        generation.to_string(),
    ];
    // No name has a line's end in it.
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
    fn a_seal_is_of_one_generation_of_one_program() {
        let seals = Seals::new(&SigningKey::generate().unwrap());
        let seal = seals.seal(&program("a", "b", "1"), 3);
        assert!(seals.is_seal(&program("a", "b", "1"), 3, &seal));
        for (other, generation) in [
            (program("a", "b", "1"), 4),
            (program("a", "b", "2"), 3),
            (program("a", "c", "1"), 3),
            (program("c", "b", "1"), 3),
            (program("ab", "", "1"), 3),
        ] {
            assert!(!seals.is_seal(&other, generation, &seal), "{other:?}");
        }
    }

    #[test]
    fn a_seal_of_one_replica_is_known_to_the_others() {
        let key = SigningKey::generate().unwrap();
        let replica = SigningKey::from_pem(&key.to_pem()).unwrap();
        let seal = Seals::new(&key).seal(&program("a", "b", "1"), 3);
        assert!(Seals::new(&replica).is_seal(&program("a", "b", "1"), 3, &seal));
        let stranger = SigningKey::generate().unwrap();
        assert!(!Seals::new(&stranger).is_seal(&program("a", "b", "1"), 3, &seal));
    }
}

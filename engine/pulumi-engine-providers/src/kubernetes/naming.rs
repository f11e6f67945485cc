//! Auto-naming of objects.

use ring::digest::{SHA256, SHA512, digest};
use serde_json::{Map, Value};

use super::object;

/// The annotation of auto-named objects.
pub(super) const AUTONAMED: &str = "pulumi.com/autonamed";
const FIELD_MANAGER: &str = "pulumi.com/patchFieldManager";
/// The length of the random suffix, as in Pulumi.
const RANDOM_CHARACTERS: usize = 8;
const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Names an object that has no name: as before, or after the resource with a random suffix.
///
/// An unknown name counts as a name.
pub(super) fn complete(object: &mut Value, old: Option<&Value>, resource: &str, seed: &[u8]) {
    if is_named(object) || !can_be_named(object) {
        return;
    }
    let name = match old.filter(|old| is_autonamed(old)) {
        Some(old) => object::name(old).to_owned(),
        None => fresh(resource, seed),
    };
    object::set_metadata(object, "name", Some(Value::String(name)));
    let metadata = object
        .pointer_mut("/metadata")
        .and_then(Value::as_object_mut);
    let annotations = metadata.map(|metadata| {
        metadata
            .entry("annotations")
            .or_insert_with(|| Value::Object(Map::new()))
    });
    if let Some(Value::Object(annotations)) = annotations {
        annotations.insert(AUTONAMED.to_owned(), Value::String("true".to_owned()));
    }
}

/// Whether the object has a name already.
#[must_use]
pub(super) fn is_named(object: &Value) -> bool {
    !object::name(object).is_empty()
}

/// Whether the object is auto-named.
#[must_use]
pub(super) fn is_autonamed(object: &Value) -> bool {
    object::is_annotated(object, AUTONAMED) && is_named(object)
}

/// Unknown metadata cannot be named.
fn can_be_named(object: &Value) -> bool {
    matches!(
        object.get("metadata"),
        None | Some(Value::Object(_) | Value::Null)
    )
}

fn fresh(resource: &str, seed: &[u8]) -> String {
    let hash = digest(&SHA512, &[resource.as_bytes(), b"\0", seed].concat());
    format!("{resource}-{}", hexadecimal(hash.as_ref()))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes
        .iter()
        .take(RANDOM_CHARACTERS)
        .filter_map(|byte| DIGITS.get(usize::from(byte & 0xf)))
        .map(|digit| char::from(*digit))
        .collect()
}

/// The field manager of a resource: from the program, the state, or derived from the resource.
///
/// A resource always has the same manager, so a run after a crash recognizes its object.
#[must_use]
pub(super) fn field_manager(inputs: &Value, remembered: Option<&str>, urn: &str) -> String {
    if let Some(manager) = object::annotation(inputs, FIELD_MANAGER).filter(|it| !it.is_empty()) {
        return manager.to_owned();
    }
    remembered.map_or_else(
        || {
            let hash = digest(&SHA256, urn.as_bytes());
            format!("pulumi-kubernetes-{}", hexadecimal(hash.as_ref()))
        },
        ToOwned::to_owned,
    )
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "cases are values")]
mod tests {
    use serde_json::json;

    use super::*;

    fn named(mut object: Value, old: Option<Value>) -> Value {
        complete(&mut object, old.as_ref(), "web", b"seed");
        object
    }

    #[test]
    fn autoname_follows_resource_name() {
        for object in [
            json!({}),
            json!({"metadata": {}}),
            json!({"metadata": {"labels": {"a": "b"}}}),
        ] {
            let object = named(object, None);
            let name = object::name(&object);
            let random = name.strip_prefix("web-").unwrap();
            assert_eq!(random.len(), 8, "{name}");
            assert!(random.bytes().all(|it| DIGITS.contains(&it)), "{name}");
            assert!(is_autonamed(&object));
        }
    }

    #[test]
    fn autoname_depends_on_seed() {
        assert_eq!(fresh("web", b"one"), fresh("web", b"one"));
        assert_ne!(fresh("web", b"one"), fresh("web", b"two"));
        assert_ne!(fresh("web", b"one")[4..], fresh("api", b"one")[4..]);
    }

    #[test]
    fn autoname_keeps_given_name() {
        let object = json!({"metadata": {"name": "mine"}});
        assert_eq!(named(object.clone(), None), object);
        let unknown = json!({"metadata": {"name": pulumi_engine_model::property::UNKNOWN}});
        assert_eq!(named(unknown.clone(), None), unknown);
        let all_unknown = json!({"metadata": pulumi_engine_model::property::UNKNOWN});
        assert_eq!(named(all_unknown.clone(), None), all_unknown);
    }

    #[test]
    fn autoname_keeps_generated_name_only() {
        let ours =
            json!({"metadata": {"name": "web-0123abcd", "annotations": {AUTONAMED: "true"}}});
        assert_eq!(object::name(&named(json!({}), Some(ours))), "web-0123abcd");
        let theirs = json!({"metadata": {"name": "mine"}});
        assert!(object::name(&named(json!({}), Some(theirs))).starts_with("web-"));
    }

    #[test]
    fn autoname_keeps_annotations() {
        let object = named(json!({"metadata": {"annotations": {"a": "b"}}}), None);
        assert_eq!(object::annotation(&object, "a"), Some("b"));
        assert!(is_autonamed(&object));
    }

    #[test]
    fn field_manager_precedence() {
        let urn = "urn:pulumi:dev::demo::kubernetes:core/v1:ConfigMap::a";
        let annotated = json!({"metadata": {"annotations": {FIELD_MANAGER: "boss"}}});
        assert_eq!(field_manager(&annotated, Some("before"), urn), "boss");
        assert_eq!(field_manager(&json!({}), Some("before"), urn), "before");
        let own = field_manager(&json!({}), None, urn);
        assert_eq!(own.len(), "pulumi-kubernetes-".len() + 8);
        assert!(own.starts_with("pulumi-kubernetes-"));
        assert_eq!(own, field_manager(&json!({}), None, urn));
        assert_ne!(own, field_manager(&json!({}), None, "another"));
    }
}

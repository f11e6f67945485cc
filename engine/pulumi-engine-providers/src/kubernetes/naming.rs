//! Names of objects whose program gives none. Pure.

use ring::digest::{SHA256, SHA512, digest};
use serde_json::{Map, Value};

use super::object;

/// Marks objects whose name is ours.
pub(super) const AUTONAMED: &str = "pulumi.com/autonamed";
const FIELD_MANAGER: &str = "pulumi.com/patchFieldManager";
/// As many characters as Pulumi's own names have after the dash.
const RANDOM_CHARACTERS: usize = 8;
const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Names an object that has no name: as it was named before, or anew after the resource.
///
/// A name that a preview does not know is a name.
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

/// Whether the object's name is ours.
#[must_use]
pub(super) fn is_autonamed(object: &Value) -> bool {
    object::is_annotated(object, AUTONAMED) && is_named(object)
}

/// Metadata that a preview does not know takes no name.
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

/// Who owns the fields that a resource sets: as the program says, as the state remembers, or after the resource.
///
/// The same resource gets the same manager, so that a run after a crash knows the object that it had made.
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
    fn an_object_without_a_name_is_named_after_its_resource() {
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
    fn another_seed_is_another_name_and_the_same_seed_the_same() {
        assert_eq!(fresh("web", b"one"), fresh("web", b"one"));
        assert_ne!(fresh("web", b"one"), fresh("web", b"two"));
        assert_ne!(fresh("web", b"one")[4..], fresh("api", b"one")[4..]);
    }

    #[test]
    fn a_given_name_stays() {
        let object = json!({"metadata": {"name": "mine"}});
        assert_eq!(named(object.clone(), None), object);
        let unknown = json!({"metadata": {"name": pulumi_engine_model::property::UNKNOWN}});
        assert_eq!(named(unknown.clone(), None), unknown);
        let all_unknown = json!({"metadata": pulumi_engine_model::property::UNKNOWN});
        assert_eq!(named(all_unknown.clone(), None), all_unknown);
    }

    #[test]
    fn our_name_is_kept_and_that_of_the_user_is_not() {
        let ours =
            json!({"metadata": {"name": "web-0123abcd", "annotations": {AUTONAMED: "true"}}});
        assert_eq!(object::name(&named(json!({}), Some(ours))), "web-0123abcd");
        let theirs = json!({"metadata": {"name": "mine"}});
        assert!(object::name(&named(json!({}), Some(theirs))).starts_with("web-"));
    }

    #[test]
    fn annotations_of_the_program_stay_beside_ours() {
        let object = named(json!({"metadata": {"annotations": {"a": "b"}}}), None);
        assert_eq!(object::annotation(&object, "a"), Some("b"));
        assert!(is_autonamed(&object));
    }

    #[test]
    fn a_field_manager_is_the_programs_the_states_or_the_resources() {
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

//! The source of a Stack, and the source of its workspace. The numbers are those of
//! upstream's own tests.

mod flux;
mod git;
mod login;
mod shape;

use pko_api::Stack;
use serde_json::{Value, json};

use super::SourceRef;

/// A Stack with these fields in its spec.
fn stack(fields: &Value) -> Stack {
    let mut spec = json!({ "stack": "dev" });
    let (Some(spec_fields), Some(fields)) = (spec.as_object_mut(), fields.as_object()) else {
        panic!("fields of a spec: {fields}")
    };
    spec_fields.extend(fields.clone());
    let metadata = json!({ "name": "demo", "namespace": "shop", "generation": 3 });
    serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
}

fn source_ref(fields: &Value) -> Result<Option<SourceRef>, String> {
    SourceRef::of(&stack(fields))
}

/// A reference to a key of a Secret.
fn secret(name: &str, key: &str) -> Value {
    json!({ "type": "Secret", "secret": { "name": name, "key": key } })
}

/// Which source counts if there are several, and that none is fine.
#[test]
fn first_of_several_sources_is_used() {
    let git = json!({ "projectRepo": "https://git.test/a/b", "branch": "main" });
    let flux = json!({ "fluxSource": { "sourceRef": {
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "Bucket", "name": "b",
    } } });
    let program = json!({ "programRef": { "name": "p" } });
    let kind = |parts: &[&Value]| {
        let mut fields = json!({});
        for part in parts {
            let part = part.as_object().cloned().unwrap_or_default();
            fields.as_object_mut().unwrap().extend(part);
        }
        match source_ref(&fields).unwrap() {
            Some(SourceRef::Git(_)) => "git",
            Some(SourceRef::Flux(_)) => "flux",
            Some(SourceRef::Program(_)) => "program",
            None => "none",
        }
    };
    assert_eq!(kind(&[&git, &flux, &program]), "git");
    assert_eq!(kind(&[&flux, &program]), "flux");
    assert_eq!(kind(&[&program]), "program");
    assert_eq!(kind(&[]), "none");
}

//! The diff of inputs: from the state, and refined by a dry run if the server can be reached.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    Kubernetes,
    cluster::Cluster,
    compare,
    discovery::Address,
    force_new, naming, normalize, object, placed,
    requests::{self, Application},
    tokens,
    tokens::ResourceKind,
    wait::{Observation, Progress, ReadinessRule},
};
use crate::{Call, ChangeKind, ChangeRequest, Difference, ProviderError};

const REPLACE_UNREADY: &str = "pulumi.com/replaceUnready";

type Changes = BTreeMap<String, ChangeKind>;

impl Kubernetes {
    pub(super) fn difference(
        &self,
        call: &Call<'_>,
        request: &ChangeRequest<'_>,
    ) -> Result<Difference, ProviderError> {
        let token = tokens::own(call.urn.qualified_type());
        let mut new = normalize::inputs(object::from_properties(request.inputs));
        let kind = tokens::kind_of(token, &new).map_err(ProviderError::Failed)?;
        let live = object::live(request.old_outputs);
        let mut old = compare::pruned(
            &live,
            &normalize::inputs(object::from_properties(request.old_inputs)),
        );
        self.same_identity(&kind, &live, &mut old, &mut new);
        let mut changes =
            compare::changes(&old, &new, &force_new::fields(&kind, &new, &self.settings));
        settle_api_version(&mut changes, &old, &kind);
        let is_ignored = |path: &str| {
            request
                .ignore_changes
                .iter()
                .any(|outer| compare::is_within(path, outer))
        };
        changes.retain(|path, _| !is_ignored(path));
        if is_update(&changes) && !object::has_unknown(&new) {
            let remembered = object::own_text(request.old_outputs, object::FIELD_MANAGER);
            let manager = naming::field_manager(&new, remembered, call.urn.as_str());
            changes = self.really_changed(&kind, &live, &new, &manager, changes);
        }
        if object::is_annotated(&new, REPLACE_UNREADY)
            && kind.is("batch", "Job")
            && self.is_unready(&kind, &live)
        {
            changes.insert(
                format!("metadata.annotations[\"{REPLACE_UNREADY}\"]"),
                ChangeKind::Replace,
            );
        }
        let delete_before_replace = must_go_first(&changes, &live, &new);
        Ok(Difference {
            changes,
            delete_before_replace,
        })
    }

    /// Ignores namespaces that one side omits, and those of cluster-scoped kinds.
    fn same_identity(&self, kind: &ResourceKind, live: &Value, old: &mut Value, new: &mut Value) {
        let namespaced = self.is_namespaced(kind) && object::namespace(live).is_some();
        let canonical = |object: &mut Value| {
            let namespace = object::namespace(object)
                .unwrap_or(self.default_namespace())
                .to_owned();
            object::set_metadata(
                object,
                "namespace",
                namespaced.then_some(Value::String(namespace)),
            );
        };
        if old.get("metadata").is_some_and(Value::is_object) {
            let namespace =
                object::namespace(live).map(|namespace| Value::String(namespace.to_owned()));
            object::set_metadata(old, "namespace", namespace);
            object::set_metadata(
                old,
                "name",
                Some(Value::String(object::name(live).to_owned())),
            );
        }
        canonical(old);
        if new.get("metadata").is_some_and(Value::is_object) {
            canonical(new);
        }
    }

    /// Refines the changes with a dry run, which knows defaults and equivalent values. Fields that
    /// the server calls immutable make it a replacement. Without a dry run the changes stay.
    fn really_changed(
        &self,
        kind: &ResourceKind,
        live: &Value,
        new: &Value,
        manager: &str,
        changes: Changes,
    ) -> Changes {
        let Some((cluster, address, current)) = self.current(kind, live) else {
            return changes;
        };
        let application = Application {
            manager,
            force: true,
            dry_run: true,
        };
        let body = placed(new.clone(), &address);
        match requests::apply(cluster, &address, &body, application) {
            Ok(result) => still_changed(changes, new, &current, &result),
            Err(failure) => replacing(changes, &failure.immutable_fields()),
        }
    }

    /// The live object and its address; none without a server or an object.
    fn current(&self, kind: &ResourceKind, live: &Value) -> Option<(&Cluster, Address, Value)> {
        let cluster = self.cluster().ok().filter(|it| !it.is_silent())?;
        let served = cluster.discover(kind, false).ok().flatten()?;
        let (namespace, name) = (object::namespace(live), object::name(live));
        let address = self.address(kind, &served, namespace, name).ok()?;
        let current = requests::read(cluster, &address).ok().flatten()?;
        Some((cluster, address, current))
    }

    fn is_unready(&self, kind: &ResourceKind, live: &Value) -> bool {
        self.current(kind, live).is_some_and(|(_, _, object)| {
            let sight = Observation {
                object,
                ..Observation::default()
            };
            ReadinessRule::Job.judge(&sight) != Progress::Ready
        })
    }
}

fn is_update(changes: &Changes) -> bool {
    !changes.is_empty() && changes.values().all(|kind| *kind == ChangeKind::Update)
}

/// Whether both are the same object: the version of the group may differ.
fn settle_api_version(changes: &mut Changes, old: &Value, new: &ResourceKind) {
    let same_group = ResourceKind::of(old).is_none_or(|old| old.group == new.group);
    if let Some(kind) = changes.get_mut("apiVersion").filter(|_| !same_group) {
        *kind = ChangeKind::Replace;
    }
}

/// The changes that a dry run shows too. Removed fields always count, because an update first takes
/// ownership of them.
fn still_changed(changes: Changes, new: &Value, current: &Value, result: &Value) -> Changes {
    let is_said = |path: &str| compare::at(new, path).is_some_and(|value| !value.is_null());
    let is_same =
        |path: &str| is_said(path) && compare::at(current, path) == compare::at(result, path);
    changes
        .into_iter()
        .filter(|(path, _)| !is_same(path))
        .collect()
}

fn replacing(mut changes: Changes, immutable: &[String]) -> Changes {
    for (path, kind) in &mut changes {
        let is_fixed =
            |field: &String| compare::is_within(path, field) || compare::is_within(field, path);
        if immutable.iter().any(is_fixed) {
            *kind = ChangeKind::Replace;
        }
    }
    changes
}

/// Two objects cannot share a name: with a fixed name, the old one is deleted first.
fn must_go_first(changes: &Changes, live: &Value, new: &Value) -> bool {
    changes.values().any(|kind| *kind == ChangeKind::Replace)
        && naming::is_named(new)
        && !naming::is_autonamed(new)
        && object::name(new) == object::name(live)
        && object::namespace(new) == object::namespace(live)
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "cases are values")]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Provider;
    use pulumi_engine_model::{
        property::{Properties, Property},
        urn::Urn,
    };

    fn properties(value: Value) -> Properties {
        let Property::Object(entries) = Property::from_json(value) else {
            panic!("no object");
        };
        entries
    }

    /// A diff without a cluster, from the state alone.
    fn diff(token: &str, old: Value, live: Value, new: Value, ignored: &[&str]) -> Difference {
        let inputs = properties(json!({"kubeconfig": "nothing"}));
        let provider = Kubernetes::new(&inputs, &|_| None).unwrap();
        let urn = Urn::new(format!("urn:pulumi:dev::demo::{token}::web"));
        let call = Call {
            urn: &urn,
            preview: true,
            timeout: None,
            canceled: &|| false,
            status: &|_| {},
        };
        let (old, live) = (properties(old), properties(live));
        let ignored: Vec<_> = ignored.iter().map(|path| (*path).to_owned()).collect();
        let request = ChangeRequest {
            id: "n/web",
            old_inputs: &old,
            old_outputs: &live,
            inputs: &object::to_properties(&new),
            ignore_changes: &ignored,
        };
        provider.diff(&call, &request).unwrap()
    }

    fn deployment(spec: Value) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "n"}, "spec": spec})
    }

    fn live(mut object: Value) -> Value {
        object["metadata"]["uid"] = json!("1");
        object["metadata"]["resourceVersion"] = json!("2");
        object["status"] = json!({"replicas": 1});
        object["spec"]["progressDeadlineSeconds"] = json!(600);
        object["__fieldManager"] = json!("pulumi-kubernetes-1");
        object
    }

    const TOKEN: &str = "kubernetes:apps/v1:Deployment";

    #[test]
    fn diff_ignores_server_fields() {
        let object = deployment(json!({"replicas": 1}));
        let found = diff(TOKEN, object.clone(), live(object.clone()), object, &[]);
        assert_eq!(found, Difference::default());
    }

    #[test]
    fn diff_reports_program_and_drift() {
        let object = deployment(json!({"replicas": 1, "paused": true}));
        let mut drifted = live(object.clone());
        drifted["spec"]["replicas"] = json!(5);
        let found = diff(TOKEN, object.clone(), drifted, object.clone(), &[]);
        assert_eq!(
            found.changes,
            Changes::from([("spec.replicas".into(), ChangeKind::Update)])
        );
        let fewer = deployment(json!({"replicas": 1}));
        let found = diff(TOKEN, object.clone(), live(object.clone()), fewer, &[]);
        assert_eq!(
            found.changes,
            Changes::from([("spec.paused".into(), ChangeKind::Update)])
        );
        assert!(!found.delete_before_replace);
    }

    #[test]
    fn diff_respects_ignore_changes() {
        let object = deployment(json!({"replicas": 1}));
        let mut drifted = live(object.clone());
        drifted["spec"]["replicas"] = json!(5);
        for ignored in ["spec", "spec.replicas"] {
            let found = diff(
                TOKEN,
                object.clone(),
                drifted.clone(),
                object.clone(),
                &[ignored],
            );
            assert_eq!(found, Difference::default(), "{ignored}");
        }
    }

    #[test]
    fn diff_immutable_field_replaces() {
        let old = deployment(json!({"selector": {"matchLabels": {"a": "1"}}}));
        let new = deployment(json!({"selector": {"matchLabels": {"a": "2"}}}));
        let found = diff(TOKEN, old.clone(), live(old.clone()), new.clone(), &[]);
        let expected = Changes::from([("spec.selector.matchLabels.a".into(), ChangeKind::Replace)]);
        assert_eq!(
            found,
            Difference {
                changes: expected,
                delete_before_replace: true
            }
        );
        let autonamed = |mut object: Value| {
            object["metadata"]["annotations"] = json!({naming::AUTONAMED: "true"});
            object
        };
        let found = diff(
            TOKEN,
            autonamed(old.clone()),
            live(autonamed(old)),
            autonamed(new),
            &[],
        );
        assert_eq!(found.replace_keys(), ["spec"]);
        assert!(!found.delete_before_replace);
    }

    #[test]
    fn diff_of_name_or_namespace_replaces() {
        let old = deployment(json!({}));
        for (key, value) in [("name", "other"), ("namespace", "elsewhere")] {
            let mut new = old.clone();
            new["metadata"][key] = json!(value);
            let found = diff(TOKEN, old.clone(), live(old.clone()), new, &[]);
            let expected = Changes::from([(format!("metadata.{key}"), ChangeKind::Replace)]);
            assert_eq!(
                found,
                Difference {
                    changes: expected,
                    delete_before_replace: false
                }
            );
        }
    }

    #[test]
    fn diff_of_version_keeps_object() {
        let object = |api_version: &str| json!({"apiVersion": api_version, "kind": "Widget", "metadata": {"name": "w", "namespace": "n"}});
        let token = "kubernetes:apiextensions.k8s.io:CustomResource";
        for (new, kind) in [
            ("example.com/v2", ChangeKind::Update),
            ("other.com/v1", ChangeKind::Replace),
        ] {
            let found = diff(
                token,
                object("example.com/v1"),
                object("example.com/v1"),
                object(new),
                &[],
            );
            assert_eq!(
                found.changes,
                Changes::from([("apiVersion".into(), kind)]),
                "{new}"
            );
        }
    }

    #[test]
    fn diff_of_unknown_value_is_change() {
        let old = deployment(json!({"replicas": 1}));
        let new = deployment(json!({"replicas": pulumi_engine_model::property::UNKNOWN}));
        let found = diff(TOKEN, old.clone(), live(old), new, &[]);
        assert_eq!(found.keys(), ["spec"]);
    }

    #[test]
    fn diff_is_refined_by_dry_run() {
        let changes = || {
            Changes::from([
                ("spec.cpu".to_owned(), ChangeKind::Update),
                ("spec.x".to_owned(), ChangeKind::Update),
            ])
        };
        let current = json!({"spec": {"cpu": "1", "x": 1}});
        let new = json!({"spec": {"cpu": "1000m", "x": 2}});
        let found = still_changed(
            changes(),
            &new,
            &current,
            &json!({"spec": {"cpu": "1", "x": 2}}),
        );
        assert_eq!(found.into_keys().collect::<Vec<_>>(), ["spec.x"]);
        // removed from the program, independent of the server
        let found = still_changed(
            changes(),
            &json!({"spec": {"cpu": "1000m"}}),
            &current,
            &current,
        );
        assert_eq!(found.into_keys().collect::<Vec<_>>(), ["spec.x"]);
        let found = replacing(changes(), &["spec.x".to_owned()]);
        assert_eq!(found["spec.x"], ChangeKind::Replace);
        assert_eq!(found["spec.cpu"], ChangeKind::Update);
    }
}

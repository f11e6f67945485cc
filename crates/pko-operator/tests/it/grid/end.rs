//! What there is at the end of a try, without what differs each time: the oracle.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::{
    apps::v1::ControllerRevision,
    core::v1::{ConfigMap, Secret},
};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams},
};
use pko_api::{Program, Stack, Update, Workspace};
use pko_testkit::TestNamespace;
use serde_json::{Map, Value, json};

use super::user::FENCE;

/// The observable end.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct End {
    /// By `Kind name`.
    pub(super) objects: BTreeMap<String, Value>,
    /// What the Updates say, and the Secrets with their outputs, without their names.
    pub(super) updates: Vec<String>,
    pub(super) outputs: Vec<String>,
    pub(super) agents: usize,
    /// What the garbage collector has yet to do.
    pub(super) unsettled: Vec<String>,
    /// How often `pulumi` ran.
    pub(super) ups: usize,
    pub(super) previews: usize,
    pub(super) destroys: usize,
}

/// What is a try's own, and stands in texts.
pub(super) struct Places<'place> {
    pub(super) folder: &'place str,
    pub(super) programs: &'place str,
    pub(super) agents: usize,
}

/// How this end differs from the right one; nothing if it is as good.
pub(super) fn difference(end: &End, right: &End) -> Option<String> {
    let mut found = Vec::new();
    let names: BTreeSet<&String> = end.objects.keys().chain(right.objects.keys()).collect();
    for name in names {
        let (is, should) = (end.objects.get(name), right.objects.get(name));
        compare(name, is, should, &mut found);
    }
    if end.agents != right.agents {
        found.push(format!("{} agents, not {}", end.agents, right.agents));
    }
    found.extend(unexpected("Updates", &end.updates, &right.updates));
    found.extend(unexpected("outputs", &end.outputs, &right.outputs));
    found.extend(too_many(end, right));
    (!found.is_empty()).then(|| found.join("\n"))
}

/// Names each place at which two values differ.
fn compare(place: &str, is: Option<&Value>, should: Option<&Value>, found: &mut Vec<String>) {
    if is == should {
        return;
    }
    let (Some(Value::Object(left)), Some(Value::Object(right))) = (is, should) else {
        let text = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
        found.push(format!("{place} is {}, not {}", text(is), text(should)));
        return;
    };
    let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    for name in names {
        let place = format!("{place}/{name}");
        compare(&place, left.get(name), right.get(name), found);
    }
}

/// One run more than needed is allowed, and so is its Update.
fn unexpected(what: &str, found: &[String], right: &[String]) -> Option<String> {
    let (mut missing, mut extra) = (Vec::new(), found.to_vec());
    for wanted in right {
        match extra.iter().position(|found| found == wanted) {
            Some(index) => drop(extra.remove(index)),
            None => missing.push(wanted),
        }
    }
    let is_right = missing.is_empty() && extra.len() <= 1;
    (!is_right).then(|| format!("{what}\n  missing {missing:?}\n  extra   {extra:?}"))
}

/// One run more than needed is allowed.
pub(super) fn too_many(end: &End, right: &End) -> Option<String> {
    let is_right = (right.ups..=right.ups + 1).contains(&end.ups)
        && (right.destroys..=right.destroys + 1).contains(&end.destroys)
        && (right.previews..=right.previews + 1).contains(&end.previews);
    let runs = |end: &End| format!("{}/{}/{}", end.ups, end.previews, end.destroys);
    (!is_right).then(|| {
        let (is, should) = (runs(end), runs(right));
        format!("{is} runs of up, preview and destroy, not {should}")
    })
}

/// How many runs more than needed there were.
pub(super) fn extra_runs(end: &End, right: &End) -> usize {
    let runs = |end: &End| end.ups + end.previews + end.destroys;
    runs(end).saturating_sub(runs(right))
}

impl End {
    pub(super) async fn of(
        namespace: &TestNamespace,
        places: &Places<'_>,
    ) -> Result<Self, kube::Error> {
        let updates = list::<Update>(namespace).await?;
        let secrets = list::<Secret>(namespace).await?;
        let (outputs, mut all): (Vec<_>, Vec<_>) = secrets.into_iter().partition(is_of_an_update);
        all.extend(list::<Stack>(namespace).await?);
        all.extend(list::<Workspace>(namespace).await?);
        all.extend(list::<Program>(namespace).await?);
        all.extend(list::<ConfigMap>(namespace).await?);
        all.extend(list::<ControllerRevision>(namespace).await?);
        let unsettled = unsettled(&[&all, &updates, &outputs]);
        all.retain(|object| !object.name_any().starts_with(FENCE));
        let words = words(namespace, places, all.iter().chain(&updates));
        let texts = |objects: &[DynamicObject]| {
            let objects = objects.iter();
            let mut texts: Vec<String> = objects
                .map(|object| plain(object, &words).to_string())
                .collect();
            texts.sort();
            texts
        };
        let objects = all.iter().map(|object| {
            let kind = object.types.as_ref().map(|types| types.kind.clone());
            let name = format!("{} {}", kind.unwrap_or_default(), object.name_any());
            (replaced(&name, &words), plain(object, &words))
        });
        Ok(Self {
            objects: objects.collect(),
            updates: texts(&updates),
            outputs: texts(&outputs),
            agents: places.agents,
            unsettled,
            ..Self::default()
        })
    }
}

impl End {
    /// How many Workspaces there are.
    pub(super) fn workspaces(&self) -> usize {
        let names = self.objects.keys();
        names.filter(|name| name.starts_with("Workspace ")).count()
    }
}

/// An object that is being deleted, or whose owner is gone: the garbage collector deletes it soon,
/// or takes that owner off it.
fn unsettled(objects: &[&[DynamicObject]]) -> Vec<String> {
    let objects = objects.iter().copied().flatten();
    let there: BTreeSet<String> = objects.clone().filter_map(kube::ResourceExt::uid).collect();
    let is_unsettled = |object: &&DynamicObject| {
        let mut owners = object.owner_references().iter();
        object.metadata.deletion_timestamp.is_some()
            || owners.any(|owner| !there.contains(&owner.uid))
    };
    let unsettled = objects.filter(is_unsettled);
    unsettled.map(kube::ResourceExt::name_any).collect()
}

fn is_of_an_update(secret: &DynamicObject) -> bool {
    let mut owners = secret.owner_references().iter();
    owners.any(|owner| owner.kind == "Update")
}

async fn list<K>(namespace: &TestNamespace) -> Result<Vec<DynamicObject>, kube::Error>
where
    K: Resource<DynamicType = ()>,
{
    let resource = ApiResource::erase::<K>(&());
    let objects: Api<DynamicObject> =
        Api::namespaced_with(namespace.client(), namespace.name(), &resource);
    let mut objects = objects.list(&ListParams::default()).await?.items;
    for object in &mut objects {
        // An item of a list does not name its kind.
        object.types = Some(kube::core::TypeMeta::resource::<K>());
    }
    Ok(objects)
}

/// What stands for something else in each try, and what it stands for.
fn words<'object>(
    namespace: &TestNamespace,
    places: &Places<'_>,
    objects: impl Iterator<Item = &'object DynamicObject>,
) -> Vec<(String, &'static str)> {
    let mut words = vec![
        (places.folder.to_owned(), "(folder)"),
        (places.programs.to_owned(), "(address)"),
        (namespace.name().to_owned(), "(namespace)"),
    ];
    for object in objects {
        let uid = object.uid().unwrap_or_default();
        words.push((uid.clone(), "(uid)"));
        // Names of revisions have the beginning of the Program's.
        words.extend(uid.get(..8).map(|start| (start.to_owned(), "(uid)")));
        // The address of a Program is signed for its uid.
        let url = object.data.pointer("/status/artifact/url");
        let signature = url.and_then(|url| url.as_str()?.rsplit_once(&format!("{uid}.")));
        words.extend(signature.map(|(_, signature)| (signature.to_owned(), "(signature)")));
        let is_update = object
            .types
            .as_ref()
            .is_some_and(|types| types.kind == "Update");
        words.extend(is_update.then(|| (object.name_any(), "(update)")));
        for field in ["lastUpdate", "currentUpdate"] {
            let name = object
                .data
                .pointer(&format!("/status/{field}/name"))
                .and_then(Value::as_str);
            words.extend(name.map(|name| (name.to_owned(), "(update)")));
        }
    }
    words
}

fn replaced(text: &str, words: &[(String, &'static str)]) -> String {
    words
        .iter()
        .filter(|(word, _)| !word.is_empty())
        .fold(text.to_owned(), |text, (word, name)| {
            text.replace(word, name)
        })
}

/// An object without what differs each time.
fn plain(object: &DynamicObject, words: &[(String, &'static str)]) -> Value {
    let owners = object.owner_references().iter();
    let owners: Vec<String> = owners
        .map(|owner| replaced(&format!("{} {}", owner.kind, owner.name), words))
        .collect();
    let mut parts = Map::new();
    parts.insert("labels".to_owned(), json!(object.labels()));
    parts.insert("annotations".to_owned(), json!(object.annotations()));
    parts.insert("finalizers".to_owned(), json!(object.finalizers()));
    parts.insert("owners".to_owned(), json!(owners));
    let is_ending = object.metadata.deletion_timestamp.is_some();
    parts.insert("is ending".to_owned(), json!(is_ending));
    parts.extend(object.data.as_object().cloned().unwrap_or_default());
    steady(&Value::Object(parts), words)
}

/// Without times and what else is another one each time.
fn steady(value: &Value, words: &[(String, &'static str)]) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(name, _)| !differs(name));
            let fields = fields.map(|(name, value)| {
                let value = if name == "references" {
                    unversioned(value)
                } else {
                    steady(value, words)
                };
                (replaced(name, words), value)
            });
            Value::Object(fields.collect())
        }
        Value::Array(items) => items.iter().map(|item| steady(item, words)).collect(),
        Value::String(text) => json!(replaced(text, words)),
        other => other.clone(),
    }
}

/// What a Stack refers to, without the versions.
fn unversioned(references: &Value) -> Value {
    let kinds = references.as_object().into_iter().flatten();
    let names = |objects: &Value| {
        let objects = objects.as_object().into_iter().flatten();
        objects.map(|(name, _)| json!(name)).collect()
    };
    let kinds = kinds.map(|(kind, objects)| (kind.clone(), names(objects)));
    Value::Object(kinds.collect())
}

/// Whether a field is a time, or another one each time.
fn differs(field: &str) -> bool {
    let others = ["address", "workspaceInstance", "resourceVersion"];
    field.ends_with("Time") || others.contains(&field)
}

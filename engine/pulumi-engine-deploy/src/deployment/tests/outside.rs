//! A provider with resources in a cloud in memory, which fails on demand.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, LazyLock},
};

use parking_lot::Mutex;
use pulumi_engine_model::{
    property::{Properties, Property},
    resource::Resource,
    urn::Urn,
};
use pulumi_engine_providers::{
    Call, ChangeKind, ChangeRequest, CheckFailure, CheckRequest, Checked, Created, Difference,
    Environment, Observed, Provider, ProviderError, ReadRequest,
    registry::{Package, Registry},
};
use pulumi_yaml::ResourceType;

use super::stage::{RunResult, Stage};
use crate::{
    deployment::Ending,
    plan::{Selection, snapshot::StateToSave},
};

/// The resources of a cloud, and the calls.
#[derive(Default)]
struct Cloud {
    things: BTreeMap<String, Properties>,
    calls: Vec<String>,
    made: usize,
}

type SharedCloud = Arc<Mutex<Cloud>>;

/// Each test has a cloud of its own: providers find it by their config.
static CLOUDS: LazyLock<Mutex<HashMap<String, SharedCloud>>> = LazyLock::new(Mutex::default);

fn cloud(place: &str) -> SharedCloud {
    Arc::clone(CLOUDS.lock().entry(place.to_owned()).or_default())
}

struct ThingProvider(SharedCloud);

fn make(config: &Properties, _: &Environment) -> Result<Arc<dyn Provider>, ProviderError> {
    let place = match config.get("place") {
        Some(Property::String(place)) => place.as_str(),
        Some(_) => return Err(ProviderError::Failed("place must be text".to_owned())),
        None => "nowhere",
    };
    Ok(Arc::new(ThingProvider(cloud(place))))
}

fn text_in(properties: &Properties, name: &str) -> String {
    match properties.get(name).map(Property::opened) {
        Some((Property::String(text), _)) => text,
        _ => String::new(),
    }
}

impl ThingProvider {
    fn called(&self, what: &str, call: &Call<'_>) -> parking_lot::MutexGuard<'_, Cloud> {
        let mut cloud = self.0.lock();
        cloud.calls.push(format!("{what} {}", call.urn.name()));
        cloud
    }
}

fn outputs(inputs: &Properties, id: &str) -> Properties {
    let mut outputs = inputs.clone();
    let address = Property::String(format!("at-{id}"));
    outputs.insert("address".to_owned(), address);
    outputs
}

fn outcome(properties: &Properties, when: &str, id: &str) -> Result<(), ProviderError> {
    match text_in(properties, "fails").as_str() {
        fails if fails == when => Err(ProviderError::Failed(format!("{when} went wrong"))),
        "late" if when != "delete" => Err(ProviderError::Incomplete {
            id: id.to_owned(),
            outputs: outputs(properties, id),
            reasons: vec!["not ready".to_owned()],
        }),
        _ => Ok(()),
    }
}

impl Provider for ThingProvider {
    fn resource_type(&self, token: &str) -> Result<ResourceType, ProviderError> {
        if token != "cloud:index:Thing" {
            return Err(ProviderError::Failed(format!("no type {token}")));
        }
        Ok(ResourceType {
            secret_outputs: vec!["key"],
            ..ResourceType::default()
        })
    }

    fn diff_config(&self, old: &Properties, new: &Properties) -> Difference {
        let mut difference = pulumi_engine_providers::diff_top_level(old, new);
        if let Some(kind) = difference.changes.get_mut("place") {
            *kind = ChangeKind::Replace;
        }
        difference
    }

    fn check(&self, _: &Call<'_>, request: &CheckRequest<'_>) -> Result<Checked, ProviderError> {
        let mut inputs = request.inputs.clone();
        if !inputs.contains_key("label") {
            let old = request.old.and_then(|old| old.get("label")).cloned();
            let made = || Property::String(format!("auto-{}", request.random_seed.len()));
            inputs.insert("label".to_owned(), old.unwrap_or_else(made));
        }
        let wrong = text_in(&inputs, "fails") == "check";
        let failures = wrong.then(|| CheckFailure {
            property: "fails".to_owned(),
            reason: "it says so".to_owned(),
        });
        Ok(Checked {
            inputs,
            failures: failures.into_iter().collect(),
        })
    }

    fn diff(&self, _: &Call<'_>, request: &ChangeRequest<'_>) -> Result<Difference, ProviderError> {
        let mut difference = Difference::default();
        for key in request.old_inputs.keys().chain(request.inputs.keys()) {
            if request.old_inputs.get(key) != request.inputs.get(key) {
                let kind = match key.as_str() {
                    "kind" | "spot" => ChangeKind::Replace,
                    _ => ChangeKind::Update,
                };
                difference.changes.insert(key.clone(), kind);
                difference.delete_before_replace |= key == "spot";
            }
        }
        Ok(difference)
    }

    fn create(&self, call: &Call<'_>, inputs: &Properties) -> Result<Created, ProviderError> {
        if call.preview {
            return Ok(Created {
                id: String::new(),
                outputs: inputs.clone(),
            });
        }
        (call.status)("making it");
        let mut cloud = self.called("create", call);
        cloud.made += 1;
        let id = format!("thing-{}", cloud.made);
        let made = outcome(inputs, "create", &id);
        if !matches!(made, Err(ProviderError::Failed(_))) {
            cloud.things.insert(id.clone(), inputs.clone());
        }
        made.map(|()| Created {
            outputs: outputs(inputs, &id),
            id,
        })
    }

    fn read(
        &self,
        call: &Call<'_>,
        request: &ReadRequest<'_>,
    ) -> Result<Option<Observed>, ProviderError> {
        let cloud = self.called("read", call);
        Ok(cloud.things.get(request.id).map(|inputs| Observed {
            id: request.id.to_owned(),
            inputs: inputs.clone(),
            outputs: outputs(inputs, request.id),
        }))
    }

    fn update(
        &self,
        call: &Call<'_>,
        request: &ChangeRequest<'_>,
    ) -> Result<Properties, ProviderError> {
        if !call.preview {
            let mut cloud = self.called("update", call);
            outcome(request.inputs, "update", request.id)?;
            cloud
                .things
                .insert(request.id.to_owned(), request.inputs.clone());
        }
        Ok(outputs(request.inputs, request.id))
    }

    fn delete(&self, call: &Call<'_>, request: &ReadRequest<'_>) -> Result<(), ProviderError> {
        let mut cloud = self.called("delete", call);
        outcome(request.inputs.unwrap(), "delete", request.id)?;
        cloud.things.remove(request.id);
        Ok(())
    }

    fn invoke(
        &self,
        _: &Call<'_>,
        token: &str,
        _: &Properties,
    ) -> Result<Properties, ProviderError> {
        Err(ProviderError::Failed(format!("no function {token}")))
    }
}

/// A stage whose cloud is this one.
fn stage(place: &str, state: &[Resource]) -> Stage {
    let package = Package {
        name: "cloud",
        make,
        outside: true,
    };
    let place = Property::String(place.to_owned());
    Stage {
        registry: Registry::new(&[package]),
        config: Properties::from([("place".to_owned(), place)]),
        ..Stage::from(state)
    }
}

fn calls(place: &str) -> Vec<String> {
    std::mem::take(&mut cloud(place).lock().calls)
}

fn thing(name: &str, properties: &str, options: &str) -> String {
    format!(
        "  {name}: {{type: 'cloud:index:Thing', properties: {{{properties}}}, options: {{{options}}}}}\n"
    )
}

fn program(things: &[String]) -> String {
    format!("resources:\n{}", things.concat())
}

fn steps(done: &RunResult) -> Vec<&str> {
    let told = |word: &&str| !word.starts_with("info") && !word.starts_with("same demo-dev");
    done.words.iter().map(String::as_str).filter(told).collect()
}

#[test]
fn outputs_are_known_to_dependents() {
    let text = program(&[
        thing("a", "size: 1", ""),
        thing("b", "near: '${a.address}'", ""),
    ]) + "outputs: {b: '${b.near}', label: '${a.label}', id: '${a.id}'}\n";
    let place = "outputs";
    let preview = Stage {
        preview: true,
        ..stage(place, &[])
    };
    let preview = preview.up(&text);
    assert_eq!(preview.ending, Ending::Succeeded, "{:?}", preview.words);
    let unknown = Property::String(pulumi_engine_model::property::UNKNOWN.to_owned());
    assert_eq!(preview.outputs["b"], unknown);
    assert!(calls(place).is_empty());
    let done = stage(place, &[]).up(&text);
    assert_eq!(
        format!("{:?}", done.outputs),
        r#"{"b": "at-thing-1", "id": "thing-1", "label": "auto-32"}"#
    );
    assert_eq!(calls(place), ["create a", "create b"]);
    let default = done.find("default");
    assert_eq!(default.kind, "pulumi:providers:cloud");
    assert_eq!(text_of(default, "place"), "outputs");
    assert_eq!(
        done.find("a").provider,
        format!("{}::{}", default.urn, default.id)
    );
    let again = stage(place, &done.state).up(&text);
    assert_eq!(steps(&again), ["same default", "same a", "same b"]);
    assert!(calls(place).is_empty());
}

fn text_of(resource: &Resource, input: &str) -> String {
    text_in(resource.inputs.as_ref().unwrap(), input)
}

#[test]
fn secret_inputs_give_secret_outputs() {
    let text = program(&[thing("a", "word: '${closed}', key: k", "")]);
    let done = stage("secrets", &[]).up(&text);
    let a = done.find("a");
    let outputs = format!("{:?}", a.outputs.as_ref().unwrap());
    assert_eq!(
        outputs,
        r#"{"address": "at-thing-1", "key": [secret], "label": "auto-32", "word": [secret]}"#
    );
    assert_eq!(a.additional_secret_outputs, ["key"]);
}

#[test]
fn failed_step_keeps_finished_resources() {
    let place = "failure";
    let wish = |fails: &str| {
        program(&[
            thing("a", "size: 1", ""),
            thing("b", &format!("fails: {fails}, near: '${{a.id}}'"), ""),
            thing("c", "near: '${b.id}'", ""),
            thing("d", "size: 2", ""),
        ])
    };
    let failed = stage(place, &[]).up(&wish("create"));
    assert_eq!(failed.ending, Ending::Failed);
    assert!(
        failed
            .words
            .contains(&"error: create went wrong".to_owned()),
        "{:?}",
        failed.words
    );
    assert_eq!(calls(place), ["create a", "create b"]);
    assert!(failed.saves.last().unwrap().pending.is_empty());
    let stage_on = Stage {
        continue_on_error: true,
        ..stage(place, &failed.state)
    };
    let on = stage_on.up(&wish("create"));
    assert_eq!(on.ending, Ending::Failed);
    assert_eq!(calls(place), ["create b", "create d"]);
    let late = stage(place, &on.state).up(&wish("late"));
    assert_eq!(late.ending, Ending::Failed);
    assert_eq!(late.find("b").init_errors, ["not ready"]);
    assert!(!late.find("b").id.is_empty());
    assert_eq!(calls(place), ["create b"]);
    let well = stage(place, &late.state).up(&wish("never"));
    assert_eq!(well.ending, Ending::Succeeded, "{:?}", well.words);
    assert_eq!(calls(place), ["update b", "create c"]);
    assert!(well.find("b").init_errors.is_empty());
}

/// Eight things, four at a time, of which some are being created when a save fails.
fn interrupted_by_save(place: &str, failing_saves: std::ops::Range<usize>) -> RunResult {
    let things: Vec<_> = (0..8)
        .map(|number| thing(&format!("t{number}"), &format!("size: {number}"), ""))
        .collect();
    let stage = Stage {
        parallel: 4,
        failing_saves,
        ..stage(place, &[])
    };
    stage.up(&program(&things))
}

/// The ids of the things in a state, and in the cloud.
fn known_and_real(state: &StateToSave, place: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let things = state.records.iter().map(|record| &record.resource);
    let things = things.filter(|resource| resource.kind == "cloud:index:Thing");
    let known = things.map(|resource| resource.id.clone()).collect();
    (known, cloud(place).lock().things.keys().cloned().collect())
}

#[test]
fn unsaved_state_is_rescued_with_all_resources() {
    for first in 0..8 {
        let place = format!("rescue-{first}");
        let done = interrupted_by_save(&place, first..usize::MAX);
        let Some(fault) = done.fault else { continue };
        assert!(fault.contains("it is rescued: no space left"), "{fault}");
        let rescued = done.rescued.unwrap();
        let (known, real) = known_and_real(&rescued, &place);
        assert_eq!(known, real, "save {first}");
        assert!(rescued.pending.is_empty(), "save {first}");
    }
}

#[test]
fn later_save_has_all_resources() {
    for first in 0..4 {
        let place = format!("retry-{first}");
        let done = interrupted_by_save(&place, first..first + 3);
        let fault = done.fault.unwrap();
        assert!(fault.contains("a later attempt succeeded"), "{fault}");
        assert!(done.rescued.is_none());
        let last = done.saves.last().unwrap();
        let (known, real) = known_and_real(last, &place);
        assert_eq!(known, real, "save {first}");
        assert!(last.pending.is_empty(), "save {first}");
        assert!(real.len() < 8, "no step begins after a failed save");
    }
}

#[test]
fn check_failures_prevent_create() {
    let done = stage("wrong", &[]).up(&program(&[thing("a", "fails: check", "")]));
    assert_eq!(done.ending, Ending::Failed);
    assert_eq!(
        done.words.last().unwrap(),
        "error: cloud:index:Thing resource 'a': property fails value {\"check\"} has a problem: it says so"
    );
    assert!(calls("wrong").is_empty());
}

#[test]
fn unknown_package_or_type_is_rejected_up_front() {
    for (kind, expected) in [
        ("aws:s3:Bucket", "needs a provider plugin"),
        ("cloud:index:No", "no type"),
    ] {
        let text = program(&[thing("a", "size: 1", "")])
            + &format!("  z: {{type: '{kind}', options: {{dependsOn: ['${{a}}']}}}}\n");
        let done = stage("refused", &[]).up(&text);
        assert!(
            done.words.last().unwrap().contains(expected),
            "{:?}",
            done.words
        );
        assert!(calls("refused").is_empty());
    }
}

#[test]
fn replacement_order_follows_provider() {
    let place = "replacement";
    let wish = |kind: &str, spot: &str| {
        program(&[
            thing("a", &format!("kind: {kind}, spot: {spot}"), ""),
            // its kind comes from the first: replaced with it
            thing("b", "kind: '${a.address}'", ""),
            // only changed by it
            thing("c", "near: '${a.address}'", ""),
        ])
    };
    let first = stage(place, &[]).up(&wish("x", "here"));
    calls(place);
    let after = stage(place, &first.state).up(&wish("y", "here"));
    assert_eq!(
        calls(place),
        ["create a", "create b", "update c", "delete b", "delete a"]
    );
    assert_eq!(after.changes["replace"], 2);
    let before = stage(place, &after.state).up(&wish("y", "there"));
    assert_eq!(
        calls(place),
        ["delete b", "delete a", "create a", "create b", "update c"]
    );
    assert_eq!(
        steps(&before),
        [
            "same default",
            "delete-replaced b",
            "delete-replaced a",
            "replace a",
            "create-replacement a",
            "replace b",
            "create-replacement b",
            "update c",
        ]
    );
    assert_eq!(before.state.len(), 5);
    assert_eq!(cloud(place).lock().things.len(), 3);
}

#[test]
fn refresh_finds_drifted_and_deleted_resources() {
    let place = "refresh";
    let text = program(&[
        thing("a", "size: 1", ""),
        thing("b", "near: '${a.id}'", "dependsOn: ['${a}']"),
    ]);
    let first = stage(place, &[]).up(&text);
    {
        let host = cloud(place);
        let mut host = host.lock();
        host.things.remove("thing-1");
        let b = host.things.get_mut("thing-2").unwrap();
        b.insert("size".to_owned(), Property::String("big".to_owned()));
    }
    let done = stage(place, &first.state).refresh();
    assert_eq!(done.ending, Ending::Succeeded, "{:?}", done.words);
    assert_eq!(
        (
            done.changes["delete"],
            done.changes["update"],
            done.changes["same"]
        ),
        (1, 1, 1)
    );
    assert_eq!(done.state.len(), 3);
    let b = done.find("b");
    assert_eq!(text_in(b.outputs.as_ref().unwrap(), "size"), "big");
    assert!(b.dependencies.is_empty());
    calls(place);
    let fresh = Stage {
        refresh: true,
        ..stage(place, &first.state)
    };
    let done = fresh.up(&text);
    assert_eq!(done.ending, Ending::Succeeded, "{:?}", done.words);
    assert_eq!(calls(place), ["read a", "read b", "create a", "update b"]);
}

#[test]
fn deleted_with_and_retained_are_not_deleted() {
    let place = "retained";
    let text = program(&[
        thing("a", "size: 1", ""),
        thing("b", "size: 1", "deletedWith: '${a}'"),
        thing("c", "size: 1", "retainOnDelete: true"),
    ]);
    let first = stage(place, &[]).up(&text);
    calls(place);
    let done = stage(place, &first.state).destroy();
    assert_eq!(done.changes["delete"], 4);
    assert_eq!(calls(place), ["delete a"]);
    assert!(done.state.is_empty());
}

#[test]
fn failed_delete_keeps_dependencies() {
    let place = "undeletable";
    let text = program(&[
        thing("a", "size: 1", ""),
        thing("b", "fails: delete, near: '${a.id}'", ""),
        thing("c", "size: 1", ""),
    ]);
    let first = stage(place, &[]).up(&text);
    calls(place);
    let going_on = Stage {
        continue_on_error: true,
        ..stage(place, &first.state)
    };
    let done = going_on.destroy();
    assert_eq!(done.ending, Ending::Failed);
    assert_eq!(calls(place), ["delete c", "delete b"]);
    let left: Vec<_> = done.state.iter().map(|each| each.urn.name()).collect();
    assert_eq!(left, ["demo-dev", "default", "a", "b"]);
}

#[test]
fn interrupted_create_stays_pending() {
    let place = "interrupted";
    let text = program(&[thing("a", "size: 1", "")]);
    let first = stage(place, &[]).up(&text);
    let killed = first
        .saves
        .iter()
        .find(|save| !save.pending.is_empty())
        .unwrap();
    let next = Stage {
        pending: killed.pending.clone(),
        ..stage(place, &super::stage::resources(killed))
    };
    let next = next.up(&text);
    assert!(next.words[0].contains("interrupted while creating"));
    assert_eq!(next.ending, Ending::Succeeded);
    let kept = &next.saves.last().unwrap().pending;
    assert_eq!(kept[0].kind, "creating");
}

#[test]
fn targeted_run_keeps_other_resources() {
    let place = "targets";
    let wish = |size: &str| {
        program(&[
            thing("a", &format!("size: {size}"), ""),
            thing("b", &format!("size: {size}"), ""),
        ])
    };
    let first = stage(place, &[]).up(&wish("1"));
    calls(place);
    let limited = Stage {
        selection: Selection {
            targets: vec![Urn::new("**::a")],
            ..Selection::default()
        },
        ..stage(place, &first.state)
    };
    limited.up(&wish("2"));
    assert_eq!(calls(place), ["update a"]);
}

/// A provider, one resource of it and one that needs that.
fn with_provider(place: &str, more: &str, options: &str) -> String {
    let provider = format!(
        "  p: {{type: 'pulumi:providers:cloud', properties: {{place: {place}{more}}}, options: {{{options}}}}}\n"
    );
    program(&[
        provider,
        thing("a", "size: 1", "provider: '${p}'"),
        thing("b", "near: '${a.id}'", "provider: '${p}'"),
    ])
}

#[test]
fn provider_replacement_replaces_its_resources() {
    let (here, there) = ("provider-here", "provider-there");
    let first = stage(here, &[]).up(&with_provider(here, "", ""));
    assert_eq!(steps(&first)[1..], ["create p", "create a", "create b"]);
    calls(here);
    let updated = stage(here, &first.state).up(&with_provider(here, ", note: x", ""));
    assert_eq!(steps(&updated), ["update p", "same a", "same b"]);
    assert_eq!(updated.find("p").id, first.find("p").id);
    assert!(calls(here).is_empty());

    let moved = stage(here, &updated.state).up(&with_provider(there, ", note: x", ""));
    let expected = [
        "create-replacement p",
        "replace p",
        "create-replacement a",
        "replace a",
        "create-replacement b",
        "replace b",
        "delete-replaced b",
        "delete-replaced a",
        "delete-replaced p",
    ];
    assert_eq!(steps(&moved), expected);
    assert_eq!(calls(there), ["create a", "create b"]);
    assert_eq!(calls(here), ["delete b", "delete a"]);
    let provider = moved.find("p");
    assert_ne!(provider.id, first.find("p").id);
    let reference = format!("{}::{}", provider.urn, provider.id);
    assert_eq!(moved.find("b").provider, reference);
    assert_eq!(moved.state.len(), 4);
    let again = stage(here, &moved.state).up(&with_provider(there, ", note: x", ""));
    assert_eq!(steps(&again), ["same p", "same a", "same b"]);
}

#[test]
fn default_provider_replacement_replaces_resources() {
    let (here, there) = ("default-here", "default-there");
    let text = program(&[thing("a", "size: 1", "")]);
    let first = stage(here, &[]).up(&text);
    calls(here);
    let moved = stage(there, &first.state).up(&text);
    assert!(
        moved.words.contains(&"delete-replaced a".to_owned()),
        "{:?}",
        moved.words
    );
    assert_eq!(
        (calls(there), calls(here)),
        (vec!["create a".to_owned()], vec!["delete a".to_owned()])
    );
}

#[test]
fn protected_provider_is_not_replaced() {
    let (here, there) = ("protected-here", "protected-there");
    let first = stage(here, &[]).up(&with_provider(here, "", "protect: true"));
    let moved = stage(here, &first.state).up(&with_provider(there, "", "protect: true"));
    assert_eq!(moved.ending, Ending::Failed);
    let told = moved.words.join("\n");
    assert!(told.contains("unable to replace resource"), "{told}");
    assert_eq!(calls(there), Vec::<String>::new());
}

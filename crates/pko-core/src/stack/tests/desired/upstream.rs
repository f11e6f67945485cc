//! What upstream has left in a cluster is what we would have made of the same Stacks: taking them
//! over replaces no pod.

use std::collections::BTreeMap;

use pko_api::{Stack, names::urgencies::Urgency};

use super::*;
use crate::stack::desired::{self, DesiredUpdate};

const FIXTURES: &str = "fixtures/upstream-cluster";

/// The objects of a file, by the name of their Stack.
fn objects(file: &str) -> Option<Vec<Value>> {
    let folder = pko_testkit::shared_folder(FIXTURES)?;
    Some(pko_testkit::fixtures::load(&folder.join(file)).unwrap())
}

fn stacks() -> Option<BTreeMap<String, Value>> {
    let stacks = objects("stacks.yaml")?.into_iter();
    Some(stacks.map(|stack| (name(&stack), stack)).collect())
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

/// A world in which this Workspace is in place.
fn observed(stack: &Value, workspace: &Value) -> ObservedStack {
    let mut observed = ObservedStack::new(serde_json::from_value::<Stack>(stack.clone()).unwrap());
    observed.observe(StackResponse::Workspace(Ok(serde_json::from_value(
        workspace.clone(),
    )
    .unwrap())));
    observed
}

/// The source that a Workspace was given.
fn source(spec: &Value) -> ProgramSource {
    let location = if let Some(flux) = spec.get("flux") {
        Location::Artifact(serde_json::from_value(flux.clone()).unwrap())
    } else if let Some(project) = spec.get("projectInfo") {
        Location::Project(serde_json::from_value(project.clone()).unwrap())
    } else if let Some(git) = spec.get("git") {
        Location::Git(serde_json::from_value(git.clone()).unwrap())
    } else {
        Location::Given
    };
    ProgramSource {
        revision: String::new(),
        location,
    }
}

/// What the API server fills in.
fn defaulted(mut workspace: Value) -> Value {
    let spec = workspace["spec"].as_object_mut().unwrap();
    for (field, value) in [
        ("serviceAccountName", "default"),
        ("securityProfile", "restricted"),
    ] {
        spec.entry(field).or_insert_with(|| value.into());
    }
    workspace
}

#[test]
fn upstream_stacks_keep_stored_workspaces() {
    let (Some(stacks), Some(workspaces)) = (stacks(), objects("workspaces.yaml")) else {
        return;
    };
    assert!(workspaces.len() >= 10, "{}", workspaces.len());
    for stored in workspaces {
        let name = name(&stored);
        let stack = &stacks[&name];
        let observed = observed(stack, &stored);
        let status = observed.stack.status.clone().unwrap_or_default();
        let made = desired::workspace(&observed, &status, &source(&stored["spec"])).unwrap();
        let made = defaulted(serde_json::to_value(made).unwrap());
        assert_eq!(made["spec"], stored["spec"], "{name}");
        for field in ["name", "namespace", "labels", "ownerReferences"] {
            assert_eq!(
                made["metadata"][field], stored["metadata"][field],
                "{name}: {field}"
            );
        }
        assert_eq!(
            made["metadata"].as_object().unwrap().len(),
            4,
            "{name}: nothing else"
        );
    }
}

#[test]
fn upstream_stacks_keep_stored_updates() {
    let (Some(stacks), Some(workspaces), Some(updates)) = (
        stacks(),
        objects("workspaces.yaml"),
        objects("updates.yaml"),
    ) else {
        return;
    };
    let workspaces: BTreeMap<String, Value> = workspaces
        .into_iter()
        .map(|workspace| (name(&workspace), workspace))
        .collect();
    assert!(updates.len() >= 15, "{}", updates.len());
    for stored in updates {
        let stack_name = stored["metadata"]["labels"]["pulumi.com/stack-name"]
            .as_str()
            .unwrap();
        // The Workspace of one that was reclaimed is gone.
        let Some(workspace) = workspaces.get(stack_name) else {
            continue;
        };
        let observed = observed(&stacks[stack_name], workspace);
        let operation: pko_api::auto::v1alpha1::OperationType =
            serde_json::from_value(stored["spec"]["type"].clone()).unwrap();
        let current = pko_api::pulumi::v1::CurrentUpdate::default();
        let name = UpdateName::of(&observed.stack, None, &operation, &current);
        let desired_update = DesiredUpdate {
            operation,
            message: stored["spec"]["message"].as_str().unwrap(),
            urgency: Urgency::Change,
            name,
        };
        let made =
            serde_json::to_value(desired::update(&observed, &desired_update).unwrap()).unwrap();
        assert_eq!(made["spec"], stored["spec"], "{stack_name}");
        for field in ["namespace", "labels", "ownerReferences"] {
            assert_eq!(
                made["metadata"][field], stored["metadata"][field],
                "{stack_name}: {field}"
            );
        }
        // Ours from the beginning: the finalizer, which upstream adds in a second step, and how
        // urgent it is.
        assert_eq!(
            made["metadata"]["finalizers"],
            json!(["finalizer.stack.pulumi.com"])
        );
        assert_eq!(
            made["metadata"]["annotations"],
            json!({ "auto.pulumi.com/urgency": "change" })
        );
        let digits = |name: &Value| name.as_str().unwrap().len() - stack_name.len();
        assert_eq!(
            digits(&made["metadata"]["name"]),
            digits(&stored["metadata"]["name"]),
            "a name of the same form"
        );
    }
}

/// All examples of upstream's documents give a Workspace.
#[test]
fn documented_stacks_have_workspaces() {
    let repository = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = repository.join("testing/manifests/accepted");
    let objects = pko_testkit::fixtures::load(&folder).unwrap();
    let stacks = objects.iter().filter(|object| object["kind"] == "Stack");
    let mut templates = 0;
    for stack in stacks {
        let template = &stack["spec"]["workspaceTemplate"]["spec"];
        let observed = ObservedStack::new(serde_json::from_value(stack.clone()).unwrap());
        let made = desired::workspace(&observed, &StackStatus::default(), &source(&json!({})));
        let made = serde_json::to_value(made.unwrap()).unwrap();
        let image = template.get("image");
        assert_eq!(made["spec"].get("image"), image, "{}", name(stack));
        assert_eq!(
            desired::update_template_problem(&observed),
            None,
            "{}",
            name(stack)
        );
        templates += usize::from(template.is_object());
    }
    assert!(templates > 0, "some have a template");
}

//! The plan for a pod: one row for each state of the cluster.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use pko_api::Workspace;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::*;

fn now() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

fn settings(image: &str) -> AgentSettings {
    AgentSettings {
        agent_image: image.to_owned(),
        agent_image_pull_policy: "IfNotPresent".to_owned(),
        max_untar_size: None,
        manager_public_key: "PUBLIC".to_owned(),
        restrictions: PodRestrictions::default(),
    }
}

fn workspace(spec: impl Into<Value>) -> Workspace {
    let spec: Value = spec.into();
    let metadata = json!({ "name": "demo", "namespace": "team", "uid": "u-1", "generation": 3 });
    serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
}

/// A cluster that carries out plans, with its controllers and kubelet.
struct PodCluster {
    workspace: Workspace,
    image: String,
    found: ExistingResources,
    demand: WorkspaceDemand,
}

impl PodCluster {
    /// With a running pod.
    fn running() -> Self {
        let mut cluster = Self {
            workspace: workspace(json!({ "projectInfo": { "name": "a", "runtime": "yaml" } })),
            image: "agent:1".to_owned(),
            found: ExistingResources::default(),
            demand: WorkspaceDemand::default(),
        };
        cluster.settle();
        cluster
    }

    fn plan(&self) -> PodPlan {
        let planned = self.plan_for(&self.found);
        assert_eq!(
            planned,
            self.plan_for(&self.kept()),
            "what is kept in memory is enough"
        );
        planned
    }

    fn plan_for(&self, found: &ExistingResources) -> PodPlan {
        let settings = settings(&self.image);
        plan(&self.workspace, &settings, found, &self.demand, now()).unwrap()
    }

    /// The resources as cached.
    fn kept(&self) -> ExistingResources {
        let mut found = self.found.clone();
        found.service.iter_mut().for_each(trim_service);
        found.stateful_set.iter_mut().for_each(trim_stateful_set);
        found.pod.iter_mut().for_each(trim_pod);
        found
    }

    /// Carries out plans until one has no writes.
    fn settle(&mut self) {
        for _ in 0..3 {
            let plan = self.plan();
            if plan.writes.is_empty() {
                return;
            }
            for write in plan.writes {
                self.write(write);
            }
        }
        panic!("it is never enough: {:?}", self.plan());
    }

    fn write(&mut self, write: PodWrite) {
        match write {
            PodWrite::Service(service) => {
                self.found.service = serde_json::from_value(service).unwrap();
            }
            PodWrite::StatefulSet { mut object, .. } => {
                let before = self.found.stateful_set.as_ref();
                let generation = before.and_then(|set| set.metadata.generation).unwrap_or(0) + 1;
                object["metadata"]["generation"] = json!(generation);
                object["status"] = json!({
                    "replicas": 1, "observedGeneration": generation, "updateRevision": format!("r{generation}"),
                });
                let pod = json!({
                    "metadata": {
                        "name": "demo-workspace-0", "uid": format!("pod-{generation}"), "creationTimestamp": ago(3600),
                        "labels": { "controller-revision-hash": format!("r{generation}") },
                    },
                    "status": { "podIP": "10.0.0.7", "containerStatuses": [
                        { "name": "pulumi", "state": { "running": {} }, "image": "", "imageID": "", "ready": true, "restartCount": 0 },
                    ] },
                });
                let has_pod = object["spec"]["replicas"] == json!(1);
                self.found.pod = has_pod.then(|| serde_json::from_value(pod).unwrap());
                self.found.stateful_set = serde_json::from_value(object).unwrap();
            }
        }
    }

    fn change(&mut self, change: impl FnOnce(&mut Value)) {
        let mut object =
            json!({ "metadata": self.workspace.metadata, "spec": self.workspace.spec });
        change(&mut object["spec"]);
        self.workspace = serde_json::from_value(object).unwrap();
    }

    fn pod(&mut self, pointer: &str, value: Value) {
        let mut pod = json!(self.found.pod.take().unwrap());
        set(&mut pod, pointer, value);
        self.found.pod = Some(serde_json::from_value(pod).unwrap());
    }

    fn container_waits(&mut self, reason: &str, message: &str) {
        let state = json!({ "waiting": { "reason": reason, "message": message } });
        self.pod("/status/containerStatuses/0/state", state);
    }

    fn set(&mut self, pointer: &str, value: Value) {
        let mut object = json!(self.found.stateful_set.take().unwrap());
        set(&mut object, pointer, value);
        self.found.stateful_set = Some(serde_json::from_value(object).unwrap());
    }

    /// The writes and the state of the pod, as a line.
    fn message(&self) -> String {
        let plan = self.plan();
        let writes = plan.writes.iter().map(|write| match write {
            PodWrite::Service(_) => "service".to_owned(),
            PodWrite::StatefulSet { object, ends_pod } => {
                let end = if *ends_pod { " ends the pod" } else { "" };
                format!("set of {}{end}", object["spec"]["replicas"])
            }
        });
        let state = match plan.state {
            PodState::Rolling(message) => format!("rolling: {message}"),
            PodState::Waiting(message) => format!("waiting: {message}"),
            PodState::Missing => "missing".to_owned(),
            PodState::Broken(message) => format!("broken: {message}"),
            PodState::Running(running) => {
                let outdated = if running.is_outdated { " outdated" } else { "" };
                let idle = running.idle_in.map(|left| format!(" idle in {left:?}"));
                format!(
                    "running {} at {}{outdated}{}",
                    running.uid,
                    running.address,
                    idle.unwrap_or_default()
                )
            }
            PodState::Idle => "asleep".to_owned(),
        };
        writes.chain([state]).collect::<Vec<_>>().join(", ")
    }
}

fn set(object: &mut Value, pointer: &str, value: Value) {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[field] = value;
}

fn ago(seconds: i64) -> String {
    (now() - SignedDuration::from_secs(seconds)).to_string()
}

const RUNNING: &str = "running pod-1 at 10.0.0.7";
const WILL_ROLL: &str = "set of 1 ends the pod, rolling: Waiting for the statefulset to be updated";
const WAITS_FOR_RUN: &str = "rolling: the pod is replaced when the run in progress ends";

#[test]
fn plan_for_a_new_workspace_has_service_and_statefulset() {
    let mut cluster = PodCluster::running();
    assert_eq!(
        cluster.message(),
        RUNNING,
        "and then nothing is applied again"
    );
    cluster.found = ExistingResources::default();
    let waiting = "waiting: Waiting for the workspace pod to be available";
    assert_eq!(cluster.message(), format!("service, set of 1, {waiting}"));
}

#[test]
fn pod_is_replaced_only_by_changes_it_depends_on() {
    for (field, value) in [
        ("image", json!("other")),
        ("imagePullPolicy", json!("Always")),
        ("serviceAccountName", json!("deployer")),
        ("securityProfile", json!("baseline")),
        ("env", json!([{ "name": "A", "value": "1" }])),
        ("envFrom", json!([{ "secretRef": { "name": "a" } }])),
        ("resources", json!({ "limits": { "memory": "1Gi" } })),
        ("projectInfo", json!({ "name": "b", "runtime": "yaml" })),
        (
            "podTemplate",
            json!({ "metadata": { "labels": { "a": "b" } } }),
        ),
        ("initContainers", json!([{ "name": "a", "image": "b" }])),
        ("pulumiLogLevel", json!(3)),
    ] {
        let mut cluster = PodCluster::running();
        cluster.change(|spec| spec[field] = value);
        assert_eq!(cluster.message(), WILL_ROLL, "{field}");
        cluster.demand.is_busy = true;
        assert_eq!(cluster.message(), WAITS_FOR_RUN, "{field}: not under a run");
        cluster.demand.is_busy = false;
        cluster.settle();
        assert_eq!(cluster.message(), "running pod-2 at 10.0.0.7", "{field}");
    }
    for (field, value) in [
        (
            "stacks",
            json!([{ "name": "dev", "config": [{ "key": "a", "value": "b" }], "environment": ["e"] }]),
        ),
        ("idleTimeout", json!("1h")),
    ] {
        let mut cluster = PodCluster::running();
        cluster.change(|spec| spec[field] = value);
        assert_eq!(cluster.message(), RUNNING, "{field}");
    }
    let mut cluster = PodCluster::running();
    cluster
        .change(|spec| spec["serviceTemplate"] = json!({ "metadata": { "labels": { "a": "b" } } }));
    assert_eq!(cluster.message(), format!("service, {RUNNING}"));
}

#[test]
fn outdated_pod_is_replaced_for_the_next_run() {
    let mut cluster = PodCluster::running();
    cluster.image = "agent:2".to_owned();
    assert_eq!(cluster.message(), format!("{RUNNING} outdated"));
    cluster.demand.is_busy = true;
    cluster.demand.waiting_runs = WaitingRuns::Any;
    assert_eq!(
        cluster.message(),
        format!("{RUNNING} outdated"),
        "not under another run"
    );
    cluster.demand.is_busy = false;
    assert_eq!(cluster.message(), WILL_ROLL);
}

/// Objects that a new pod needs may be deleted together with the Stack.
#[test]
fn destroy_keeps_an_outdated_pod() {
    let mut cluster = PodCluster::running();
    cluster.image = "agent:2".to_owned();
    cluster.demand.waiting_runs = WaitingRuns::Destroys;
    assert_eq!(cluster.message(), format!("{RUNNING} outdated"));
    cluster.container_waits("ContainerCreating", "");
    assert_eq!(cluster.message(), WILL_ROLL, "there is no pod to keep");
}

/// Upstream's agent ends a run when its caller is gone, but may not notice that.
#[test]
fn destroy_replaces_the_pod_of_an_orphaned_run() {
    let mut cluster = PodCluster::running();
    cluster.image = "agent:2".to_owned();
    cluster.demand.waiting_runs = WaitingRuns::Destroys;
    cluster.demand.orphaned_run = Some(now() - SignedDuration::from_secs(7200));
    let kept = format!("{RUNNING} outdated");
    assert_eq!(cluster.message(), kept, "that was in another pod");
    cluster.demand.orphaned_run = Some(now());
    assert_eq!(cluster.message(), WILL_ROLL);
    cluster.pod("/spec", json!({ "containers": [{ "name": "pulumi", "command": ["agent", "--auth-mode=manager"] }] }));
    assert_eq!(cluster.message(), kept, "an agent of ours owns its runs");
}

/// Another operator may have stored another digest of the same Program.
#[test]
fn new_pod_fetches_the_served_artifact() {
    let flux =
        |digest: &str| json!({ "url": "http://operator/programs/team/demo/1", "digest": digest });
    let mut cluster = PodCluster::running();
    cluster.change(|spec| *spec = json!({ "flux": flux("sha256:theirs") }));
    cluster.settle();
    let running = "running pod-2 at 10.0.0.7";
    assert_eq!(cluster.message(), running);
    cluster.found.artifact = serde_json::from_value(flux("sha256:ours")).unwrap();
    assert_eq!(
        cluster.message(),
        format!("{running} outdated"),
        "the pod stays"
    );
    cluster.container_waits("CrashLoopBackOff", "back-off 10s restarting");
    let set = json!(
        cluster
            .plan_for(&cluster.found)
            .writes
            .iter()
            .map(|write| match write {
                PodWrite::StatefulSet { object, .. } => object.clone(),
                PodWrite::Service(service) => service.clone(),
            })
            .collect::<Vec<_>>()
    )
    .to_string();
    assert!(
        set.contains("sha256:ours") && !set.contains("sha256:theirs"),
        "{set}"
    );
    cluster.settle();
    assert_eq!(cluster.message(), "running pod-3 at 10.0.0.7");
}

#[test]
fn statefulset_of_upstream_is_used_while_its_spec_is_current() {
    let mut cluster = PodCluster::running();
    cluster.set("/metadata/annotations", json!({}));
    assert_eq!(cluster.message(), WILL_ROLL, "nobody says what it is for");
    let status = |generation: i64| {
        Some(serde_json::from_value(json!({ "observedGeneration": generation })).unwrap())
    };
    cluster.workspace.status = status(3);
    assert_eq!(cluster.message(), format!("{RUNNING} outdated"));
    cluster.workspace.status = status(2);
    assert_eq!(cluster.message(), WILL_ROLL, "it is for the spec of before");
}

#[test]
fn statefulset_of_a_previous_workspace_is_waited_for() {
    let gone = "rolling: Waiting for the statefulset of the previous workspace to be deleted";
    let mut cluster = PodCluster::running();
    cluster.set("/metadata/deletionTimestamp", json!(ago(1)));
    assert_eq!(cluster.message(), gone);
    let mut cluster = PodCluster::running();
    cluster.set(
        "/metadata/ownerReferences/0/uid",
        json!("of a Workspace of before"),
    );
    assert_eq!(cluster.message(), gone);
}

#[test]
fn pod_of_a_previous_statefulset_is_waited_for() {
    let waits = "rolling: Waiting for the pod of the previous workspace to terminate";
    let applies = "set of 1, waiting: Waiting for the workspace pod to be available";
    let mut cluster = PodCluster::running();
    cluster.found.stateful_set = None;
    assert_eq!(
        cluster.message(),
        applies,
        "a pod without an owner is adopted"
    );
    let set = json!([{
        "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "demo-workspace", "uid": "previous", "controller": true,
    }]);
    cluster.pod("/metadata/ownerReferences", set);
    assert_eq!(cluster.message(), waits, "the garbage collector deletes it");
    cluster.pod("/metadata/ownerReferences", json!([]));
    cluster.pod("/metadata/deletionTimestamp", json!(ago(1)));
    assert_eq!(cluster.message(), waits, "it is being deleted");
    cluster.found.pod = None;
    assert_eq!(cluster.message(), applies);
}

#[test]
fn outdated_unhealthy_pod_without_run_is_replaced() {
    let crash = |cluster: &mut PodCluster| {
        cluster.container_waits("CrashLoopBackOff", "back-off 10s restarting");
    };
    let mut cluster = PodCluster::running();
    crash(&mut cluster);
    let broken = "broken: container \"pulumi\": CrashLoopBackOff: back-off 10s restarting";
    assert_eq!(
        cluster.message(),
        broken,
        "the same operator makes the same pod"
    );

    cluster.image = "agent:2".to_owned();
    assert_eq!(cluster.message(), WILL_ROLL);
    cluster.demand.is_busy = true;
    assert_eq!(cluster.message(), WILL_ROLL, "no run lives in it");
    cluster.demand.is_busy = false;
    cluster.settle();
    assert_eq!(cluster.message(), "running pod-2 at 10.0.0.7");
    crash(&mut cluster);
    assert_eq!(cluster.message(), broken, "once, not again and again");

    let mut upstream = PodCluster::running();
    upstream.set("/metadata/annotations", json!({}));
    upstream.workspace.status =
        Some(serde_json::from_value(json!({ "observedGeneration": 3 })).unwrap());
    assert_eq!(upstream.message(), format!("{RUNNING} outdated"));
    crash(&mut upstream);
    assert_eq!(upstream.message(), WILL_ROLL, "made by upstream's operator");
    let mut refusing = PodCluster::running();
    refusing.demand.is_refused = true;
    assert_eq!(refusing.message(), RUNNING, "another pod would refuse, too");
    refusing.image = "agent:2".to_owned();
    assert_eq!(refusing.message(), WILL_ROLL);

    upstream.container_waits("ContainerCreating", "");
    let waiting = "waiting: Waiting for the workspace pod to be available";
    assert_eq!(upstream.message(), waiting, "it may still start");
}

#[test]
fn pod_is_ready_when_current_with_a_running_agent() {
    let waiting = "waiting: Waiting for the workspace pod to be available";
    let rolling = "rolling: Waiting for the statefulset to be updated";
    let check = |sentence: &str, expected: &str, change: fn(&mut PodCluster)| {
        let mut cluster = PodCluster::running();
        change(&mut cluster);
        assert_eq!(cluster.message(), expected, "{sentence}");
    };
    check("all is well", RUNNING, |_| {});
    check(
        "the set was never seen by its controller",
        waiting,
        |cluster| {
            cluster.found.pod = None;
            cluster.set("/status", json!({ "replicas": 0 }));
        },
    );
    check(
        "the set was not seen by its controller",
        rolling,
        |cluster| {
            cluster.set("/status/observedGeneration", json!(0));
        },
    );
    check("the pod is of another revision", rolling, |cluster| {
        cluster.set("/status/updateRevision", json!("r9"));
    });
    check("there is no pod", "missing", |cluster| {
        cluster.found.pod = None;
    });
    check("the pod is being deleted", waiting, |cluster| {
        cluster.pod("/metadata/deletionTimestamp", json!(ago(1)));
    });
    check("it has no address", waiting, |cluster| {
        cluster.pod("/status/podIP", json!(""));
    });
    check("its container is being made", waiting, |cluster| {
        cluster.container_waits("ContainerCreating", "");
    });
    let broken = "broken: container \"pulumi\": ErrImagePull: no";
    check("its container can't be made", broken, |cluster| {
        cluster.container_waits("ErrImagePull", "no");
    });
}

#[test]
fn broken_pod_is_repaired_during_a_run() {
    let mut cluster = PodCluster::running();
    cluster.demand.is_busy = true;
    cluster.change(|spec| spec["image"] = json!("other"));
    assert_eq!(cluster.message(), WAITS_FOR_RUN);
    cluster.pod("/status/containerStatuses", json!([]));
    assert_eq!(cluster.message(), WILL_ROLL);
}

#[test]
fn idle_workspace_is_scaled_to_zero_and_back() {
    let mut cluster = PodCluster::running();
    cluster.demand.idle_timeout = Some(Duration::from_hours(2));
    assert_eq!(
        cluster.message(),
        format!("{RUNNING} idle in 3600s"),
        "since the pod was made"
    );
    cluster.demand.last_use = Some(now() - SignedDuration::from_secs(60));
    assert_eq!(
        cluster.message(),
        format!("{RUNNING} idle in 7140s"),
        "since the last run"
    );
    cluster.demand.idle_timeout = Some(Duration::from_mins(1));
    for needed in [
        WorkspaceDemand {
            is_busy: true,
            ..cluster.demand.clone()
        },
        WorkspaceDemand {
            waiting_runs: WaitingRuns::Any,
            ..cluster.demand.clone()
        },
    ] {
        let idle = std::mem::replace(&mut cluster.demand, needed);
        assert_eq!(cluster.message(), RUNNING);
        cluster.demand = idle;
    }
    assert_eq!(cluster.message(), "set of 0 ends the pod, asleep");
    cluster.settle();
    assert_eq!(cluster.message(), "asleep");
    cluster.demand.last_use = None;
    assert_eq!(
        cluster.message(),
        "asleep",
        "also when its Updates are gone"
    );
    cluster.change(|spec| spec["image"] = json!("other"));
    assert_eq!(
        cluster.message(),
        "set of 0 ends the pod, asleep",
        "a change does not wake it"
    );
    cluster.settle();
    cluster.demand.waiting_runs = WaitingRuns::Any;
    let waiting = "waiting: Waiting for the workspace pod to be available";
    assert_eq!(cluster.message(), format!("set of 1, {waiting}"));
    cluster.settle();
    assert_eq!(cluster.message(), "running pod-4 at 10.0.0.7");
}

#[test]
fn invalid_spec_has_no_plan() {
    let mut cluster = PodCluster::running();
    cluster.change(|spec| spec["securityProfile"] = json!("loose"));
    let invalid = plan(
        &cluster.workspace,
        &settings("agent:1"),
        &cluster.found,
        &cluster.demand,
        now(),
    );
    assert_eq!(invalid.unwrap_err().field, "spec.securityProfile");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// An applied plan is not repeated, and a pod with a living run is never ended.
    #[test]
    fn applied_plan_has_no_more_writes(
        image in "a|b", agent in "x|y", is_busy: bool, runs in 0..3_usize,
        timeout in prop::option::of(0_u64..7200), used in prop::option::of(0_i64..7200), sleeps: bool,
    ) {
        let mut cluster = PodCluster::running();
        if sleeps {
            cluster.demand.idle_timeout = Some(Duration::from_secs(1));
            cluster.settle();
        }
        cluster.change(|spec| spec["image"] = json!(image));
        cluster.image = agent;
        cluster.demand = WorkspaceDemand {
            is_busy,
            waiting_runs: [WaitingRuns::None, WaitingRuns::Destroys, WaitingRuns::Any][runs],
            is_refused: false,
            orphaned_run: None,
            last_use: used.map(|seconds| now() - SignedDuration::from_secs(seconds)),
            idle_timeout: timeout.map(Duration::from_secs).filter(|timeout| !timeout.is_zero()),
        };
        let lives = is_busy && cluster.found.pod.is_some();
        for write in cluster.plan().writes {
            let ends = matches!(write, PodWrite::StatefulSet { ends_pod: true, .. });
            prop_assert!(!(ends && lives), "{write:?}");
            cluster.write(write);
        }
        prop_assert_eq!(cluster.plan().writes, vec![]);
    }
}

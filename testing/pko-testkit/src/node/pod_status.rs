//! A pod's status as a kubelet reports it: phase, conditions and containers.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, HostIP, PodCondition, PodIP, PodSpec, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

const UNSCHEDULABLE: &str = "0/1 nodes are available: 1 Insufficient memory. preemption: 0/1 nodes \
                             are available: 1 No preemption victims found for incoming pod.";

/// Which container of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Init(usize),
    Main(usize),
}

#[derive(Debug, Default)]
pub(super) struct PodState {
    pub(super) scheduled: bool,
    pub(super) address: Option<Ipv4Addr>,
    started: Option<Time>,
    init: Vec<ContainerStatus>,
    main: Vec<ContainerStatus>,
    conditions: Vec<PodCondition>,
    /// True once nothing of it will run again.
    pub(super) over: bool,
}

impl PodState {
    /// The state of a new pod.
    pub(super) fn new(spec: &PodSpec) -> Self {
        let init: &[Container] = spec.init_containers.as_deref().unwrap_or_default();
        let reason = if init.is_empty() {
            "ContainerCreating"
        } else {
            "PodInitializing"
        };
        let unseen = |container: &Container| ContainerStatus {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            started: Some(false),
            state: Some(waiting(reason, None)),
            ..ContainerStatus::default()
        };
        Self {
            init: init.iter().map(unseen).collect(),
            main: spec.containers.iter().map(unseen).collect(),
            ..Self::default()
        }
    }

    fn container(&mut self, slot: Slot) -> Option<&mut ContainerStatus> {
        match slot {
            Slot::Init(index) => self.init.get_mut(index),
            Slot::Main(index) => self.main.get_mut(index),
        }
    }

    /// Marks a container as waiting. Its last termination is kept.
    pub(super) fn wait(&mut self, slot: Slot, reason: &str, message: Option<String>) {
        if let Some(container) = self.container(slot) {
            remember(container);
            container.state = Some(waiting(reason, message));
            (container.ready, container.started) = (false, Some(false));
        }
    }

    /// A container runs; again, if it did before.
    pub(super) fn run(&mut self, slot: Slot, now: Timestamp) {
        if let Some(container) = self.container(slot) {
            remember(container);
            if container.last_state.is_some() {
                container.restart_count += 1;
            }
            let started_at = Some(Time(now));
            container.state = Some(ContainerState {
                running: Some(ContainerStateRunning { started_at }),
                ..ContainerState::default()
            });
            container.started = Some(true);
            container.ready = matches!(slot, Slot::Main(_));
        }
    }

    pub(super) fn end(&mut self, slot: Slot, mut end: ContainerStateTerminated) {
        if let Some(container) = self.container(slot) {
            let running = container.state.as_ref().and_then(|it| it.running.as_ref());
            end.started_at = running.and_then(|running| running.started_at.clone());
            container.started = Some(false);
            container.ready = matches!(slot, Slot::Init(_)) && end.exit_code == 0;
            container.state = Some(ContainerState {
                terminated: Some(end),
                ..ContainerState::default()
            });
        }
    }

    /// The whole status, with the times of conditions that did not change.
    pub(super) fn status(&mut self, now: Timestamp) -> PodStatus {
        self.conditions = self.next_conditions(now);
        if self.scheduled && self.started.is_none() {
            self.started = Some(Time(now));
        }
        let address = self.address.map(|address| address.to_string());
        let host = self.scheduled.then(|| Ipv4Addr::LOCALHOST.to_string());
        let seen = |list: &[ContainerStatus]| {
            let seen = self.scheduled && !list.is_empty();
            seen.then(|| list.to_vec())
        };
        PodStatus {
            phase: Some(self.phase().to_owned()),
            conditions: Some(self.conditions.clone()),
            host_ips: host.clone().map(|ip| vec![HostIP { ip }]),
            host_ip: host,
            pod_ips: address.clone().map(|ip| vec![PodIP { ip }]),
            pod_ip: address,
            start_time: self.started.clone(),
            init_container_statuses: seen(&self.init),
            container_statuses: seen(&self.main),
            ..PodStatus::default()
        }
    }

    fn phase(&self) -> &'static str {
        let has_run = |container: &ContainerStatus| {
            let now = container.state.as_ref();
            now.is_some_and(|state| state.waiting.is_none()) || container.last_state.is_some()
        };
        if self.over {
            let failed = self.init.iter().chain(&self.main).any(|it| !is_done(it));
            return if failed { "Failed" } else { "Succeeded" };
        }
        if self.init.iter().all(is_done) && self.main.iter().all(has_run) {
            return "Running";
        }
        "Pending"
    }

    fn next_conditions(&self, now: Timestamp) -> Vec<PodCondition> {
        if !self.scheduled {
            let unschedulable = Some(("Unschedulable", UNSCHEDULABLE.to_owned()));
            return vec![self.condition("PodScheduled", unschedulable, now)];
        }
        let names = |list: Vec<&ContainerStatus>| -> Option<String> {
            let names: Vec<&str> = list.iter().map(|container| &*container.name).collect();
            (!names.is_empty()).then(|| names.join(" "))
        };
        let incomplete = names(self.init.iter().filter(|it| !is_done(it)).collect());
        let unready = names(self.main.iter().filter(|it| !it.ready).collect());
        let incomplete = incomplete.map(|names| {
            let message = format!("containers with incomplete status: [{names}]");
            ("ContainersNotInitialized", message)
        });
        let unready = unready.map(|names| {
            let message = format!("containers with unready status: [{names}]");
            ("ContainersNotReady", message)
        });
        let sandbox = self.address.is_none() || self.over;
        let sandbox = sandbox.then(|| ("", String::new()));
        vec![
            self.condition("PodReadyToStartContainers", sandbox, now),
            self.condition("Initialized", incomplete, now),
            self.condition("Ready", unready.clone(), now),
            self.condition("ContainersReady", unready, now),
            self.condition("PodScheduled", None, now),
        ]
    }

    /// A condition that holds, or the reason and the message why it does not.
    fn condition(
        &self,
        kind: &str,
        problem: Option<(&str, String)>,
        now: Timestamp,
    ) -> PodCondition {
        let status = if problem.is_some() { "False" } else { "True" };
        let before = self.conditions.iter().find(|before| before.type_ == kind);
        let same = before.filter(|before| before.status == status);
        let (reason, message) = problem.unzip();
        PodCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.filter(|text| !text.is_empty()).map(str::to_owned),
            message: message.filter(|text| !text.is_empty()),
            last_transition_time: same
                .and_then(|same| same.last_transition_time.clone())
                .or(Some(Time(now))),
            ..PodCondition::default()
        }
    }
}

/// Moves an end that is about to be replaced to where the last one is kept.
fn remember(container: &mut ContainerStatus) {
    let ended = |state: &ContainerState| state.terminated.is_some();
    if container.state.as_ref().is_some_and(ended) {
        container.last_state = container.state.take();
    }
}

fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    ContainerState {
        waiting: Some(ContainerStateWaiting {
            reason: Some(reason.to_owned()),
            message,
        }),
        ..ContainerState::default()
    }
}

fn is_done(container: &ContainerStatus) -> bool {
    let state = container.state.as_ref();
    let ended = state.and_then(|state| state.terminated.as_ref());
    ended.is_some_and(|end| end.exit_code == 0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn state() -> PodState {
        let spec = json!({
            "initContainers": [{"name": "fetch", "image": "agent:1"}],
            "containers": [{"name": "pulumi", "image": "pulumi:1"}],
        });
        PodState::new(&serde_json::from_value(spec).unwrap())
    }

    fn status_json(state: &mut PodState, second: i64) -> Value {
        serde_json::to_value(state.status(at(second))).unwrap()
    }

    fn end(exit_code: i32) -> ContainerStateTerminated {
        ContainerStateTerminated {
            exit_code,
            finished_at: Some(Time(at(9))),
            ..ContainerStateTerminated::default()
        }
    }

    fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
        let conditions = status["conditions"].as_array().unwrap();
        conditions.iter().find(|it| it["type"] == kind).unwrap()
    }

    #[test]
    fn unscheduled_pod_has_one_condition() {
        let status = status_json(&mut state(), 1);
        assert_eq!(status["phase"], "Pending");
        assert_eq!(status["conditions"].as_array().unwrap().len(), 1);
        let scheduled = condition(&status, "PodScheduled");
        assert_eq!(
            (&scheduled["status"], &scheduled["reason"]),
            (&json!("False"), &json!("Unschedulable"))
        );
        assert_eq!(status["containerStatuses"], Value::Null);
    }

    #[test]
    fn pod_conditions_progress_to_ready() {
        let mut state = state();
        state.scheduled = true;
        let status = status_json(&mut state, 1);
        let first = &status["initContainerStatuses"][0]["state"]["waiting"]["reason"];
        assert_eq!(first, "PodInitializing");
        let initialized = condition(&status, "Initialized");
        assert_eq!(
            initialized["message"],
            "containers with incomplete status: [fetch]"
        );

        state.address = Some(Ipv4Addr::new(127, 1, 1, 1));
        state.run(Slot::Init(0), at(2));
        state.end(Slot::Init(0), end(0));
        let status = status_json(&mut state, 3);
        assert_eq!(status["phase"], "Pending");
        assert_eq!(condition(&status, "Initialized")["status"], "True");
        let ready = condition(&status, "Ready");
        assert_eq!(ready["message"], "containers with unready status: [pulumi]");

        state.run(Slot::Main(0), at(4));
        let status = status_json(&mut state, 5);
        assert_eq!(
            (&status["phase"], &status["podIP"]),
            (&json!("Running"), &json!("127.1.1.1"))
        );
        let container = &status["containerStatuses"][0];
        assert_eq!(
            (&container["ready"], &container["restartCount"]),
            (&json!(true), &json!(0))
        );
        let times = |status: &Value, kind| condition(status, kind)["lastTransitionTime"].clone();
        assert_eq!(times(&status, "Ready"), "1970-01-01T00:00:05Z");
        assert_eq!(times(&status, "Initialized"), "1970-01-01T00:00:03Z");
        assert_eq!(times(&status, "PodScheduled"), "1970-01-01T00:00:01Z");
    }

    #[test]
    fn restarted_container_keeps_last_state() {
        let mut state = state();
        state.scheduled = true;
        state.run(Slot::Init(0), at(1));
        state.end(Slot::Init(0), end(0));
        state.run(Slot::Main(0), at(2));
        state.end(Slot::Main(0), end(137));
        let status = status_json(&mut state, 3);
        let ended = &status["containerStatuses"][0]["state"]["terminated"];
        assert_eq!(
            (&ended["exitCode"], &ended["startedAt"]),
            (&json!(137), &json!("1970-01-01T00:00:02Z"))
        );
        assert_eq!(condition(&status, "Ready")["status"], "False");

        state.wait(Slot::Main(0), "CrashLoopBackOff", Some("back-off".into()));
        let status = status_json(&mut state, 4);
        let container = &status["containerStatuses"][0];
        assert_eq!(status["phase"], "Running");
        assert_eq!(container["state"]["waiting"]["message"], "back-off");
        assert_eq!(container["lastState"]["terminated"]["exitCode"], 137);
        assert_eq!(container["restartCount"], 0);

        state.run(Slot::Main(0), at(5));
        let container = &status_json(&mut state, 6)["containerStatuses"][0];
        assert_eq!(container["restartCount"], 1);
        assert_eq!(container["lastState"]["terminated"]["exitCode"], 137);
    }

    #[test]
    fn final_phase_follows_exit_codes() {
        for (code, phase) in [(0, "Succeeded"), (143, "Failed")] {
            let mut state = state();
            state.scheduled = true;
            state.end(Slot::Init(0), end(0));
            state.end(Slot::Main(0), end(code));
            state.over = true;
            assert_eq!(status_json(&mut state, 1)["phase"], phase);
        }
    }
}

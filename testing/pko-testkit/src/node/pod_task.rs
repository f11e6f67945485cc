//! Runs one pod: schedules, mounts, initializes, runs and ends it.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStateTerminated, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use parking_lot::{Mutex, MutexGuard};
use rustix::process::Signal;
use tokio::sync::{self, watch};
use tokio::time::{sleep, timeout};

use super::container_start::ContainerStart;
use super::environment::EnvResolver;
use super::files::Files;
use super::node_state::NodeState;
use super::pod_api::{PAUSE, PodApi};
use super::pod_status::{PodState, Slot};
use super::process::{Launch, Process, kill_all};
use super::references::{container_references, volume_references};
use super::{address, kubelet_messages};

/// The first and the longest pause before a container is started again; a kubelet's are 10 s and
/// 5 min, as in its messages.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The latest version of a pod.
#[derive(Clone, Debug)]
pub(super) struct PodUpdate {
    pub(super) pod: Pod,
    /// True once the object is deleted.
    pub(super) gone: bool,
}

/// One pod from its first appearance to its end.
pub(super) struct PodTask {
    node: Arc<NodeState>,
    api: PodApi,
    updates: watch::Receiver<PodUpdate>,
    pod: Pod,
    spec: PodSpec,
    /// `namespace/name`
    key: String,
    address: Ipv4Addr,
    files: Files,
    state: Mutex<PodState>,
    running: Mutex<Vec<(Slot, Process)>>,
    /// Held while a status is written, so that an older one never comes after a newer one.
    writing: sync::Mutex<()>,
}

impl PodTask {
    /// Makes no API request yet.
    pub(super) fn new(
        node: Arc<NodeState>,
        client: kube::Client,
        updates: watch::Receiver<PodUpdate>,
    ) -> io::Result<Self> {
        let pod = updates.borrow().pod.clone();
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let key = format!("{namespace}/{name}");
        let folder = format!("{namespace}.{name}.{}", node.count_start(&key));
        let files = Files::make(&node.folder, &folder)?;
        node.set_logs(&key, files.logs().to_owned());
        let spec = pod.spec.clone().unwrap_or_default();
        Ok(Self {
            api: PodApi::new(client, namespace, name, pod.uid().unwrap_or_default()),
            node,
            updates,
            key,
            address: address::free()?,
            files,
            state: Mutex::new(PodState::new(&spec)),
            pod,
            spec,
            running: Mutex::default(),
            writing: sync::Mutex::default(),
        })
    }

    pub(super) async fn run_to_end(self) {
        let is_ours = tokio::select! {
            biased;
            () = self.wait_for_deletion() => true,
            is_ours = self.run() => is_ours,
        };
        if is_ours {
            self.end().await;
        } else {
            self.files.remove();
        }
    }

    async fn wait_for_deletion(&self) {
        let unwanted =
            |updates: &PodUpdate| updates.gone || updates.pod.metadata.deletion_timestamp.is_some();
        self.wait_for_update(unwanted).await;
    }

    async fn wait_until_gone(&self) {
        self.wait_for_update(|updates| updates.gone).await;
    }

    async fn wait_for_update(&self, condition: impl FnMut(&PodUpdate) -> bool) {
        if self.updates.clone().wait_for(condition).await.is_err() {
            // The node ends, and this with it
            std::future::pending::<()>().await;
        }
    }

    /// Runs its containers forever. Returns `false` if the pod belongs to another node.
    async fn run(&self) -> bool {
        if !self.schedule().await {
            return false;
        }
        self.mount().await;
        self.report(|state| state.address = Some(self.address))
            .await;
        let init = self.spec.init_containers.iter().flatten().enumerate();
        for (index, container) in init {
            self.keep_running(Slot::Init(index), container).await;
        }
        let containers = self.spec.containers.iter().enumerate();
        let containers =
            containers.map(|(index, container)| self.keep_running(Slot::Main(index), container));
        join_all(containers).await;
        true
    }

    async fn schedule(&self) -> bool {
        self.node.wait_while_paused().await;
        if self.node.faults.borrow().unschedulable {
            self.report(|_| ()).await;
        }
        self.node.until(|it| !it.unschedulable && !it.stopped).await;
        let name = &self.node.name;
        if self.spec.node_name.as_ref() != Some(name) && !self.api.bind(name).await {
            return false;
        }
        self.report(|state| state.scheduled = true).await;
        true
    }

    /// Waits until all objects of the volumes exist.
    async fn mount(&self) {
        loop {
            let objects = self.api.objects(volume_references(&self.spec)).await;
            self.node.wait_while_paused().await;
            if self.files.mount(&self.spec, &objects).is_ok() {
                return;
            }
            sleep(PAUSE).await;
        }
    }

    /// Starts a container again and again: an init container until it ends well, the others always.
    async fn keep_running(&self, slot: Slot, container: &Container) {
        for attempt in 0.. {
            let end = self.attempt(slot, container, attempt).await;
            let done = matches!(slot, Slot::Init(_)) && end.exit_code == 0;
            self.report(|state| state.end(slot, end.clone())).await;
            if done {
                return;
            }
            let uid = self.pod.uid().unwrap_or_default();
            let message = kubelet_messages::back_off(attempt, &container.name, &self.key, &uid);
            self.report(|state| state.wait(slot, "CrashLoopBackOff", Some(message.clone())))
                .await;
            sleep(LONGEST_PAUSE.min(FIRST_PAUSE * 2_u32.saturating_pow(attempt))).await;
        }
    }

    /// One run of a container, from the preparation to the end.
    async fn attempt(
        &self,
        slot: Slot,
        container: &Container,
        attempt: u32,
    ) -> ContainerStateTerminated {
        let launch = self.prepare(slot, container, attempt).await;
        self.node.wait_while_paused().await;
        let process = match Process::start(&launch, self.node.group) {
            Ok(process) => process,
            Err(error) => return cannot_run(&launch, &error),
        };
        self.running().push((slot, process.clone()));
        self.node
            .mark_running(&self.key, &container.name, process.clone());
        self.report(|state| state.run(slot, Timestamp::now())).await;
        let code = process.end().await;
        let out_of_memory = self.node.mark_ended(&self.key, &container.name);
        self.running().retain(|(other, _)| *other != slot);
        // In a container all processes end with the first one
        kill_all(&self.files.container(&container.name));
        termination_of(container, &launch, code, out_of_memory)
    }

    /// Waits for all that a container needs before it can be started.
    async fn prepare(&self, slot: Slot, container: &Container, attempt: u32) -> Launch {
        let image = container.image.as_deref().unwrap_or_default();
        let mut told = None;
        loop {
            self.pull(slot, image).await;
            match self.configure(container, attempt).await {
                Ok(Some(launch)) => return launch,
                Ok(None) => self.refuse(slot, image).await,
                Err(message) => {
                    if told.as_ref() != Some(&message) {
                        let reason = "CreateContainerConfigError";
                        self.report(|state| state.wait(slot, reason, Some(message.clone())))
                            .await;
                        told = Some(message);
                    }
                    sleep(PAUSE).await;
                }
            }
        }
    }

    async fn pull(&self, slot: Slot, image: &str) {
        let broken = self.node.faults.borrow().broken_images.contains(image);
        if broken {
            self.refuse_image(slot, image).await;
            self.node
                .until(|faults| !faults.broken_images.contains(image))
                .await;
        }
    }

    /// Reports an image whose program this machine lacks as not found, forever.
    async fn refuse(&self, slot: Slot, image: &str) {
        self.refuse_image(slot, image).await;
        std::future::pending::<()>().await;
    }

    async fn refuse_image(&self, slot: Slot, image: &str) {
        let refusal = kubelet_messages::no_image(image);
        self.report(|state| state.wait(slot, "ErrImagePull", Some(refusal.clone())))
            .await;
        sleep(FIRST_PAUSE).await;
        let refusal = kubelet_messages::no_image_again(image);
        self.report(|state| state.wait(slot, "ImagePullBackOff", Some(refusal.clone())))
            .await;
    }

    async fn configure(
        &self,
        container: &Container,
        attempt: u32,
    ) -> Result<Option<Launch>, String> {
        let objects = self.api.objects(container_references(container)).await;
        let surroundings = EnvResolver {
            pod: &self.pod,
            address: self.address,
            node: &self.node.name,
            objects: &objects,
        };
        let variables = surroundings.variables(container)?;
        let name = &container.name;
        self.files
            .make_container(name)
            .map_err(|error| error.to_string())?;
        let preparation = ContainerStart {
            container,
            pod: &self.pod.name_any(),
            address: self.address,
            settings: &self.node.settings,
            files: &self.files,
            variables: &variables,
            log: self.files.logs().join(format!("{name}.{attempt}.log")),
        };
        Ok(preparation.launch())
    }

    /// Changes the state and writes the status.
    async fn report(&self, change: impl FnOnce(&mut PodState)) {
        change(&mut self.state());
        self.node.wait_while_paused().await;
        let _writing = self.writing.lock().await;
        let status = self.state().status(Timestamp::now());
        self.api.report(&status).await;
    }

    /// Terminates the containers, kills the rest, and removes the pod.
    async fn end(self) {
        self.node.wait_while_paused().await;
        let grace = self
            .updates
            .borrow()
            .pod
            .metadata
            .deletion_grace_period_seconds;
        let grace = Duration::from_secs(grace.unwrap_or_default().try_into().unwrap_or_default());
        let running = self.running().clone();
        for (_, process) in &running {
            process.signal(Signal::TERM);
        }
        let ends = join_all(running.iter().map(|(_, process)| process.end()));
        tokio::select! {
            _ = timeout(grace, ends) => {}
            () = self.wait_until_gone() => {}
        }
        kill_all(self.files.folder());
        for (slot, process) in &running {
            process.signal(Signal::KILL);
            let code = process.end().await;
            self.record_end(*slot, code);
        }
        self.files.remove();
        if self.updates.borrow().gone {
            return;
        }
        self.report(|state| state.over = true).await;
        self.api.delete().await;
    }

    fn record_end(&self, slot: Slot, code: i32) {
        let container = match slot {
            Slot::Init(index) => self.spec.init_containers.iter().flatten().nth(index),
            Slot::Main(index) => self.spec.containers.get(index),
        };
        if let Some(container) = container {
            self.node.mark_ended(&self.key, &container.name);
        }
        self.state().end(slot, termination(code, None, false));
    }

    fn state(&self) -> MutexGuard<'_, PodState> {
        self.state.lock()
    }

    fn running(&self) -> MutexGuard<'_, Vec<(Slot, Process)>> {
        self.running.lock()
    }
}

fn termination(
    exit_code: i32,
    message: Option<String>,
    out_of_memory: bool,
) -> ContainerStateTerminated {
    let reason = match exit_code {
        _ if out_of_memory => "OOMKilled",
        0 => "Completed",
        _ => "Error",
    };
    ContainerStateTerminated {
        exit_code,
        reason: Some(reason.to_owned()),
        message,
        finished_at: Some(Time(Timestamp::now())),
        ..ContainerStateTerminated::default()
    }
}

/// With the termination log, or the end of the container's log if its policy says so.
fn termination_of(
    container: &Container,
    launch: &Launch,
    code: i32,
    out_of_memory: bool,
) -> ContainerStateTerminated {
    let read = |path: &Path| fs::read(path).unwrap_or_default();
    let own = kubelet_messages::termination_message(&read(&launch.termination_log));
    let policy = container.termination_message_policy.as_deref();
    let from_log = code != 0 && policy == Some("FallbackToLogsOnError");
    let message =
        own.or_else(|| from_log.then(|| kubelet_messages::log_tail(&read(&launch.log)))?);
    termination(code, message, out_of_memory)
}

fn cannot_run(launch: &Launch, error: &io::Error) -> ContainerStateTerminated {
    let message = kubelet_messages::cannot_run(&launch.program, error);
    ContainerStateTerminated {
        reason: Some("StartError".to_owned()),
        ..termination(128, Some(message), false)
    }
}

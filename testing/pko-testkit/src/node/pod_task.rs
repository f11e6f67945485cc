//! Runs one pod: schedules, mounts, initializes, runs and ends it.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStateTerminated, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
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
use super::references::{of_container, of_volumes};
use super::{address, kubelet_messages};

/// The first and the longest pause before a container is started again; a kubelet's are 10 s and
/// 5 min, and its messages say so.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What the watch says of a pod.
#[derive(Clone, Debug)]
pub(super) struct PodUpdate {
    pub(super) pod: Pod,
    /// Whether the object is there no more.
    pub(super) gone: bool,
}

/// One pod from its first appearance to its end.
pub(super) struct PodTask {
    node: Arc<NodeState>,
    api: PodApi,
    news: watch::Receiver<PodUpdate>,
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
    /// Begins it; gives nothing away to the API server yet.
    pub(super) fn new(
        node: Arc<NodeState>,
        client: kube::Client,
        news: watch::Receiver<PodUpdate>,
    ) -> io::Result<Self> {
        let pod = news.borrow().pod.clone();
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let key = format!("{namespace}/{name}");
        let folder = format!("{namespace}.{name}.{}", node.begin(&key));
        let files = Files::make(&node.folder, &folder)?;
        node.keep_logs(&key, files.logs().to_owned());
        let spec = pod.spec.clone().unwrap_or_default();
        Ok(Self {
            api: PodApi::new(client, namespace, name, pod.uid().unwrap_or_default()),
            node,
            news,
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

    pub(super) async fn live(self) {
        let is_ours = tokio::select! {
            biased;
            () = self.until_unwanted() => true,
            is_ours = self.run() => is_ours,
        };
        if is_ours {
            self.end().await;
        } else {
            self.files.remove();
        }
    }

    async fn until_unwanted(&self) {
        let unwanted =
            |news: &PodUpdate| news.gone || news.pod.metadata.deletion_timestamp.is_some();
        self.until_news(unwanted).await;
    }

    async fn until_gone(&self) {
        self.until_news(|news| news.gone).await;
    }

    async fn until_news(&self, condition: impl FnMut(&PodUpdate) -> bool) {
        if self.news.clone().wait_for(condition).await.is_err() {
            // The node ends, and this with it
            std::future::pending::<()>().await;
        }
    }

    /// Runs its containers for ever; gives `false` if it turns out to be another node's.
    async fn run(&self) -> bool {
        if !self.schedule().await {
            return false;
        }
        self.mount().await;
        self.tell(|state| state.address = Some(self.address)).await;
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
        self.node.awake().await;
        if self.node.faults.borrow().unschedulable {
            self.tell(|_| ()).await;
        }
        self.node.until(|it| !it.unschedulable && !it.stopped).await;
        let name = &self.node.name;
        if self.spec.node_name.as_ref() != Some(name) && !self.api.bind(name).await {
            return false;
        }
        self.tell(|state| state.scheduled = true).await;
        true
    }

    /// Until what the volumes need is there.
    async fn mount(&self) {
        loop {
            let objects = self.api.objects(of_volumes(&self.spec)).await;
            self.node.awake().await;
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
            self.tell(|state| state.end(slot, end.clone())).await;
            if done {
                return;
            }
            let uid = self.pod.uid().unwrap_or_default();
            let message = kubelet_messages::back_off(attempt, &container.name, &self.key, &uid);
            self.tell(|state| state.wait(slot, "CrashLoopBackOff", Some(message.clone())))
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
        self.node.awake().await;
        let process = match Process::start(&launch, self.node.group) {
            Ok(process) => process,
            Err(error) => return cannot_run(&launch, &error),
        };
        self.running().push((slot, process.clone()));
        self.node.runs(&self.key, &container.name, process.clone());
        self.tell(|state| state.run(slot, Timestamp::now())).await;
        let code = process.end().await;
        let out_of_memory = self.node.ended(&self.key, &container.name);
        self.running().retain(|(other, _)| *other != slot);
        // In a container all processes end with the first one
        kill_all(&self.files.container(&container.name));
        ended(container, &launch, code, out_of_memory)
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
                        self.tell(|state| state.wait(slot, reason, Some(message.clone())))
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

    /// What this machine can't run is an image that does not exist, for ever.
    async fn refuse(&self, slot: Slot, image: &str) {
        self.refuse_image(slot, image).await;
        std::future::pending::<()>().await;
    }

    async fn refuse_image(&self, slot: Slot, image: &str) {
        let refusal = kubelet_messages::no_image(image);
        self.tell(|state| state.wait(slot, "ErrImagePull", Some(refusal.clone())))
            .await;
        sleep(FIRST_PAUSE).await;
        let refusal = kubelet_messages::no_image_again(image);
        self.tell(|state| state.wait(slot, "ImagePullBackOff", Some(refusal.clone())))
            .await;
    }

    async fn configure(
        &self,
        container: &Container,
        attempt: u32,
    ) -> Result<Option<Launch>, String> {
        let objects = self.api.objects(of_container(container)).await;
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

    /// Changes the state and tells the API server of it.
    async fn tell(&self, change: impl FnOnce(&mut PodState)) {
        change(&mut self.state());
        self.node.awake().await;
        let _writing = self.writing.lock().await;
        let status = self.state().status(Timestamp::now());
        self.api.report(&status).await;
    }

    /// Asks the containers to end, ends them, and removes what is left.
    async fn end(self) {
        self.node.awake().await;
        let grace = self
            .news
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
            () = self.until_gone() => {}
        }
        kill_all(self.files.folder());
        for (slot, process) in &running {
            process.signal(Signal::KILL);
            let code = process.end().await;
            self.note_end(*slot, code);
        }
        self.files.remove();
        if self.news.borrow().gone {
            return;
        }
        self.tell(|state| state.over = true).await;
        self.api.delete().await;
    }

    fn note_end(&self, slot: Slot, code: i32) {
        let container = match slot {
            Slot::Init(index) => self.spec.init_containers.iter().flatten().nth(index),
            Slot::Main(index) => self.spec.containers.get(index),
        };
        if let Some(container) = container {
            self.node.ended(&self.key, &container.name);
        }
        self.state().end(slot, termination(code, None, false));
    }

    fn state(&self) -> MutexGuard<'_, PodState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> MutexGuard<'_, Vec<(Slot, Process)>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
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

/// With the container's own words, or the end of its log where it asks for that.
fn ended(
    container: &Container,
    launch: &Launch,
    code: i32,
    out_of_memory: bool,
) -> ContainerStateTerminated {
    let read = |path: &Path| fs::read(path).unwrap_or_default();
    let own = kubelet_messages::last_words(&read(&launch.termination_log));
    let policy = container.termination_message_policy.as_deref();
    let from_log = code != 0 && policy == Some("FallbackToLogsOnError");
    let message =
        own.or_else(|| from_log.then(|| kubelet_messages::end_of_log(&read(&launch.log)))?);
    termination(code, message, out_of_memory)
}

fn cannot_run(launch: &Launch, error: &io::Error) -> ContainerStateTerminated {
    let message = kubelet_messages::cannot_run(&launch.program, error);
    ContainerStateTerminated {
        reason: Some("StartError".to_owned()),
        ..termination(128, Some(message), false)
    }
}

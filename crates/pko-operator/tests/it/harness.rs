//! A manager with process workspaces on a control plane, and their certain end.
//!
//! Most tests share one control plane: each has a namespace of its own in it, and a manager that
//! watches nothing else. Tests of a manager of all namespaces have a control plane for themselves,
//! one after the other.

use std::{
    fs::{self, File},
    ops::{Deref, DerefMut},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use pko_api::Program;
use pko_testkit::{
    ControlPlane, FakeNode, FaultProxy, FolderGuard, ProgramBuilder, Script, StandIn,
    TestNamespace,
    audit::{AuditPosition, AuditedRequests},
    eventually, kill_processes_of, node, processes_of, run_in,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    control_planes::{self, PlaneUse},
    rbac::MANAGERS,
};

/// The namespace that a manager calls its own.
pub(crate) const OWN_NAMESPACE: &str = "default";

/// Every file of every test is below it. What runs there ends with this program, however that ends.
static FOLDER: LazyLock<FolderGuard> = LazyLock::new(|| {
    let folder = tempfile::Builder::new().prefix("pko-it-").tempdir();
    FolderGuard::new(&folder.unwrap().keep()).unwrap()
});

static USERS: AtomicUsize = AtomicUsize::new(0);

/// What a manager watches.
#[derive(Clone, Copy)]
pub(crate) enum Watched {
    /// So many namespaces, which exist when the manager starts.
    Namespaces(usize),
    /// All namespaces. Nothing else runs on the control plane meanwhile.
    Cluster,
}

/// A control plane with our CRDs, and a manager.
pub(crate) struct System {
    pub(crate) plane: Arc<ControlPlane>,
    /// What the manager is to the API server; no other test has it.
    user: String,
    /// Where the audit log was when this began.
    start: AuditPosition,
    manager: Option<Child>,
    folder: TempDir,
    environment: Vec<(String, String)>,
    /// The program of the agents.
    agent: PathBuf,
    /// Where every manager serves Programs: another place would be another source.
    programs: String,
    /// Where the first manager, and its successors, answer probes.
    health: String,
    /// The namespaces that the manager watches; all, if there are none.
    namespaces: Vec<String>,
    /// Those of them that the test has not taken yet.
    unused: Mutex<Vec<TestNamespace>>,
    /// Where pods run, if workspaces are pods.
    node: Option<FakeNode>,
    /// The way to the API server, if it is not the direct one.
    detour: Option<PathBuf>,
    /// Given back last.
    _use: PlaneUse,
}

/// One of several managers, which is killed when this is dropped.
pub(crate) struct ManagerProcess(Child);

impl Deref for ManagerProcess {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for ManagerProcess {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for ManagerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How a manager is started.
pub(crate) struct Launch<'launch> {
    pub(crate) kubeconfig: &'launch Path,
    /// Where its process workspaces are.
    pub(crate) workspaces: &'launch Path,
    /// Where it serves Programs.
    pub(crate) programs: &'launch str,
    /// Where it answers probes.
    pub(crate) health: &'launch str,
    pub(crate) flags: &'launch [&'launch str],
    pub(crate) log: &'launch Path,
}

impl System {
    /// Starts a manager of one namespace; the variables are its own and so those of its workspaces.
    pub(crate) async fn start(environment: &[(&str, &str)]) -> Self {
        Self::start_watching(Watched::Namespaces(1), environment).await
    }

    /// [`System::start`] for a manager of other namespaces than one.
    pub(crate) async fn start_watching(watched: Watched, environment: &[(&str, &str)]) -> Self {
        let mut system = Self::without_manager_watching(watched, environment).await;
        system.start_manager();
        system
    }

    /// Starts a manager of one namespace, with workspaces that are pods of a pretend node.
    pub(crate) async fn in_pods(environment: &[(&str, &str)]) -> Self {
        Self::in_pods_watching(Watched::Namespaces(1), environment).await
    }

    /// [`System::in_pods`] for a manager of other namespaces than one.
    pub(crate) async fn in_pods_watching(watched: Watched, environment: &[(&str, &str)]) -> Self {
        let mut system = Self::in_pods_without_manager(watched, environment).await;
        system.start_manager();
        system
    }

    /// Starts everything but the manager, whose workspaces will be pods.
    pub(crate) async fn in_pods_without_manager(
        watched: Watched,
        environment: &[(&str, &str)],
    ) -> Self {
        let mut system = Self::without_manager_watching(watched, environment).await;
        system.start_node();
        system
    }

    /// Starts a node for the pods of the one namespace, or of all.
    pub(crate) fn start_node(&mut self) {
        assert!(self.namespaces.len() <= 1, "a node has one namespace");
        let settings = node::NodeSettings {
            agent: program("agent"),
            environment: self.environment.clone(),
            namespace: self.namespaces.first().cloned(),
        };
        self.node = Some(FakeNode::start(&self.plane, settings).unwrap());
    }

    /// The node on which the pods run.
    pub(crate) fn node(&self) -> &FakeNode {
        self.node.as_ref().expect("workspaces are pods")
    }

    /// Adds a variable to those of the next manager.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    /// Has the next manager start this program as the agent of a process workspace.
    pub(crate) fn use_agent(&mut self, agent: PathBuf) {
        self.agent = agent;
    }

    /// The variables of the manager, and so of its workspaces.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        self.environment.clone()
    }

    /// Starts everything but the manager of one namespace.
    pub(crate) async fn without_manager(environment: &[(&str, &str)]) -> Self {
        Self::without_manager_watching(Watched::Namespaces(1), environment).await
    }

    /// Starts everything but the manager.
    pub(crate) async fn without_manager_watching(
        watched: Watched,
        environment: &[(&str, &str)],
    ) -> Self {
        let (plane, plane_use) = control_planes::plane(watched).await;
        Self::on(plane, plane_use, watched, environment).await
    }

    /// Starts everything but the manager, on a control plane that no other test will ever have.
    pub(crate) async fn on_new_plane(environment: &[(&str, &str)]) -> Self {
        let plane = control_planes::start().await;
        Self::on(plane, PlaneUse::Shared, Watched::Cluster, environment).await
    }

    async fn on(
        plane: Arc<ControlPlane>,
        plane_use: PlaneUse,
        watched: Watched,
        environment: &[(&str, &str)],
    ) -> Self {
        let mut unused = Vec::new();
        if let Watched::Namespaces(count) = watched {
            for _ in 0..count {
                unused.push(new_namespace(&plane).await);
            }
        }
        // Independent of the `pulumi` on this machine and of the one to test with
        let engine = program("pulumi-engine").display().to_string();
        let environment = [("PKO_PULUMI", engine.as_str())]
            .iter()
            .chain(environment)
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let folder = tempfile::Builder::new()
            .prefix("system-")
            .tempdir_in(FOLDER.folder())
            .unwrap();
        Self {
            user: format!("manager-{}", USERS.fetch_add(1, Ordering::Relaxed)),
            start: plane.audit_position().await.unwrap(),
            plane,
            manager: None,
            folder,
            environment,
            agent: program("agent"),
            programs: free_address(),
            health: free_address(),
            namespaces: unused.iter().map(|it| it.name().to_owned()).collect(),
            unused: Mutex::new(unused),
            node: None,
            detour: None,
            _use: plane_use,
        }
    }

    /// What the manager is to the API server.
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// All requests of the managers of this test.
    pub(crate) async fn requests(&self) -> AuditedRequests {
        self.requests_since(self.start).await
    }

    /// The requests of the managers of this test since a mark.
    pub(crate) async fn requests_since(&self, mark: AuditPosition) -> AuditedRequests {
        let requests = self.plane.requests_since(mark).await.unwrap();
        requests.by_user(&self.user)
    }

    /// A proxy that is to the API server what the manager is.
    pub(crate) fn proxy(&self) -> FaultProxy {
        FaultProxy::start(&self.plane, &self.user, &[MANAGERS]).unwrap()
    }

    /// A namespace that the manager watches.
    pub(crate) async fn namespace(&self) -> TestNamespace {
        if self.namespaces.is_empty() {
            return new_namespace(&self.plane).await;
        }
        let namespace = self.unused.lock().unwrap().pop();
        namespace.expect("the test asks for as many namespaces as it has in Watched::Namespaces")
    }

    /// Has the next manager watch a new namespace and nothing else.
    pub(crate) async fn move_to_new_namespace(&mut self) -> TestNamespace {
        let namespace = new_namespace(&self.plane).await;
        self.namespaces = vec![namespace.name().to_owned()];
        namespace
    }

    /// Starts a manager, the first or the next one.
    pub(crate) fn start_manager(&mut self) {
        let manager = self.spawn_manager(&self.workspaces(), [&self.programs, &self.health], &[]);
        self.manager = Some(manager);
    }

    /// Starts one of several managers, with workspaces of its own.
    pub(crate) fn start_another(&self, name: &str, flags: &[&str]) -> ManagerProcess {
        let workspaces = self.folder.path().join(name);
        ManagerProcess(self.spawn_manager(&workspaces, [&free_address(), &free_address()], flags))
    }

    fn spawn_manager(
        &self,
        workspaces: &Path,
        [programs, health]: [&str; 2],
        flags: &[&str],
    ) -> Child {
        let namespaces = self.namespaces.join(",");
        let mut all_flags = vec!["--namespaces", &namespaces];
        all_flags.extend(flags);
        self.launch(&Launch {
            kubeconfig: &self.kubeconfig(),
            workspaces,
            programs,
            health,
            flags: &all_flags,
            log: &self.log(),
        })
    }

    /// Starts a manager anywhere, of all namespaces unless the flags name some. It ends with the
    /// test if the test does not end it before.
    pub(crate) fn launch(&self, launch: &Launch<'_>) -> Child {
        let log = File::options()
            .create(true)
            .append(true)
            .open(launch.log)
            .unwrap();
        Command::new(env!("CARGO_BIN_EXE_manager"))
            .arg("--kubeconfig")
            .arg(launch.kubeconfig)
            .arg("--workspace-runtime")
            .arg(if self.node.is_some() {
                "pod"
            } else {
                "process"
            })
            .arg("--workspace-dir")
            .arg(launch.workspaces)
            .arg("--agent")
            .arg(&self.agent)
            .args(launch.flags)
            .args([
                "--program-fs-addr",
                launch.programs,
                "--health-probe-bind-address",
                launch.health,
            ])
            .env("POD_NAMESPACE", OWN_NAMESPACE)
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap()
    }

    /// A new folder below that of the system.
    pub(crate) fn subfolder(&self) -> PathBuf {
        let folder = tempfile::Builder::new()
            .prefix("try-")
            .tempdir_in(self.folder.path());
        folder.unwrap().keep()
    }

    fn kubeconfig(&self) -> PathBuf {
        let direct = || self.plane.kubeconfig_as(&self.user, &[MANAGERS]).unwrap();
        self.detour.clone().unwrap_or_else(direct)
    }

    /// Puts a proxy between the API server and all managers that start from now on.
    pub(crate) fn put_behind(&mut self, proxy: &FaultProxy) {
        self.detour = Some(proxy.kubeconfig().to_owned());
    }

    /// Where the manager answers probes.
    pub(crate) fn health_address(&self) -> &str {
        &self.health
    }

    /// The process of the manager.
    pub(crate) fn manager_process(&self) -> u32 {
        self.manager.as_ref().expect("a manager runs").id()
    }

    /// Kills the manager, as the kernel would.
    pub(crate) fn kill_manager(&mut self) {
        let mut manager = self.manager.take().expect("a manager runs");
        manager.kill().unwrap();
        manager.wait().unwrap();
    }

    /// Kills the manager, if one runs, and starts the next one.
    pub(crate) fn restart_manager(&mut self) {
        if self.manager.is_some() {
            self.kill_manager();
        }
        self.start_manager();
    }

    /// Waits until the manager takes care of what is new: it has started, and found what there was.
    pub(crate) async fn works(namespace: &TestNamespace, program: &str) {
        let object = ProgramBuilder::new(program)
            .resource("one", "pulumi:index:Stash", &json!({ "input": "v1" }))
            .output("size", 4)
            .build();
        namespace.create_object(object).await.unwrap();
        eventually("the Program to be served", async || {
            let program = namespace.api::<Program>().get(program).await.unwrap();
            let artifact = program.status.and_then(|status| status.artifact);
            artifact.map(drop).ok_or("not yet")
        })
        .await
        .unwrap();
    }

    /// A stand-in for `pulumi` that follows this script. The manager's variable `PKO_PULUMI` names
    /// its program, and [`folder_of`] is the variable `PKO_STAND_IN` of a workspace.
    pub(crate) fn stand_in(&self, script: &Script) -> StandIn {
        self.stand_in_at("stand-in", script)
    }

    /// One of several stand-ins, with a folder of its own.
    pub(crate) fn stand_in_at(&self, name: &str, script: &Script) -> StandIn {
        StandIn::new(self.folder.path().join(name), script)
    }

    /// What the managers have logged so far.
    pub(crate) fn manager_log(&self) -> String {
        fs::read_to_string(self.log()).unwrap()
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("manager.log")
    }

    /// Where the process workspaces are.
    pub(crate) fn workspaces(&self) -> PathBuf {
        self.folder.path().join("workspaces")
    }

    /// Where stacks keep their state.
    pub(crate) fn backend(&self) -> String {
        let state = self.folder.path().join("state");
        fs::create_dir_all(&state).unwrap();
        format!("file://{}", state.display())
    }

    /// The histories of a stack's updates, as its backend has them: one file for each that was
    /// executed.
    pub(crate) fn executed(&self, project: &str, stack: &str) -> usize {
        let folder = self
            .folder
            .path()
            .join("state/.pulumi/history")
            .join(project)
            .join(stack);
        let files = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .filter_map(Result::ok);
        files
            .filter(|file| {
                file.file_name()
                    .to_string_lossy()
                    .ends_with(".history.json")
            })
            .count()
    }

    /// The processes of the agents, with a record or without.
    pub(crate) fn agents(&self) -> Vec<u32> {
        let manager = self.manager.as_ref().map(Child::id);
        let processes = processes_of(&self.workspaces());
        processes
            .into_iter()
            .filter(|process| Some(*process) != manager)
            .collect()
    }

    /// Waits until no agent is left, and no file of a workspace.
    pub(crate) async fn no_workspace_is_left(&self) {
        let gone = eventually("the workspaces to be gone", async || {
            let files: Vec<PathBuf> = children(&self.workspaces())
                .into_iter()
                .filter(|folder| {
                    !folder
                        .file_name()
                        .unwrap()
                        .to_string_lossy()
                        .starts_with('.')
                })
                .collect();
            let agents = self.agents();
            if agents.is_empty() && files.is_empty() {
                Ok(())
            } else {
                Err(format!("{agents:?} {files:?}"))
            }
        });
        gone.await.unwrap();
    }
}

impl Drop for System {
    fn drop(&mut self) {
        if let Some(mut manager) = self.manager.take() {
            let _ = manager.kill();
            let _ = manager.wait();
        }
        kill_processes_of(self.folder.path());
        if std::thread::panicking() {
            let log = fs::read_to_string(self.log()).unwrap_or_default();
            eprintln_lines("manager", &log);
            for namespace in children(&self.workspaces()) {
                for workspace in children(&namespace) {
                    eprintln_lines(
                        "agent",
                        &fs::read_to_string(workspace.join("agent.log")).unwrap_or_default(),
                    );
                }
            }
        }
    }
}

/// Runs a test in a namespace that the manager watches; see [`run_in`].
pub(crate) async fn with_namespace(system: &System, test: impl AsyncFnOnce(&TestNamespace)) {
    run_in(system.namespace().await, test).await;
}

/// A namespace that stays until its control plane ends.
async fn new_namespace(plane: &ControlPlane) -> TestNamespace {
    let namespace = TestNamespace::create(plane).await.unwrap();
    namespace.keep();
    namespace
}

#[expect(clippy::print_stderr, reason = "what a failing test has to say")]
pub(crate) fn eprintln_lines(who: &str, log: &str) {
    for line in log.lines() {
        eprintln!("{who}: {line}");
    }
}

/// The stand-in's folder, for the `envRefs` of a Stack.
pub(crate) fn folder_of(stand_in: &StandIn) -> Value {
    json!({ "type": "Literal", "literal": { "value": stand_in.folder() } })
}

/// A program of ours: in `$PKO_BIN_DIR`, or where cargo puts them.
pub(crate) fn program(name: &str) -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_manager")).with_file_name(name);
    let path =
        std::env::var_os("PKO_BIN_DIR").map_or(built, |folder| PathBuf::from(folder).join(name));
    assert!(
        path.is_file(),
        "{} is not there: `cargo xtask test` builds it",
        path.display()
    );
    path
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect()
}

/// An address without a listener, which stays free: a port of 127.0.0.1 may become that of any
/// connection as soon as it has no listener.
pub(crate) fn free_address() -> String {
    format!("{}:8080", node::free_address().unwrap())
}

//! A control plane, a manager with process workspaces, and their certain end.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use pko_api::Program;
use pko_testkit::{
    ControlPlane, FaultProxy, Node, ProgramBuilder, Script, StandIn, TestNamespace,
    end_processes_of, eventually, node, processes_of,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::rights::grant;

/// The user that a manager is to the API server.
pub(crate) const MANAGER: &str = "manager";
/// The namespace that a manager calls its own.
pub(crate) const OWN_NAMESPACE: &str = "default";

/// A control plane with our CRDs, and a manager.
pub(crate) struct System {
    pub(crate) plane: ControlPlane,
    manager: Option<Child>,
    folder: TempDir,
    environment: Vec<(String, String)>,
    /// Where every manager serves Programs: another place would be another source.
    programs: String,
    /// Where pods run, if workspaces are pods.
    node: Option<Node>,
    /// The way to the API server, if it is not the direct one.
    detour: Option<PathBuf>,
}

/// How a manager is started.
pub(crate) struct Launch<'launch> {
    pub(crate) kubeconfig: &'launch Path,
    /// Where its process workspaces are.
    pub(crate) workspaces: &'launch Path,
    /// Where it serves Programs.
    pub(crate) programs: &'launch str,
    pub(crate) flags: &'launch [&'launch str],
    pub(crate) log: &'launch Path,
}

impl System {
    /// Starts everything; the variables are those of the manager and so of its workspaces.
    pub(crate) async fn start(environment: &[(&str, &str)]) -> Self {
        let mut system = Self::without_manager(environment).await;
        system.start_manager();
        system
    }

    /// Starts everything, with workspaces that are pods of a pretend node.
    pub(crate) async fn in_pods(environment: &[(&str, &str)]) -> Self {
        let mut system = Self::in_pods_without_manager(environment).await;
        system.start_manager();
        system
    }

    /// Starts everything but the manager, whose workspaces will be pods.
    pub(crate) async fn in_pods_without_manager(environment: &[(&str, &str)]) -> Self {
        let mut system = Self::without_manager(environment).await;
        let settings = node::Settings {
            agent: program("agent"),
            environment: system.environment.clone(),
            namespace: None,
        };
        system.node = Some(Node::start(&system.plane, settings).unwrap());
        system
    }

    /// The node on which the pods run.
    pub(crate) fn node(&self) -> &Node {
        self.node.as_ref().expect("workspaces are pods")
    }

    /// Adds a variable to those of the next manager.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    /// The variables of the manager, and so of its workspaces.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        self.environment.clone()
    }

    /// Starts everything but the manager.
    pub(crate) async fn without_manager(environment: &[(&str, &str)]) -> Self {
        let plane = ControlPlane::builder()
            .controller_manager(true)
            .start()
            .await
            .unwrap();
        plane.install_crds(&pko_api::crd::all()).await.unwrap();
        grant(&plane).await;
        let environment = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let folder = tempfile::Builder::new()
            .prefix("pko-it-")
            .tempdir()
            .unwrap();
        Self {
            plane,
            manager: None,
            folder,
            environment,
            programs: free_address(),
            node: None,
            detour: None,
        }
    }

    /// Starts a manager, the first or the next one.
    pub(crate) fn start_manager(&mut self) {
        let manager = self.spawn_manager(&self.workspaces(), &self.programs, &[]);
        self.manager = Some(manager);
    }

    /// Starts one of several managers, with workspaces of its own, which it has to be asked for.
    pub(crate) fn start_another(&self, name: &str, flags: &[&str]) -> Child {
        let workspaces = self.folder.path().join(name);
        self.spawn_manager(&workspaces, &free_address(), flags)
    }

    fn spawn_manager(&self, workspaces: &Path, programs: &str, flags: &[&str]) -> Child {
        self.launch(&Launch {
            kubeconfig: &self.kubeconfig(),
            workspaces,
            programs,
            flags,
            log: &self.log(),
        })
    }

    /// Starts a manager anywhere; who asked for it has to end it.
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
            .arg(program("agent"))
            .args(launch.flags)
            .args([
                "--program-fs-addr",
                launch.programs,
                "--health-probe-bind-address",
                &free_address(),
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
        let direct = || self.plane.kubeconfig_as(MANAGER, &[]).unwrap();
        self.detour.clone().unwrap_or_else(direct)
    }

    /// Puts a proxy between the API server and all managers that start from now on.
    pub(crate) fn put_behind(&mut self, proxy: &FaultProxy) {
        self.detour = Some(proxy.kubeconfig().to_owned());
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

    /// A stand-in for `pulumi` that follows this script. The manager's variable `PKO_PULUMI` names its program, and
    /// [`folder_of`] is the variable `PKO_STAND_IN` of a workspace.
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

    /// The histories of a stack's updates, as its backend has them: one file for each that was executed.
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
        end_processes_of(&self.workspaces(), Duration::from_secs(1));
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

/// An address where nobody listens, and nobody else will: a port of 127.0.0.1 may become that of any connection as soon
/// as nobody listens.
pub(crate) fn free_address() -> String {
    format!("{}:8080", node::free_address().unwrap())
}

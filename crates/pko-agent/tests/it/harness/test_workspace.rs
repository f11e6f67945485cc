//! A temporary workspace with its CLI and environment.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
};

use pko_testkit::{Reply, Script, StandIn};
use serde_json::Value;

use super::{Agent, CliKind};

/// For workspaces whose program does not matter.
const PROGRAM: &str = "name: demo\nruntime: yaml\n";

/// The user that runs the tests.
static USER: LazyLock<String> = LazyLock::new(|| {
    let output = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
});

const INIT: [&str; 3] = ["stack", "init", "dev"];

/// The files of a new stack `dev` of the project `simple`, as each CLI writes them. They are
/// created once, because deriving a key from a passphrase is expensive by design.
static ENGINE_STACK: LazyLock<Vec<(PathBuf, Vec<u8>)>> =
    LazyLock::new(|| new_stack(CliKind::Engine));
static REAL_STACK: LazyLock<Vec<(PathBuf, Vec<u8>)>> = LazyLock::new(|| new_stack(CliKind::Real));

fn new_stack(cli: CliKind) -> Vec<(PathBuf, Vec<u8>)> {
    let place = TestWorkspace::with(cli, "name: simple\nruntime: yaml\n");
    place.run(&INIT);
    let file = place.workspace().join("Pulumi.dev.yaml");
    let mut files = vec![(
        PathBuf::from("workspace/Pulumi.dev.yaml"),
        fs::read(file).unwrap(),
    )];
    let mut folders = vec![PathBuf::from("state")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(place.folder.path().join(&folder)).unwrap() {
            let name = folder.join(entry.unwrap().file_name());
            let path = place.folder.path().join(&name);
            if path.is_dir() {
                folders.push(name);
            } else {
                files.push((name, fs::read(path).unwrap()));
            }
        }
    }
    files
}

/// In memory if possible: the agent syncs to disk a dozen times in each run.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

/// Removed when dropped.
pub(crate) struct TestWorkspace {
    folder: tempfile::TempDir,
    pub(super) pulumi: PathBuf,
    pub(super) variables: Vec<(String, String)>,
    pub(crate) stand_in: StandIn,
}

impl TestWorkspace {
    /// With the stand-in, which runs this script at each operation.
    pub(crate) fn new(operation: &Reply) -> Self {
        Self::scripted(&Self::script(operation))
    }

    /// The same script for all operations.
    pub(crate) fn script(operation: &Reply) -> Script {
        ["up", "preview", "refresh", "destroy"]
            .into_iter()
            .fold(Script::new(), |script, command| {
                script.on(command, operation.clone())
            })
    }

    /// With the stand-in and a script.
    pub(crate) fn scripted(script: &Script) -> Self {
        let place = Self::with(CliKind::StandIn, PROGRAM);
        place.stand_in.set_script(script);
        place
    }

    /// With any CLI and a program.
    pub(crate) fn with(cli: CliKind, program: &str) -> Self {
        let folder = folder();
        let stand_in = StandIn::new(folder.path().join("stand-in"), &Script::new());
        let place = Self {
            folder,
            pulumi: cli.program(),
            variables: Vec::new(),
            stand_in,
        };
        for name in ["workspace", "state", "home", "tmp"] {
            fs::create_dir(place.path(name)).unwrap();
        }
        place.write("Pulumi.yaml", program);
        let backend = format!("file://{}", place.path("state").display());
        place
            .variable("USER", &USER)
            .variable("PULUMI_BACKEND_URL", &backend)
            .variable("PULUMI_CONFIG_PASSPHRASE", "correct-horse")
    }

    /// As [`Self::with`], with an existing stack `dev`. The project's name must be `simple`.
    pub(crate) fn with_stack(cli: CliKind, program: &str) -> Self {
        let place = Self::with(cli, program);
        match cli {
            CliKind::StandIn => drop(place.run(&INIT)),
            CliKind::Engine => place.unpack(&ENGINE_STACK),
            CliKind::Real => place.unpack(&REAL_STACK),
        }
        place
    }

    /// Writes files by their relative names.
    fn unpack(&self, files: &[(PathBuf, Vec<u8>)]) {
        for (name, content) in files {
            let file = self.folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
        }
    }

    /// Sets a variable for the agent.
    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Removes a variable.
    pub(crate) fn without_variable(mut self, name: &str) -> Self {
        self.variables.retain(|(other, _)| other != name);
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.path("workspace")
    }

    /// Writes a file into the workspace.
    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.workspace().join(name), text).unwrap();
    }

    /// Releases a script that waits for `gate`.
    pub(crate) fn open_gate(&self) {
        self.stand_in.create("gate");
    }

    /// The first two words of each command, without the initial `version`.
    pub(crate) fn calls(&self) -> Vec<String> {
        let calls = self.stand_in.calls();
        calls
            .iter()
            .map(pko_testkit::stand_in::Call::short)
            .filter(|call| call != "version")
            .collect()
    }

    /// All commands, one per line.
    pub(crate) fn lines(&self) -> String {
        let calls = self.stand_in.calls();
        calls.iter().map(|call| call.line() + "\n").collect()
    }

    pub(crate) fn count(&self, call: &str) -> usize {
        self.stand_in.count(call)
    }

    /// Runs the CLI like the agent, and returns its JSON output.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Value {
        let printed = self.run(arguments);
        let answer = serde_json::from_str(&printed);
        answer.unwrap_or_else(|error| panic!("{error}: {printed}"))
    }

    /// Runs the CLI like a user, and returns its output.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(&self.pulumi);
        command.arg("--non-interactive").args(arguments);
        self.apply_environment(&mut command);
        let output = command.output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {complaint}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The selected stack by the CLI.
    pub(crate) fn selected(&self) -> Option<String> {
        let listed = self.ask(&["stack", "ls", "--json"]);
        let stacks = listed.as_array().unwrap();
        let current = stacks.iter().find(|stack| stack["current"] == true);
        current.map(|stack| stack["name"].as_str().unwrap().to_owned())
    }

    /// A stack's configuration with its secrets, by the CLI.
    pub(crate) fn configuration(&self, stack: &str) -> Value {
        self.ask(&["config", "--json", "--show-secrets", "--stack", stack])
    }

    pub(crate) async fn serve(&self, flags: &[&str]) -> Agent {
        Agent::start(self, flags).await
    }

    /// As [`Agent::start_as_init`].
    pub(crate) async fn serve_first(&self, flags: &[&str]) -> Option<Agent> {
        Agent::start_as_init(self, flags).await
    }

    /// Sets the environment of a process.
    ///
    /// Without garbage collection, which does not pay off in short-lived processes, a CLI takes a
    /// fifth less time.
    pub(super) fn apply_environment(&self, command: &mut Command) {
        command
            .current_dir(self.workspace())
            .env("PKO_PULUMI", &self.pulumi)
            .env("PKO_STAND_IN", self.stand_in.folder())
            .env("PULUMI_HOME", self.path("home"))
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .env("GOGC", "off")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
    }
}

impl Drop for TestWorkspace {
    /// Stops the CLI of a failed test, which its agent would have stopped.
    fn drop(&mut self) {
        if std::thread::panicking() {
            pko_testkit::kill_processes_of(self.folder.path());
        }
    }
}

/// The content of all files in a folder.
pub(crate) fn all_text(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text.push_str(&all_text(&path));
        } else if let Ok(bytes) = fs::read(&path) {
            text.push_str(&String::from_utf8_lossy(&bytes));
        }
    }
    text
}

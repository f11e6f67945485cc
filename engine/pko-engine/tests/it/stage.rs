//! A project folder and a state backend, thrown away afterwards.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    num::NonZero,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        LazyLock, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::Value;

pub(crate) const ENGINE: &str = env!("CARGO_BIN_EXE_pulumi-engine");

/// Pulumi's own CLI.
pub(crate) fn real_cli() -> &'static str {
    static CLI: LazyLock<String> = LazyLock::new(|| {
        let path = pko_testkit::pulumi_cli().unwrap();
        path.into_os_string().into_string().unwrap()
    });
    &CLI
}

pub(crate) struct Stage {
    directory: tempfile::TempDir,
    cli: String,
}

/// What a command line gave.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Stage {
    pub(crate) fn new(program: &str) -> Self {
        let stage = Self::empty();
        stage.write("Pulumi.yaml", program);
        stage
    }

    pub(crate) fn empty() -> Self {
        Self::with(ENGINE)
    }

    /// An empty stage for another command line.
    pub(crate) fn with(cli: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["project", "state", "home"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        let cli = cli.to_owned();
        Self { directory, cli }
    }

    /// The same stage for another command line from now on.
    pub(crate) fn hand_to(&mut self, cli: &str) {
        cli.clone_into(&mut self.cli);
    }

    /// The outputs of a stack in clear, and as they are shown.
    pub(crate) fn outputs(&self, stack: &str) -> (Value, Value) {
        let shown = ["stack", "output", "--json", "--stack", stack];
        let (clear, shown) = (
            [&shown[..], &["--show-secrets"]].concat(),
            self.json(&shown),
        );
        if shown.to_string().contains("[secret]") {
            (self.json(&clear), shown)
        } else {
            (shown.clone(), shown)
        }
    }

    /// The command line that it is for.
    pub(crate) fn cli(&self) -> &str {
        &self.cli
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path("project").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path("project").join(name)).unwrap()
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.cli);
        command
            .arg("--non-interactive")
            .args(words)
            .current_dir(self.path("project"))
            .env_clear()
            .env("HOME", self.path("home"))
            .env("PULUMI_HOME", self.path("home"))
            .env(
                "PULUMI_BACKEND_URL",
                format!("file://{}", self.path("state").display()),
            )
            .env("PULUMI_CONFIG_PASSPHRASE", "correct-horse")
            .env("PULUMI_DEBUG_COMMANDS", "true")
            .env("PULUMI_SKIP_UPDATE_CHECK", "true")
            // Pulumi's CLI ends before its garbage matters
            .env("GOGC", "off")
            .env("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION", "true")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Creates a stack of project `demo` if it is not there.
    ///
    /// The first stack is a copy of one that the same CLI created in another stage, because
    /// deriving the key from the passphrase makes `stack init` expensive.
    pub(crate) fn ensure_stack(&self, stack: &str) {
        let created = self.path("state/.pulumi").exists();
        if !created && stack == "dev" {
            self.copy_new_stack();
        } else if !self.state_file(stack).exists() {
            self.ok(&["stack", "init", stack]);
        }
    }

    fn copy_new_stack(&self) {
        static NEW: Mutex<BTreeMap<String, Vec<Vec<u8>>>> = Mutex::new(BTreeMap::new());
        const FILES: [&str; 3] = [
            "project/Pulumi.dev.yaml",
            "state/.pulumi/meta.yaml",
            "state/.pulumi/stacks/demo/dev.json",
        ];
        let mut new = NEW.lock().unwrap();
        let contents = new.entry(self.cli.clone()).or_insert_with(|| {
            let stage = Self::with(&self.cli);
            stage.write("Pulumi.yaml", "name: demo\nruntime: yaml\n");
            stage.ok(&["stack", "init", "dev"]);
            let content = |file| fs::read(stage.path(file)).unwrap();
            FILES.map(content).to_vec()
        });
        for (file, content) in FILES.iter().zip(contents) {
            fs::create_dir_all(self.path(file).parent().unwrap()).unwrap();
            fs::write(self.path(file), content).unwrap();
        }
    }

    /// Where the file backend keeps the state of a stack of project `demo`.
    pub(crate) fn state_file(&self, stack: &str) -> PathBuf {
        self.path(&format!("state/.pulumi/stacks/demo/{stack}.json"))
    }

    /// What the state of a stack holds, as it is stored: `stack export` gives the same.
    pub(crate) fn deployment(&self, stack: &str) -> Value {
        let content = fs::read(self.state_file(stack)).unwrap();
        let mut document: Value = serde_json::from_slice(&content).unwrap();
        document["checkpoint"]["latest"].take()
    }

    pub(crate) fn run(&self, words: &[&str]) -> Done {
        finish(self.command(words))
    }

    pub(crate) fn run_with_input(&self, words: &[&str], input: &str) -> Done {
        let mut child = self.command(words).stdin(Stdio::piped()).spawn().unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        Done::from(child.wait_with_output().unwrap())
    }

    /// Runs what must succeed.
    pub(crate) fn ok(&self, words: &[&str]) -> Done {
        let done = self.run(words);
        assert_eq!(done.code, Some(0), "{words:?}: {done:?}");
        done
    }

    pub(crate) fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.ok(words).stdout).unwrap()
    }

    /// An up whose events are kept; with `--diff`, as the agent has it, errors are on standard
    /// error.
    pub(crate) fn up(&self) -> Done {
        let log = self.path("events.jsonl");
        self.run(&[
            "up",
            "--yes",
            "--skip-preview",
            "--diff",
            "--stack",
            "dev",
            "--event-log",
            log.to_str().unwrap(),
        ])
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path("events.jsonl")).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Everything below the state and project folders, as one text.
    pub(crate) fn everything(&self) -> String {
        fn collect(directory: &Path, text: &mut String) {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    collect(&path, text);
                } else {
                    text.push_str(&String::from_utf8_lossy(&fs::read(&path).unwrap()));
                }
            }
        }
        let mut text = String::new();
        collect(self.directory.path(), &mut text);
        text
    }
}

pub(crate) fn finish(mut command: Command) -> Done {
    Done::from(command.output().unwrap())
}

impl From<std::process::Output> for Done {
    fn from(output: std::process::Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Judges many cases, a few at a time; panics with all problems of all of them.
pub(crate) fn judge_all(folders: &[PathBuf], judge: impl Fn(&Path) -> Vec<String> + Sync) {
    let cores = std::thread::available_parallelism().map_or(2, NonZero::get);
    let next = AtomicUsize::new(0);
    let take = || folders.get(next.fetch_add(1, Ordering::Relaxed));
    let work = || -> Vec<String> {
        let taken = std::iter::from_fn(take);
        taken.flat_map(|folder| judge(folder)).collect()
    };
    let problems: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..=cores).map(|_| scope.spawn(work)).collect();
        let all = workers.into_iter().map(|worker| worker.join().unwrap());
        all.flatten().collect()
    });
    let count = problems.len();
    assert!(count == 0, "{count} problems:\n{}", problems.join("\n"));
}

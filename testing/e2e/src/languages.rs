//! Programs in Go, Python and TypeScript, which Pulumi's own CLI runs with a language host.
//!
//! Toolchains are this machine's, mounted as volumes. Pods reach no registry, so packages are
//! fetched beforehand and mounted too.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use kube::api::DeleteParams;
use pko_testkit::{git_server::TestFile, pulumi_cli, skip};
use serde_json::{Value, json};

use crate::{
    cli::Cli,
    git_host::GitHost,
    operator_cluster::workspace_image,
    stacks::{STACK, stack, workspace},
    test_env::{CREDENTIALS, TestEnv, run_concurrently},
};

/// The name of all three projects.
const PROJECT: &str = "languages";
/// Mount paths of Pulumi's CLI, its language hosts, the packages, and this machine's libraries.
const CLI: &str = "/pulumi";
const HOSTS: &str = "/hosts";
const PACKAGES: &str = "/packages";
const SYSTEM: &str = "/usr";
/// A compiler that begins with nothing takes minutes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(15);

struct Language {
    /// The folder of its program.
    name: &'static str,
    host: &'static str,
    /// The command that prints the toolchain's folder, which has a `bin`.
    toolchain: &'static [&'static str],
    /// Fetches packages in a copy of the program's folder.
    fetch: &'static [&'static str],
    /// The variable with the folder for fetched packages.
    fetched: &'static str,
    /// Variables that make an install step use them.
    found: &'static [(&'static str, &'static str)],
}

const GO: Language = Language {
    name: "go",
    host: "pulumi-language-go",
    toolchain: &["go", "env", "GOROOT"],
    // As the install step does; it requires more than a build
    fetch: &["go", "mod", "tidy"],
    fetched: "GOMODCACHE",
    found: &[
        ("GOPROXY", "file:///packages/cache/download"),
        ("GOSUMDB", "off"),
        ("GOTOOLCHAIN", "local"),
    ],
};
const PYTHON: Language = Language {
    name: "python",
    host: "pulumi-language-python",
    toolchain: &["python3", "-c", "import sys; print(sys.base_prefix)"],
    // The install step renews the first three in an environment of its own
    fetch: &[
        "python3",
        "-m",
        "pip",
        "wheel",
        "pip",
        "setuptools",
        "wheel",
        "-r",
        "requirements.txt",
    ],
    fetched: "PIP_WHEEL_DIR",
    found: &[("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", PACKAGES)],
};
const TYPESCRIPT: Language = Language {
    name: "typescript",
    host: "pulumi-language-nodejs",
    toolchain: &[
        "node",
        "-p",
        "require('path').resolve(process.execPath, '../..')",
    ],
    fetch: &["npm", "install", "--no-audit", "--no-fund"],
    fetched: "npm_config_cache",
    found: &[
        ("npm_config_cache", PACKAGES),
        ("npm_config_offline", "true"),
    ],
};

#[tokio::test]
async fn go_program_is_installed_applied_and_destroyed() {
    GO.test_lifecycle().await;
}

#[tokio::test]
async fn python_program_is_installed_applied_and_destroyed() {
    PYTHON.test_lifecycle().await;
}

#[tokio::test]
async fn typescript_program_is_installed_applied_and_destroyed() {
    TYPESCRIPT.test_lifecycle().await;
}

impl Language {
    /// Tests the lifecycle of a Stack, if this language is available.
    async fn test_lifecycle(&self) {
        match self.toolchain() {
            Ok(toolchain) => {
                let test = run_concurrently(async |env| self.run_lifecycle(env, &toolchain).await);
                Cli::Pulumi.run(test).await;
            }
            Err(obstacle) => skip(obstacle),
        }
    }

    async fn run_lifecycle(&self, env: &TestEnv<'_>, toolchain: &Toolchain) {
        let git_host = GitHost::start(env.operator, &self.program(), "");
        env.create(git_host.secret("git", "")).await;
        let (secret, key) = CREDENTIALS;
        let password = json!({ "type": "Secret", "secret": { "name": secret, "key": key } });
        let spec = toolchain.workspace(env, self.found).await;
        let stack = stack("demo")
            .set("/spec/workspaceTemplate/spec", spec)
            .git(&git_host.url(), "main")
            .set("/spec/gitAuthSecret", "git")
            .config("name", "you")
            .set("/spec/secretsRef/password", password)
            .destroy_on_finalize(true);
        env.create(stack.build()).await;
        let stack = env.wait_for_ready_within("demo", PATIENCE).await;
        let outputs = stack.status.unwrap().outputs.unwrap();
        assert_eq!(outputs["greeting"], "hello, you");
        assert_eq!(outputs["password"], "[secret]");
        assert!(env.has_resources(PROJECT), "{STACK} keeps its resource");
        env.delete("demo", &DeleteParams::default()).await;
        assert!(!env.has_resources(PROJECT), "{STACK} was destroyed");
    }

    fn folder(&self) -> PathBuf {
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
        programs.join(self.name)
    }

    fn program(&self) -> Vec<TestFile> {
        let files = fs::read_dir(self.folder()).unwrap();
        let file = |file: fs::DirEntry| {
            let name = file.file_name().into_string().unwrap();
            TestFile::plain(&name, fs::read(file.path()).unwrap())
        };
        files.map(|found| file(found.unwrap())).collect()
    }

    /// The toolchain for pods, or what is missing on this machine.
    fn toolchain(&self) -> Result<Toolchain, String> {
        let hosts = env::var_os("PKO_PULUMI_HOSTS").map(PathBuf::from);
        let hosts = hosts.filter(|hosts| hosts.join(self.host).is_file());
        let hosts = hosts.ok_or(format!(
            "PKO_PULUMI_HOSTS names no folder with {}",
            self.host
        ))?;
        let pulumi = pulumi_cli().map_err(|error| error.to_string())?;
        let toolchain = run_and_capture(self.toolchain)?;
        Ok(Toolchain {
            cli: pulumi.parent().unwrap_or(Path::new("/")).to_owned(),
            hosts,
            root: toolchain.trim().into(),
            packages: self.packages(),
        })
    }

    /// A folder of this machine with all packages of the program.
    fn packages(&self) -> PathBuf {
        let images = env::var_os("PKO_IMAGES").unwrap_or_default();
        let folder = Path::new(&images).with_file_name("e2e-packages");
        let (copy, packages) = (folder.join("programs"), folder.join(self.name));
        let copy = copy.join(self.name);
        fs::create_dir_all(&copy).unwrap();
        fs::create_dir_all(&packages).unwrap();
        for file in self.program() {
            fs::write(copy.join(file.path), file.content).unwrap();
        }
        let (program, arguments) = self.fetch.split_first().unwrap();
        let fetched = Command::new(program)
            .args(arguments)
            .env(self.fetched, &packages)
            .current_dir(&copy)
            .output()
            .unwrap();
        assert!(
            fetched.status.success(),
            "{:?}: {}",
            self.fetch,
            String::from_utf8_lossy(&fetched.stderr)
        );
        // Readable for the workspace's user; npm also writes to its cache
        let opened = Command::new("chmod")
            .args(["-R", "a+rwX"])
            .arg(&packages)
            .status();
        assert!(opened.unwrap().success(), "{}", packages.display());
        packages
    }
}

fn run_and_capture(command: &[&str]) -> Result<String, String> {
    let (program, arguments) = command.split_first().ok_or("no command")?;
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("{program} can't be run: {error}"))?;
    if !output.status.success() {
        return Err(format!("{program} fails"));
    }
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}

/// Folders of this machine that a pod gets.
struct Toolchain {
    cli: PathBuf,
    hosts: PathBuf,
    root: PathBuf,
    packages: PathBuf,
}

impl Toolchain {
    /// The spec of a workspace that has them, and these variables.
    async fn workspace(&self, env: &TestEnv<'_>, variables: &[(&str, &str)]) -> Value {
        let toolchain = self.root.to_str().unwrap();
        let path = format!("{CLI}:{HOSTS}:{toolchain}/bin:/usr/local/bin:/usr/bin:/bin");
        let variables = [&[("PATH", path.as_str())], variables].concat();
        let variable = |(name, value): &(&str, &str)| json!({ "name": name, "value": value });
        let mut spec = workspace(workspace_image());
        spec["env"] = variables.iter().map(variable).collect();
        for (claim, folder, inside) in [
            ("cli", self.cli.as_path(), CLI),
            ("hosts", &self.hosts, HOSTS),
            ("packages", &self.packages, PACKAGES),
            ("system", Path::new(SYSTEM), SYSTEM),
            ("toolchain", &self.root, toolchain),
        ] {
            // A toolchain below /usr is mounted with it
            if claim != "toolchain" || !folder.starts_with(SYSTEM) {
                env.claim(claim, folder).await;
                mount(&mut spec["podTemplate"]["spec"], claim, inside);
            }
        }
        spec
    }
}

/// Mounts a claim's volume in the first container of a pod.
fn mount(pod: &mut Value, claim: &str, inside: &str) {
    let volume = json!({ "name": claim, "persistentVolumeClaim": { "claimName": claim } });
    let mount = json!({ "name": claim, "mountPath": inside });
    let volumes = pod["volumes"].as_array_mut().unwrap();
    volumes.push(volume);
    let mounts = pod["containers"][0]["volumeMounts"].as_array_mut();
    mounts.unwrap().push(mount);
}

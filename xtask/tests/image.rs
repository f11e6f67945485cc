//! Runs the programs of the images from `cargo xtask image` in a chroot, which requires root.
//! `PKO_IMAGES` is the folder of the images.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test says why it is skipped, and fails by panicking"
)]

use std::{
    fs::{self, File},
    io::{Read, Write as _},
    net::{TcpListener, UdpSocket},
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
};

use flate2::read::GzDecoder;
use pko_testkit::skip;
use serde_json::Value;

fn output_text(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned()
}

/// The images for this machine. Without them, or without root, the test is skipped.
fn images() -> Option<PathBuf> {
    if !rustix::process::geteuid().is_root() {
        skip("only root can run a program in another root folder");
        return None;
    }
    let folder = std::env::var_os("PKO_IMAGES");
    if folder.is_none() {
        skip("PKO_IMAGES names no folder of images: run `cargo xtask test e2e`");
    }
    folder.map(PathBuf::from)
}

/// The root file system of an image.
struct Root {
    folder: tempfile::TempDir,
    config: Value,
}

impl Root {
    /// Unpacks the layers of an image, as a container runtime does.
    fn of(images: &Path, kind: &str) -> Self {
        let architecture = match std::env::consts::ARCH {
            "aarch64" => "arm64",
            _ => "amd64",
        };
        let layout = images.join(format!("{kind}-{architecture}"));
        let json = |path: PathBuf| -> Value {
            serde_json::from_reader(File::open(path).unwrap()).unwrap()
        };
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().unwrap();
            layout.join("blobs").join(digest.replace(':', "/"))
        };
        let manifest = json(blob(&json(layout.join("index.json"))["manifests"][0]));
        let folder = tempfile::tempdir().unwrap();
        for layer in manifest["layers"].as_array().unwrap() {
            let file = File::open(blob(layer)).unwrap();
            let is_compressed = layer["mediaType"].as_str().unwrap().ends_with("gzip");
            let content: Box<dyn Read> = if is_compressed {
                Box::new(GzDecoder::new(file))
            } else {
                Box::new(file)
            };
            let mut archive = tar::Archive::new(content);
            archive.set_preserve_permissions(true);
            archive.set_preserve_ownerships(true);
            archive.unpack(folder.path()).unwrap();
        }
        let config = json(blob(&manifest["config"]))["config"].clone();
        Self { folder, config }
    }

    /// Runs a program as the image's user, with its environment.
    fn run(&self, words: &[&str]) -> Output {
        self.with(&[], words)
    }

    /// Like [`Self::run`], with more variables.
    fn with(&self, variables: &[&str], words: &[&str]) -> Output {
        let mut command = Command::new("chroot");
        command.arg(format!(
            "--userspec={}",
            self.config["User"].as_str().unwrap()
        ));
        command.arg(self.folder.path()).args(words).env_clear();
        let own = self.config["Env"].as_array().unwrap().iter();
        let own = own.map(|variable| variable.as_str().unwrap());
        for variable in own.chain(variables.iter().copied()) {
            let (name, value) = variable.split_once('=').unwrap();
            command.env(name, value);
        }
        command.output().unwrap()
    }

    fn assert_prints(&self, words: &[&str], wanted: &str) {
        let output = self.run(words);
        let said = output_text(&output);
        assert!(output.status.success(), "{words:?}: {said}");
        assert!(said.contains(wanted), "{words:?}: {said}");
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.folder.path().join(path), text).unwrap();
    }
}

#[test]
fn image_programs_run_without_other_files() {
    let Some(images) = images() else {
        return;
    };
    let operator = Root::of(&images, "operator");
    operator.assert_prints(&["/manager", "--version"], env!("CARGO_PKG_VERSION"));
    operator.assert_prints(&["/agent", "version"], env!("CARGO_PKG_VERSION"));
    let workspace = Root::of(&images, "workspace");
    workspace.assert_prints(&["pulumi", "version"], env!("CARGO_PKG_VERSION"));
    workspace.assert_prints(&["pulumi-engine", "version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn image_engine_runs_program_in_home() {
    let Some(images) = images() else {
        return;
    };
    let workspace = Root::of(&images, "workspace");
    let project = "name: demo\nruntime: yaml\noutputs:\n  greeting: hello from an empty image\n";
    workspace.write("tmp/Pulumi.yaml", project);
    let backend = "PULUMI_BACKEND_URL=file://~";
    let pulumi = |words: &[&str]| {
        let settings = [backend, "PULUMI_CONFIG_PASSPHRASE=only-a-test"];
        workspace.with(&settings, &[&["pulumi", "-C", "/tmp"], words].concat())
    };
    for words in [
        ["stack", "init", "dev"].as_slice(),
        &["up", "--yes", "--skip-preview", "--stack", "dev"],
    ] {
        let output = pulumi(words);
        assert!(
            output.status.success(),
            "{words:?}: {}",
            output_text(&output)
        );
    }
    let outputs = output_text(&pulumi(&["stack", "output", "--json", "--stack", "dev"]));
    assert!(outputs.contains("hello from an empty image"), "{outputs}");
    let state = workspace.folder.path().join("home/pulumi/.pulumi/stacks");
    assert!(state.is_dir(), "its home is its user's own");
}

/// Answers DNS queries for IPv4 addresses with that of this machine.
fn answer(names: &UdpSocket) {
    let mut question = [0; 512];
    while let Ok((length, from)) = names.recv_from(&mut question) {
        let question = &question[..length];
        // The first question ends after its name, its kind and its class.
        let name = 12 + question[12..].iter().position(|byte| *byte == 0).unwrap() + 1;
        let is_address = question[name..name + 2] == [0, 1];
        let mut reply = question[..name + 4].to_vec();
        // An answer without an error, to one question, with as many records.
        reply[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(is_address), 0, 0, 0, 0]);
        if is_address {
            reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
        }
        names.send_to(&reply, from).unwrap();
    }
}

/// The request that the agent sends to a host after resolving its name.
fn request_for(root: &Root, host: &str) -> String {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!(
        "http://{host}:{}/program.tar.gz",
        server.local_addr().unwrap().port()
    );
    let asked = thread::spawn(move || {
        let (mut stream, _) = server.accept().unwrap();
        let mut request = [0; 1024];
        let length = stream.read(&mut request).unwrap();
        stream
            .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .unwrap();
        String::from_utf8_lossy(&request[..length]).into_owned()
    });
    let digest = format!("sha256:{}", "0".repeat(64));
    let output = root.run(&[
        "/agent",
        "init",
        "-t",
        "/tmp/source",
        "--flux-url",
        &address,
        "--flux-digest",
        &digest,
    ]);
    let said = output_text(&output);
    assert!(said.contains("file not found"), "{said}");
    asked.join().unwrap()
}

#[test]
fn image_agent_resolves_names_by_dns_and_hosts_file() {
    let Some(images) = images() else {
        return;
    };
    let root = Root::of(&images, "operator");
    let names = UdpSocket::bind("127.0.53.1:53").unwrap();
    thread::spawn(move || answer(&names));
    root.write(
        "etc/resolv.conf",
        "nameserver 127.0.53.1\nsearch svc.cluster.local\noptions ndots:5\n",
    );
    assert!(request_for(&root, "source-controller.flux-system").contains("GET /program.tar.gz"));
    root.write("etc/hosts", "127.0.0.1 forge.example\n");
    root.write("etc/resolv.conf", "");
    assert!(request_for(&root, "forge.example").contains("GET /program.tar.gz"));
}

//! State backends: S3, emulated on this machine. All other tests keep state in files on a volume.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use kube::api::DeleteParams;
use pko_testkit::{eventually, find_moto_server, skip};
use serde_json::json;

use crate::{
    cli::on_each_cli,
    stacks::{program, program_stack},
    test_env::run_concurrently,
};

/// An emulator of S3 that ends with its test.
struct Emulator {
    process: Child,
    address: (Ipv4Addr, u16),
}

impl Emulator {
    async fn start(program: PathBuf, host: Ipv4Addr) -> Self {
        let port = TcpListener::bind((host, 0))
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let mut command = Command::new(program);
        command.args(["-H", &host.to_string(), "-p", &port.to_string()]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().unwrap();
        let emulator = Self {
            process,
            address: (host, port),
        };
        let ready = eventually("the emulator of S3", async || {
            emulator.request("PUT", "/states")
        });
        ready.await.unwrap();
        emulator
    }

    fn request(&self, method: &str, path: &str) -> Result<String, String> {
        let exchange = || {
            let mut stream = TcpStream::connect(self.address)?;
            let host = self.address.0;
            write!(
                stream,
                "{method} {path} HTTP/1.0\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n"
            )?;
            let mut response = String::new();
            stream.read_to_string(&mut response)?;
            Ok(response)
        };
        let response = exchange().map_err(|error: std::io::Error| error.to_string())?;
        if response.contains(" 200 ") {
            Ok(response)
        } else {
            Err(response)
        }
    }

    /// Pulumi's backend URL for a folder.
    fn url(&self, folder: &str) -> String {
        let (host, port) = self.address;
        format!(
            "s3://states/{folder}?endpoint={host}:{port}&disableSSL=true&s3ForcePathStyle=true&region=us-east-1"
        )
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

on_each_cli! {
    stack_with_s3_backend_is_applied_and_destroyed
}

async fn stack_with_s3_backend_is_applied_and_destroyed() {
    let Some(moto) = find_moto_server() else {
        skip("no moto_server: `pip install moto[server]`, or name it in PKO_MOTO_SERVER");
        return;
    };
    run_concurrently(async |env| {
        let emulator = Emulator::start(moto, env.operator.cluster.host_address()).await;
        let keys = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "aws" },
            "stringData": { "id": "id", "key": "key" },
        });
        env.create(keys).await;
        env.create(program("demo", &["one"]).build()).await;
        let stack = program_stack("demo")
            .backend(&emulator.url("team"))
            .secret_env("AWS_ACCESS_KEY_ID", "aws", "id")
            .secret_env("AWS_SECRET_ACCESS_KEY", "aws", "key")
            .set("/spec/removeStackOnDestroy", true)
            .destroy_on_finalize(true);
        env.create(stack.build()).await;
        env.wait_for_ready("demo").await;
        let is_there = || {
            let listed = emulator.request("GET", "/states?list-type=2").unwrap();
            listed.contains("team/.pulumi/stacks/demo/dev.json<")
        };
        assert!(is_there());

        // Another pod finds the state
        env.delete_pod("demo").await;
        env.request_run("demo", "again").await;
        env.wait_for_ready("demo").await;
        env.delete("demo", &DeleteParams::default()).await;
        assert!(!is_there(), "it was destroyed, and its state removed");
    })
    .await;
}

#[tokio::test]
async fn file_state_on_volume_survives_pod() {
    run_concurrently(async |env| {
        env.create_simple("demo").await;
        env.wait_for_ready("demo").await;
        let file = env.state_folder().join(".pulumi/stacks/demo/dev.json");
        let before = fs::read_to_string(&file).unwrap();
        assert!(before.contains("pulumi:index:Stash"), "{before}");
        env.delete_pod("demo").await;
        env.request_run("demo", "again").await;
        env.wait_for_ready("demo").await;
        assert_eq!(env.history("demo"), 2);
    })
    .await;
}

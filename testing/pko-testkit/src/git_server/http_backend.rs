//! Runs `git http-backend` for one request.

use std::{
    io::{self, BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
};

use super::{
    Wire,
    http::{HttpRequest, respond_in_pieces},
};

pub(super) fn run(
    root: &Path,
    request: &HttpRequest,
    old_protocol: bool,
    wire: &mut dyn Wire,
) -> io::Result<()> {
    let mut child = start(root, request, old_protocol)?;
    let stdin = child.stdin.take();
    let body = request.body.clone();
    // the backend may answer before it has read all
    let writer = thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(&body)));
    let outcome = match child.stdout.take() {
        Some(stdout) => pass_on(&mut BufReader::new(stdout), wire),
        None => Ok(()),
    };
    let _ = child.kill();
    child.wait()?;
    let _ = writer.join();
    outcome
}

fn start(root: &Path, request: &HttpRequest, old_protocol: bool) -> io::Result<Child> {
    let mut command = Command::new("git");
    command
        .args(["-c", "safe.directory=*", "http-backend"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", root)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REQUEST_METHOD", &request.method)
        .env("PATH_INFO", &request.path)
        .env("QUERY_STRING", &request.query)
        .env("CONTENT_LENGTH", request.body.len().to_string())
        .env("REMOTE_ADDR", "127.0.0.1");
    if let Some(content_type) = request.header("content-type") {
        command.env("CONTENT_TYPE", content_type);
    }
    if let Some(protocol) = request.header("git-protocol").filter(|_| !old_protocol) {
        command.env("GIT_PROTOCOL", protocol);
    }
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| {
            io::Error::other(format!("git could not be started; install git: {error}"))
        })
}

/// Forwards the output of a CGI program: headers, an empty line, the body.
fn pass_on(output: &mut BufReader<impl io::Read>, wire: &mut dyn Wire) -> io::Result<()> {
    let mut status = "200 OK".to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        output.read_line(&mut line)?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        match line.strip_prefix("Status: ") {
            Some(value) => value.clone_into(&mut status),
            None => headers.push(line.to_owned()),
        }
    }
    respond_in_pieces(wire, &status, &headers, output)
}

//! SSH servers that hang, and the cleanup of sessions.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use pko_source::{
    Deadline,
    git::SshKey,
    ssh::{self, KnownHosts, SshError, SshStage, SshTarget},
};
use pko_testkit::git_server::sshd::{KeyPair, Sshd};

use crate::ssh_harness::{ED25519, command, error_of, key_of, known, run, soon, usual};

#[test]
fn ssh_dropped_session_leaves_no_thread() {
    let Some((server, key)) = usual() else {
        return;
    };
    drop(run(&server, &key, "cat").unwrap());
    let (reader, writer) = run(&server, &key, "cat").unwrap().split();
    drop(writer);
    drop(reader);
    let (mut reader, writer) = run(&server, &key, "yes").unwrap().split();
    reader.read_exact(&mut vec![0; 100_000]).unwrap();
    drop(reader);
    drop(writer);
    assert!(server.wait_until_idle(), "{}", server.log());
    assert_eq!(threads(&format!("ssh {}", server.port())), 0);
}

/// The threads of this process with this name. Session threads are named by their port.
fn threads(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|found| found.trim() == name).count()
}

/// Enough time for a handshake on a busy machine.
fn after_a_handshake(server: &Sshd, key: &SshKey) -> Deadline {
    let begin = Instant::now();
    drop(run(server, key, "true").unwrap());
    Deadline::after(Duration::from_secs(2) + 5 * begin.elapsed())
}

#[test]
fn ssh_hanging_command_ends_at_deadline() {
    let Some((server, key)) = usual() else {
        return;
    };
    let deadline = after_a_handshake(&server, &key);
    let target = command(&server, "cat");
    let mut session = ssh::connect(&target, &key, &known(&server), deadline).unwrap();
    let error = session.read(&mut [0; 10]).unwrap_err();
    let Some(SshError::Deadline { stage, .. }) = SshError::of(&error) else {
        panic!("{error}");
    };
    assert_eq!(*stage, SshStage::Transfer);
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    assert!(server.wait_until_idle(), "the connection is gone too");
}

/// A server that runs `start` on a connection and then hangs.
fn hanging(start: impl Fn(&mut TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut open = Vec::new();
        for mut stream in listener.incoming().filter_map(Result::ok) {
            start(&mut stream);
            open.push(stream);
        }
    });
    port
}

fn connect_to(port: u16, time: Duration) -> SshError {
    let pair = KeyPair::generate(ED25519, "").unwrap();
    let target = SshTarget::upload_pack("127.0.0.1", Some(port), None, "/a").unwrap();
    let deadline = Deadline::after(time);
    error_of(ssh::connect(
        &target,
        &key_of(&pair),
        &KnownHosts::empty(),
        deadline,
    ))
}

#[test]
fn ssh_hang_before_key_exchange_ends_at_deadline() {
    let silent = hanging(|_| {});
    let greets = hanging(|stream| stream.write_all(b"SSH-2.0-test\r\n").unwrap());
    let chatters = hanging(|stream| stream.write_all(b"wait\r\n").unwrap());
    for port in [silent, greets, chatters] {
        let error = connect_to(port, Duration::from_secs(2));
        let expected = SshError::Deadline {
            address: format!("127.0.0.1:{port}"),
            stage: SshStage::Handshake,
        };
        assert_eq!(error, expected);
    }
}

#[test]
fn ssh_non_ssh_server_is_an_error() {
    let web = hanging(|stream| {
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .unwrap();
        stream.shutdown(std::net::Shutdown::Both).unwrap();
    });
    let endless =
        hanging(|stream| while stream.write_all(b"HTTP/1.1 400 Bad Request\r\n").is_ok() {});
    for port in [web, endless] {
        let error = connect_to(port, Duration::from_secs(20));
        let ended = matches!(error, SshError::Protocol { .. } | SshError::Closed { .. });
        assert!(ended, "{error}");
    }
}

#[test]
fn ssh_unreachable_server_is_an_error() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let error = connect_to(port, Duration::from_secs(20));
    assert!(matches!(error, SshError::Unreachable { .. }), "{error}");
    let target = SshTarget::upload_pack("no-such-host.invalid", None, None, "/a").unwrap();
    let pair = KeyPair::generate(ED25519, "").unwrap();
    let error = error_of(ssh::connect(
        &target,
        &key_of(&pair),
        &KnownHosts::empty(),
        soon(),
    ));
    assert!(matches!(error, SshError::Unreachable { .. }), "{error}");
}

#[test]
fn ssh_hang_during_authentication_ends_at_deadline() {
    // A slow `AuthorizedKeysCommand`.
    let user = format!("AuthorizedKeysCommandUser {}", Sshd::user());
    let lines = ["AuthorizedKeysCommand /bin/sleep 100", &user];
    let Some(server) = Sshd::start_or_skip(&[ED25519], &lines).unwrap() else {
        return;
    };
    let Some((quick, key)) = usual() else {
        return;
    };
    let pair = KeyPair::generate(ED25519, "").unwrap();
    let deadline = after_a_handshake(&quick, &key);
    let target = command(&server, "true");
    let error = error_of(ssh::connect(
        &target,
        &key_of(&pair),
        &known(&server),
        deadline,
    ));
    assert!(
        matches!(
            error,
            SshError::Deadline {
                stage: SshStage::Authenticate,
                ..
            }
        ),
        "{error}\n{}",
        server.log()
    );
}

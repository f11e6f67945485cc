//! Runs the quickstart as root and as the user `nobody`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use pko_testkit::{Component, Components, skip};

/// The user `nobody`.
const NOBODY: u32 = 65534;

fn quickstart() -> Command {
    let xtask = Path::new(env!("CARGO_BIN_EXE_xtask"));
    let programs = std::env::var_os("PKO_BIN_DIR")
        .map_or_else(|| xtask.parent().unwrap().to_owned(), PathBuf::from);
    let mut command = Command::new(xtask);
    command
        .args(["quickstart", "--once"])
        .env("PKO_BIN_DIR", programs);
    command
}

fn assert_stack_created_and_deleted(output: &Output) {
    let said = String::from_utf8(output.stdout.clone()).unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complaints}");
    for expected in [
        "Reconciling (StackProcessing): waiting for workspace readiness",
        "Reconciling (StackProcessing): stack is being processed",
        "Ready (ProcessingCompleted)",
        "greeting = \"hello, Kubernetes\"",
        "password = \"[secret]\"",
        "gone",
        "done: created, ready, destroyed, gone",
    ] {
        assert!(said.contains(expected), "{expected} is not in:\n{said}");
    }
    assert!(!said.contains("not-to-be-shown"), "{said}");
}

#[test]
fn quickstart_creates_and_deletes_the_stack() {
    assert_stack_created_and_deleted(&quickstart().output().unwrap());
}

#[test]
fn quickstart_with_cli_uses_pulumi_cli() {
    let output = quickstart().arg("--cli").output().unwrap();
    assert_stack_created_and_deleted(&output);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("with Pulumi's CLI v3."), "{said}");
}

#[test]
fn quickstart_runs_unprivileged() {
    // Only root can become another user.
    if !Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|output| output.stdout == b"0\n")
    {
        skip("only root can become another user");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let copy = |from: &Path, name: &str| {
        let to = folder.path().join(name);
        fs::copy(from, &to).unwrap();
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).unwrap();
    };
    // Everything that the user runs is where the user can read it.
    let components = Components::from_environment().unwrap();
    for component in Component::CONTROL_PLANE {
        copy(&components.path(component).unwrap(), component.name());
    }
    let programs = quickstart()
        .get_envs()
        .find_map(|(_, value)| value.map(PathBuf::from))
        .unwrap();
    for program in ["manager", "agent", "pulumi-engine"] {
        copy(&programs.join(program), program);
    }
    copy(Path::new(env!("CARGO_BIN_EXE_xtask")), "xtask");
    let temporary = folder.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    std::os::unix::fs::chown(&temporary, Some(NOBODY), Some(NOBODY)).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();

    let output = Command::new(folder.path().join("xtask"))
        .args(["quickstart", "--once"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", &temporary)
        .env("TMPDIR", &temporary)
        .env("PKO_CACHE", temporary.join("cache"))
        .env("PKO_BIN_DIR", folder.path())
        .env("KUBEBUILDER_ASSETS", folder.path())
        .current_dir(&temporary)
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    assert_stack_created_and_deleted(&output);
    let left: Vec<_> = fs::read_dir(&temporary)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

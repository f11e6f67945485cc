//! Malicious repositories: each is rejected.

use std::{fmt::Write as _, fs};

use pko_source::git::{GitError, TreeProblem};
use pko_testkit::git_server::TestFile;

use crate::git_harness::GitFixture;

fn problem(scene: &GitFixture) -> TreeProblem {
    let error = scene.fetch("main", true).unwrap_err();
    assert!(!scene.target().exists());
    assert!(scene.left_beside().is_empty(), "{:?}", scene.left_beside());
    match error {
        GitError::Tree { problem, .. } => problem,
        error => panic!("{error:?}"),
    }
}

#[test]
fn fetch_links_leading_out_are_rejected() {
    for links in [
        &[("a", "/etc/passwd")][..],
        &[("a", "../../outside")],
        &[("a/b/c", "../../../outside")],
        &[("d/up", ".."), ("a", "d/up/../outside")],
    ] {
        let scene = GitFixture::new();
        let files: Vec<_> = links
            .iter()
            .map(|(path, target)| TestFile::link(path, target))
            .collect();
        scene.repository.commit("main", &files).unwrap();
        assert_eq!(problem(&scene), TreeProblem::OutwardLink, "{links:?}");
    }
}

#[test]
fn fetch_names_leading_out_are_rejected() {
    let long = vec![b'n'; 5000];
    for (mode, name, expected) in [
        ("100644", &b".."[..], TreeProblem::Name),
        ("100644", b".", TreeProblem::Name),
        ("100644", b"../outside", TreeProblem::Name),
        ("100644", b"/etc/outside", TreeProblem::Name),
        ("100644", b"a/b", TreeProblem::Name),
        ("100644", b".git", TreeProblem::Name),
        ("100644", b".GIT", TreeProblem::Name),
        ("100644", b"git~1", TreeProblem::Name),
        ("100644", b".git ", TreeProblem::Name),
        ("100644", ".g\u{200c}it".as_bytes(), TreeProblem::Name),
        ("120000", b".gitmodules", TreeProblem::Name),
        ("100644", &long, TreeProblem::PathLength),
    ] {
        let scene = GitFixture::new();
        let blob = scene.repository.blob(b"x").unwrap();
        let tree = scene.repository.raw_tree(&[(mode, name, &blob)]).unwrap();
        scene.repository.commit_tree("main", &tree).unwrap();
        assert_eq!(problem(&scene), expected, "{name:?}");
    }
}

#[test]
fn fetch_dot_git_disguises_are_rejected() {
    for name in [&b".git"[..], b".."] {
        let scene = GitFixture::new();
        let blob = scene.repository.blob(b"#!/bin/sh\n").unwrap();
        let inner = scene
            .repository
            .raw_tree(&[("100755", b"post-checkout", &blob)])
            .unwrap();
        let tree = scene
            .repository
            .raw_tree(&[("40000", name, &inner)])
            .unwrap();
        scene.repository.commit_tree("main", &tree).unwrap();
        assert_eq!(problem(&scene), TreeProblem::Name, "{name:?}");
    }
}

#[test]
fn fetch_duplicate_names_are_rejected() {
    let scene = GitFixture::new();
    let link = scene.repository.blob(b"deep").unwrap();
    let inner = scene
        .repository
        .raw_tree(&[("100644", b"file", &link)])
        .unwrap();
    let tree = scene
        .repository
        .raw_tree(&[("120000", b"a", &link), ("40000", b"a", &inner)])
        .unwrap();
    scene.repository.commit_tree("main", &tree).unwrap();
    assert_eq!(problem(&scene), TreeProblem::Duplicate);
}

#[test]
fn fetch_tree_bomb_is_rejected() {
    // Ten folders in ten folders in ten folders …
    let scene = GitFixture::new();
    let blob = scene.repository.blob(b"x").unwrap();
    let mut tree = scene
        .repository
        .raw_tree(&[("100644", b"f", &blob)])
        .unwrap();
    for _ in 0..10 {
        let names: Vec<String> = (0..10).map(|number| format!("d{number}")).collect();
        let entries: Vec<_> = names
            .iter()
            .map(|name| ("40000", name.as_bytes(), tree.as_str()))
            .collect();
        tree = scene.repository.raw_tree(&entries).unwrap();
    }
    scene.repository.commit_tree("main", &tree).unwrap();
    let error = scene.fetch("main", true).unwrap_err();
    assert!(matches!(error, GitError::Limit { .. }), "{error:?}");
    assert!(!scene.target().exists() && scene.left_beside().is_empty());
}

#[test]
fn fetch_self_referencing_submodule_is_not_followed() {
    let scene = GitFixture::new();
    let gone = "0123456789abcdef0123456789abcdef01234567";
    scene
        .repository
        .commit(
            "main",
            &[
                TestFile::plain("a", "1"),
                TestFile::submodule("module", gone),
            ],
        )
        .unwrap();
    scene.fetch("main", true).unwrap();
    assert!(scene.target().join("module").is_dir());
    assert_eq!(scene.git(&["status", "--porcelain"]), "");
}

#[test]
fn option_like_references_are_names_or_rejected() {
    let scene = GitFixture::new();
    let commit = scene
        .repository
        .commit("main", &[TestFile::plain("a", "1")])
        .unwrap();
    let lines = format!(
        "# pack-refs with: peeled fully-peeled sorted \n{commit} refs/heads/--upload-pack=id\n{commit} refs/heads/main\n"
    );
    fs::remove_file(scene.repository.path().join("refs/heads/main")).unwrap();
    fs::write(scene.repository.path().join("packed-refs"), lines).unwrap();
    assert!(matches!(
        scene.resolve("--upload-pack=id"),
        Err(GitError::Revision(_))
    ));
    assert_eq!(
        scene
            .resolve("refs/heads/--upload-pack=id")
            .unwrap()
            .to_string(),
        commit
    );
    scene.fetch("main", false).unwrap();
    assert_eq!(scene.git(&["rev-parse", "origin/main"]), commit);
}

/// The peak memory of this process, in KiB.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Resets the peak.
fn forget_peak_memory() {
    fs::write("/proc/self/clear_refs", "5").unwrap();
}

/// A million with `PKO_FULL=1`, otherwise enough to notice if they were kept in memory.
fn how_many_references() -> usize {
    if std::env::var_os("PKO_FULL").is_some() {
        1_000_000
    } else {
        200_000
    }
}

#[test]
fn listing_many_references_takes_no_memory() {
    let outcome = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "git_malicious_repository::lists_many_references",
            "--ignored",
            "--nocapture",
        ])
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&outcome.stdout);
    assert!(
        outcome.status.success(),
        "{words}{}",
        String::from_utf8_lossy(&outcome.stderr)
    );
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn lists_many_references() {
    let mut scene = GitFixture::new();
    let commit = scene
        .repository
        .commit("main", &[TestFile::plain("a", "1")])
        .unwrap();
    let mut lines = "# pack-refs with: peeled fully-peeled sorted \n".to_owned();
    let count = how_many_references();
    for number in 0..count {
        writeln!(lines, "{commit} refs/heads/branch-{number:07}").unwrap();
    }
    fs::write(scene.repository.path().join("packed-refs"), lines).unwrap();
    let last = format!("{:07}", count - 1);
    let found = scene.resolve(&format!("branch-{last}")).unwrap();
    assert_eq!(found.to_string(), commit);
    for old in [false, true] {
        if old {
            scene.server.disable_protocol_v2();
        }
        forget_peak_memory();
        let before = peak_memory();
        let error = scene.resolve(&format!("brunch-{last}")).unwrap_err();
        let hint = format!("did you mean \"branch-{last}\"?");
        assert!(error.to_string().ends_with(&hint), "{error}");
        let grown = peak_memory() - before;
        println!("{count} references, old server: {old}: {grown} KiB more");
        assert!(grown < 5 << 10, "{grown} KiB");
    }
    scene.limits.references = 10_000;
    let error = scene
        .ask(|remote| remote.list(&["refs/heads/".to_owned()]))
        .unwrap_err();
    assert!(matches!(error, GitError::Limit { .. }), "{error:?}");
}

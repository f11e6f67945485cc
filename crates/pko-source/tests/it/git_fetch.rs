//! Fetches from a real git server. Git itself verifies the result.

use std::{fs, os::unix::fs::PermissionsExt};

use pko_source::git::{GitError, LimitExceeded};
use pko_testkit::git_server::{TestFile, TestRepository};

use crate::git_harness::{GitFixture, git_in};

fn files() -> Vec<TestFile> {
    vec![
        TestFile::plain("Pulumi.yaml", "name: test\n"),
        TestFile::plain("empty", ""),
        TestFile::plain("deep/er/and/deeper/file.txt", "deep"),
        TestFile::plain("windows.bat", "a\nb\n"),
        TestFile::plain(
            ".gitattributes",
            "*.bat text eol=crlf\n*.bin filter=lfs\n* ident\n",
        ),
        TestFile::plain(
            "big.bin",
            "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n",
        ),
        TestFile::plain("aux.c", "a name that Windows has no room for"),
        TestFile::plain("README", "capital"),
        TestFile::plain("readme", "small"),
        TestFile::plain("name with space é", "$Id$"),
        TestFile::executable("bin/run", "#!/bin/sh\n"),
        TestFile::link("link", "deep/er"),
        TestFile::link("deep/back", "../Pulumi.yaml"),
    ]
}

fn names(files: &[TestFile]) -> Vec<String> {
    let mut names: Vec<_> = files.iter().map(|file| file.path.clone()).collect();
    names.sort();
    names
}

/// Git finds a complete clone at this commit, without changes.
fn assert_clean(scene: &GitFixture, commit: &str) {
    assert_eq!(scene.git(&["rev-parse", "HEAD"]), commit);
    assert_eq!(scene.git(&["status", "--porcelain", "--ignored"]), "");
    assert_eq!(scene.git(&["branch", "--show-current"]), "");
    assert_eq!(scene.git(&["remote", "get-url", "origin"]), scene.url());
    scene.git(&["fsck", "--strict"]);
    assert!(scene.left_beside().is_empty(), "{:?}", scene.left_beside());
}

#[test]
fn fetch_files_match_git_checkout() {
    let scene = GitFixture::new();
    let commit = scene.repository.commit("main", &files()).unwrap();
    for shallow in [true, false] {
        let fetched = scene.fetch(&commit, shallow).unwrap();
        assert_eq!(
            (fetched.commit.to_string(), fetched.already_present),
            (commit.clone(), false)
        );
        assert_clean(&scene, &commit);
        assert_eq!(scene.files(), names(&files()));
        assert_eq!(scene.read("windows.bat"), "a\nb\n");
        assert_eq!(scene.read("deep/back"), "name: test\n");
        assert_eq!(scene.read("README"), "capital");
        let mode = |path: &str| {
            fs::metadata(scene.target().join(path))
                .unwrap()
                .permissions()
                .mode()
        };
        assert_eq!(mode("bin/run") & 0o111, 0o111);
        assert_eq!(mode("empty") & 0o111, 0);
    }
}

#[test]
fn fetch_full_clone_has_history_branches_and_tags() {
    let scene = GitFixture::new();
    let first = scene
        .repository
        .commit("main", &[TestFile::plain("a", "1")])
        .unwrap();
    let second = scene
        .repository
        .commit("main", &[TestFile::plain("a", "2")])
        .unwrap();
    let other = scene
        .repository
        .commit("other", &[TestFile::plain("b", "1")])
        .unwrap();
    scene
        .repository
        .git(&["tag", "--annotate", "--message=x", "v1", &first])
        .unwrap();
    let check = || {
        assert_clean(&scene, &first);
        assert_eq!(scene.git(&["rev-parse", "origin/main"]), second);
        assert_eq!(scene.git(&["rev-parse", "origin/HEAD"]), second);
        assert_eq!(scene.git(&["rev-parse", "main"]), second);
        assert_eq!(scene.git(&["rev-parse", "origin/other"]), other);
        assert_eq!(scene.git(&["rev-parse", "v1^{}"]), first);
        assert_eq!(
            scene.git(&["log", "--format=%H", "origin/main"]),
            format!("{second}\n{first}")
        );
        assert_eq!(scene.git(&["describe"]), "v1");
    };
    scene.fetch("v1", false).unwrap();
    check();
    fs::remove_dir_all(scene.target()).unwrap();
    scene.server.disable_protocol_v2();
    scene.fetch("v1", false).unwrap();
    check();
}

#[test]
fn fetch_shallow_has_one_commit() {
    let scene = GitFixture::new();
    scene
        .repository
        .commit("main", &[TestFile::plain("a", "1")])
        .unwrap();
    let second = scene
        .repository
        .commit("main", &[TestFile::plain("a", "2")])
        .unwrap();
    let check = || {
        scene.fetch("main", true).unwrap();
        assert_clean(&scene, &second);
        assert_eq!(scene.git(&["log", "--format=%H"]), second);
        assert_eq!(scene.git(&["rev-parse", "--is-shallow-repository"]), "true");
    };
    check();
    fs::remove_dir_all(scene.target()).unwrap();
    scene.server.disable_protocol_v2();
    check();
}

#[test]
fn fetch_unreferenced_commit_by_hash() {
    let scene = GitFixture::new();
    let lost = scene
        .repository
        .commit("main", &[TestFile::plain("a", "1")])
        .unwrap();
    scene
        .repository
        .git(&["update-ref", "-d", "refs/heads/main"])
        .unwrap();
    let kept = scene
        .repository
        .commit("main", &[TestFile::plain("a", "2")])
        .unwrap();
    for shallow in [true, false] {
        scene.fetch(&lost, shallow).unwrap();
        assert_clean(&scene, &lost);
    }
    // A server that serves only advertised references.
    scene.server.disable_protocol_v2();
    fs::remove_dir_all(scene.target()).unwrap();
    for shallow in [true, false] {
        let error = scene.fetch(&lost, shallow).unwrap_err();
        assert!(matches!(error, GitError::NoSuchCommit { .. }), "{error:?}");
        assert!(!scene.target().exists());
    }
    let third = scene
        .repository
        .commit("main", &[TestFile::plain("a", "3")])
        .unwrap();
    for shallow in [true, false] {
        scene.fetch(&kept, shallow).unwrap();
        assert_clean(&scene, &kept);
        assert_ne!(third, kept);
    }
}

#[test]
fn fetch_missing_commit_fails() {
    let scene = GitFixture::new();
    scene
        .repository
        .commit("main", &[TestFile::plain("a", "1")])
        .unwrap();
    let gone = "0123456789abcdef0123456789abcdef01234567";
    for shallow in [true, false] {
        let error = scene.fetch(gone, shallow).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{} does not have commit {gone}; push it first", scene.url())
        );
    }
    let blob = scene.repository.blob(b"1").unwrap();
    let error = scene.fetch(&blob, true).unwrap_err();
    assert!(matches!(error, GitError::NoSuchCommit { .. }), "{error:?}");
}

#[test]
fn fetch_tag_hash_is_peeled_to_commit() {
    let scene = GitFixture::new();
    let commit = scene
        .repository
        .commit("main", &[TestFile::plain("a", "1")])
        .unwrap();
    scene
        .repository
        .git(&["tag", "--annotate", "--message=x", "v1", &commit])
        .unwrap();
    let tag = scene.repository.git(&["rev-parse", "v1"]).unwrap();
    assert_ne!(tag, commit);
    assert_eq!(scene.fetch(&tag, true).unwrap().commit.to_string(), commit);
}

#[test]
fn fetch_again_sends_no_request() {
    let scene = GitFixture::new();
    let commit = scene.repository.commit("main", &files()).unwrap();
    scene.fetch(&commit, false).unwrap();
    fs::write(scene.target().join("made-by-install"), "x").unwrap();
    let _ = scene.server.take_requests();
    let again = scene.fetch(&commit, false).unwrap();
    assert!(again.already_present);
    assert!(scene.server.take_requests().is_empty());
    assert!(scene.target().join("made-by-install").exists());
    assert!(scene.fetch("main", false).unwrap().already_present);
    assert!(scene.target().join("made-by-install").exists());
}

#[test]
fn fetch_other_revision_replaces_all_files() {
    let scene = GitFixture::new();
    let before = [
        TestFile::plain("old/gone", "1"),
        TestFile::plain("kept", "1"),
        TestFile::plain("kind", "file"),
    ];
    scene.repository.commit("main", &before).unwrap();
    scene.fetch("main", false).unwrap();
    fs::write(scene.target().join("made-by-install"), "x").unwrap();
    let after = [
        TestFile::plain("kept", "2"),
        TestFile::plain("kind/is", "folder"),
        TestFile::plain("new", "2"),
    ];
    let commit = scene.repository.commit("main", &after).unwrap();
    let fetched = scene.fetch("main", false).unwrap();
    assert!(!fetched.already_present);
    assert_clean(&scene, &commit);
    assert_eq!(scene.files(), names(&after));
}

#[test]
fn fetch_replaces_incomplete_folder() {
    let scene = GitFixture::new();
    let commit = scene.repository.commit("main", &files()).unwrap();
    fs::create_dir_all(scene.target().join(".git")).unwrap();
    fs::write(scene.target().join(".git/HEAD"), format!("{commit}\n")).unwrap();
    fs::write(scene.target().join("rubbish"), "x").unwrap();
    scene.fetch(&commit, false).unwrap();
    assert_clean(&scene, &commit);
    assert_eq!(scene.files(), names(&files()));
}

#[test]
fn fetch_failure_keeps_target() {
    let mut scene = GitFixture::new();
    let commit = scene
        .repository
        .commit("main", &[TestFile::plain("a", "1")])
        .unwrap();
    scene.fetch("main", true).unwrap();
    scene
        .repository
        .commit(
            "main",
            &[TestFile::plain("b", "1"), TestFile::plain("c", "1")],
        )
        .unwrap();
    scene.limits.entries = 1;
    let error = scene.fetch("main", true).unwrap_err();
    assert!(
        matches!(
            error,
            GitError::Limit {
                limit: LimitExceeded::Entries(1),
                ..
            }
        ),
        "{error:?}"
    );
    assert_clean(&scene, &commit);
}

#[test]
fn fetch_limits_are_enforced() {
    let mut scene = GitFixture::new();
    // Incompressible.
    let noise: Vec<u8> = (1_u64..25_001)
        .map(|number| number.wrapping_mul(number ^ 0x9E37_79B9_7F4A_7C15))
        .flat_map(u64::to_be_bytes)
        .collect();
    scene
        .repository
        .commit(
            "main",
            &[
                TestFile::plain("a", noise.clone()),
                TestFile::plain("b", noise),
            ],
        )
        .unwrap();
    let usual = scene.limits;
    scene.limits.checkout_bytes = 300_000;
    let error = scene.fetch("main", true).unwrap_err();
    assert!(
        matches!(
            error,
            GitError::Limit {
                limit: LimitExceeded::CheckoutBytes(_),
                ..
            }
        ),
        "{error:?}"
    );
    scene.limits = usual;
    scene.limits.object_bytes = 100_000;
    let error = scene.fetch("main", true).unwrap_err();
    assert!(
        matches!(
            error,
            GitError::Limit {
                limit: LimitExceeded::ObjectBytes(_),
                ..
            }
        ),
        "{error:?}"
    );
    scene.limits = usual;
    scene.limits.pack_bytes = 1000;
    let error = scene.fetch("main", true).unwrap_err();
    assert!(
        matches!(
            error,
            GitError::Limit {
                limit: LimitExceeded::PackBytes(_),
                ..
            }
        ),
        "{error:?}"
    );
    assert!(!scene.target().exists() && scene.left_beside().is_empty());
    scene.limits = usual;
    scene.fetch("main", true).unwrap();
}

#[test]
fn fetch_sha256_repository() {
    let mut scene = GitFixture::new();
    scene.repository = TestRepository::create_with(&scene.served(), "new.git", "sha256").unwrap();
    let commit = scene.repository.commit("main", &files()).unwrap();
    assert_eq!(commit.len(), 64);
    let revision = pko_source::git::Revision::parse("main").unwrap();
    let options = pko_source::git::FetchOptions {
        revision: &revision,
        shallow: false,
        submodules: false,
    };
    let url = scene.server.url("new.git");
    scene
        .ask_at(&url, |remote| remote.fetch(&options, &scene.target()))
        .unwrap();
    assert_eq!(scene.git(&["rev-parse", "HEAD"]), commit);
    assert_eq!(scene.git(&["status", "--porcelain"]), "");
}

#[test]
fn fetch_ignores_git_environment_variables() {
    let scene = GitFixture::new();
    let commit = scene.repository.commit("main", &files()).unwrap();
    // Upstream's fetch container sets `GIT_DIR` to a folder of the source.
    let outcome = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "git_fetch::fetches_for_the_test_above",
            "--ignored",
        ])
        .env("PKO_TEST_URL", scene.url())
        .env("PKO_TEST_TARGET", scene.target())
        .env("GIT_DIR", "deep/er")
        .env("GIT_WORK_TREE", "/nowhere")
        .env("GIT_INDEX_FILE", "/nowhere/index")
        .env("GIT_OBJECT_DIRECTORY", "/nowhere/objects")
        .env("GIT_CONFIG_GLOBAL", "/nowhere/config")
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "core.autocrlf")
        .env("GIT_CONFIG_VALUE_0", "true")
        .output()
        .unwrap();
    assert!(
        outcome.status.success(),
        "{}",
        String::from_utf8_lossy(&outcome.stdout)
    );
    assert_eq!(git_in(&scene.target(), &["rev-parse", "HEAD"]), commit);
    assert_clean(&scene, &commit);
    assert_eq!(scene.files(), names(&files()));
}

#[test]
#[ignore = "run by the test above, with an environment of its own"]
fn fetches_for_the_test_above() {
    use pko_source::{Deadline, git};
    let variable = |name| std::env::var(name).unwrap();
    let (client, address) = (
        crate::git_harness::client(&[]),
        git::Address::parse(&variable("PKO_TEST_URL")).unwrap(),
    );
    let revision = git::Revision::parse("main").unwrap();
    let remote = git::Remote {
        client: &client,
        address: &address,
        credentials: &git::Credentials::Anonymous,
        deadline: Deadline::after(crate::git_harness::LONG),
        limits: git::GitLimits::default(),
    };
    let options = git::FetchOptions {
        revision: &revision,
        shallow: false,
        submodules: false,
    };
    remote
        .fetch(&options, variable("PKO_TEST_TARGET").as_ref())
        .unwrap();
}

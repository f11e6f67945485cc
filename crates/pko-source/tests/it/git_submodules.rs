//! Submodules: off by default, and confined to their folder and server.

use std::error::Error;

use pko_source::git::{AddressError, Credentials, GitError, LimitExceeded};
use pko_testkit::git_server::{GitServer, TestFile, TestRepository};

use crate::git_harness::{GitFixture, secret};

/// A repository with a submodule at this address.
fn scene_with(address: &str) -> (GitFixture, String) {
    let scene = GitFixture::new();
    let module = TestRepository::create(&scene.served(), "module.git").unwrap();
    let commit = module
        .commit("main", &[TestFile::plain("inner", "1")])
        .unwrap();
    module
        .commit("main", &[TestFile::plain("inner", "2")])
        .unwrap();
    commit_with(&scene, address, &commit);
    (scene, commit)
}

fn commit_with(scene: &GitFixture, address: &str, commit: &str) {
    let modules = format!("[submodule \"m\"]\n\tpath = libs/m\n\turl = {address}\n");
    let files = [
        TestFile::plain(".gitmodules", modules),
        TestFile::plain("a", "1"),
        TestFile::submodule("libs/m", commit),
    ];
    scene.repository.commit("main", &files).unwrap();
}

#[test]
fn submodules_are_skipped_by_default() {
    let (scene, commit) = scene_with("../module.git");
    scene.fetch_with("main", false, false).unwrap();
    assert_eq!(scene.files(), [".gitmodules", "a"]);
    assert_eq!(scene.git(&["status", "--porcelain"]), "");

    for shallow in [false, true] {
        scene.fetch_with("main", shallow, true).unwrap();
        assert_eq!(scene.files(), [".gitmodules", "a", "libs/m/inner"]);
        assert_eq!(scene.read("libs/m/inner"), "1");
        assert_eq!(scene.git(&["status", "--porcelain"]), "");
        assert_eq!(scene.git(&["-C", "libs/m", "rev-parse", "HEAD"]), commit);
    }
}

#[test]
fn submodule_invalid_addresses_are_rejected() {
    for address in [
        "file:///etc",
        "ext::sh -c id",
        "/srv/other.git",
        "../../../x",
        "-option",
        "git://host/r",
    ] {
        let (scene, _) = scene_with(address);
        let error = scene.fetch_with("main", true, true).unwrap_err();
        let GitError::Submodule { path, source } = &error else {
            panic!("{error:?}")
        };
        assert_eq!(path, "libs/m");
        assert!(
            matches!(**source, GitError::Address(_)),
            "{address}: {source:?}"
        );
        assert!(!scene.target().exists());
    }
    let (scene, _) = scene_with("file:///etc");
    let error = scene.fetch_with("main", true, true).unwrap_err();
    let text = error.source().unwrap().to_string();
    assert_eq!(text, AddressError::Scheme("file".to_owned()).to_string());
}

#[test]
fn submodule_credentials_stay_on_same_server() {
    let (mut scene, commit) = scene_with("../module.git");
    scene.server.require("git", "canary");
    scene.credentials = Credentials::Token(secret("canary"));
    scene.fetch_with("main", true, true).unwrap();

    let other = GitServer::start(&scene.served()).unwrap();
    commit_with(&scene, &other.url("module.git"), &commit);
    scene.fetch_with("main", true, true).unwrap();
    assert_eq!(scene.read("libs/m/inner"), "1");
    let seen = other.take_requests();
    assert!(!seen.is_empty());
    assert!(
        seen.iter().all(|seen| seen.authorization.is_none()),
        "{seen:?}"
    );
}

#[test]
fn submodule_depth_is_limited() {
    let scene = GitFixture::new();
    // Each repository of the chain has the previous one as its submodule.
    let mut commit: Option<String> = None;
    for number in 0..8 {
        let repository =
            TestRepository::create(&scene.served(), &format!("m{number}.git")).unwrap();
        let mut files = vec![TestFile::plain("a", "1")];
        if let Some(commit) = &commit {
            let modules = format!(
                "[submodule \"m\"]\n\tpath = m\n\turl = ../m{}.git\n",
                number - 1
            );
            files.push(TestFile::plain(".gitmodules", modules));
            files.push(TestFile::submodule("m", commit));
        }
        commit = Some(repository.commit("main", &files).unwrap());
    }
    commit_with(&scene, "../m7.git", &commit.unwrap());
    let mut error: Box<dyn Error> = Box::new(scene.fetch_with("main", true, true).unwrap_err());
    loop {
        error = match *error.downcast::<GitError>().unwrap() {
            GitError::Submodule { source, .. } => source,
            GitError::Limit { limit, .. } => {
                assert!(matches!(limit, LimitExceeded::SubmoduleDepth(_)));
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(!scene.target().exists());
}

//! Where the program comes from. What a spec says of it, and what a git server or Flux answers, is
//! tested where it is read; here is what a Stack makes of it.

use pko_api::auto::v1alpha1::GitSource;

use super::*;

/// A Stack with this source alone.
fn from(fields: Value) -> StackFixture {
    fixture()
        .with(json!({ "spec": { "programRef": null } }))
        .spec(fields)
}

fn git(fields: Value) -> StackFixture {
    let mut spec = json!({ "projectRepo": "https://git.test/shop/infra" });
    merge(&mut spec, fields);
    from(spec)
}

fn flux() -> StackFixture {
    let reference = json!({ "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "name": "infra" });
    from(json!({ "fluxSource": { "sourceRef": reference, "dir": "prod" } }))
}

fn invalid(message: &str) -> Result<ProgramSource, SourceError> {
    Err(SourceError::Invalid(message.to_owned()))
}

#[test]
fn scenario_51_no_source_at_all() {
    let fixture = from(json!({}));
    assert_eq!(fixture.decide().request_names(), ["workspace", "create"]);
    let spec = workspace(&fixture)["spec"].clone();
    for source in ["flux", "git", "local"] {
        assert_eq!(spec.get(source), None, "{source}");
    }
    assert_eq!(
        spec["stacks"][0]["name"], "dev",
        "it is configured all the same"
    );
}

#[test]
fn scenario_52_the_very_object_is_asked_for() {
    let requests = flux().decide().requests;
    let Some(StackStep::Read(StackRead::Source(SourceRef::Flux(source)))) = requests.first() else {
        panic!("{requests:?}")
    };
    assert_eq!(source.api_version(), "source.toolkit.fluxcd.io/v1");
    assert_eq!(source.kind, "GitRepository");
    assert_eq!(source.name, "infra");
}

/// Upstream never looks again where it calls the spec invalid, not even after the Secret that was
/// missing was made.
#[test]
fn scenarios_53_54_56_57_and_59_sources_that_can_not_be_had() {
    let missing = "gitrepositories.source.toolkit.fluxcd.io \"infra\" not found";
    play([
        (
            53,
            "there is no such object",
            flux().source(unavailable(&format!("could not resolve sourceRef: {missing}"))),
            &[
                "status Stalled SourceUnavailable: could not resolve sourceRef: gitrepositories.source.toolkit.fluxcd.io \"infra\" not found",
                "again in 30s",
            ],
        ),
        (
            54,
            "it has no artifact",
            flux().source(unavailable("Flux source has no artifact")),
            &[
                "status Stalled SourceUnavailable: Flux source has no artifact",
                "again in 30s",
            ],
        ),
        (
            56,
            "neither branch nor commit",
            git(json!({})),
            &[
                "status Stalled SpecInvalid: missing \"commit\" or \"branch\"",
                "event! StackConfigInvalid: missing \"commit\" or \"branch\"",
                "settled",
            ],
        ),
        (
            57,
            "there is no such branch",
            git(json!({ "branch": "nope" })).source(unavailable("no commits found for ref \"nope\"")),
            &[
                "status Stalled SourceUnavailable: no commits found for ref \"nope\"",
                "again in 30s",
            ],
        ),
        (
            59,
            "there is no Secret with the key",
            git(json!({ "branch": "main" })).source(invalid(
                "resolving gitAuth SSH private key: unable to get secret shop/git: secrets \"git\" not found",
            )),
            &[
                "status Stalled SpecInvalid: resolving gitAuth SSH private key: unable to get secret shop/git: secrets \"git\" not found",
                "event! StackConfigInvalid: resolving gitAuth SSH private key: unable to get secret shop/git: secrets \"git\" not found",
                "again in 30s",
            ],
        ),
    ]);
}

#[test]
fn scenario_55_an_artifact_is_passed_on() {
    let artifact = FluxArtifact {
        url: Some("http://flux/infra.tar.gz".to_owned()),
        digest: Some("sha256:a".to_owned()),
        dir: Some("prod".to_owned()),
    };
    let source = ProgramSource {
        revision: "main@sha1:1".to_owned(),
        location: Location::Artifact(artifact),
    };
    assert_eq!(
        workspace(&flux().source(Ok(source)))["spec"]["flux"],
        json!({ "url": "http://flux/infra.tar.gz", "digest": "sha256:a", "dir": "prod" })
    );
}

#[test]
fn scenario_58_a_commit_is_passed_on() {
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let found = json!({ "url": "https://git.test/shop/infra", "ref": commit, "dir": "prod" });
    let location: GitSource = serde_json::from_value(found.clone()).unwrap();
    let source = ProgramSource {
        revision: commit.to_owned(),
        location: Location::Git(Box::new(location)),
    };
    let fixture = git(json!({ "commit": commit, "repoDir": "prod" })).source(Ok(source));
    assert_eq!(workspace(&fixture)["spec"]["git"], found);
}

/// Upstream's test is declared and empty. A branch is looked at again and again apart from the
/// Stack, which is woken when it moves.
#[test]
fn scenario_34_a_branch_that_moved() {
    let moved = ProgramSource {
        revision: "new".to_owned(),
        ..revision("3")
    };
    let fixture = git(json!({ "branch": "main" }))
        .last(json!({}))
        .source(Ok(moved));
    let detected = "event StackUpdateDetected: New commit detected: \"new\"";
    assert!(fixture.decide().lines().contains(&detected.to_owned()));
}

//! The ConfigMaps and Secrets that a spec refers to.

use pko_api::{Workspace, pulumi::v1::StackSpec};

use super::*;

impl StackFixture {
    /// A ConfigMap exists in this version.
    fn config_map(mut self, name: &str, version: &str) -> Self {
        let version = Some(version.to_owned());
        self.config_maps.insert(name.to_owned(), version);
        self
    }

    /// A Secret exists in this version.
    pub(super) fn secret(mut self, name: &str, version: &str) -> Self {
        let version = Some(version.to_owned());
        self.secrets.insert(name.to_owned(), version);
        self
    }

    /// These objects do not exist.
    pub(super) fn without(mut self, config_maps: &[&str], secrets: &[&str]) -> Self {
        let missing = |names: &[&str]| -> Versions {
            names
                .iter()
                .map(|name| ((*name).to_owned(), None))
                .collect()
        };
        self.config_maps.extend(missing(config_maps));
        self.secrets.extend(missing(secrets));
        self
    }

    fn watching_secrets(mut self) -> Self {
        self.settings.watches_secrets = true;
        self
    }

    /// The status after this pass.
    fn after(mut self) -> Self {
        let outcome = self.decide();
        let published = outcome.requests.iter().filter_map(|request| match request {
            StackStep::Write(
                StackWrite::ApplyWorkspace(_, status) | StackWrite::CreateUpdate(_, status),
            ) => Some(status),
            _ => None,
        });
        let written = outcome
            .plan
            .effects
            .iter()
            .filter_map(|effect| match effect {
                StackEffect::PatchStatus(status) => Some(status),
                _ => None,
            });
        if let Some(status) = published.chain(written).last() {
            self.stack["status"] = serde_json::to_value(status).unwrap();
        }
        self
    }

    /// The Update that the status names has ended like this.
    fn ended(mut self, conditions: Value) -> Self {
        self.update = Some(json!({
            "metadata": { "name": "ended" }, "spec": { "type": "up" },
            "status": { "conditions": conditions },
        }));
        let mut after = self.after();
        after.update = None;
        after
    }

    fn succeeded(self) -> Self {
        self.ended(json!([condition(
            "Complete",
            "True",
            "UpdateSucceeded",
            ""
        )]))
    }

    fn status_at(&self, path: &str) -> Value {
        let status = self.stack.get("status").and_then(|all| all.pointer(path));
        status.cloned().unwrap_or_default()
    }
}

/// What the workspace's pod bears.
fn mark(fixture: &StackFixture) -> Option<String> {
    let outcome = fixture.decide();
    let workspace = outcome
        .requests
        .into_iter()
        .find_map(|request| match request {
            StackStep::Write(StackWrite::ApplyWorkspace(workspace, _)) => Some(workspace),
            _ => None,
        });
    let Workspace { spec, .. } = *workspace.expect("a Workspace is applied");
    let metadata = spec.pod_template.unwrap().metadata.unwrap();
    metadata.annotations.get("pulumi.com/references").cloned()
}

fn size_and_token() -> Value {
    json!({
        "configRef": { "size": { "name": "sizes", "key": "small" } },
        "secretsRef": { "token": { "type": "Secret", "secret": { "name": "tokens", "key": "t" } } },
    })
}

/// A Stack with a ConfigMap and a Secret, both in version 1.
fn referring() -> StackFixture {
    fixture().spec(size_and_token())
}

/// The same after its first update, which succeeded.
fn settled() -> StackFixture {
    referring().after().succeeded()
}

/// Why an update is made, if one is.
fn cause(fixture: &StackFixture) -> Option<String> {
    let outcome = fixture.decide();
    outcome
        .creation()
        .map(|(update, _)| update.spec.message.clone().unwrap())
}

#[test]
fn reference_fields_are_complete() {
    let secret = |name: &str| json!({ "type": "Secret", "secret": { "name": name, "key": "k" } });
    let config_map =
        |name: &str| json!({ "type": "ConfigMap", "configMap": { "name": name, "key": "k" } });
    let literal = json!({ "type": "Literal", "literal": { "value": "x" } });
    let spec: StackSpec = serde_json::from_value(json!({
        "stack": "dev",
        "accessTokenSecret": "a",
        "envRefs": { "B": secret("b"), "C": config_map("c"), "D": literal },
        "envs": ["e", ""],
        "envSecrets": ["f"],
        "configRef": { "x:g": { "name": "g", "key": "k" } },
        "configRefs": { "h": { "name": "h", "key": "k" } },
        "secretsRef": { "i": secret("i"), "j": literal },
        "gitAuthSecret": "k",
        "gitAuth": {
            "sshAuth": { "sshPrivateKey": secret("l"), "password": secret("m") },
            "accessToken": secret("n"),
            "basicAuth": { "userName": secret("o"), "password": secret("p") },
            "githubApp": { "appID": secret("q"), "installationID": secret("r"), "privateKey": secret("s") },
        },
    }))
    .unwrap();
    let all: Vec<String> = references(&spec)
        .map(|found| {
            let user = match found.user {
                ReferenceUser::Workspace => "workspace",
                ReferenceUser::Source => "source",
            };
            format!("{} {} {} {user}", found.kind, found.name, found.field)
        })
        .collect();
    assert_eq!(
        all,
        [
            "Secret a spec.accessTokenSecret workspace",
            "Secret b spec.envRefs.B workspace",
            "ConfigMap c spec.envRefs.C workspace",
            "ConfigMap e spec.envs workspace",
            "Secret f spec.envSecrets workspace",
            "ConfigMap g spec.configRef.x:g workspace",
            "ConfigMap h spec.configRefs.h workspace",
            "Secret i spec.secretsRef.i workspace",
            "Secret k spec.gitAuthSecret source",
            "Secret l spec.gitAuth.sshAuth.sshPrivateKey source",
            "Secret m spec.gitAuth.sshAuth.password source",
            "Secret n spec.gitAuth.accessToken source",
            "Secret o spec.gitAuth.basicAuth.userName source",
            "Secret p spec.gitAuth.basicAuth.password source",
            "Secret q spec.gitAuth.githubApp.appID source",
            "Secret r spec.gitAuth.githubApp.installationID source",
            "Secret s spec.gitAuth.githubApp.privateKey source",
        ]
    );
    assert_eq!(references(&StackSpec::default()).count(), 0);
}

#[test]
fn only_referenced_objects_are_read() {
    assert_eq!(
        fixture().decide().request_names(),
        ["source", "workspace", "create"]
    );
    let outcome = referring().decide();
    assert_eq!(
        outcome.request_names(),
        ["source", "config maps", "secrets", "workspace", "create"]
    );
    let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(
        outcome.requests[1],
        StackStep::Read(StackRead::ConfigMaps(of(&["sizes"])))
    );
    assert_eq!(
        outcome.requests[2],
        StackStep::Read(StackRead::Secrets(of(&["tokens"])))
    );
    let waits = referring().source(unavailable("no"));
    assert_eq!(
        waits.decide().request_names(),
        ["source"],
        "not before it counts"
    );
}

#[test]
fn settled_stack_makes_only_cached_reads() {
    let outcome = settled().decide();
    assert_eq!(outcome.request_names(), ["source", "config maps"]);
    assert_eq!(outcome.lines(), ["in-sync", "settled"]);
    let outcome = settled().watching_secrets().decide();
    assert_eq!(
        outcome.request_names(),
        ["source", "config maps", "secrets"]
    );
    assert_eq!(outcome.lines(), ["in-sync", "settled"]);
    let taken_over = referring().last(json!({}));
    assert_eq!(
        taken_over.decide().request_names(),
        ["source"],
        "nothing is recorded"
    );
}

#[test]
fn missing_reference_is_named() {
    let variables = json!({ "envs": ["a"], "envSecrets": ["b"], "configRef": { "k": { "name": "a", "key": "x" } } });
    for (fixture, message) in [
        (
            referring().without(&[], &["tokens"]),
            "unable to get secret shop/tokens: secrets \"tokens\" not found (spec.secretsRef.token)",
        ),
        (
            referring().without(&["sizes"], &[]),
            "unable to get configmap shop/sizes: configmaps \"sizes\" not found (spec.configRef.size)",
        ),
        (
            referring().without(&["sizes"], &["tokens"]),
            "unable to get configmap shop/sizes: configmaps \"sizes\" not found (spec.configRef.size), and 1 more",
        ),
        (
            fixture().spec(variables).without(&["a"], &["b"]),
            "unable to get configmap shop/a: configmaps \"a\" not found (spec.envs), and 1 more",
        ),
    ] {
        assert_eq!(
            fixture.decide().lines(),
            [
                "inputs".to_owned(),
                format!("status Stalled SpecInvalid: {message}"),
                format!("event! StackConfigInvalid: {message}"),
                "again in 30s".to_owned(),
            ]
        );
        let again = fixture.seen_before().decide();
        assert_eq!(again.lines(), ["inputs", "again in 30s"], "reported once");
        assert!(!again.request_names().contains(&"workspace"));
    }
}

#[test]
fn created_reference_unblocks_stack() {
    let missing = referring().without(&[], &["tokens"]);
    let there = missing.after().secret("tokens", "7");
    assert_eq!(cause(&there).as_deref(), Some("Initial stack update"));
    assert_eq!(mark(&there), None, "nothing has changed");
}

#[test]
fn deleting_stack_needs_references_only_for_destroy() {
    let deleted = |applied: bool| {
        let fixture = referring().without(&["sizes"], &["tokens"]).deleting();
        let fixture = fixture.spec(json!({ "destroyOnFinalize": true }));
        fixture
            .last(json!({}))
            .status(json!({ "applied": applied }))
    };
    let message = "unable to get configmap shop/sizes: configmaps \"sizes\" not found (spec.configRef.size), and 1 more; \
        no workspace is running to destroy the stack, and a new one can't start: \
        re-create ConfigMap \"sizes\", Secret \"tokens\"; to delete the Stack without a destroy, which leaves its \
        resources in place, run: kubectl patch stack demo -n shop --type=merge \
        -p '{\"spec\":{\"destroyOnFinalize\":false}}'";
    check([
        (
            "the destroy needs a new workspace",
            deleted(true),
            &[
                "inputs",
                &format!("status Stalled SpecInvalid: {message}"),
                &format!("event! StackConfigInvalid: {message}"),
                "again in 30s",
            ],
        ),
        (
            "nothing was ever applied",
            deleted(false),
            &[
                "inputs",
                "status Ready",
                "release demo-1",
                "remove finalizer",
                "settled",
            ],
        ),
    ]);
    // A terminating namespace deletes its Secrets before its Stacks.
    let with_it = deleted(true).workspace_refused(Refusal::NamespaceTerminating);
    let outcome = with_it.decide().lines().join("\n");
    let expected = "status Stalled NamespaceTerminating: namespace \"shop\" is terminating";
    assert!(outcome.contains(expected), "{outcome}");
    let unwanted = deleted(true).spec(json!({ "destroyOnFinalize": false }));
    assert_eq!(unwanted.decide().plan.rule, "release");
    let there = deleted(true).config_map("sizes", "1").secret("tokens", "1");
    assert_eq!(cause(&there).as_deref(), Some("Stack marked for deletion"));
}

#[test]
fn another_version_is_a_reason_to_run() {
    let changed = Some("Referenced ConfigMap changed: \"sizes\"");
    for (sentence, fixture, expected) in [
        ("the same", settled(), None),
        ("another", settled().config_map("sizes", "2"), changed),
        (
            "a Secret that is not watched",
            settled().secret("tokens", "2"),
            None,
        ),
        (
            "a Secret that is watched",
            settled().secret("tokens", "2").watching_secrets(),
            Some("Referenced Secret changed: \"tokens\""),
        ),
        (
            "a Stack that was taken over",
            referring().last(json!({})).config_map("sizes", "2"),
            None,
        ),
        (
            "its failures are not over yet",
            settled()
                .failed(1, 5)
                .status(json!({ "lastUpdate": { "failures": 1 } }))
                .config_map("sizes", "2"),
            changed,
        ),
        (
            "it is given up on for a while",
            settled().failed(7, 5).config_map("sizes", "2"),
            changed,
        ),
        (
            "a new commit comes first",
            settled().config_map("sizes", "2").source(Ok(revision("4"))),
            Some("New commit detected: \"4\""),
        ),
    ] {
        assert_eq!(cause(&fixture).as_deref(), expected, "{sentence}");
    }
}

#[test]
fn deleted_reference_keeps_ready_stack_ready() {
    let mut gone = settled().without(&["sizes"], &[]);
    assert_eq!(gone.decide().lines(), ["in-sync", "settled"]);
    gone.stack["metadata"]["generation"] = json!(4);
    assert_eq!(gone.decide().plan.rule, "inputs", "the next run needs it");
}

#[test]
fn reference_change_resets_retries() {
    let outcome = settled().failed(7, 5).config_map("sizes", "2").decide();
    let (update, status) = outcome.creation().unwrap();
    let annotations = update.metadata.annotations.clone().unwrap();
    assert_eq!(annotations["auto.pulumi.com/urgency"], "change");
    assert_eq!(status.current_update.clone().unwrap().attempt, Some(0));

    let destroy = settled().deleting().last(json!({
        "type": "destroy", "state": "failed", "failures": 2, "lastResyncTime": ago(5),
    }));
    let destroy = destroy.spec(json!({ "destroyOnFinalize": true }));
    assert_eq!(cause(&destroy), None, "it waits");
    let outcome = destroy.config_map("sizes", "2").decide();
    let update = outcome.created();
    let annotations = update.metadata.annotations.clone().unwrap();
    assert_eq!(annotations["auto.pulumi.com/urgency"], "destroy");
    assert_eq!(
        update.spec.message.as_deref(),
        Some("Referenced ConfigMap changed: \"sizes\"")
    );
}

#[test]
fn unwatched_secret_change_is_noticed_at_next_run() {
    let resynced = settled()
        .spec(json!({ "continueResyncOnCommitMatch": true }))
        .last(json!({}));
    assert_eq!(
        cause(&resynced).as_deref(),
        Some("Resync time elapsed: 1m0s")
    );
    let mark_before = mark(&resynced);
    let changed = resynced.secret("tokens", "2");
    assert_eq!(
        cause(&changed).as_deref(),
        Some("Referenced Secret changed: \"tokens\"")
    );
    assert_eq!(mark_before, None);
    assert!(mark(&changed).is_some(), "its pod is replaced");
    let requested = settled().secret("tokens", "2").request("now");
    assert_eq!(cause(&requested).as_deref(), Some("Sync request: \"now\""));
    assert!(mark(&requested).is_some());
}

#[test]
fn update_records_reference_versions() {
    let first = json!({ "configMaps": { "sizes": "1" }, "secrets": { "tokens": "1" } });
    let running = referring().after();
    assert_eq!(running.status_at("/currentUpdate/references"), first);
    let settled = running.succeeded();
    assert_eq!(settled.status_at("/references"), first);

    let running = settled.config_map("sizes", "2").after();
    let second = json!({
        "configMaps": { "sizes": "2" }, "secrets": { "tokens": "1" }, "changed": true,
    });
    assert_eq!(
        running.status_at("/references"),
        first,
        "until it has ended"
    );
    assert_eq!(running.status_at("/currentUpdate/references"), second);
    let failed = json!([
        condition("Complete", "True", "UpdateFailed", ""),
        condition("Failed", "True", "UpdateFailed", ""),
    ]);
    let failed = running.ended(failed);
    assert_eq!(
        failed.status_at("/references"),
        second,
        "however it has ended"
    );
    assert_eq!(cause(&failed), None, "it is not new any more");
}

#[test]
fn reference_change_during_run_starts_another() {
    let changed = referring().after().config_map("sizes", "2").succeeded();
    assert_eq!(
        changed.status_at("/currentUpdate/references/configMaps/sizes"),
        "2"
    );
}

#[test]
fn reference_change_survives_failed_update_creation() {
    let changed = settled().config_map("sizes", "2");
    let name = changed.decide().created().metadata.name.clone();
    let vanished = changed.after();
    assert!(vanished.status_at("/currentUpdate/name").is_string());
    let again = vanished.decide();
    assert_eq!(again.created().metadata.name, name, "the same");
    assert_eq!(
        cause(&vanished).as_deref(),
        Some("Referenced ConfigMap changed: \"sizes\"")
    );
}

#[test]
fn removed_reference_is_forgotten() {
    let mut edited = settled().config_map("sizes", "2");
    edited.stack["spec"] = fixture().stack["spec"].take();
    edited.stack["metadata"]["generation"] = json!(4);
    let running = edited.after();
    assert_eq!(running.status_at("/currentUpdate/references"), Value::Null);
    let settled = running.succeeded();
    assert_eq!(settled.status_at("/references"), Value::Null);
    assert_eq!(settled.decide().request_names(), ["source"]);
}

#[test]
fn pod_is_replaced_only_for_changed_references() {
    let first = referring();
    assert_eq!(mark(&first), None);
    let taken_over = referring().last(json!({ "generation": 2 }));
    assert_eq!(mark(&taken_over), None, "its versions are unknown");
    let settled = first.after().succeeded();
    let requested = settled.request("now");
    assert_eq!(mark(&requested), None);

    let changed = requested.config_map("sizes", "2");
    let second = mark(&changed);
    assert!(second.is_some());
    assert_eq!(mark(&changed.request("later")), second, "while it waits");
}

#[test]
fn pod_reference_mark_stays_until_next_change() {
    let changed = settled().config_map("sizes", "2");
    let second = mark(&changed);
    let settled = changed.after().succeeded().request("now");
    assert_eq!(mark(&settled), second);
    let edited = settled.with(json!({ "metadata": { "generation": 9 } }));
    assert_eq!(mark(&edited), second);
    let third = mark(&edited.secret("tokens", "2"));
    assert!(third.is_some());
    assert_ne!(third, second);
}

#[test]
fn pod_older_than_reference_change_gets_no_run() {
    let waits = json!({ "status": { "conditions": [] } });
    let mut waiting = referring().workspace(waits).after();
    assert_eq!(mark(&waiting), None);
    assert_eq!(
        waiting.status_at("/references/configMaps"),
        json!({ "sizes": "1" }),
        "seen first"
    );
    waiting = waiting.config_map("sizes", "2");
    let second = mark(&waiting);
    assert!(second.is_some(), "before its first run");
    let later = waiting.after();
    assert_eq!(mark(&later), second, "and after another look");
    let mut ready = later;
    ready.workspace = fixture().workspace;
    assert_eq!(mark(&ready), second);
    let running = ready.after();
    assert_eq!(
        running.status_at("/currentUpdate/references/changed"),
        json!(true)
    );
}

#[test]
fn reference_change_fixes_workspace_of_waiting_update() {
    let waits = condition("Progressing", "False", "WorkspaceNotReady", "");
    let mut waiting = referring().after();
    waiting.update = Some(json!({
        "metadata": { "name": "waits" }, "spec": { "type": "up" },
        "status": { "conditions": [waits] },
    }));
    assert_eq!(mark(&waiting), None);
    let changed = waiting.config_map("sizes", "2");
    let second = mark(&changed);
    assert!(second.is_some());
    assert_eq!(changed.decide().plan.rule, "update-workspace");
    let gone = changed.without(&[], &["tokens"]);
    assert_eq!(mark(&gone), second, "what is gone is no other version");
    let after = gone.secret("tokens", "1").succeeded();
    let next = after.status_at("/currentUpdate/references/configMaps/sizes");
    assert_eq!(next, "2", "the version of the run is unknown");
}

#[test]
fn credentials_of_a_source_are_the_sources_to_miss() {
    let git = json!({ "gitAuthSecret": "keys" });
    let spec: StackSpec =
        serde_json::from_value(json!({ "stack": "dev", "gitAuthSecret": "keys" })).unwrap();
    assert_eq!(references(&spec).count(), 1);
    let outcome = settled().spec(git).decide();
    let requests = outcome.requests.iter().any(|request| match request {
        StackStep::Read(StackRead::Secrets(names)) => names.contains("keys"),
        _ => false,
    });
    assert!(!requests);
}

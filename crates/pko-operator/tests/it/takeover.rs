//! Our manager in the cluster that upstream left: it starts no run and replaces nothing without
//! cause. Stuck objects continue, or their condition names the cause.

mod lab;
mod snapshot;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams},
};
use pko_api::{Program, Stack, Workspace};
use pko_testkit::{Script, StandIn, eventually, shared_folder};
use serde_json::json;
use tempfile::TempDir;

use crate::harness::System;
use lab::{Lab, NAMESPACE};
use snapshot::{Snapshot, Updates};

/// What becomes of a Stack.
#[derive(Clone, Copy)]
struct Expected {
    stack: &'static str,
    end: ExpectedEnd,
    runs: ExpectedRuns,
    workspace: Kept,
}

#[derive(Clone, Copy)]
enum ExpectedEnd {
    /// This condition is True, for this reason, and its message has this part.
    Condition(&'static str, &'static str, &'static str),
    Gone,
}

/// The Updates that are new, by the beginnings of their messages.
#[derive(Clone, Copy)]
enum ExpectedRuns {
    None,
    One(&'static str),
    /// None, unless the test takes so long that this comes.
    IfDue(&'static str),
}

/// Whether Workspace, Service, StatefulSet and pod are the ones of before.
#[derive(Clone, Copy)]
enum Kept {
    Yes,
    /// A run has come, or the pod never came up.
    No,
    /// There is no Workspace, and there is none afterwards.
    None,
}

/// The image of a pod that never came up.
const NO_SUCH_IMAGE: &str = "local/nosuch:1";
const UP_TO_DATE: ExpectedEnd = ExpectedEnd::Condition(
    "Ready",
    "ProcessingCompleted",
    "the stack has been processed and is up to date",
);

/// Minutes after upstream is gone, what is known at once first.
const TABLE: [Expected; 14] = [
    Expected {
        // Failed three times, so that upstream would never try again; ours does, after 4m30s
        stack: "failing",
        end: ExpectedEnd::Condition(
            "Stalled",
            "UpdateFailed",
            "up failed 3 times; next attempt at",
        ),
        runs: ExpectedRuns::IfDue("Backoff time elapsed: 4m30s"),
        workspace: Kept::Yes,
    },
    Expected {
        stack: "blocked",
        end: ExpectedEnd::Condition(
            "Reconciling",
            "PrerequisiteNotSatisfied",
            "multiple prerequisites were not satisfied failing, nosuch",
        ),
        runs: ExpectedRuns::None,
        workspace: Kept::None,
    },
    Expected {
        stack: "source-missing",
        end: ExpectedEnd::Condition(
            "Stalled",
            "SourceUnavailable",
            "unable to retrieve program for stack",
        ),
        runs: ExpectedRuns::None,
        workspace: Kept::None,
    },
    Expected {
        stack: "spec-invalid",
        end: ExpectedEnd::Condition("Stalled", "SpecInvalid", "missing \"commit\" or \"branch\""),
        runs: ExpectedRuns::None,
        workspace: Kept::None,
    },
    Expected {
        // Upstream reports that it waits; ours reports for what
        stack: "bad-image",
        end: ExpectedEnd::Condition("Reconciling", "StackProcessing", NO_SUCH_IMAGE),
        runs: ExpectedRuns::None,
        workspace: Kept::No,
    },
    Expected {
        stack: "after-ready",
        end: UP_TO_DATE,
        runs: ExpectedRuns::None,
        workspace: Kept::Yes,
    },
    Expected {
        stack: "legacy",
        end: UP_TO_DATE,
        runs: ExpectedRuns::None,
        workspace: Kept::Yes,
    },
    Expected {
        stack: "previewing",
        end: UP_TO_DATE,
        runs: ExpectedRuns::None,
        workspace: Kept::Yes,
    },
    Expected {
        stack: "ready",
        end: UP_TO_DATE,
        runs: ExpectedRuns::None,
        workspace: Kept::Yes,
    },
    Expected {
        stack: "reclaimed",
        end: UP_TO_DATE,
        runs: ExpectedRuns::None,
        workspace: Kept::None,
    },
    Expected {
        // Every hour, and the last time was minutes ago
        stack: "resyncing",
        end: UP_TO_DATE,
        runs: ExpectedRuns::None,
        workspace: Kept::Yes,
    },
    Expected {
        // Its agent cannot review callers; an agent of ours needs no review
        stack: "no-delegator",
        end: UP_TO_DATE,
        runs: ExpectedRuns::One("Initial stack update"),
        workspace: Kept::No,
    },
    Expected {
        // The run ended with upstream's manager, to whose connection it belonged
        stack: "running",
        end: UP_TO_DATE,
        runs: ExpectedRuns::One("Backoff time elapsed"),
        workspace: Kept::No,
    },
    Expected {
        // Its destroy failed twice, and is due again
        stack: "undeletable",
        end: ExpectedEnd::Gone,
        runs: ExpectedRuns::One("Backoff time elapsed: 1m30s"),
        workspace: Kept::No,
    },
];

/// A day later more is due; everything else is as in [`TABLE`].
const A_DAY_LATER: [Expected; 2] = [
    Expected {
        stack: "failing",
        end: ExpectedEnd::Condition(
            "Stalled",
            "UpdateFailed",
            "up failed 4 times; next attempt at",
        ),
        runs: ExpectedRuns::One("Backoff time elapsed: 4m30s"),
        workspace: Kept::No,
    },
    Expected {
        stack: "resyncing",
        end: UP_TO_DATE,
        runs: ExpectedRuns::One("Resync time elapsed: 1h0m0s"),
        workspace: Kept::No,
    },
];

impl ExpectedEnd {
    async fn reached(&self, client: &Client, name: &str) {
        let stacks = Api::<Stack>::namespaced(client.clone(), NAMESPACE);
        let reached = eventually(format!("{name} to end as it should"), async || {
            let stack = stacks.get_opt(name).await.unwrap();
            let Some(stack) = stack else {
                return if matches!(self, Self::Gone) {
                    Ok(())
                } else {
                    Err("it is gone".to_owned())
                };
            };
            let conditions = stack.status.unwrap_or_default().conditions;
            let is_there = conditions.iter().any(|found| match self {
                Self::Gone => false,
                Self::Condition(kind, reason, part) => {
                    found.type_ == *kind
                        && found.status == "True"
                        && found.reason == *reason
                        && found.message.contains(part)
                }
            });
            if is_there {
                Ok(())
            } else {
                Err(format!("{conditions:#?}"))
            }
        });
        reached.await.unwrap();
    }
}

impl ExpectedRuns {
    /// Gives whether there was one that the test need not have seen.
    fn judge(self, stack: &str, messages: &[String]) -> bool {
        let all_begin = |cause: &str| messages.iter().all(|message| message.starts_with(cause));
        let is_right = match self {
            Self::None => messages.is_empty(),
            Self::One(cause) => messages.len() == 1 && all_begin(cause),
            Self::IfDue(cause) => messages.len() <= 1 && all_begin(cause),
        };
        assert!(is_right, "{stack} ran for {messages:?}");
        matches!(self, Self::IfDue(_)) && !messages.is_empty()
    }
}

impl Kept {
    fn judge(self, stack: &str, before: &Snapshot, after: &Snapshot) {
        let (before, after) = (before.of(stack), after.of(stack));
        match self {
            Self::Yes => {
                assert_eq!(before.len(), 4, "{stack} {before:#?}");
                assert_eq!(after, before, "{stack}");
            }
            Self::None => assert_eq!((before, after), (vec![], vec![]), "{stack}"),
            Self::No => {}
        }
    }
}

/// The cluster of upstream, and our manager in it.
struct TakenOver {
    // Fields are dropped in this order: the agents end before the cluster
    _lab: Lab,
    system: System,
    stand_in: StandIn,
    client: Client,
    before: Snapshot,
    updates: Updates,
    _files: TempDir,
}

impl TakenOver {
    /// Starts our manager so long after upstream has gone.
    async fn after(ago: SignedDuration) -> Option<Self> {
        let folder = shared_folder("fixtures/upstream-cluster")?;
        let files = tempfile::tempdir().unwrap();
        let stand_in = StandIn::new(files.path(), &Script::new());
        let mut system = System::on_new_plane(&[
            ("PKO_PULUMI", StandIn::program().to_str().unwrap()),
            ("PKO_STAND_IN", stand_in.folder().to_str().unwrap()),
            ("POD_SA_NAME", "controller-manager"),
        ])
        .await;
        system.start_node();
        system.node().break_image(NO_SUCH_IMAGE);
        let lab = Lab::restore(&system, &folder, ago).await;
        let client = system.plane.client().unwrap();
        let before = Snapshot::take(&client).await;
        let updates = Updates::watch(&client).await;
        system.start_manager();
        Some(Self {
            _lab: lab,
            system,
            stand_in,
            client,
            before,
            updates,
            _files: files,
        })
    }

    /// Waits until every Stack has come to its end, and judges how.
    async fn judge(&self, table: &[Expected]) {
        let mut names: Vec<&str> = table.iter().map(|expected| expected.stack).collect();
        names.sort_unstable();
        assert_eq!(self.before.stacks(), names, "every Stack is in the table");
        for expected in table {
            expected.end.reached(&self.client, expected.stack).await;
        }
        let after = Snapshot::take(&self.client).await;
        for expected in table {
            let stack = expected.stack;
            let was_due = expected.runs.judge(stack, &self.updates.new_of(stack));
            if !was_due {
                expected.workspace.judge(stack, &self.before, &after);
            }
        }
        assert_eq!(self.stand_in.count("destroy"), 1);
    }
}

impl TakenOver {
    /// Deletes a pod that upstream made for a Program, as a drained node does. The next one asks
    /// for an archive that only upstream served, so it can't start; ours is put in its place, and
    /// no run is needed for that.
    async fn restarted_pod_is_replaced(&self, name: &str) {
        let pods = Api::<Pod>::namespaced(self.client.clone(), NAMESPACE);
        let pod = format!("{name}-workspace-0");
        pods.delete(&pod, &DeleteParams::default()).await.unwrap();
        ready_for(&self.client, name, "Succeeded").await;
        let init = pods.get(&pod).await.unwrap().spec.unwrap();
        let fetched = json!(init.init_containers).to_string();
        let programs = Api::<Program>::namespaced(self.client.clone(), NAMESPACE);
        let digests = programs.list(&ListParams::default()).await.unwrap();
        let mut artifacts = digests.items.iter().filter_map(|program| {
            let artifact = program.status.as_ref()?.artifact.as_ref()?;
            Some((artifact.digest.as_deref()?, &artifact.url))
        });
        // The address has a seal, which upstream's has not.
        let is_ours =
            |(digest, url): (&str, &String)| fetched.contains(digest) && fetched.contains(url);
        assert!(artifacts.any(is_ours), "{fetched}");
        assert_eq!(self.updates.new_of(name), [""; 0]);
    }
}

#[tokio::test]
async fn takeover_of_an_upstream_cluster() {
    // The destroy that failed is due again after a minute and a half, the update after four and a
    // half
    let ago = SignedDuration::from_mins(2);
    let Some(taken) = TakenOver::after(ago).await else {
        return;
    };
    taken.judge(&TABLE).await;
    // Upstream's agents serve on, until a run comes
    for expected in TABLE {
        if let Kept::Yes = expected.workspace {
            wait_until_outdated(&taken.client, expected.stack).await;
        }
    }
    taken.restarted_pod_is_replaced("ready").await;
    taken.system.node().restore_image(NO_SUCH_IMAGE);
    UP_TO_DATE.reached(&taken.client, "bad-image").await;
    let runs = taken.updates.new_of("bad-image");
    assert_eq!(runs, ["Initial stack update"]);
}

#[tokio::test]
async fn takeover_after_a_day_runs_due_work_once() {
    let Some(taken) = TakenOver::after(SignedDuration::from_hours(25)).await else {
        return;
    };
    let due = |expected: Expected| {
        let mut later = A_DAY_LATER.into_iter();
        later
            .find(|later| later.stack == expected.stack)
            .unwrap_or(expected)
    };
    taken.judge(&TABLE.map(due)).await;
    taken.updates.old_ones_are_gone(&taken.client).await;
}

/// Waits until our manager has met the agent in a pod of upstream's, which it leaves as it is.
async fn wait_until_outdated(client: &Client, name: &str) {
    ready_for(client, name, "Outdated").await;
}

/// Waits until a Workspace is ready for this reason.
async fn ready_for(client: &Client, name: &str, reason: &str) {
    let workspaces = Api::<Workspace>::namespaced(client.clone(), NAMESPACE);
    let what = format!("the Workspace {name} to be Ready/{reason}");
    let reached = eventually(what, async || {
        let workspace = workspaces.get(name).await.unwrap();
        let conditions = workspace.status.unwrap_or_default().conditions;
        let mut ready = conditions.iter().filter(|found| found.type_ == "Ready");
        if ready.any(|ready| ready.status == "True" && ready.reason == reason) {
            Ok(())
        } else {
            Err(format!("{conditions:#?}"))
        }
    });
    reached.await.unwrap();
}

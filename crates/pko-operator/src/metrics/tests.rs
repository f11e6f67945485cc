use kube::runtime::{reflector, watcher::Event};
use pko_api::{Decoded, Program, Stack};
use serde_json::json;

use super::*;

fn stack(name: &str, status: &serde_json::Value) -> Decoded<Stack> {
    let object = json!({
        "apiVersion": "pulumi.com/v1", "kind": "Stack",
        "metadata": { "namespace": "team", "name": name, "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": { "stack": "dev" }, "status": status,
    });
    serde_json::from_value(object).unwrap()
}

fn conditions(reconciling: &str) -> serde_json::Value {
    json!([{
        "type": "Reconciling", "status": reconciling, "reason": "R", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }])
}

fn lines(metrics: &Metrics, name: &str) -> Vec<String> {
    let text = metrics.text().unwrap();
    let lines = text.lines().filter(|line| line.starts_with(name));
    lines.map(str::to_owned).collect()
}

#[test]
fn object_metrics_follow_the_cache() {
    let (stacks, mut writer) = reflector::store();
    let (programs, _) = reflector::store::<Decoded<Program>>();
    let metrics = Metrics::new().unwrap();
    let objects = ObjectMetrics::new(stacks, programs, || (3, 2), || true).unwrap();
    metrics.add(objects).unwrap();
    assert_eq!(lines(&metrics, "stacks_active"), ["stacks_active 0"]);

    let failing = stack(
        "bad",
        &json!({ "lastUpdate": { "state": "failed" }, "conditions": conditions("True") }),
    );
    let good = stack(
        "good",
        &json!({ "lastUpdate": { "state": "succeeded" }, "conditions": conditions("False") }),
    );
    let new = stack("new", &json!({}));
    for stack in [&failing, &good, &new] {
        writer.apply_watcher_event(&Event::Apply(stack.clone()));
    }
    assert_eq!(lines(&metrics, "stacks_active"), ["stacks_active 3"]);
    assert_eq!(
        lines(&metrics, "stacks_failing"),
        [
            r#"stacks_failing{name="bad",namespace="team"} 1"#,
            r#"stacks_failing{name="good",namespace="team"} 0"#,
        ]
    );
    assert_eq!(
        lines(&metrics, "stacks_reconciling").first().unwrap(),
        r#"stacks_reconciling{name="bad",namespace="team"} 1"#,
    );
    writer.apply_watcher_event(&Event::Delete(failing));
    assert_eq!(lines(&metrics, "stacks_active"), ["stacks_active 2"]);
    assert_eq!(
        lines(&metrics, "stacks_failing"),
        [r#"stacks_failing{name="good",namespace="team"} 0"#]
    );
    assert_eq!(lines(&metrics, "programs_active"), ["programs_active 0"]);
    assert_eq!(lines(&metrics, "pko_runs_waiting"), ["pko_runs_waiting 3"]);
    assert_eq!(
        lines(&metrics, "pko_runs_under_way"),
        ["pko_runs_under_way 2"]
    );
    assert_eq!(
        lines(&metrics, "leader_election_master_status"),
        [r#"leader_election_master_status{name="operator.pulumi.com"} 1"#]
    );
}

/// The series of Stacks and Programs.
fn series(metrics: &Metrics) -> Vec<String> {
    ["stacks_", "programs_", "resource_created_at_seconds"]
        .into_iter()
        .flat_map(|name| lines(metrics, name))
        .collect()
}

/// Upstream's names and labels. Its numbers change with events, so they are wrong after a missed
/// one, absent after a start, and remain after their object; ours are computed from the objects.
#[test]
fn scenario_136_object_metrics_follow_the_objects() {
    let (stacks, mut stack_writer) = reflector::store::<Decoded<Stack>>();
    let (programs, mut program_writer) = reflector::store::<Decoded<Program>>();
    let metrics = Metrics::new().unwrap();
    let objects = ObjectMetrics::new(stacks, programs, || (0, 0), || true).unwrap();
    metrics.add(objects).unwrap();
    let created = r#"resource_created_at_seconds{group="pulumi.com",kind="Stack",name="a",namespace="team",version="v1"} 1767225600"#;
    let none = ["stacks_active 0", "programs_active 0"];
    assert_eq!(series(&metrics), none);

    let failed = json!({ "lastUpdate": { "state": "failed" }, "conditions": conditions("True") });
    let succeeded = json!({ "lastUpdate": { "state": "succeeded" }, "conditions": [] });
    for (status, failing, reconciling) in [(&failed, 1, 1), (&succeeded, 0, 0)] {
        stack_writer.apply_watcher_event(&Event::Apply(stack("a", status)));
        assert_eq!(
            series(&metrics),
            [
                "stacks_active 1".to_owned(),
                format!(r#"stacks_failing{{name="a",namespace="team"}} {failing}"#),
                format!(r#"stacks_reconciling{{name="a",namespace="team"}} {reconciling}"#),
                "programs_active 0".to_owned(),
                created.to_owned(),
            ]
        );
    }
    stack_writer.apply_watcher_event(&Event::Apply(stack("b", &json!({}))));
    assert_eq!(lines(&metrics, "stacks_active"), ["stacks_active 2"]);
    for gone in ["a", "b", "b"] {
        stack_writer.apply_watcher_event(&Event::Delete(stack(gone, &json!({}))));
    }
    assert_eq!(
        series(&metrics),
        none,
        "no series stays, and none is below zero"
    );

    let program = json!({ "apiVersion": "pulumi.com/v1", "kind": "Program", "metadata": { "namespace": "team", "name": "p" } });
    let program: Decoded<Program> = serde_json::from_value(program).unwrap();
    program_writer.apply_watcher_event(&Event::Apply(program.clone()));
    assert_eq!(lines(&metrics, "programs_active"), ["programs_active 1"]);
    for _ in 0..2 {
        program_writer.apply_watcher_event(&Event::Delete(program.clone()));
    }
    assert_eq!(series(&metrics), none);
}

/// Upstream's are absent until the next event of each Stack.
#[test]
fn object_metrics_are_right_after_a_start() {
    let (stacks, mut writer) = reflector::store::<Decoded<Stack>>();
    let (programs, _) = reflector::store::<Decoded<Program>>();
    let metrics = Metrics::new().unwrap();
    let objects = ObjectMetrics::new(stacks, programs, || (0, 0), || true).unwrap();
    metrics.add(objects).unwrap();
    let mut list = |names: &[&str]| {
        writer.apply_watcher_event(&Event::Init);
        for name in names {
            let status = json!({ "lastUpdate": { "state": "failed" } });
            writer.apply_watcher_event(&Event::InitApply(stack(name, &status)));
        }
        writer.apply_watcher_event(&Event::InitDone);
    };
    let failing = |name| format!(r#"stacks_failing{{name="{name}",namespace="team"}} 1"#);
    list(&["a", "b"]);
    assert_eq!(lines(&metrics, "stacks_active"), ["stacks_active 2"]);
    assert_eq!(
        lines(&metrics, "stacks_failing"),
        [failing("a"), failing("b")]
    );
    list(&["b"]);
    assert_eq!(lines(&metrics, "stacks_active"), ["stacks_active 1"]);
    assert_eq!(lines(&metrics, "stacks_failing"), [failing("b")]);
}

#[test]
fn controller_series_exist_before_the_first_reconcile() {
    let metrics = Metrics::new().unwrap();
    metrics.register_controller("stack-controller", 25);
    let text = metrics.text().unwrap();
    for line in [
        r#"controller_runtime_max_concurrent_reconciles{controller="stack-controller"} 25"#,
        r#"controller_runtime_active_workers{controller="stack-controller"} 0"#,
        r#"controller_runtime_reconcile_errors_total{controller="stack-controller"} 0"#,
        r#"controller_runtime_reconcile_panics_total{controller="stack-controller"} 0"#,
        r#"controller_runtime_reconcile_total{controller="stack-controller",result="requeue"} 0"#,
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line}\n{text}");
    }
}

#[test]
fn reconciles_are_counted_by_outcome() {
    let metrics = Metrics::new().unwrap();
    let ends = [
        ReconcileOutcome::Done,
        ReconcileOutcome::Requeued,
        ReconcileOutcome::Failed,
        ReconcileOutcome::Panicked,
    ];
    for end in ends {
        let rule = (end == ReconcileOutcome::Done).then_some("up-to-date");
        let took = Duration::from_millis(20);
        metrics.reconcile_ended("stack-controller", "Stack", rule, end, took);
    }
    let text = metrics.text().unwrap();
    for line in [
        r#"controller_runtime_reconcile_total{controller="stack-controller",result="success"} 1"#,
        r#"controller_runtime_reconcile_total{controller="stack-controller",result="requeue_after"} 1"#,
        r#"controller_runtime_reconcile_total{controller="stack-controller",result="error"} 2"#,
        r#"controller_runtime_reconcile_errors_total{controller="stack-controller"} 2"#,
        r#"controller_runtime_reconcile_panics_total{controller="stack-controller"} 1"#,
        r#"controller_runtime_reconcile_time_seconds_count{controller="stack-controller"} 4"#,
        r#"pko_reconcile_seconds_count{kind="Stack",rule="up-to-date"} 1"#,
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line}\n{text}");
    }
}

#[test]
fn active_worker_ends_with_its_reconcile() {
    let metrics = Metrics::new().unwrap();
    let active = || lines(&metrics, "controller_runtime_active_workers{").concat();
    let pass = metrics.reconcile_started("stack-controller");
    assert!(active().ends_with(" 1"), "{}", active());
    drop(pass);
    assert!(active().ends_with(" 0"), "{}", active());
}

#[test]
fn durations_have_histograms() {
    let metrics = Metrics::new().unwrap();
    metrics.run_ended("up", "succeeded", 12.0);
    metrics.queue_wait(Duration::from_secs(3));
    metrics.workspace_started(4.0);
    metrics.installed(false, Duration::from_secs(5));
    let text = metrics.text().unwrap();
    for line in [
        r#"pko_run_seconds_sum{result="succeeded",type="up"} 12"#,
        "pko_run_queue_wait_seconds_sum 3",
        "pko_workspace_start_seconds_sum 4",
        r#"pko_workspace_install_seconds_sum{result="failed"} 5"#,
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line}\n{text}");
    }
}

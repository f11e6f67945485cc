use kube::runtime::reflector;
use pko_api::{Decoded, Program, Stack};
use serde_json::json;

use super::*;

fn stack(name: &str, status: &serde_json::Value) -> Decoded<Stack> {
    let object = json!({
        "apiVersion": "pulumi.com/v1", "kind": "Stack",
        "metadata": { "namespace": "team", "name": name },
        "spec": { "stack": "dev" }, "status": status,
    });
    serde_json::from_value(object).unwrap()
}

/// The lines of a metric.
fn lines(metrics: &Metrics, name: &str) -> Vec<String> {
    let text = metrics.text().unwrap();
    let lines = text.lines().filter(|line| line.starts_with(name));
    lines.map(str::to_owned).collect()
}

#[test]
fn what_objects_there_are_is_counted_at_each_scrape_and_goes_with_them() {
    let (stacks, mut writer) = reflector::store();
    let (programs, _) = reflector::store::<Decoded<Program>>();
    let metrics = Metrics::new().unwrap();
    let objects = Objects::new(stacks, programs, || (3, 2), || true).unwrap();
    metrics.add(objects).unwrap();
    assert_eq!(lines(&metrics, "stacks_active"), ["stacks_active 0"]);

    let condition = |status: &str| {
        json!([{
            "type": "Reconciling", "status": status, "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }])
    };
    let failing = stack(
        "bad",
        &json!({ "lastUpdate": { "state": "failed" }, "conditions": condition("True") }),
    );
    let good = stack(
        "good",
        &json!({ "lastUpdate": { "state": "succeeded" }, "conditions": condition("False") }),
    );
    let new = stack("new", &json!({}));
    for stack in [&failing, &good, &new] {
        writer.apply_watcher_event(&kube::runtime::watcher::Event::Apply(stack.clone()));
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
    writer.apply_watcher_event(&kube::runtime::watcher::Event::Delete(failing));
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

#[test]
fn a_controllers_series_are_there_before_anything_happens() {
    let metrics = Metrics::new().unwrap();
    metrics.controller_begins("stack-controller", 25);
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
fn passes_are_counted_by_their_end() {
    let metrics = Metrics::new().unwrap();
    let ends = [
        PassEnd::Settled,
        PassEnd::Again,
        PassEnd::Failed,
        PassEnd::Panicked,
    ];
    for end in ends {
        let rule = (end == PassEnd::Settled).then_some("up-to-date");
        let took = Duration::from_millis(20);
        metrics.pass_ended("stack-controller", "Stack", rule, end, took);
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
fn a_worker_is_at_work_until_its_pass_ends_however() {
    let metrics = Metrics::new().unwrap();
    let active = || lines(&metrics, "controller_runtime_active_workers{").concat();
    let pass = metrics.pass_begins("stack-controller");
    assert!(active().ends_with(" 1"), "{}", active());
    drop(pass);
    assert!(active().ends_with(" 0"), "{}", active());
}

#[test]
fn durations_have_their_histograms() {
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

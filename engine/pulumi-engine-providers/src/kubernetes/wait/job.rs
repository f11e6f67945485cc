//! Readiness of Jobs.

use super::{Observation, Progress, conditions, pod};
use crate::kubernetes::object::{number, text};

/// A Job is ready when it is complete.
pub(super) fn judge(sight: &Observation) -> Progress {
    let job = &sight.object;
    if conditions::is_true(job, "Complete") {
        return Progress::Ready;
    }
    let troubles = pod::troubles(&sight.pods);
    let mut failure = conditions::messages(job, "Failed");
    if !failure.is_empty() {
        failure.extend(troubles);
        return Progress::Failed(failure);
    }
    let mut reasons = conditions::messages(job, "Suspended");
    if text(job, "/status/startTime").is_none() {
        reasons.push("the Job has not started yet".to_owned());
    } else {
        let count = |field: &str| number(job, &format!("/status/{field}")).unwrap_or(0);
        let (active, succeeded, failed) = (count("active"), count("succeeded"), count("failed"));
        reasons.push(format!(
            "pods of the Job: {active} active, {succeeded} succeeded, {failed} failed"
        ));
    }
    reasons.extend(troubles);
    Progress::Waiting(reasons)
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "cases are values")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn judged(status: Value) -> Progress {
        judge(&Observation {
            object: json!({"status": status}),
            ..Observation::default()
        })
    }

    #[test]
    fn job_is_ready_when_complete() {
        assert_eq!(
            judged(json!({"conditions": [{"type": "Complete", "status": "True"}]})),
            Progress::Ready
        );
        let failed = json!({"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}]});
        assert_eq!(
            judged(failed),
            Progress::Failed(vec!["[BackoffLimitExceeded] too often".into()])
        );
        assert_eq!(
            judged(json!({})),
            Progress::waiting("the Job has not started yet")
        );
        let running = json!({"startTime": "now", "active": 1, "failed": 2});
        assert_eq!(
            judged(running),
            Progress::waiting("pods of the Job: 1 active, 0 succeeded, 2 failed")
        );
        // success criteria are met, but pods may still run
        let nearly = json!({"startTime": "now", "succeeded": 1, "conditions": [{"type": "SuccessCriteriaMet", "status": "True"}]});
        assert!(matches!(judged(nearly), Progress::Waiting(_)));
    }

    #[test]
    fn job_failure_names_pods() {
        let pods = vec![
            json!({"metadata": {"name": "p"}, "status": {"containerStatuses": [
            {"name": "c", "ready": false, "state": {"terminated": {"reason": "Error", "exitCode": 2}}}]}}),
        ];
        let object = json!({"status": {"conditions": [{"type": "Failed", "status": "True", "reason": "R", "message": "m"}]}});
        let Progress::Failed(reasons) = judge(&Observation {
            object,
            pods,
            ..Observation::default()
        }) else {
            panic!("not failed");
        };
        assert_eq!(
            reasons,
            [
                "[R] m",
                "pod p: container c: [Error] ended with exit code 2"
            ]
        );
    }
}

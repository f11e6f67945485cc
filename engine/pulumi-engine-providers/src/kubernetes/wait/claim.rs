//! Readiness of claims and volumes.

use serde_json::Value;

use super::{Observation, Progress};
use crate::kubernetes::object::text;

/// A claim is ready when it is bound, or waits for its first pod.
pub(super) fn judge(sight: &Observation) -> Progress {
    let phase = text(&sight.object, "/status/phase");
    let class = sight.storage_class.as_ref();
    let mode = class.and_then(|class| text(class, "/volumeBindingMode"));
    match phase {
        Some("Bound") => Progress::Ready,
        Some("Pending") if mode == Some("WaitForFirstConsumer") => Progress::Ready,
        Some("Lost") => Progress::Failed(vec!["the claim lost its volume".to_owned()]),
        _ => Progress::waiting("the claim has no volume yet"),
    }
}

/// A volume is ready when it is bound or available.
pub(super) fn volume(volume: &Value) -> Progress {
    match text(volume, "/status/phase") {
        Some("Available" | "Bound") => Progress::Ready,
        Some("Failed") => {
            let message = text(volume, "/status/message").unwrap_or("the volume failed");
            Progress::Failed(vec![message.to_owned()])
        }
        _ => Progress::waiting("the volume is not available yet"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claim_is_ready_when_bound_or_waiting_for_pod() {
        let late = Some(json!({"volumeBindingMode": "WaitForFirstConsumer"}));
        let soon = Some(json!({"volumeBindingMode": "Immediate"}));
        let cases = [
            (json!("Bound"), None, "ready"),
            (json!("Bound"), late.clone(), "ready"),
            (json!("Pending"), None, "waiting"),
            (json!("Pending"), soon, "waiting"),
            (json!("Pending"), late.clone(), "ready"),
            (Value::Null, late, "waiting"),
            (json!("Lost"), None, "failed"),
        ];
        for (phase, storage_class, expected) in cases {
            let object = json!({"status": {"phase": phase}});
            let found = match judge(&Observation {
                object,
                storage_class,
                ..Observation::default()
            }) {
                Progress::Ready => "ready",
                Progress::Waiting(_) => "waiting",
                Progress::Failed(_) => "failed",
            };
            assert_eq!(found, expected, "{phase}");
        }
    }

    #[test]
    fn volume_is_ready_when_available() {
        for (phase, ready) in [
            ("Available", true),
            ("Bound", true),
            ("Pending", false),
            ("Failed", false),
        ] {
            let progress = volume(&json!({"status": {"phase": phase}}));
            assert_eq!(progress == Progress::Ready, ready, "{phase}");
        }
    }
}

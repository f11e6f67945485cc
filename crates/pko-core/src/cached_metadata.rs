//! What the caches keep of an object's metadata.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// `kubectl apply` stores the whole object here once more.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Annotations may have 256 KiB. Nothing of that size in the annotations of others is read here.
const LONGEST_VALUE: usize = 1024;
/// The domains of the annotations that are read.
const READ_DOMAINS: [&str; 2] = ["pulumi.com", "fluxcd.io"];

/// Drops managed fields, and annotations that are large and that nothing here reads.
pub fn trim_metadata(metadata: &mut ObjectMeta) {
    metadata.managed_fields = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.retain(|key, value| is_kept(key, value));
    }
}

fn is_kept(key: &str, value: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let is_read = |read: &str| {
        let rest = domain.strip_suffix(read);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    key != LAST_APPLIED && (value.len() <= LONGEST_VALUE || READ_DOMAINS.into_iter().any(is_read))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn trimmed_metadata_keeps_what_is_small_or_read() {
        let large = "x".repeat(LONGEST_VALUE + 1);
        let annotations = json!({
            LAST_APPLIED: "{}", "example.com/large": large, "notpulumi.com/large": large, "large": large,
            "example.com/small": "a", "pulumi.com/large": large, "auto.pulumi.com/large": large,
            "reconcile.fluxcd.io/requestedAt": large,
        });
        let metadata = json!({
            "name": "n", "labels": { "a": "b" }, "annotations": annotations,
            "managedFields": [{ "manager": "kubectl" }],
        });
        let mut metadata: ObjectMeta = serde_json::from_value(metadata).unwrap();
        trim_metadata(&mut metadata);
        let annotations = metadata.annotations.as_ref().unwrap();
        assert_eq!(
            annotations.keys().map(String::as_str).collect::<Vec<_>>(),
            [
                "auto.pulumi.com/large",
                "example.com/small",
                "pulumi.com/large",
                "reconcile.fluxcd.io/requestedAt",
            ]
        );
        assert_eq!(metadata.managed_fields, None);
        assert_eq!(metadata.labels.unwrap()["a"], "b");
    }
}

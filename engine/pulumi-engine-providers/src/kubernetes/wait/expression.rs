//! The annotation `pulumi.com/waitFor`: conditions, or fields by simple JSON paths.

use serde_json::Value;

use super::{Progress, conditions};
use crate::kubernetes::object::text;

/// One thing to wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expression {
    /// A condition with a status.
    Condition {
        /// Type of the condition.
        kind: String,
        /// The expected status.
        status: String,
    },
    /// A field with a value, or with any value.
    Field {
        /// Its path: names and indices.
        steps: Vec<String>,
        /// The expected value.
        value: Option<String>,
    },
}

impl Expression {
    /// Reads the annotation: one expression, or a JSON list of them.
    pub(crate) fn parse_all(text: &str) -> Result<Vec<Self>, String> {
        let texts: Vec<String> =
            serde_json::from_str(text).unwrap_or_else(|_| vec![text.to_owned()]);
        if texts.is_empty() {
            return Err("`pulumi.com/waitFor` has nothing to wait for: give it an expression or leave it out".to_owned());
        }
        texts.iter().map(|text| Self::parse(text)).collect()
    }

    fn parse(text: &str) -> Result<Self, String> {
        if let Some(condition) = text.strip_prefix("condition=") {
            let (kind, status) = condition.split_once('=').unwrap_or((condition, "True"));
            return Ok(Self::Condition {
                kind: kind.to_owned(),
                status: status.to_owned(),
            });
        }
        let Some(path) = text.strip_prefix("jsonpath=") else {
            return Err(format!(
                "`pulumi.com/waitFor` is `{text}`: it must start with `condition=` or `jsonpath=`"
            ));
        };
        let (path, value) = match path.split_once("}=") {
            Some((path, value)) => (path, Some(value.trim_matches(['"', '\'']).to_owned())),
            None => (path.strip_suffix('}').unwrap_or(path), None),
        };
        let path = path.strip_prefix('{').unwrap_or(path);
        match steps(path) {
            Some(steps) => Ok(Self::Field { steps, value }),
            None => Err(format!(
                "`pulumi.com/waitFor` is `{text}`: this engine knows paths of names and indices, such as \
                 `jsonpath={{.status.phase}}=Running`; use an image with Pulumi's CLI for others"
            )),
        }
    }

    fn missing_part(&self, object: &Value) -> Option<String> {
        match self {
            Self::Condition { kind, status } => {
                let condition = conditions::find(object, kind);
                let found = condition.and_then(|condition| text(condition, "/status"));
                let said = condition.map_or(String::new(), |condition| {
                    format!(": {}", conditions::describe(condition))
                });
                (!found.is_some_and(|found| found.eq_ignore_ascii_case(status)))
                    .then(|| format!("condition {kind} is not {status} yet{said}"))
            }
            Self::Field { steps, value } => {
                let found = steps.iter().try_fold(object, |value, step| match value {
                    Value::Array(values) => values.get(step.parse::<usize>().ok()?),
                    other => other.get(step),
                });
                let path = steps.join(".");
                match (found.filter(|found| !found.is_null()), value) {
                    (None, _) => Some(format!("{path} is not there yet")),
                    (Some(found), Some(value)) if describe(found) != *value => {
                        Some(format!("{path} is not {value} yet"))
                    }
                    _ => None,
                }
            }
        }
    }
}

fn describe(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// Parses `.a.b[0]['c.d']`; none if it has more than names and indices.
fn steps(path: &str) -> Option<Vec<String>> {
    let mut steps = Vec::new();
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    while !rest.is_empty() {
        let (step, further) = if let Some(inner) = rest.strip_prefix("['") {
            inner.split_once("']")?
        } else if let Some(inner) = rest.strip_prefix('[') {
            let (index, further) = inner.split_once(']')?;
            index.parse::<usize>().ok()?;
            (index, further)
        } else {
            let plain = rest.strip_prefix('.')?;
            plain.split_at(plain.find(['.', '[']).unwrap_or(plain.len()))
        };
        if step.is_empty() || step.contains(['*', '?', '@', '(', '\\', ',']) {
            return None;
        }
        steps.push(step.to_owned());
        rest = further;
    }
    (!steps.is_empty()).then_some(steps)
}

pub(super) fn judge(expressions: &[Expression], object: &Value) -> Progress {
    let missing: Vec<_> = expressions
        .iter()
        .filter_map(|expression| expression.missing_part(object))
        .collect();
    if missing.is_empty() {
        Progress::Ready
    } else {
        Progress::Waiting(missing)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judged(text: &str, object: &Value) -> Progress {
        judge(&Expression::parse_all(text).unwrap(), object)
    }

    #[test]
    fn wait_for_conditions_and_fields() {
        let object = json!({"status": {"phase": "Running", "count": 3, "list": [{"a.b": "x"}],
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "Bad", "status": "False"}]}});
        let cases = [
            ("condition=Ready", true),
            ("condition=Ready=true", true),
            ("condition=Bad", false),
            ("condition=Bad=False", true),
            ("condition=None", false),
            ("jsonpath={.status.phase}", true),
            ("jsonpath={.status.phase}=Running", true),
            ("jsonpath={.status.phase}='Running'", true),
            ("jsonpath={.status.phase}=Pending", false),
            ("jsonpath={.status.count}=3", true),
            ("jsonpath=.status.count", true),
            ("jsonpath={.status.list[0]['a.b']}=x", true),
            ("jsonpath={.status.list[1]}", false),
            ("jsonpath={.status.none}", false),
            (
                r#"["condition=Ready", "jsonpath={.status.phase}=Running"]"#,
                true,
            ),
            (r#"["condition=Ready", "condition=Bad"]"#, false),
        ];
        for (text, ready) in cases {
            let progress = judged(text, &object);
            assert_eq!(progress == Progress::Ready, ready, "{text}: {progress:?}");
        }
    }

    #[test]
    fn wait_for_malformed_is_rejected() {
        for (text, reason) in [
            ("Ready", "must start with"),
            ("[]", "nothing to wait for"),
            ("jsonpath={.items[*].name}", "names and indices"),
            ("jsonpath={.items[?(@.a==1)]}", "names and indices"),
            ("jsonpath={}", "names and indices"),
            ("jsonpath={..name}", "names and indices"),
        ] {
            let refusal = Expression::parse_all(text).unwrap_err();
            assert!(refusal.contains(reason), "{text}: {refusal}");
        }
    }

    #[test]
    fn wait_for_reports_missing_parts() {
        let object = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "R", "message": "m"}]}});
        assert_eq!(
            judged("condition=Ready", &object),
            Progress::waiting("condition Ready is not True yet: [R] m")
        );
        assert_eq!(
            judged("jsonpath={.status.phase}", &object),
            Progress::waiting("status.phase is not there yet")
        );
    }
}

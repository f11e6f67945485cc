//! `deploy/rbac`: the RBAC roles as YAML, with the reasons as comments.

use std::{fmt::Write as _, path::Path};

use pko_api::rbac::{GROUP, Right, Role, Target};

use super::GeneratedFile;

const FOLDER: &str = "deploy/rbac";
const PAGE: &str = "docs/rights.md";

pub(super) fn files() -> Vec<GeneratedFile> {
    Role::ALL.iter().map(file).chain([page()]).collect()
}

/// The rights of all roles, for readers of SECURITY.md.
fn page() -> GeneratedFile {
    let mut text = String::from(PAGE_HEAD);
    for role in Role::ALL {
        let _ = write!(text, "\n## {}\n\n", role.name);
        let _ = write!(text, "{}: {}.", role.kind(), role.purpose);
        if !role.aggregated_to.is_empty() {
            let roles = role.aggregated_to.join("`, `");
            let _ = write!(text, " Part of Kubernetes' roles `{roles}`.");
        }
        text.push_str("\n\n| resources | verbs | reason |\n|---|---|---|\n");
        for right in role.rights {
            let (target, verbs) = (target(right), right.verbs.join(", "));
            let _ = writeln!(text, "| {target} | {verbs} | {} |", right.reason);
        }
    }
    GeneratedFile {
        path: PAGE.into(),
        text,
    }
}

const PAGE_HEAD: &str = "\
<!-- Made by `cargo xtask generate` from crates/pko-api/src/rbac. -->
# Rights

The rights of each role that the project ships. The manager of the tests runs with exactly these, so a
missing right fails a test. [SECURITY.md](../SECURITY.md) says what an attacker could do with them.
`deploy/rbac` has the roles as manifests.
";

/// A resource as kubectl names it: `stacks.pulumi.com/status`.
fn qualified(resource: &str, group: &str) -> String {
    let (resource, subresource) = match resource.split_once('/') {
        Some((resource, subresource)) => (resource, format!("/{subresource}")),
        None => (resource, String::new()),
    };
    let dot = if group.is_empty() { "" } else { "." };
    format!("`{resource}{dot}{group}{subresource}`")
}

fn target(right: &Right) -> String {
    match right.target {
        Target::Path(path) => format!("`{path}`"),
        Target::Resources {
            group,
            resources,
            names,
        } => {
            let resources = resources.iter().map(|name| qualified(name, group));
            let resources = resources.collect::<Vec<_>>().join(", ");
            if names.is_empty() {
                resources
            } else {
                format!("{resources} named `{}`", names.join("`, `"))
            }
        }
    }
}

fn file(role: &Role) -> GeneratedFile {
    let name = role.name.trim_start_matches("pulumi-kubernetes-operator-");
    let name = name.trim_end_matches("-role").replace('-', "_");
    GeneratedFile {
        path: Path::new(FOLDER).join(format!("{name}.yaml")),
        text: format!(
            "# Made by `cargo xtask generate` from crates/pko-api/src/rbac.\n{}",
            document(role, None)
        ),
    }
}

/// Written without a serializer, because those cannot write comments.
pub(super) fn document(role: &Role, namespace: Option<&str>) -> String {
    let mut text = format!("# {}\n", role.purpose);
    let _ = writeln!(text, "apiVersion: {GROUP}/v1\nkind: {}", role.kind());
    let _ = writeln!(text, "metadata:\n  name: {}", role.name);
    if let Some(namespace) = namespace {
        let _ = writeln!(text, "  namespace: {namespace}");
    }
    text.push_str("  labels:\n");
    for (label, value) in role.labels() {
        let _ = writeln!(text, "    {label}: {value}");
    }
    text.push_str("rules:\n");
    for right in role.rights {
        text.push_str(&rule(right));
    }
    text
}

fn rule(right: &Right) -> String {
    let fields: Vec<(&str, Vec<&str>)> = match right.target {
        Target::Path(path) => vec![("nonResourceURLs", vec![path])],
        Target::Resources {
            group,
            resources,
            names,
        } => vec![
            ("apiGroups", vec![group]),
            ("resources", resources.to_vec()),
            ("resourceNames", names.to_vec()),
        ],
    };
    let verbs = ("verbs", right.verbs.to_vec());
    let fields = fields.into_iter().chain([verbs]);
    let lines = fields
        .filter(|(_, values)| !values.is_empty())
        .map(|(name, values)| format!("    {name}: [{}]\n", list(&values)));
    let rule: String = lines.collect();
    let rule = rule.replacen("    ", "  - ", 1);
    format!("  # {}\n{rule}", right.reason)
}

fn list(values: &[&str]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| format!("\"{value}\"")).collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn role_yaml_matches_the_table() {
        for role in Role::ALL {
            let read: Value = serde_saphyr::from_str(&document(&role, None)).unwrap();
            assert_eq!(read, role.object(), "{}", role.name);
        }
    }

    #[test]
    fn roles_have_their_own_files() {
        let paths = files().into_iter().map(|file| file.path);
        let mut roles: Vec<_> = paths.filter(|path| path.starts_with(FOLDER)).collect();
        roles.sort();
        roles.dedup();
        assert_eq!(roles.len(), Role::ALL.len());
    }
}

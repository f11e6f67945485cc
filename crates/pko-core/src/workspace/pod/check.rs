//! Checks a spec before the API server rejects it: the error names field, value and fix.

use std::{collections::BTreeSet, fmt};

use pko_api::{
    Workspace,
    auto::v1alpha1::{ConfigItem, SecurityProfile},
    names::labels,
};
use serde_json::Value;

use super::{PULUMI_CONTAINER, container_name, source::SpecSource};
use crate::list_limit::LongList;

/// Variables that the operator sets in the `pulumi` container, and the one in every container.
const RESERVED: [&str; 4] = [
    "POD_NAMESPACE",
    "POD_SA_NAME",
    "PKO_MANAGER_PUBLIC_KEY",
    "PULUMI_ENV",
];

/// A spec for which no pod can be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    pub field: String,
    /// The problem and the fix.
    pub problem: String,
}

impl Invalid {
    pub(super) fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.field, self.problem)
    }
}

/// Checks the spec before anything is built from it.
pub(super) fn spec(workspace: &Workspace) -> Result<(), Invalid> {
    if let Some(long) = long_list(workspace) {
        return Err(Invalid::new(long.field.clone(), long.problem()));
    }
    check_single_source(workspace)?;
    check_profile(workspace)?;
    for (number, variable) in workspace.spec.env.iter().enumerate() {
        check_not_reserved(&format!("spec.env[{number}]"), &variable.name)?;
    }
    for (number, stack) in workspace.spec.stacks.iter().enumerate() {
        for (item, config) in stack.config.iter().enumerate() {
            let field = format!("spec.stacks[{number}].config[{item}]");
            check_config_item(config).map_err(|problem| Invalid::new(field, problem))?;
        }
    }
    check_labels(workspace)
}

/// A list with too many entries. The config of a Stack is limited in the Stack.
fn long_list(workspace: &Workspace) -> Option<LongList> {
    let spec = &workspace.spec;
    let own = [
        ("spec.env", spec.env.len()),
        ("spec.envFrom", spec.env_from.len()),
        ("spec.initContainers", spec.init_containers.len()),
        ("spec.stacks", spec.stacks.len()),
    ];
    let mut own = own.into_iter();
    let found = own.find_map(|(field, entries)| LongList::new(field, entries));
    let template = spec.pod_template.as_ref();
    let pod = template.and_then(|template| template.spec.as_ref());
    let containers = spec.init_containers.iter().flatten();
    found
        .or_else(|| in_fields("spec.podTemplate.spec", pod.into_iter().flatten()))
        .or_else(|| in_fields("spec.initContainers[]", containers))
}

fn in_fields<'spec>(
    field: &str,
    mut fields: impl Iterator<Item = (&'spec String, &'spec Value)>,
) -> Option<LongList> {
    fields.find_map(|(name, value)| LongList::within(&format!("{field}.{name}"), value))
}

/// Rejects config that every agent rejects.
fn check_config_item(item: &ConfigItem) -> Result<(), String> {
    let key = &item.key;
    match (&item.value_from, &item.value) {
        (Some(from), _) if from.env.is_none() && from.path.is_none() => Err(format!(
            "invalid config value for key \"{key}\": valueFrom needs env or path"
        )),
        (None, None) => Err(format!(
            "invalid config value for key \"{key}\": it has neither value nor valueFrom"
        )),
        (None, Some(value)) if item.path == Some(true) && !is_text(value) => Err(format!(
            "path=true is incompatible with structured values (objects, arrays, etc.) for key \"{key}\""
        )),
        _ => Ok(()),
    }
}

fn is_text(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Null)
}

fn check_single_source(workspace: &Workspace) -> Result<(), Invalid> {
    let sources = SpecSource::all(&workspace.spec);
    let fields: Vec<&str> = sources.iter().map(SpecSource::field).collect();
    match &sources[..] {
        [] => Ok(()),
        [source] => check_source(source),
        _ => Err(Invalid::new(
            fields.join(" and "),
            "a workspace has one source; remove all but one",
        )),
    }
}

/// Requires everything that `agent init` needs.
fn check_source(source: &SpecSource<'_>) -> Result<(), Invalid> {
    let parts: Vec<(&str, Option<&str>)> = match source {
        SpecSource::Git(git) => vec![
            ("url", git.url.as_deref()),
            ("ref", git.reference.as_deref()),
        ],
        SpecSource::Flux(flux) => vec![
            ("url", flux.url.as_deref()),
            ("digest", flux.digest.as_deref()),
        ],
        SpecSource::Local(local) => vec![("dir", local.dir.as_deref())],
        SpecSource::Project(project) => vec![
            ("name", Some(project.name.as_str())),
            ("runtime", Some(project.runtime.as_str())),
        ],
    };
    for (part, value) in parts {
        if value.is_none_or(str::is_empty) {
            return Err(Invalid::new(
                format!("{}.{part}", source.field()),
                "it is missing",
            ));
        }
    }
    let folder = source.folder().unwrap_or_default();
    if folder.split('/').any(|part| part == "..") {
        return Err(Invalid::new(
            format!("{}.dir", source.field()),
            format!("`{folder}` leads out of the source"),
        ));
    }
    Ok(())
}

fn check_profile(workspace: &Workspace) -> Result<(), Invalid> {
    match &workspace.spec.security_profile {
        Some(SecurityProfile::Other(other)) => Err(Invalid::new(
            "spec.securityProfile",
            format!("`{other}` is neither `baseline` nor `restricted`"),
        )),
        _ => Ok(()),
    }
}

fn check_not_reserved(field: &str, name: &str) -> Result<(), Invalid> {
    if RESERVED.contains(&name) {
        return Err(Invalid::new(
            field,
            format!("the variable `{name}` is set by the operator; give yours another name"),
        ));
    }
    Ok(())
}

fn check_labels(workspace: &Workspace) -> Result<(), Invalid> {
    let template = workspace.spec.pod_template.as_ref();
    let metadata = template.and_then(|template| template.metadata.as_ref());
    for label in [labels::AUTO_COMPONENT_KEY, labels::WORKSPACE_NAME] {
        if metadata.is_some_and(|metadata| metadata.labels.contains_key(label)) {
            return Err(Invalid::new(
                "spec.podTemplate.metadata.labels",
                format!("the label `{label}` is the operator's own; remove it"),
            ));
        }
    }
    Ok(())
}

/// Checks the merged template.
pub(super) fn template(workspace: &Workspace, template: &Value) -> Result<(), Invalid> {
    check_template_variables(workspace)?;
    let names = |pointer: &str| -> Vec<&str> {
        let items = template.pointer(pointer).and_then(Value::as_array);
        items.into_iter().flatten().map(container_name).collect()
    };
    check_unique("an init container", &names("/spec/initContainers"))?;
    check_unique("a container", &names("/spec/containers"))?;
    let volumes: BTreeSet<&str> = names("/spec/volumes").into_iter().collect();
    for field in ["initContainers", "containers"] {
        let containers = template
            .pointer(&format!("/spec/{field}"))
            .and_then(Value::as_array);
        for container in containers.into_iter().flatten() {
            check_mounts(field, container, &volumes)?;
        }
    }
    Ok(())
}

/// Checks the `pulumi` container's variables in the user's template.
fn check_template_variables(workspace: &Workspace) -> Result<(), Invalid> {
    let spec = workspace
        .spec
        .pod_template
        .as_ref()
        .and_then(|template| template.spec.as_ref());
    let containers = spec.and_then(|spec| spec.get("containers")?.as_array());
    for container in containers.into_iter().flatten() {
        if container_name(container) != PULUMI_CONTAINER {
            continue;
        }
        let variables = container.get("env").and_then(Value::as_array);
        for variable in variables.into_iter().flatten() {
            check_not_reserved(
                "spec.podTemplate.spec.containers[name=pulumi].env",
                container_name(variable),
            )?;
        }
    }
    Ok(())
}

fn check_unique(what: &str, names: &[&str]) -> Result<(), Invalid> {
    let mut seen = BTreeSet::new();
    match names.iter().find(|name| !seen.insert(**name)) {
        Some(name) => Err(Invalid::new(
            "spec",
            format!("{what} with the name `{name}` occurs twice; rename one"),
        )),
        None => Ok(()),
    }
}

fn check_mounts(field: &str, container: &Value, volumes: &BTreeSet<&str>) -> Result<(), Invalid> {
    let mounts = container.get("volumeMounts").and_then(Value::as_array);
    for mount in mounts.into_iter().flatten() {
        let volume = container_name(mount);
        if !volumes.contains(volume) {
            return Err(Invalid::new(
                format!(
                    "spec.podTemplate.spec.{field}[name={}].volumeMounts",
                    container_name(container)
                ),
                format!("there is no volume `{volume}`; add it to spec.podTemplate.spec.volumes"),
            ));
        }
    }
    Ok(())
}

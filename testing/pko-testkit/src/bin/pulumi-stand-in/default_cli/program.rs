//! The project file, and the subset of YAML programs that the stand-in evaluates.

use std::{collections::BTreeMap, env, fs};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::outputs::{Output, Outputs};
use crate::cli_error::{CliError, CliResult};

/// A project and its program.
#[derive(Debug, Deserialize)]
pub(super) struct YamlProgram {
    pub(super) name: String,
    #[serde(default)]
    pub(super) runtime: Value,
    /// Declared configuration; formerly `configuration`.
    #[serde(default, alias = "configuration")]
    config: BTreeMap<String, Value>,
    #[serde(default)]
    resources: BTreeMap<String, ResourceDeclaration>,
    #[serde(default)]
    outputs: BTreeMap<String, Value>,
}

#[derive(Debug, Deserialize)]
struct ResourceDeclaration {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    properties: Map<String, Value>,
}

impl YamlProgram {
    pub(super) fn load() -> CliResult<Self> {
        let path = env::current_dir()?.join("Pulumi.yaml");
        let Ok(text) = fs::read_to_string(&path) else {
            return CliError::result(
                1,
                "no Pulumi.yaml project file found (searching upwards from ). If you have not created a \
                 project yet, use `pulumi new` to do so: no project file found",
            );
        };
        serde_saphyr::from_str(&text).or_else(|error| {
            let path = path.display();
            CliError::result(
                1,
                format!("could not unmarshal '{path}': invalid YAML file: {error}"),
            )
        })
    }

    /// Adds the program's defaults for unset keys.
    pub(super) fn with_defaults(&self, mut config: Outputs) -> Outputs {
        for (name, declared) in &self.config {
            if let Some(default) = declared.get("default") {
                let default = || Output::plain(default.clone());
                config.entry(name.clone()).or_insert_with(default);
            }
        }
        config
    }

    /// The inputs of its resources.
    pub(super) fn inputs(&self, config: &Outputs) -> CliResult<BTreeMap<String, Value>> {
        let input = |(name, resource): (&String, &ResourceDeclaration)| {
            if resource.kind != "pulumi:index:Stash" {
                return Err(
                    format!("the stand-in has no resource of type {}", resource.kind).into(),
                );
            }
            let input = resource.properties.get("input").unwrap_or(&Value::Null);
            Ok((name.clone(), evaluate(input, config)?.value))
        };
        self.resources.iter().map(input).collect()
    }

    /// Its outputs. `names` are the configuration and resource properties.
    pub(super) fn outputs(&self, names: &Outputs) -> CliResult<Outputs> {
        let output = |(name, value): (&String, &Value)| Ok((name.clone(), evaluate(value, names)?));
        self.outputs.iter().map(output).collect()
    }
}

fn evaluate(value: &Value, names: &Outputs) -> CliResult<Output> {
    match value {
        Value::String(text) => match text.strip_prefix("${").and_then(|t| t.strip_suffix('}')) {
            Some(name) => reference(name, names),
            None => Ok(Output::plain(value.clone())),
        },
        Value::Object(map) => match map.get("fn::secret") {
            Some(inner) => Ok(Output {
                secret: true,
                ..evaluate(inner, names)?
            }),
            None => Ok(Output::plain(value.clone())),
        },
        _ => Ok(Output::plain(value.clone())),
    }
}

fn reference(name: &str, names: &Outputs) -> CliResult<Output> {
    match names.get(name) {
        Some(output) => Ok(output.clone()),
        None => CliError::result(
            1,
            format!("resource, variable, or config value \"{name}\" not found"),
        ),
    }
}

//! Evaluates a resource declaration to a goal.

use jiff::SignedDuration;
use pulumi_engine_model::{property::Property, urn::Urn};
use pulumi_engine_providers::builtin;
use pulumi_yaml::{
    Inputs, ResourceDeclaration, ResourceOptions, Variable, expression::Expression,
    keys::PROVIDER_TYPE_PREFIX,
};
use std::collections::{BTreeMap, BTreeSet};

use super::{Alias, AtPosition as _, EvaluationError, EvaluationResult, Evaluator, Goal, Host};
use crate::program::value::{Output, ResourceValue, Value};

impl<H: Host> Evaluator<'_, H> {
    /// Evaluates a resource. After an error it is not registered, only checked.
    pub(super) fn resource(
        &mut self,
        resource: &ResourceDeclaration,
        goal: Option<Goal>,
    ) -> EvaluationResult {
        let goal = match goal {
            Some(goal) => goal,
            None if self.is_wrong() => return Err(EvaluationError::Poisoned),
            None => self.goal(resource)?,
        };
        let (name, kind) = (goal.name.clone(), goal.kind.clone());
        let registered = self.host.register(goal).at(resource.line)?;
        Ok(Value::Resource(Box::new(ResourceValue {
            urn: registered.urn,
            id: registered.id,
            name,
            kind,
            outputs: registered.outputs,
            partial: registered.partial,
        })))
    }

    pub(super) fn goal(&mut self, resource: &ResourceDeclaration) -> Result<Goal, EvaluationError> {
        let options = &resource.options;
        let kind = self
            .shared
            .types
            .get(&resource.kind)
            .map(|(kind, _)| kind.clone());
        let mut goal = Goal {
            name: resource.name.clone(),
            kind: kind.unwrap_or_else(|_| resource.kind.clone()),
            retain_on_delete: options.retain_on_delete,
            ignore_changes: options.ignore_changes.clone(),
            replace_on_changes: options.replace_on_changes.clone(),
            additional_secret_outputs: options.additional_secret_outputs.clone(),
            delete_before_replace: options.delete_before_replace.then_some(true),
            part: self.part,
            hide_diffs: options.hide_diffs.clone(),
            import: options.import.clone(),
            version: options.version.clone(),
            plugin_download_url: options.plugin_download_url.clone(),
            ..Goal::default()
        };
        self.inputs(&mut goal, resource)?;
        self.options(&mut goal, options)?;
        if self.errors.is_empty() {
            Ok(goal)
        } else {
            // an error in it was reported
            Err(EvaluationError::Poisoned)
        }
    }

    fn inputs(
        &mut self,
        goal: &mut Goal,
        resource: &ResourceDeclaration,
    ) -> Result<(), EvaluationError> {
        let named: &[Variable] = match &resource.get {
            Some(get) => {
                let id = self.expression(&get.id)?;
                goal.dependencies.extend(id.dependencies());
                goal.read = Some(id.to_property().at(get.id.line)?);
                &get.state
            }
            None => match &resource.properties {
                Inputs::Absent => &[],
                Inputs::Named(properties) => properties,
                Inputs::Whole(expression) => {
                    let value = self.expression(expression)?;
                    return whole_inputs(goal, &value).at(expression.line);
                }
            },
        };
        for property in named {
            let value = self.expression(&property.value)?;
            add_input(goal, &property.name, &value).at(property.line)?;
        }
        if goal.kind == builtin::STACK_REFERENCE && !goal.inputs.contains_key("name") {
            let given = named.iter().any(|property| property.name == "name");
            let name = if given {
                // a null name is rejected like any other value that is no string
                Property::Null
            } else {
                Property::String(resource.key.clone())
            };
            let dependencies = BTreeSet::new();
            goal.property_dependencies
                .insert("name".to_owned(), dependencies);
            goal.inputs.insert("name".to_owned(), name);
        }
        Ok(())
    }

    pub(super) fn options(
        &mut self,
        goal: &mut Goal,
        options: &ResourceOptions,
    ) -> Result<(), EvaluationError> {
        if let Some(expression) = &options.depends_on {
            let needed = self.resource_list("dependsOn", expression)?;
            goal.dependencies.extend(needed);
        }
        if let Some(expression) = &options.replace_with {
            goal.replace_with = self.resource_list("replaceWith", expression)?;
        }
        if let Some(expression) = &options.parent {
            goal.parent = Some(self.one_resource(expression)?);
        }
        if let Some(expression) = &options.provider {
            goal.provider = Some(self.provider(expression)?);
        }
        if let Some(expression) = &options.providers {
            goal.providers = self.resource_list("providers", expression)?;
            for urn in &goal.providers {
                require_provider(urn).at(expression.line)?;
            }
        }
        if let Some(expression) = &options.deleted_with {
            goal.deleted_with = Some(self.one_resource(expression)?);
        }
        if let Some(expression) = &options.protect {
            goal.protect = Some(self.protect(expression)?);
        }
        if let Some(expression) = &options.aliases {
            goal.aliases = self.aliases(expression)?;
        }
        if let Some(expression) = &options.replacement_trigger {
            let value = self.expression(expression)?;
            goal.dependencies.extend(value.dependencies());
            goal.replacement_trigger = Some(value.to_property().at(expression.line)?);
        }
        if let Some(expression) = &options.env_var_mappings {
            goal.env_var_mappings = self.mappings(expression)?;
        }
        for (name, expression) in &options.custom_timeouts {
            match self.timeout(name, expression)? {
                Ok(seconds) => goal.custom_timeouts.push((name.clone(), seconds)),
                Err(fault) => goal.fault = Some(fault),
            }
        }
        Ok(())
    }

    pub(super) fn provider(&mut self, expression: &Expression) -> Result<Urn, EvaluationError> {
        let urn = self.one_resource(expression)?;
        require_provider(&urn).at(expression.line)?;
        Ok(urn)
    }

    fn mappings(
        &mut self,
        expression: &Expression,
    ) -> Result<BTreeMap<String, String>, EvaluationError> {
        let wrong = || {
            let message = "envVarMappings must be an object with string values".to_owned();
            EvaluationError::Message(expression.line, message)
        };
        let Value::Object(entries) = self.expression(expression)? else {
            return Err(wrong());
        };
        entries
            .into_iter()
            .map(|(key, value)| match value {
                Value::String(text) => Ok((key, text)),
                _ => Err(wrong()),
            })
            .collect()
    }

    /// Parses the limit of an operation, in seconds.
    fn timeout(
        &mut self,
        name: &str,
        expression: &Expression,
    ) -> Result<Result<f64, String>, EvaluationError> {
        let wrong = format!("{name:?} of customTimeouts must be a duration such as \"10m\"");
        match self.expression(expression)?.flatten().value {
            Some(Value::String(text)) => Ok(text
                .parse::<SignedDuration>()
                .map(|duration| duration.as_secs_f64())
                .map_err(|_| wrong)),
            _ => Err(EvaluationError::Message(expression.line, wrong)),
        }
    }

    fn protect(&mut self, expression: &Expression) -> Result<bool, EvaluationError> {
        match self.expression(expression)?.flatten().value {
            Some(Value::Bool(value)) => Ok(value),
            _ => Err(EvaluationError::Message(
                expression.line,
                "protect must be true or false".to_owned(),
            )),
        }
    }

    /// The resources of an option that takes a list.
    pub(super) fn resource_list(
        &mut self,
        option: &str,
        expression: &Expression,
    ) -> Result<Vec<Urn>, EvaluationError> {
        let values = match self.expression(expression)? {
            Value::List(values) => values,
            other => {
                let message = format!(
                    "resource option {option} value must be a list of resources, not {}",
                    other.describe()
                );
                return Err(EvaluationError::Message(expression.line, message));
            }
        };
        let urns = values.into_iter().map(urn_of);
        urns.collect::<Result<_, _>>().at(expression.line)
    }

    pub(super) fn one_resource(&mut self, expression: &Expression) -> Result<Urn, EvaluationError> {
        let value = self.expression(expression)?;
        urn_of(value).at(expression.line)
    }

    fn aliases(&mut self, expression: &Expression) -> Result<Vec<Alias>, EvaluationError> {
        let line = expression.line;
        let Value::List(values) = self.expression(expression)? else {
            return Err(EvaluationError::Message(
                line,
                "aliases must be a list".to_owned(),
            ));
        };
        values
            .into_iter()
            .map(|value| alias(value).at(line))
            .collect()
    }
}

/// Adds an input unless it is null.
fn add_input(goal: &mut Goal, name: &str, value: &Value) -> Result<(), String> {
    let needs = value.dependencies();
    let property = value.to_property()?;
    goal.dependencies.extend(needs.iter().cloned());
    // a computed null is an input, a literal null is not
    if property != Property::Null || !needs.is_empty() {
        goal.property_dependencies.insert(name.to_owned(), needs);
        goal.inputs.insert(name.to_owned(), property);
    }
    Ok(())
}

/// All inputs from one value, with its dependencies.
fn whole_inputs(goal: &mut Goal, value: &Value) -> Result<(), String> {
    match value {
        Value::Object(entries) => {
            for (name, value) in entries {
                add_input(goal, name, value)?;
            }
            Ok(())
        }
        Value::Output(output) => match &output.value {
            Some(Value::Object(entries)) => {
                for (name, value) in entries {
                    let value = Output {
                        value: Some(value.clone()),
                        ..(**output).clone()
                    };
                    add_input(goal, name, &Value::Output(Box::new(value)))?;
                }
                Ok(())
            }
            Some(inner) => whole_inputs(goal, inner),
            None => Err("properties that only the real run knows are not supported by pulumi-engine; name them one by one".to_owned()),
        },
        other => Err(format!("properties must be a map, not {}", other.describe())),
    }
}

fn urn_of(value: Value) -> Result<Urn, String> {
    match value {
        Value::Resource(resource) => Ok(resource.urn),
        other => Err(format!(
            "a resource is needed here, not {}",
            other.describe()
        )),
    }
}

fn require_provider(urn: &Urn) -> Result<(), String> {
    let kind = urn.qualified_type().rsplit('$').next().unwrap_or_default();
    if kind.starts_with(PROVIDER_TYPE_PREFIX) {
        return Ok(());
    }
    Err(format!(
        "resource passed as provider is no provider: {}",
        urn.name()
    ))
}

fn alias_urn(text: String) -> Result<Alias, String> {
    // the stack, the project, the type and the name
    if text.starts_with("urn:pulumi:") && text.split("::").count() >= 4 {
        Ok(Alias::Urn(Urn::new(text)))
    } else {
        Err(format!("invalid alias URN: invalid URN {text:?}"))
    }
}

fn alias(value: Value) -> Result<Alias, String> {
    let entries = match value {
        Value::String(urn) => return alias_urn(urn),
        Value::Object(entries) => entries,
        other => {
            return Err(format!(
                "an alias must be a URN or a map, not {}",
                other.describe()
            ));
        }
    };
    let (mut name, mut kind, mut stack, mut project, mut parent) = (None, None, None, None, None);
    for (key, value) in entries {
        match (key.as_str(), value) {
            ("urn", Value::String(urn)) => return alias_urn(urn),
            ("name", Value::String(text)) => name = Some(text),
            ("type", Value::String(text)) => kind = Some(text),
            ("stack", Value::String(text)) => stack = Some(text),
            ("project", Value::String(text)) => project = Some(text),
            ("parent", Value::Resource(resource)) => parent = Some(Some(resource.urn)),
            ("parent", Value::String(urn)) => parent = Some(Some(Urn::new(urn))),
            ("noParent", Value::Bool(true)) => parent = Some(None),
            ("noParent", Value::Bool(false)) => {}
            (key, value) => {
                return Err(format!(
                    "alias field {key:?} cannot be {}",
                    value.describe()
                ));
            }
        }
    }
    Ok(Alias::Parts {
        name,
        kind,
        stack,
        project,
        parent,
    })
}

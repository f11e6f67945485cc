//! The options of a resource, as written. Pure.

use crate::{
    Diagnostic, ResourceOptions,
    expression::Expression,
    keys::{ALIAS_FIELDS, RESOURCE_OPTIONS, TIMEOUTS},
    parse::Reader,
    syntax::{Node, NodeValue},
    text, version_range,
};

impl Reader {
    pub(super) fn options(&mut self, node: &Node) -> ResourceOptions {
        let mut options = ResourceOptions::default();
        for (field, value) in self.entries("options", node) {
            if let Some(name) = self.known_key(field, &RESOURCE_OPTIONS) {
                self.option(&mut options, name, value);
            } else {
                let name = field.scalar_text();
                let near = text::did_you_mean(&name, RESOURCE_OPTIONS);
                let message = format!("resource option {name:?} does not exist{near}");
                self.semantic.push(Diagnostic::error(field.line, message));
            }
        }
        options
    }

    fn option(&mut self, options: &mut ResourceOptions, name: &str, value: &Node) {
        match name {
            "additionalSecretOutputs" => {
                options.additional_secret_outputs = self.texts(name, value);
            }
            "customTimeouts" => options.custom_timeouts = self.timeouts(value),
            "deleteBeforeReplace" => options.delete_before_replace = self.flag(value),
            "hideDiffs" => options.hide_diffs = self.texts(name, value),
            "ignoreChanges" => options.ignore_changes = self.texts(name, value),
            "import" => options.import = Some(self.text(name, value)),
            "pluginDownloadURL" => options.plugin_download_url = Some(self.text(name, value)),
            "replaceOnChanges" => options.replace_on_changes = self.texts(name, value),
            "retainOnDelete" => options.retain_on_delete = Some(self.flag(value)),
            "version" => options.version = Some(self.version(value)),
            _ => {
                self.check_option(name, value);
                let value = self.expression(value);
                if let Some(place) = expression(options, name) {
                    *place = Some(value);
                }
            }
        }
    }

    /// What can be seen of a computed option without computing it.
    fn check_option(&mut self, name: &str, value: &Node) {
        let aliases = match (name, &value.value) {
            ("envVarMappings", NodeValue::Bool(_) | NodeValue::Number(_) | NodeValue::List(_)) => {
                let message = "envVarMappings must be an object with string values";
                self.semantic.push(Diagnostic::error(value.line, message));
                return;
            }
            ("aliases", NodeValue::List(aliases)) => aliases,
            _ => return,
        };
        let fields = aliases.iter().filter_map(Node::entries).flatten();
        for (field, _) in fields {
            let name = field.scalar_text();
            if !ALIAS_FIELDS.contains(&name.as_str()) {
                let near = text::did_you_mean(&name, ALIAS_FIELDS);
                let message = format!("an alias has no field {name:?}{near}");
                self.semantic.push(Diagnostic::error(field.line, message));
            }
        }
    }

    /// A version of a plugin, of which parts may be left out.
    fn version(&mut self, node: &Node) -> String {
        let text = self.text("version", node);
        if !version_range::is_version(&text) {
            let message = format!("unable to parse provider version {text:?}");
            self.semantic.push(Diagnostic::error(node.line, message));
        }
        text
    }

    fn timeouts(&mut self, node: &Node) -> Vec<(String, Expression)> {
        let mut timeouts = Vec::new();
        for (key, value) in self.entries("customTimeouts", node) {
            if let Some(name) = self.known_key(key, &TIMEOUTS) {
                timeouts.push((name.to_owned(), self.expression(value)));
            } else {
                let name = key.scalar_text();
                let near = text::did_you_mean(&name, TIMEOUTS);
                let message = format!(
                    "customTimeouts has no field {name:?}{near}; it has {}",
                    TIMEOUTS.join(", ")
                );
                self.syntax.push(Diagnostic::warning(key.line, message));
            }
        }
        timeouts
    }
}

/// The field of an option that takes an expression.
fn expression<'a>(
    options: &'a mut ResourceOptions,
    name: &str,
) -> Option<&'a mut Option<Expression>> {
    Some(match name {
        "aliases" => &mut options.aliases,
        "deletedWith" => &mut options.deleted_with,
        "dependsOn" => &mut options.depends_on,
        "envVarMappings" => &mut options.env_var_mappings,
        "parent" => &mut options.parent,
        "protect" => &mut options.protect,
        "provider" => &mut options.provider,
        "providers" => &mut options.providers,
        "replaceWith" => &mut options.replace_with,
        "replacementTrigger" => &mut options.replacement_trigger,
        _ => return None,
    })
}

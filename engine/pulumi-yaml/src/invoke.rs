//! Calls of provider functions: `fn::invoke`, and the short form `fn::package:module:function`.

use crate::{
    Diagnostic,
    expression::{Expression, ExpressionKind},
    keys::{INVOKE_FIELDS, INVOKE_OPTIONS},
    parse::Reader,
    syntax::{Node, NodeValue},
    text,
};

/// A call of a provider's function.
#[derive(Debug, Clone, PartialEq)]
pub struct Invoke {
    /// The function.
    pub token: String,
    /// Its arguments: a map.
    pub arguments: Expression,
    /// The property of the result to return, instead of all of them.
    pub returns: Option<String>,
    /// Options.
    pub options: InvokeOptions,
}

/// Options of a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InvokeOptions {
    pub depends_on: Option<Expression>,
    pub parent: Option<Expression>,
    pub provider: Option<Expression>,
    pub version: Option<String>,
    pub plugin_download_url: Option<String>,
}

impl Invoke {
    /// The expressions in it.
    pub fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let options = [
            &self.options.depends_on,
            &self.options.parent,
            &self.options.provider,
        ];
        std::iter::once(&self.arguments).chain(options.into_iter().flatten())
    }
}

/// Parses a call. Returns none after adding an error to `diagnostics`.
pub(super) fn read(key: &Node, value: &Node, diagnostics: &mut Vec<Diagnostic>) -> Option<Invoke> {
    let mut reader = Reader::default();
    let name = key.as_str().unwrap_or_default();
    let invoke = if name.eq_ignore_ascii_case("fn::invoke") {
        reader.known_key(key, &["fn::invoke"]);
        reader.invoke(value)
    } else {
        let arguments = matches!(value.value, NodeValue::Object(_));
        Some(Invoke {
            token: name.get(4..).unwrap_or_default().to_owned(),
            arguments: if arguments {
                reader.arguments(value)
            } else {
                none(value)
            },
            returns: None,
            options: InvokeOptions::default(),
        })
    };
    diagnostics.append(&mut reader.syntax);
    diagnostics.append(&mut reader.semantic);
    invoke
}

/// No arguments.
fn none(node: &Node) -> Expression {
    Expression {
        kind: ExpressionKind::Object(Vec::new()),
        line: node.line,
    }
}

impl Reader {
    fn invoke(&mut self, node: &Node) -> Option<Invoke> {
        let (mut token, mut arguments, mut returns) = (None, none(node), None);
        let mut options = InvokeOptions::default();
        if node.entries().is_none() {
            let message = "the argument to fn::invoke must be an object containing 'function', 'arguments', 'options', and 'return'";
            self.syntax.push(Diagnostic::error(node.line, message));
            return None;
        }
        for (field, value) in self.entries("fn::invoke", node) {
            match self.known_key(field, &INVOKE_FIELDS) {
                Some("function") => token = Some(self.text("function name", value)),
                Some("arguments") => arguments = self.arguments(value),
                Some("options") => options = self.invoke_options(value),
                Some("return") => returns = Some(self.text("return directive", value)),
                _ => self.unknown("fn::invoke", field, &INVOKE_FIELDS),
            }
        }
        if token.is_none() {
            let message = "missing function name ('function')";
            self.syntax.push(Diagnostic::error(node.line, message));
        }
        Some(Invoke {
            token: token?,
            arguments,
            returns,
            options,
        })
    }

    /// Parses a map. A key that names a function does not make it a call.
    fn arguments(&mut self, node: &Node) -> Expression {
        let expression = self.expression(node);
        if !matches!(expression.kind, ExpressionKind::Object(_)) {
            let message = "function arguments ('arguments') must be an object";
            self.syntax.push(Diagnostic::error(node.line, message));
        }
        expression
    }

    fn invoke_options(&mut self, node: &Node) -> InvokeOptions {
        let mut options = InvokeOptions::default();
        for (field, value) in self.entries("options", node) {
            match self.known_key(field, &INVOKE_OPTIONS) {
                Some("dependsOn") => options.depends_on = Some(self.expression(value)),
                Some("parent") => options.parent = Some(self.expression(value)),
                Some("provider") => options.provider = Some(self.expression(value)),
                Some("version") => options.version = Some(self.text("version", value)),
                Some("pluginDownloadURL") => {
                    options.plugin_download_url = Some(self.text("pluginDownloadURL", value));
                }
                _ => self.unknown("options of fn::invoke", field, &INVOKE_OPTIONS),
            }
        }
        options
    }

    fn unknown(&mut self, what: &str, field: &Node, known: &[&'static str]) {
        let name = field.scalar_text();
        let near = text::did_you_mean(&name, known.iter().copied());
        let message = format!("{what}: field {name:?} does not exist{near}");
        self.syntax.push(Diagnostic::warning(field.line, message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax;

    fn parsed(text: &str) -> Result<Invoke, Vec<String>> {
        let node = syntax::parse(text).unwrap();
        let mut diagnostics = Vec::new();
        let expression = Expression::read(&node, &mut diagnostics);
        match expression.kind {
            ExpressionKind::Invoke(invoke) if diagnostics.is_empty() => Ok(*invoke),
            _ => Err(diagnostics
                .into_iter()
                .map(|diagnostic| diagnostic.message)
                .collect()),
        }
    }

    #[test]
    fn invoke_short_form_equals_long_form() {
        let long =
            parsed("fn::invoke: {function: 'aws:ec2:getAmi', arguments: {owner: me}}").unwrap();
        let short = parsed("fn::aws:ec2:getAmi: {owner: me}").unwrap();
        assert_eq!((&long.token, &long.returns), (&short.token, &short.returns));
        assert_eq!(long.token, "aws:ec2:getAmi");
        let bare = parsed("fn::aws:getRegion: null").unwrap();
        assert_eq!(bare.arguments.kind, ExpressionKind::Object(Vec::new()));
    }

    #[test]
    fn invoke_options_and_return_are_parsed() {
        let invoke = parsed(
            "fn::invoke: {function: 'a:b:c', return: id, options: {version: 1.2.3, provider: '${p}', parent: '${q}', dependsOn: ['${r}'], pluginDownloadURL: x}}",
        )
        .unwrap();
        assert_eq!(invoke.returns.as_deref(), Some("id"));
        assert_eq!(invoke.options.version.as_deref(), Some("1.2.3"));
        assert_eq!(invoke.expressions().count(), 4);
    }

    #[test]
    fn invoke_malformed_reports_error() {
        for (text, expected) in [
            ("fn::invoke: x", "must be an object containing"),
            ("fn::invoke: {}", "missing function name"),
            (
                "fn::invoke: {function: '${x}'}",
                "function name must be a string",
            ),
            (
                "fn::invoke: {function: a:b, arguments: [1]}",
                "must be an object",
            ),
            (
                "fn::invoke: {function: a:b, argumens: {}}",
                "did you mean \"arguments\"?",
            ),
        ] {
            let errors = parsed(text).unwrap_err();
            assert!(
                errors.iter().any(|error| error.contains(expected)),
                "{text}: {errors:?}"
            );
        }
    }
}

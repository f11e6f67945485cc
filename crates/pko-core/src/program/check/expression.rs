//! Expressions: strings with references, lists, objects, and calls of Pulumi's functions.

use pulumi_yaml::function::{self, Function, NotBuiltin};
use serde_json::{Map, Value};

use super::{
    finding::quote,
    interpolation::{self, Text},
    names::Names,
    path::Path,
    recorder::FindingRecorder,
};

/// The depth to which a value is checked; Pulumi checks deeper values.
const MAX_DEPTH: usize = 256;

/// Checks an expression and collects its references.
pub(super) struct Walk<'walk, 'value> {
    recorder: &'walk mut FindingRecorder,
    /// The declarations; without them, references are not checked.
    names: Option<&'walk Names<'value>>,
    references: Vec<&'value str>,
    /// Whether the value is secret, so that messages do not quote it.
    secret: bool,
}

impl<'walk, 'value> Walk<'walk, 'value> {
    pub(super) fn new(
        recorder: &'walk mut FindingRecorder,
        names: Option<&'walk Names<'value>>,
    ) -> Self {
        Self {
            recorder,
            names,
            references: Vec::new(),
            secret: false,
        }
    }

    /// The references that were checked.
    pub(super) fn into_references(self) -> Vec<&'value str> {
        self.references
    }

    pub(super) fn value(&mut self, value: &'value Value, path: &Path<'_>) {
        if self.recorder.is_full() {
            return;
        }
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => self.text(text, path),
            Value::Array(_) | Value::Object(_) if path.depth() >= MAX_DEPTH => {
                let text = "is too deep: what is in it is not checked here";
                self.recorder.remark(path, text);
            }
            Value::Array(values) => {
                for (index, value) in values.iter().enumerate() {
                    self.value(value, &path.index(index));
                }
            }
            Value::Object(fields) => self.object(fields, path),
        }
    }

    pub(super) fn text(&mut self, text: &'value str, path: &Path<'_>) {
        match interpolation::read(text) {
            Ok(Text::Literal) => {}
            Ok(Text::Reference { root, .. }) => self.follow(root, path),
            Ok(Text::Mixed(roots)) => {
                for root in roots {
                    self.follow(root, path);
                }
            }
            Err(_) if self.secret => self
                .recorder
                .problem(path, "contains an interpolation ${…} that cannot be parsed"),
            Err(problem) => self.recorder.problem(path, problem),
        }
    }

    fn follow(&mut self, root: &'value str, path: &Path<'_>) {
        if let Some(names) = self.names
            && self.recorder.count_reference()
        {
            names.check_reference(root, path, self.recorder);
            self.references.push(root);
        }
    }

    fn object(&mut self, fields: &'value Map<String, Value>, path: &Path<'_>) {
        let mut entries = fields.iter();
        if let (Some((key, argument)), None) = (entries.next(), entries.next())
            && function::has_prefix(key)
        {
            return self.call(key, argument, path);
        }
        for (key, value) in fields {
            if self.recorder.is_full() {
                return;
            }
            if let Some(function) = builtin_function(key).filter(|function| function.makes_asset())
            {
                let name = function.name();
                let text = format!("{name} must be the only key of its object");
                self.recorder.problem(path, text);
            }
            self.text(key, path);
            self.value(value, &path.key(key));
        }
    }

    fn call(&mut self, key: &'value str, argument: &'value Value, path: &Path<'_>) {
        let at = path.key(key);
        let outside = self.secret;
        self.secret |= builtin_function(key) == Some(Function::Secret);
        let builtin = function::lookup(key);
        if builtin == Err(NotBuiltin::Unknown) {
            self.unknown_function(key, path);
        }
        self.value(argument, &at);
        match builtin {
            Ok(function) => self.shape(function, argument, &at),
            Err(NotBuiltin::Invoke) => self.invoke(argument, &at),
            Err(NotBuiltin::ProviderFunction | NotBuiltin::Unknown) => {}
        }
        self.secret = outside;
    }

    fn unknown_function(&mut self, key: &str, path: &Path<'_>) {
        if self.recorder.has_room_for_remarks() {
            let text = format!(
                "{} is not a Pulumi function and is kept as a plain key{}",
                quote(key),
                self.recorder.did_you_mean(key, function::names())
            );
            self.recorder.remark(path, text);
        }
    }

    fn shape(&mut self, function: Function, argument: &Value, at: &Path<'_>) {
        match function {
            Function::AssetArchive => self.assets(argument, at),
            Function::StackReference => {
                if let Some([stack, _]) = self.pair(function, argument, at)
                    && !is_literal(stack)
                {
                    let text = "the stack must be a literal string; use pulumi:pulumi:StackReference for other values";
                    self.recorder.problem(&at.index(0), text);
                }
            }
            _ if function.takes_pair() => _ = self.pair(function, argument, at),
            _ => {}
        }
    }

    fn pair<'argument>(
        &mut self,
        function: Function,
        argument: &'argument Value,
        at: &Path<'_>,
    ) -> Option<&'argument [Value; 2]> {
        let pair = argument
            .as_array()
            .and_then(|values| values.as_slice().try_into().ok());
        if pair.is_none() {
            let name = function.name();
            let text = format!("{name} takes a list of two, not {}", kind(argument));
            self.recorder.problem(at, text);
        }
        pair
    }

    fn invoke(&mut self, argument: &Value, at: &Path<'_>) {
        let Some(fields) = plain_object(argument) else {
            let text = format!(
                "fn::invoke takes an object with function, arguments, options and return, not {}",
                kind(argument)
            );
            return self.recorder.problem(at, text);
        };
        let field = |name: &str| {
            fields
                .iter()
                .find(|(key, _)| key.eq_ignore_ascii_case(name))
                .map(|(_, value)| value)
        };
        match field("function") {
            None => self
                .recorder
                .problem(at, "has no function; add one, such as aws:ec2:getAmi"),
            Some(function) if !is_literal(function) => self
                .recorder
                .problem(&at.key("function"), "must be a literal string"),
            Some(_) => {}
        }
        if let Some(arguments) = field("arguments")
            && plain_object(arguments).is_none()
        {
            let text = format!("must be an object, not {}", kind(arguments));
            self.recorder.problem(&at.key("arguments"), text);
        }
        if field("return").is_some_and(|name| !is_literal(name)) {
            self.recorder
                .problem(&at.key("return"), "must be a literal string");
        }
    }

    fn assets(&mut self, argument: &Value, at: &Path<'_>) {
        let Some(fields) = plain_object(argument) else {
            let text = format!(
                "fn::assetArchive takes an object of assets and archives by path, not {}",
                kind(argument)
            );
            return self.recorder.problem(at, text);
        };
        for (key, value) in fields {
            if self.recorder.is_full() {
                return;
            }
            let asset = value
                .as_object()
                .filter(|fields| fields.len() == 1)
                .and_then(|fields| fields.keys().next())
                .and_then(|name| builtin_function(name))
                .is_some_and(|function| {
                    function.makes_asset() || function == Function::AssetArchive
                });
            if !asset {
                let text = format!(
                    "must be an asset or an archive such as {{\"fn::fileAsset\": …}}, not {}",
                    kind(value)
                );
                self.recorder.problem(&at.key(key), text);
            }
        }
    }
}

/// The built-in function of this name.
fn builtin_function(key: &str) -> Option<Function> {
    function::lookup(key).ok()
}

/// An object that is not a function call.
fn plain_object(value: &Value) -> Option<&Map<String, Value>> {
    value.as_object().filter(|fields| {
        let call = |key: &String| {
            function::has_prefix(key) && function::lookup(key) != Err(NotBuiltin::Unknown)
        };
        fields.len() != 1 || !fields.keys().any(call)
    })
}

/// Whether a value is a string without references.
fn is_literal(value: &Value) -> bool {
    let text = value.as_str();
    text.is_some_and(|text| matches!(interpolation::read(text), Ok(Text::Literal)))
}

/// The kind of a value, for messages.
pub(super) fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "a boolean".to_owned(),
        Value::Number(_) => "a number".to_owned(),
        Value::String(text) => match interpolation::read(text) {
            Ok(Text::Literal) => "a string".to_owned(),
            Ok(Text::Reference { .. }) => "a reference".to_owned(),
            _ => "a string with references".to_owned(),
        },
        Value::Array(values) => format!("a list of {}", values.len()),
        Value::Object(_) if plain_object(value).is_none() => "a function call".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

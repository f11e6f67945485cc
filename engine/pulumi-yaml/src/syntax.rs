//! Parses YAML into a tree of nodes with positions.

use std::{collections::HashMap, fmt};

use granit_parser::{Event, Marker, Parser, ScalarStyle};
use serde_json::Number;

/// Deeper documents are rejected, because they would overflow the stack.
const MAXIMUM_DEPTH: usize = 128;
/// Larger documents are rejected, because aliases could multiply nodes without end.
const MAXIMUM_NODES: usize = 1_000_000;

/// A YAML syntax error.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct SyntaxError {
    pub line: Position,
    pub message: String,
}

/// A value and its position.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub value: NodeValue,
    /// The position of its first character.
    pub line: Position,
}

/// A line and a column. `Display` shows the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// From 1.
    pub line: usize,
    /// From 1; 0 if unknown.
    pub column: usize,
}

impl From<usize> for Position {
    fn from(line: usize) -> Self {
        Self { line, column: 0 }
    }
}

impl PartialEq<usize> for Position {
    fn eq(&self, line: &usize) -> bool {
        self.line == *line
    }
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.line.fmt(formatter)
    }
}

/// What a node holds.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeValue {
    /// `null`, `~` or nothing
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number
    Number(Number),
    /// Any other scalar
    String(String),
    /// A sequence
    List(Vec<Node>),
    /// A mapping, in the order of the text
    Object(Vec<(Node, Node)>),
}

impl Node {
    /// The text of a string node.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            NodeValue::String(text) => Some(text),
            _ => None,
        }
    }

    /// The entries of a mapping.
    #[must_use]
    pub fn entries(&self) -> Option<&[(Node, Node)]> {
        match &self.value {
            NodeValue::Object(entries) => Some(entries),
            _ => None,
        }
    }

    /// The value at a key of a mapping.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        let (_, value) = self
            .entries()?
            .iter()
            .find(|(name, _)| name.as_str() == Some(key))?;
        Some(value)
    }

    /// Converts to JSON. Keys become strings.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value;
        match &self.value {
            NodeValue::Null => Value::Null,
            NodeValue::Bool(value) => Value::Bool(*value),
            NodeValue::Number(value) => Value::Number(value.clone()),
            NodeValue::String(value) => Value::String(value.clone()),
            NodeValue::List(values) => Value::Array(values.iter().map(Node::to_json).collect()),
            NodeValue::Object(entries) => Value::Object(
                entries
                    .iter()
                    .map(|(key, value)| (key.scalar_text(), value.to_json()))
                    .collect(),
            ),
        }
    }

    /// The text of any scalar.
    #[must_use]
    pub fn scalar_text(&self) -> String {
        match &self.value {
            NodeValue::String(text) => text.clone(),
            NodeValue::Bool(value) => value.to_string(),
            NodeValue::Number(value) => crate::text::number(value),
            _ => String::new(),
        }
    }
}

/// Parses the first document of a text; an empty text is `null`.
pub fn parse(text: &str) -> Result<Node, SyntaxError> {
    // a byte order mark is not part of the document
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut builder = Builder::default();
    for next in Parser::new_from_str(text) {
        let (event, span) = next.map_err(|error| SyntaxError {
            line: position(error.marker()),
            message: error.info(),
        })?;
        if matches!(event, Event::DocumentEnd) {
            break;
        }
        builder.take(event, position(&span.start))?;
    }
    Ok(builder.root.unwrap_or(Node {
        value: NodeValue::Null,
        line: Position::from(1),
    }))
}

/// The first alias of a document. Pulumi allows none in programs.
#[must_use]
pub fn first_alias(text: &str) -> Option<Position> {
    // avoids parsing most programs twice
    if !text.contains('*') {
        return None;
    }
    let mut events = Parser::new_from_str(text).map_while(Result::ok);
    let (_, span) = events.find(|(event, _)| matches!(event, Event::Alias(_)))?;
    Some(position(&span.start))
}

fn position(marker: &Marker) -> Position {
    Position {
        line: marker.line(),
        column: marker.col() + 1,
    }
}

/// A collection whose end has not been parsed yet.
struct OpenCollection {
    node: Node,
    anchor: usize,
    key: Option<Node>,
}

#[derive(Default)]
struct Builder {
    open: Vec<OpenCollection>,
    anchors: HashMap<usize, (Node, usize)>,
    nodes: usize,
    root: Option<Node>,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, line: Position) -> Result<(), SyntaxError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                if style == ScalarStyle::Plain && is_not_finite(&text) {
                    let message = format!("number {text:?} is not supported by pulumi-engine");
                    return Err(SyntaxError { line, message });
                }
                let quoted = style != ScalarStyle::Plain
                    || tag.is_some_and(|tag| tag.to_string().ends_with("str"));
                let value = if quoted {
                    NodeValue::String(text.into_owned())
                } else {
                    resolve(&text)
                };
                self.add(Node { value, line }, anchor, 1)
            }
            Event::SequenceStart(_, anchor, _) => self.begin(
                Node {
                    value: NodeValue::List(Vec::new()),
                    line,
                },
                anchor,
            ),
            Event::MappingStart(_, anchor, _) => self.begin(
                Node {
                    value: NodeValue::Object(Vec::new()),
                    line,
                },
                anchor,
            ),
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(open) => {
                    let size = count(&open.node);
                    self.add(open.node, open.anchor, size)
                }
                None => Ok(()),
            },
            Event::Alias(anchor) => match self.anchors.get(&anchor).cloned() {
                Some((node, size)) => self.add(Node { line, ..node }, 0, size),
                None => Err(SyntaxError {
                    line,
                    message: "unknown anchor".to_owned(),
                }),
            },
            _ => Ok(()),
        }
    }

    fn begin(&mut self, node: Node, anchor: usize) -> Result<(), SyntaxError> {
        if self.open.len() >= MAXIMUM_DEPTH {
            return Err(SyntaxError {
                line: node.line,
                message: "nested too deeply".to_owned(),
            });
        }
        self.open.push(OpenCollection {
            node,
            anchor,
            key: None,
        });
        Ok(())
    }

    fn add(&mut self, node: Node, anchor: usize, size: usize) -> Result<(), SyntaxError> {
        self.nodes += size;
        if self.nodes > MAXIMUM_NODES {
            return Err(SyntaxError {
                line: node.line,
                message: "too many nodes".to_owned(),
            });
        }
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), size));
        }
        let Some(parent) = self.open.last_mut() else {
            self.root.get_or_insert(node);
            return Ok(());
        };
        match &mut parent.node.value {
            NodeValue::List(values) => values.push(node),
            NodeValue::Object(entries) => match parent.key.take() {
                None => parent.key = Some(node),
                Some(name)
                    if entries
                        .iter()
                        .any(|(existing, _)| existing.value == name.value) =>
                {
                    return Err(SyntaxError {
                        line: name.line,
                        message: format!("key {:?} is already defined", name.scalar_text()),
                    });
                }
                Some(name) => entries.push((name, node)),
            },
            _ => {}
        }
        Ok(())
    }
}

fn count(node: &Node) -> usize {
    match &node.value {
        NodeValue::List(values) => 1 + values.iter().map(count).sum::<usize>(),
        NodeValue::Object(entries) => {
            1 + entries
                .iter()
                .map(|(_, value)| 1 + count(value))
                .sum::<usize>()
        }
        _ => 1,
    }
}

fn is_not_finite(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    matches!(text, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN")
}

/// Resolves a plain scalar as Pulumi's parser does: YAML 1.2.
fn resolve(text: &str) -> NodeValue {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => NodeValue::Null,
        "true" | "True" | "TRUE" => NodeValue::Bool(true),
        "false" | "False" | "FALSE" => NodeValue::Bool(false),
        _ => number(text).map_or_else(|| NodeValue::String(text.to_owned()), NodeValue::Number),
    }
}

fn number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return None;
    }
    let cleaned = text.replace('_', "");
    let text = cleaned.as_str();
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    // octal numbers of YAML 1.1, which Pulumi's parser still accepts
    if digits.len() > 1
        && digits.starts_with('0')
        && digits.chars().all(|digit| ('0'..'8').contains(&digit))
    {
        let value = i64::from_str_radix(digits, 8).ok()?;
        return Some(Number::from(if text.starts_with('-') {
            -value
        } else {
            value
        }));
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(rest) = digits.strip_prefix(prefix) {
            let value = i64::from_str_radix(rest, radix).ok()?;
            return Some(Number::from(if text.starts_with('-') {
                -value
            } else {
                value
            }));
        }
    }
    let text = text.strip_prefix('+').unwrap_or(text);
    if let Ok(value) = text.parse::<i64>() {
        return Some(Number::from(value));
    }
    if let Ok(value) = text.parse::<u64>() {
        return Some(Number::from(value));
    }
    let plain = |character: char| character.is_ascii_digit() || ".eE+-".contains(character);
    if !text.chars().all(plain) {
        return None;
    }
    crate::text::from_float(text.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn yaml_scalars_resolve_as_in_pulumi() {
        for (text, expected) in [
            ("hello", json!("hello")),
            ("42", json!(42)),
            ("-7", json!(-7)),
            ("2.5", json!(2.5)),
            ("1.0", json!(1)),
            ("1e3", json!(1000)),
            ("0x1F", json!(31)),
            ("010", json!(8)),
            ("089", json!(89)),
            ("1_000", json!(1000)),
            ("9007199254740993", json!(9_007_199_254_740_993_i64)),
            ("'42'", json!("42")),
            ("!!str 42", json!("42")),
            ("yes", json!("yes")),
            ("true", json!(true)),
            ("~", json!(null)),
            ("1.2.3", json!("1.2.3")),
            ("2026-01-02", json!("2026-01-02")),
            ("-", json!([null])),
            (
                "{a: [1, two], yes: true, 1: x}",
                json!({"a": [1, "two"], "yes": true, "1": "x"}),
            ),
            ("a: &x {b: 1}\nc: *x", json!({"a": {"b": 1}, "c": {"b": 1}})),
        ] {
            assert_eq!(parse(text).unwrap().to_json(), expected, "{text}");
        }
    }

    #[test]
    fn yaml_nodes_have_positions() {
        let node = parse("a: 1\nb:\n  c: x\n").unwrap();
        assert_eq!(node.get("b").unwrap().get("c").unwrap().line, 3);
    }

    #[test]
    fn yaml_errors_have_positions() {
        for (text, line) in [
            ("a: 1\na: 2\n", 2),
            ("a: [1\nb: 2\n", 2),
            ("a: *nosuch", 1),
            ("x: .inf", 1),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.line, line, "{text:?} {error}");
        }
    }

    #[test]
    fn yaml_huge_documents_are_rejected() {
        let deep = "[".repeat(1000);
        assert!(parse(&deep).is_err());
        let levels: Vec<_> = (1..9)
            .map(|level| {
                let aliases = vec![format!("*a{}", level - 1); 10].join(",");
                format!("a{level}: &a{level} [{aliases}]")
            })
            .collect();
        let text = format!("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n{}\n", levels.join("\n"));
        assert!(parse(&text).unwrap_err().message.contains("too many"));
    }
}

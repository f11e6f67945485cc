//! Interpolations: `${root.name[0]["key"]}` inside a string.

use std::fmt;

/// A reference to a variable, config value or resource, or to a property of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The name of the variable, config value or resource.
    pub root: String,
    /// The path from its value to the property.
    pub steps: Vec<Accessor>,
}

/// One step into a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accessor {
    /// `.name`
    Name(String),
    /// `["name"]`
    Key(String),
    /// `[0]`
    Index(usize),
}

impl Accessor {
    /// The key, for both ways of writing one.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Name(name) | Self::Key(name) => Some(name),
            Self::Index(_) => None,
        }
    }
}

impl fmt::Display for Accessor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(formatter, ".{name}"),
            Self::Key(name) => write!(formatter, "[{name:?}]"),
            Self::Index(index) => write!(formatter, "[{index}]"),
        }
    }
}

/// A piece of a string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextPart {
    /// Literal text.
    Text(String),
    /// A reference.
    Access(Access),
}

/// Splits a string into literal pieces and references. `$$` is a dollar sign.
pub fn parse(text: &str) -> Result<Vec<TextPart>, &'static str> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("$$") {
            literal.push('$');
            rest = after;
        } else if let Some(after) = rest.strip_prefix("${") {
            if !literal.is_empty() {
                parts.push(TextPart::Text(std::mem::take(&mut literal)));
            }
            let (access, after) = parse_access(after)?;
            parts.push(TextPart::Access(access));
            rest = after;
        } else {
            literal.push(first);
            rest = rest.get(first.len_utf8()..).unwrap_or_default();
        }
    }
    if !literal.is_empty() {
        parts.push(TextPart::Text(literal));
    }
    Ok(parts)
}

/// Parses the path of a config key, such as `a.b[0]`.
pub fn parse_path(text: &str) -> Result<Access, &'static str> {
    match parse_access(&format!("{text}}}"))? {
        (access, "") => Ok(access),
        _ => Err("unexpected closing brace in a path"),
    }
}

/// Parses up to the closing brace, and returns what follows it.
fn parse_access(text: &str) -> Result<(Access, &str), &'static str> {
    let mut steps = Vec::new();
    let mut rest = text;
    loop {
        if let Some(after) = rest.strip_prefix('}') {
            let mut steps = steps.into_iter();
            return match steps.next() {
                Some(Accessor::Name(root) | Accessor::Key(root)) => Ok((
                    Access {
                        root,
                        steps: steps.collect(),
                    },
                    after,
                )),
                Some(Accessor::Index(_)) => {
                    Err("the root property must be a string subscript or a name")
                }
                None => Err("an interpolation must name something"),
            };
        } else if let Some(after) = rest.strip_prefix('.') {
            rest = after;
        } else if let Some(after) = rest.strip_prefix("[\"") {
            let (key, after) = parse_quoted(after)?;
            steps.push(Accessor::Key(key));
            rest = after
                .strip_prefix(']')
                .ok_or("missing closing bracket in property access")?;
        } else if let Some(after) = rest.strip_prefix('[') {
            let (index, after) = after
                .split_once(']')
                .ok_or("missing closing bracket in list index")?;
            steps.push(Accessor::Index(
                index.parse().map_err(|_| "invalid list index")?,
            ));
            rest = after;
        } else if rest.is_empty() {
            return Err("unterminated interpolation");
        } else {
            let end = rest.find(['.', '[', '}']).unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            steps.push(Accessor::Name(name.to_owned()));
            rest = after;
        }
    }
}

/// Parses up to the closing quote, and returns what follows it. `\"` is a quote.
pub fn parse_quoted(text: &str) -> Result<(String, &str), &'static str> {
    let mut key = String::new();
    let mut characters = text.char_indices().peekable();
    while let Some((position, character)) = characters.next() {
        match character {
            '"' => return Ok((key, text.get(position + 1..).unwrap_or_default())),
            '\\' if characters.peek().is_some_and(|(_, next)| *next == '"') => {
                characters.next();
                key.push('"');
            }
            other => key.push(other),
        }
    }
    Err("missing closing quote in property name")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(text: &str) -> String {
        match parse(text) {
            Err(error) => format!("error: {error}"),
            Ok(parts) => parts
                .iter()
                .map(|part| match part {
                    TextPart::Text(text) => format!("{text:?}"),
                    TextPart::Access(access) => {
                        let steps: String = access.steps.iter().map(Accessor::to_string).collect();
                        format!("<{}{steps}>", access.root)
                    }
                })
                .collect(),
        }
    }

    #[test]
    fn interpolation_parse_splits_literals_and_references() {
        for (text, expected) in [
            ("plain", r#""plain""#),
            ("", ""),
            ("${a}", "<a>"),
            ("x${a}y", r#""x"<a>"y""#),
            ("$${a} and $5", r#""${a} and $5""#),
            ("${a.b[0].c}", "<a.b[0].c>"),
            (r#"${a["k.l"]}"#, r#"<a["k.l"]>"#),
            (r#"${a["q\"q"]}"#, r#"<a["q\"q"]>"#),
            (r#"${["root"].x}"#, "<root.x>"),
            ("${demo:key}", "<demo:key>"),
            ("${a", "error: unterminated interpolation"),
            ("${}", "error: an interpolation must name something"),
            ("${a[x]}", "error: invalid list index"),
            ("${a[0}", "error: missing closing bracket in list index"),
            (
                r#"${a["x}"#,
                "error: missing closing quote in property name",
            ),
            (
                "${[0]}",
                "error: the root property must be a string subscript or a name",
            ),
        ] {
            assert_eq!(show(text), expected, "{text}");
        }
    }
}

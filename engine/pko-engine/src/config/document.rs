//! Edits of a YAML file that preserve comments, order and style of the rest.

use serde_json::Value;

use pulumi_yaml::syntax;

/// Sets a top-level entry, or adds it at the beginning.
#[must_use]
pub(crate) fn set_top(text: &str, key: &str, value: &Value) -> String {
    let mut lines = lines(text);
    let rendered = render_entry(key, value, 0);
    let span = find(&lines, 0..lines.len(), 0, key).unwrap_or(0..0);
    lines.splice(span, rendered);
    join(&lines)
}

/// Sets an entry of a top-level section, or adds it at the end. `entries` are the existing ones,
/// for sections that are not written as a block.
#[must_use]
pub(crate) fn set_in(
    text: &str,
    section: &str,
    entries: &[(String, Value)],
    key: &str,
    value: &Value,
) -> String {
    let mut lines = as_block(text, section, entries);
    let inside = inside(&lines, section);
    let depth = indentation_within(&lines, inside.clone());
    let rendered = render_entry(key, value, depth);
    let span = find(&lines, inside.clone(), depth, key).unwrap_or_else(|| {
        let end = content_end(&lines, inside);
        end..end
    });
    lines.splice(span, rendered);
    join(&lines)
}

/// Removes an entry of a top-level section, and the section with its last one.
#[must_use]
pub(crate) fn remove_in(
    text: &str,
    section: &str,
    entries: &[(String, Value)],
    key: &str,
) -> String {
    if !entries.iter().any(|(name, _)| name == key) {
        return text.to_owned();
    }
    let mut lines = as_block(text, section, entries);
    if entries.len() == 1 {
        if let Some(span) = find(&lines, 0..lines.len(), 0, section) {
            lines.drain(span);
        }
        return join(&lines);
    }
    let inside = inside(&lines, section);
    let depth = indentation_within(&lines, inside.clone());
    if let Some(span) = find(&lines, inside, depth, key) {
        lines.drain(span);
    }
    join(&lines)
}

/// The lines, with the section as a block: added, or converted from `{...}`.
fn as_block(text: &str, section: &str, entries: &[(String, Value)]) -> Vec<String> {
    let mut lines = lines(text);
    let Some(span) = find(&lines, 0..lines.len(), 0, section) else {
        lines.push(format!("{section}:"));
        return lines;
    };
    let is_block = lines.get(span.start).is_some_and(|line| {
        let rest = line.split_once(':').map_or("", |(_, rest)| rest.trim());
        rest.is_empty() || rest.starts_with('#')
    });
    if !is_block {
        let block = entries
            .iter()
            .flat_map(|(key, value)| render_entry(key, value, 2));
        let block: Vec<_> = std::iter::once(format!("{section}:"))
            .chain(block)
            .collect();
        lines.splice(span, block);
    }
    lines
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(ToOwned::to_owned).collect()
}

fn join(lines: &[String]) -> String {
    lines
        .iter()
        .flat_map(|line| {
            [
                line.as_str(),
                "
",
            ]
        })
        .collect()
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn is_content(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#') && line != "---"
}

type Span = std::ops::Range<usize>;

/// The lines below a section's own.
fn inside(lines: &[String], section: &str) -> Span {
    find(lines, 0..lines.len(), 0, section).map_or(0..0, |span| span.start + 1..span.end)
}

fn indentation_within(lines: &[String], span: Span) -> usize {
    let inside = lines.get(span).unwrap_or_default();
    inside
        .iter()
        .find(|line| is_content(line))
        .map_or(2, |line| indentation(line))
}

fn content_end(lines: &[String], span: Span) -> usize {
    let inside = lines.get(span.clone()).unwrap_or_default();
    let last = inside.iter().rposition(|line| is_content(line));
    last.map_or(span.start, |last| span.start + last + 1)
}

/// The lines of the entry with this key at this depth, with its indented lines.
fn find(lines: &[String], span: Span, depth: usize, key: &str) -> Option<Span> {
    let at_depth = |line: &str| is_content(line) && indentation(line) <= depth;
    let begins = |line: &str| is_content(line) && indentation(line) == depth && has_key(line, key);
    let start = span.start
        + lines
            .get(span.clone())?
            .iter()
            .position(|line| begins(line))?;
    let end = lines
        .get(start + 1..span.end)?
        .iter()
        .position(|line| at_depth(line))
        .map_or(span.end, |offset| start + 1 + offset);
    Some(start..content_end(lines, start..end))
}

fn has_key(line: &str, key: &str) -> bool {
    let line = line.trim();
    match syntax::parse(line) {
        Ok(node) => node.get(key).is_some(),
        // the value continues on the next line
        Err(_) => line
            .strip_prefix(key)
            .is_some_and(|rest| rest.starts_with(':')),
    }
}

fn render_entry(key: &str, value: &Value, depth: usize) -> Vec<String> {
    render_value(
        &format!("{}{}:", " ".repeat(depth), scalar(key)),
        value,
        depth,
    )
}

/// Lines of a value after a head such as `key:` or `-`.
fn render_value(head: &str, value: &Value, depth: usize) -> Vec<String> {
    match value {
        Value::Object(entries) if !entries.is_empty() => std::iter::once(head.to_owned())
            .chain(
                entries
                    .iter()
                    .flat_map(|(key, value)| render_entry(key, value, depth + 2)),
            )
            .collect(),
        Value::Array(values) if !values.is_empty() => std::iter::once(head.to_owned())
            .chain(values.iter().flat_map(|value| {
                render_value(&format!("{}-", " ".repeat(depth + 2)), value, depth + 2)
            }))
            .collect(),
        Value::String(text) => vec![format!("{head} {}", scalar(text))],
        other => vec![format!("{head} {other}")],
    }
}

/// Formats a string as YAML: plain if unambiguous, else in the double quotes of JSON.
fn scalar(text: &str) -> String {
    // booleans of YAML 1.1
    const WORDS: [&str; 8] = ["y", "n", "yes", "no", "on", "off", "true", "false"];
    let plain =
        |character: char| character.is_ascii_alphanumeric() || "_./@+=:-".contains(character);
    let safe = text
        .starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_' || first == '/')
        && text.chars().all(plain)
        && !text.ends_with(':')
        && !WORDS.contains(&text.to_ascii_lowercase().as_str())
        && syntax::parse(text).is_ok_and(|node| node.as_str() == Some(text));
    if safe {
        text.to_owned()
    } else {
        Value::String(text.to_owned()).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(text: &str, key: &str, value: &Value) -> String {
        let node = syntax::parse(text).unwrap();
        let entries = node
            .get("config")
            .map(syntax::Node::to_json)
            .unwrap_or_default();
        let entries: Vec<_> = entries
            .as_object()
            .cloned()
            .unwrap_or_default()
            .into_iter()
            .collect();
        let edited = set_in(text, "config", &entries, key, value);
        let config = syntax::parse(&edited)
            .unwrap()
            .get("config")
            .unwrap()
            .to_json();
        assert_eq!(config[key], *value, "{edited}");
        for (name, value) in entries {
            assert!(name == key || config[&name] == value, "{name} in {edited}");
        }
        edited
    }

    #[test]
    fn config_document_matches_cli() {
        let text = "encryptionsalt: v1:x=\n";
        let text = set(text, "demo:greeting", &json!("hi"));
        let text = set(&text, "demo:size", &json!("4"));
        let text = set(&text, "demo:token", &json!({"secure": "v1:a+b/c:Y/r="}));
        let text = set(&text, "demo:obj", &json!({"a": [1, 2]}));
        assert_eq!(
            text,
            "encryptionsalt: v1:x=\nconfig:\n  demo:greeting: hi\n  demo:size: \"4\"\n  demo:token:\n    \
             secure: v1:a+b/c:Y/r=\n  demo:obj:\n    a:\n      - 1\n      - 2\n"
        );
    }

    #[test]
    fn config_document_edit_keeps_rest() {
        let text = "# mine\nconfig:\n    # why\n    demo:a: 'x' # here\n    demo:b: |\n      many\n\n      lines\n    demo:c: {d: [1,\n      2]}\n# end\nenvironment:\n  - shared\n";
        let edited = set(text, "demo:b", &json!("short"));
        assert_eq!(
            edited,
            text.replace(
                "    demo:b: |\n      many\n\n      lines\n",
                "    demo:b: short\n"
            )
        );
        let edited = set(text, "demo:c", &json!("short"));
        assert_eq!(edited, text.replace("{d: [1,\n      2]}", "short"));
        let edited = set(text, "demo:new", &json!("word"));
        assert_eq!(edited, text.replace("# end", "    demo:new: word\n# end"));
    }

    #[test]
    fn config_document_flow_style_becomes_block() {
        let edited = set(
            "config: {demo:a: 1}\nencryptionsalt: x\n",
            "demo:b",
            &json!("y"),
        );
        assert_eq!(
            edited,
            "config:\n  demo:a: 1\n  demo:b: \"y\"\nencryptionsalt: x\n"
        );
        assert_eq!(
            set("config: {}\n", "demo:b", &json!(true)),
            "config:\n  demo:b: true\n"
        );
    }

    #[test]
    fn config_document_removes_entries() {
        let text = "config:\n  demo:a: 1\n  demo:b:\n    c: 2\nencryptionsalt: x\n";
        let entries = [
            ("demo:a".to_owned(), json!(1)),
            ("demo:b".to_owned(), json!({"c": 2})),
        ];
        let edited = remove_in(text, "config", &entries, "demo:b");
        assert_eq!(edited, "config:\n  demo:a: 1\nencryptionsalt: x\n");
        assert_eq!(
            remove_in(&edited, "config", &entries[..1], "demo:a"),
            "encryptionsalt: x\n"
        );
        assert_eq!(remove_in(text, "config", &entries, "nosuch"), text);
    }

    #[test]
    fn config_document_strings_round_trip() {
        for text in [
            "",
            " ",
            "007",
            "0x1",
            "1e3",
            "true",
            "yes",
            "null",
            "~",
            "- x",
            "a: b",
            "a #b",
            "{x}",
            "*a",
            "&a",
            "!t",
            "\"q\"",
            "it's",
            "line\nbreak",
            "tab\t",
            "ü",
            "-1",
            "1.5",
            "@x",
            "%x",
            "a:",
            ":a",
        ] {
            let edited = set("", "demo:k", &json!(text));
            assert_eq!(
                syntax::parse(&edited)
                    .unwrap()
                    .get("config")
                    .unwrap()
                    .get("demo:k")
                    .unwrap()
                    .as_str(),
                Some(text),
                "{edited}"
            );
        }
    }
}

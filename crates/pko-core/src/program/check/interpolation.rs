//! Parses references such as `${name.property[0]["key"]}` in strings.
//!
//! It accepts what Pulumi accepts: dots may be doubled, and a name ends at the next `.`, `[` or
//! `}`.

use super::{finding::quote, recorder::MAX_REFERENCES};

/// A parsed string of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Text<'text> {
    /// No reference.
    Literal,
    /// Only a reference, with a value of any type. `whole` if it has no property path.
    Reference { root: &'text str, whole: bool },
    /// References inside a string.
    Mixed(Vec<&'text str>),
}

/// Parses a string.
///
/// # Errors
/// The problem of an interpolation, and the fix.
pub(super) fn read(text: &str) -> Result<Text<'_>, String> {
    let (mut roots, mut literal, mut whole, mut rest) = (Vec::new(), false, false, text);
    while let Some(position) = rest.find('$') {
        literal |= position > 0;
        let here = rest.get(position..).unwrap_or_default();
        if let Some(after) = here.strip_prefix("${") {
            let access = access(after).map_err(|problem| format!("{} {problem}", quote(here)))?;
            // One more than the limit shows that there are too many.
            if roots.len() <= MAX_REFERENCES {
                roots.push(access.root);
            }
            whole = access.whole;
            rest = access.rest;
        } else {
            literal = true;
            rest = here
                .strip_prefix("$$")
                .or_else(|| here.strip_prefix('$'))
                .unwrap_or_default();
        }
    }
    literal |= !rest.is_empty();
    Ok(match roots.as_slice() {
        [] => Text::Literal,
        [root] if !literal => Text::Reference { root, whole },
        _ => Text::Mixed(roots),
    })
}

struct Access<'text> {
    root: &'text str,
    whole: bool,
    /// The text after the closing brace.
    rest: &'text str,
}

fn access(text: &str) -> Result<Access<'_>, &'static str> {
    let (mut root, mut steps, mut rest) = (None, 0_usize, text);
    loop {
        let step;
        if let Some(after) = rest.strip_prefix('}') {
            let root =
                root.ok_or("is empty; write a name between the braces, or $$ for a dollar sign")?;
            return Ok(Access {
                root,
                whole: steps == 1,
                rest: after,
            });
        } else if let Some(after) = rest.strip_prefix('.') {
            rest = after;
            continue;
        } else if let Some(after) = rest.strip_prefix("[\"") {
            (step, rest) = quoted_key(after)?;
        } else if let Some(after) = rest.strip_prefix('[') {
            rest = list_index(after)?;
            step = root.ok_or("starts with an index; write a name first")?;
        } else if rest.is_empty() {
            return Err("has no closing brace; add }, or write $$ for a dollar sign");
        } else {
            let end = rest.find(['.', '[', '}']).unwrap_or(rest.len());
            (step, rest) = rest.split_at(end);
        }
        root = root.or(Some(step));
        steps += 1;
    }
}

/// A key up to its quote and bracket, and the rest.
fn quoted_key(text: &str) -> Result<(&str, &str), &'static str> {
    let mut escaped = false;
    let end = text.char_indices().find(|(_, character)| {
        let found = *character == '"' && !escaped;
        escaped = *character == '\\';
        found
    });
    let (end, _) = end.ok_or("has a key without its closing quote")?;
    let (key, rest) = text.split_at(end);
    let rest = rest.strip_prefix("\"]");
    Ok((key, rest.ok_or("has a key without its closing bracket")?))
}

/// The text after an index.
fn list_index(text: &str) -> Result<&str, &'static str> {
    let (index, rest) = text
        .split_once(']')
        .ok_or("has an index without its closing bracket")?;
    let number = index.parse::<i64>();
    number.map_err(|_| "has an index that is not a number; put a key in quotes")?;
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> String {
        match read(text) {
            Ok(Text::Literal) => "literal".to_owned(),
            Ok(Text::Reference { root, whole: true }) => format!("all of {root}"),
            Ok(Text::Reference { root, whole: false }) => format!("part of {root}"),
            Ok(Text::Mixed(roots)) => format!("text with {}", roots.join(", ")),
            Err(problem) => problem,
        }
    }

    #[test]
    fn interpolation_is_parsed_as_pulumi_does() {
        for (text, expected) in [
            ("", "literal"),
            ("plain", "literal"),
            ("costs $5", "literal"),
            ("$", "literal"),
            ("$${not}", "literal"),
            ("$$${yes}", "text with yes"),
            ("${a}", "all of a"),
            ("${a.b}", "part of a"),
            ("${a..b}", "part of a"),
            ("${.a}", "all of a"),
            ("${a[0].c}", "part of a"),
            ("${a[-1]}", "part of a"),
            (r#"${a["k.l}"]}"#, "part of a"),
            (r#"${a["q\"q"]}"#, "part of a"),
            (r#"${["root"]}"#, "all of root"),
            ("${demo:key}", "all of demo:key"),
            ("${ a }", "all of  a "),
            ("x${a}", "text with a"),
            ("${a}x", "text with a"),
            ("${a}${b.c}", "text with a, b"),
            ("ü${a}ü", "text with a"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn malformed_interpolation_is_reported() {
        for (text, expected) in [
            (
                "${",
                r#""${" has no closing brace; add }, or write $$ for a dollar sign"#,
            ),
            (
                "at ${a.b",
                r#""${a.b" has no closing brace; add }, or write $$ for a dollar sign"#,
            ),
            (
                "${}",
                r#""${}" is empty; write a name between the braces, or $$ for a dollar sign"#,
            ),
            (
                "${...}",
                r#""${...}" is empty; write a name between the braces, or $$ for a dollar sign"#,
            ),
            (
                "${a[x]}",
                r#""${a[x]}" has an index that is not a number; put a key in quotes"#,
            ),
            (
                "${a[0}",
                r#""${a[0}" has an index without its closing bracket"#,
            ),
            (
                r#"${a["x}"#,
                r#""${a[\"x}" has a key without its closing quote"#,
            ),
            (
                r#"${a["x"}"#,
                r#""${a[\"x\"}" has a key without its closing bracket"#,
            ),
            (
                "${[0]}",
                r#""${[0]}" starts with an index; write a name first"#,
            ),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    proptest! {
        /// Every string is parsed or rejected, and a string without `${` is always accepted.
        #[test]
        fn interpolation_parses_or_rejects_any_text(text in r#"([a.\[\]{}"$\\ü0-]|\$\{){0,24}"#) {
            let read = read(&text);
            if !text.contains("${") {
                prop_assert_eq!(read, Ok(Text::Literal));
            }
        }

        /// The engine evaluates what the check accepts, except for negative indices, which Pulumi
        /// accepts.
        #[test]
        fn interpolation_agrees_with_the_engine(text in r#"([a.\[\]{}"$\\ü0]|\$\{){0,24}"#) {
            let parsed = pulumi_yaml::access::parse(&text);
            prop_assert_eq!(read(&text).is_ok(), parsed.is_ok(), "{:?}", parsed);
        }

        /// Doubled dollar signs are never references.
        #[test]
        fn escaped_text_is_literal(text in "[a-z${}.]{0,16}") {
            let escaped = text.replace('$', "$$");
            prop_assert_eq!(read(&escaped), Ok(Text::Literal));
        }

        #[test]
        fn name_is_found_in_surrounding_text(
            name in "[a-zA-Z_][a-zA-Z0-9_:-]{0,8}", before in "[a-z ]{0,4}", after in "[a-z ]{0,4}",
        ) {
            let text = format!("{before}${{{name}}}{after}");
            let expected = if before.is_empty() && after.is_empty() {
                Text::Reference { root: &name, whole: true }
            } else {
                Text::Mixed(vec![&name])
            };
            prop_assert_eq!(read(&text), Ok(expected));
        }
    }
}

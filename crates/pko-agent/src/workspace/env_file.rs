//! The file in which a workspace's init containers leave environment variables for the CLI.
//!
//! The syntax is dotenv's: `KEY=VALUE` lines, `export`, comments, quotes, and references to earlier
//! keys.

use std::{collections::HashMap, fs, io, path::Path};

use pko_auth::Redacted;

/// The errors do not quote the file, which may contain secrets.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EnvFileError {
    #[error("failed to read the file")]
    Unreadable(#[source] io::Error),
    #[error("line {0} does not begin with a name and `=`")]
    NoName(usize),
    #[error("line {0} has an unterminated quote")]
    OpenQuote(usize),
    #[error("the value in line {0} contains a zero byte")]
    ZeroByte(usize),
}

/// In the order of the file.
pub(crate) type Variables = Vec<(String, Redacted)>;

/// A missing file has no variables.
pub(crate) fn load(path: &Path) -> Result<Variables, EnvFileError> {
    match fs::read_to_string(path) {
        Ok(text) => parse(&text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Variables::new()),
        Err(error) => Err(EnvFileError::Unreadable(error)),
    }
}

pub(crate) fn parse(text: &str) -> Result<Variables, EnvFileError> {
    let text = text.replace("\r\n", "\n");
    let mut rest = text.trim_start_matches('\u{feff}');
    let mut variables: Vec<(String, String)> = Vec::new();
    let mut known: HashMap<String, String> = HashMap::new();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            break;
        }
        if rest.starts_with('#') {
            rest = after_line(rest);
            continue;
        }
        let line = line_number(&text, rest);
        let (name, after) = name(rest).ok_or(EnvFileError::NoName(line))?;
        let (value, after) = value(after, &known).ok_or(EnvFileError::OpenQuote(line))?;
        if value.contains('\0') {
            return Err(EnvFileError::ZeroByte(line));
        }
        known.insert(name.to_owned(), value.clone());
        variables.push((name.to_owned(), value));
        rest = after;
    }
    let redact = |(name, value)| (name, Redacted::new(value));
    Ok(variables.into_iter().map(redact).collect())
}

fn name(text: &str) -> Option<(&str, &str)> {
    let text = text
        .strip_prefix("export")
        .filter(|rest| rest.starts_with([' ', '\t']))
        .map_or(text, str::trim_start);
    let end = text.find(['=', ':', '\n'])?;
    let (name, rest) = text.split_at(end);
    let name = name.trim_end();
    let legal = |character: char| character.is_ascii_alphanumeric() || "_.".contains(character);
    let good = !name.is_empty() && name.chars().all(legal) && !rest.starts_with('\n');
    good.then(|| {
        (
            name,
            rest.get(1..).unwrap_or("").trim_start_matches([' ', '\t']),
        )
    })
}

fn value<'a>(text: &'a str, known: &HashMap<String, String>) -> Option<(String, &'a str)> {
    let Some(quote @ ('"' | '\'')) = text.chars().next() else {
        let line = text.lines().next().unwrap_or("");
        let line = expand(without_comment(line).trim(), known);
        return Some((line, after_line(text)));
    };
    let inner = text.get(1..)?;
    let (inside, rest) = inner.split_at(closing(inner, quote)?);
    let inside = if quote == '"' {
        expand(&unescape(inside), known)
    } else {
        inside.to_owned()
    };
    Some((inside, after_line(rest)))
}

/// The position of the closing quote.
fn closing(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            other if other == quote => return Some(at),
            _ => {}
        }
    }
    None
}

/// Line ends and quotes; a `\$` stays for [`expand`].
fn unescape(text: &str) -> String {
    let mut unescaped = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            unescaped.push(character);
            continue;
        }
        match characters.next() {
            Some('n') => unescaped.push('\n'),
            Some('r') => unescaped.push('\r'),
            Some('$') => unescaped.push_str("\\$"),
            Some(other) => unescaped.push(other),
            None => unescaped.push('\\'),
        }
    }
    unescaped
}

/// Puts in the values of earlier keys; an unknown one is empty.
fn expand(text: &str, known: &HashMap<String, String>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, after) = rest.split_at(at);
        let after = after.get(1..).unwrap_or("");
        if let Some(before) = before.strip_suffix('\\') {
            expanded.push_str(before);
            expanded.push('$');
            rest = after;
            continue;
        }
        expanded.push_str(before);
        let (name, remaining) = reference(after);
        match name {
            Some(name) => expanded.push_str(known.get(name).map_or("", String::as_str)),
            None => expanded.push('$'),
        }
        rest = remaining;
    }
    expanded + rest
}

/// The name after a `$`, and what follows it.
fn reference(text: &str) -> (Option<&str>, &str) {
    let is_name = |character: char| {
        character.is_ascii_uppercase() || character.is_ascii_digit() || character == '_'
    };
    let (inner, closed) = match text.strip_prefix('{') {
        Some(inner) => (inner, true),
        None => (text, false),
    };
    let end = inner
        .find(|character| !is_name(character))
        .unwrap_or(inner.len());
    let (name, rest) = inner.split_at(end);
    let rest = if closed {
        rest.strip_prefix('}')
    } else {
        Some(rest)
    };
    match rest {
        Some(rest) if !name.is_empty() => (Some(name), rest),
        _ => (None, text),
    }
}

fn without_comment(line: &str) -> &str {
    let comment = line.char_indices().find(|(at, character)| {
        let before = line.get(..*at).unwrap_or("");
        *character == '#' && (before.is_empty() || before.ends_with([' ', '\t']))
    });
    comment.and_then(|(at, _)| line.get(..at)).unwrap_or(line)
}

fn after_line(text: &str) -> &str {
    text.split_once('\n').map_or("", |(_, rest)| rest)
}

fn line_number(whole: &str, rest: &str) -> usize {
    let done = whole.len().saturating_sub(rest.len());
    whole.get(..done).unwrap_or("").matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, String)> {
        let variables = parse(text).unwrap();
        variables
            .into_iter()
            .map(|(name, value)| (name, value.expose().to_owned()))
            .collect()
    }

    #[test]
    fn env_file_line_forms_are_parsed() {
        let table = [
            ("A=1", "A", "1"),
            ("A: 1", "A", "1"),
            ("export A = two words  # comment", "A", "two words"),
            ("A=x#y", "A", "x#y"),
            ("A=", "A", ""),
            ("A='$B \\n'", "A", "$B \\n"),
            (
                "A=\"line\\nline \\\"quoted\\\" \\$x\"",
                "A",
                "line\nline \"quoted\" $x",
            ),
            ("A=\"over\nlines\" # comment", "A", "over\nlines"),
            ("A.b_1=$UNKNOWN.", "A.b_1", "."),
            ("A=$lower", "A", "$lower"),
        ];
        for (text, name, value) in table {
            assert_eq!(read(text), [(name.to_owned(), value.to_owned())], "{text}");
        }
    }

    #[test]
    fn env_file_expands_references() {
        let text = "# first\r\n\r\nHOST=example\r\nURL=https://${HOST}/$HOST\nexport HOST=other\n";
        let values: Vec<String> = read(text).into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, ["example", "https://example/example", "other"]);
    }

    #[test]
    fn env_file_errors_hide_values() {
        let error = parse("A=1\nB=\"canary").unwrap_err().to_string();
        assert_eq!(error, "line 2 has an unterminated quote");
        assert!(matches!(
            parse("A=1\nnonsense\n"),
            Err(EnvFileError::NoName(2))
        ));
        assert!(matches!(parse("a b=1"), Err(EnvFileError::NoName(1))));
    }

    #[test]
    fn missing_env_file_is_empty() {
        assert!(load(Path::new("/does/not/exist")).unwrap().is_empty());
    }

    proptest::proptest! {
        #[test]
        fn env_file_accepts_any_text(text in "(?s)[A-B=:\"'$\\{\\}#\\\\ \n\r\té]{0,40}") {
            let _ = parse(&text);
        }
    }
}

//! The words for operations and types, and quoting.

use std::fmt::Write as _;

use pulumi_engine_deploy::plan::{Operation, Step};
use pulumi_engine_model::urn::{STACK_TYPE, Urn};

/// The sign of an operation, two characters wide.
pub(super) fn sign(operation: Operation) -> &'static str {
    match operation {
        Operation::Same => "  ",
        Operation::Create => "+ ",
        Operation::Delete => "- ",
        Operation::Update | Operation::Refresh | Operation::RemovePendingReplace => "~ ",
        Operation::Replace => "+-",
        Operation::CreateReplacement => "++",
        Operation::DeleteReplaced => "--",
        Operation::Read => "> ",
        Operation::ReadReplacement => ">>",
        Operation::Discard => "< ",
        Operation::DiscardReplaced => "<<",
        Operation::Import => "= ",
        Operation::ImportReplacement => "=>",
    }
}

/// The words for a running operation.
pub(super) fn doing(operation: Operation) -> &'static str {
    match operation {
        Operation::Same | Operation::RemovePendingReplace => "",
        Operation::Create => "creating",
        Operation::Update => "updating",
        Operation::Delete => "deleting",
        Operation::Replace => "replacing",
        Operation::CreateReplacement => "creating replacement",
        Operation::DeleteReplaced => "deleting original",
        Operation::Read => "reading",
        Operation::ReadReplacement => "reading for replacement",
        Operation::Refresh => "refreshing",
        Operation::Discard => "discarding",
        Operation::DiscardReplaced => "discarding original",
        Operation::Import => "importing",
        Operation::ImportReplacement => "importing replacement",
    }
}

/// The words for a finished operation.
pub(super) fn done(operation: Operation) -> &'static str {
    match operation {
        Operation::Same | Operation::RemovePendingReplace => "",
        Operation::Create => "created",
        Operation::Update => "updated",
        Operation::Delete => "deleted",
        Operation::Replace => "replaced",
        Operation::CreateReplacement => "created replacement",
        Operation::DeleteReplaced => "deleted original",
        Operation::Read => "read",
        Operation::ReadReplacement => "read for replacement",
        Operation::Refresh => "refresh",
        Operation::Discard => "discarded",
        Operation::DiscardReplaced => "discarded original",
        Operation::Import => "imported",
        Operation::ImportReplacement => "imported replacement",
    }
}

/// The words for a failed operation.
pub(super) fn failed(operation: Operation) -> String {
    match operation {
        Operation::Same => "failed".to_owned(),
        Operation::RemovePendingReplace => String::new(),
        Operation::CreateReplacement => "creating failed".to_owned(),
        Operation::DeleteReplaced => "deleting failed".to_owned(),
        Operation::ReadReplacement => "reading failed".to_owned(),
        Operation::DiscardReplaced => "discarding failed".to_owned(),
        Operation::ImportReplacement => "importing failed".to_owned(),
        other => format!("{} failed", doing(other)),
    }
}

/// The words in a preview.
pub(super) fn planned(operation: Operation) -> &'static str {
    match operation {
        Operation::Same | Operation::RemovePendingReplace => "",
        Operation::Create => "create",
        Operation::Update => "update",
        Operation::Delete => "delete",
        Operation::Replace => "replace",
        Operation::CreateReplacement => "create replacement",
        Operation::DeleteReplaced => "delete original",
        Operation::Read => "read",
        Operation::ReadReplacement => "read for replacement",
        Operation::Refresh => "refreshing",
        Operation::Discard => "discard",
        Operation::DiscardReplaced => "discard original",
        Operation::Import => "import",
        Operation::ImportReplacement => "import replacement",
    }
}

/// The operation to show: of a finished refresh, its result.
pub(super) fn outcome(step: &Step) -> Operation {
    match step.operation {
        Operation::Refresh => step.found,
        other => other,
    }
}

/// Whether it is the stack itself.
pub(super) fn is_stack(urn: &Urn) -> bool {
    urn.qualified_type() == STACK_TYPE
}

/// `[retain]`, if the step removes a resource from the state without deleting it.
pub(super) fn retained(step: &Step, operation: Operation) -> &'static str {
    let kept = step.old.as_ref().is_some_and(|old| old.retain_on_delete);
    match operation {
        Operation::Delete
        | Operation::Replace
        | Operation::CreateReplacement
        | Operation::DeleteReplaced
            if kept =>
        {
            "[retain]"
        }
        _ => "",
    }
}

/// Shortens a type token: `random:index/randomPet:RandomPet` is `random:index:RandomPet`.
pub(super) fn type_name(kind: &str) -> String {
    let parts: Vec<_> = kind.split(':').collect();
    let [package, module, name] = parts.as_slice() else {
        return kind.to_owned();
    };
    let mut letters = name.chars();
    let camel = letters.next().map(|first| {
        let rest = letters.as_str();
        format!("{}{rest}", first.to_lowercase())
    });
    match module.rsplit_once('/') {
        Some((folder, file)) if camel.as_deref() == Some(file) => {
            format!("{package}:{folder}:{name}")
        }
        _ => kind.to_owned(),
    }
}

/// Quotes a string as Go does.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

/// Escapes a string as Go does.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            '\x07' => escaped.push_str("\\a"),
            '\x08' => escaped.push_str("\\b"),
            '\x0b' => escaped.push_str("\\v"),
            '\x0c' => escaped.push_str("\\f"),
            control if control.is_ascii_control() => {
                _ = write!(escaped, "\\x{:02x}", u32::from(control));
            }
            control if control.is_control() => {
                _ = write!(escaped, "\\u{:04x}", u32::from(control));
            }
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_token_is_shortened() {
        assert_eq!(
            type_name("random:index/randomPet:RandomPet"),
            "random:index:RandomPet"
        );
        assert_eq!(
            type_name("kubernetes:apps/v1:Deployment"),
            "kubernetes:apps/v1:Deployment"
        );
        assert_eq!(type_name("odd"), "odd");
    }

    #[test]
    fn quoting_matches_go() {
        assert_eq!(
            quoted("a \"b\"\n\u{1}é\u{85}'"),
            r#""a \"b\"\n\x01é\u0085'""#
        );
    }
}

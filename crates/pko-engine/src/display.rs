//! What a person sees of a run, on standard output; errors and warnings go to standard error.

use std::io::{self, Write as _};

use crate::{
    plan::{Changes, Operation, Step},
    program::Diagnostic,
    property::Properties,
    resource::Resource,
    syntax::Place,
    urn::Urn,
};

/// Prints a line. That nobody reads it any more is no reason to stop a run half way.
pub fn line(text: &str) -> io::Result<()> {
    match writeln!(io::stdout(), "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Prints a line for what is no data.
pub fn note(text: &str) {
    // nothing better can be done when even that fails
    _ = writeln!(io::stderr(), "{text}");
}

/// Prints that a step is done, or would be.
pub fn step(step: &Step, preview: bool) -> io::Result<()> {
    let (sign, done, planned) = match step.operation {
        Operation::Create => ("+", "created", "create"),
        Operation::CreateReplacement => ("++", "created replacement", "create replacement"),
        Operation::Delete => ("-", "deleted", "delete"),
        Operation::DeleteReplaced => ("--", "deleted original", "delete original"),
        Operation::Discard => ("<", "discarded", "discard"),
        Operation::DiscardReplaced => ("<<", "discarded original", "discard original"),
        Operation::Import => ("=", "imported", "import"),
        Operation::ImportReplacement => ("=>", "imported replacement", "import replacement"),
        Operation::Read => (">", "read", "read"),
        Operation::ReadReplacement => (">>", "read replacement", "read replacement"),
        Operation::Replace => ("+-", "replaced", "replace"),
        Operation::Refresh if step.found == Operation::Update => ("~", "updated", "update"),
        Operation::Refresh if step.found == Operation::Delete => ("-", "gone", "forget"),
        Operation::Update => ("~", "updated", "update"),
        Operation::Same | Operation::Refresh | Operation::RemovePendingReplace => ("", "", ""),
    };
    let kind = step
        .resource()
        .map_or("", |resource| resource.kind.as_str());
    if step.resource().is_some_and(Resource::is_default_provider) {
        return Ok(());
    }
    let word = if preview { planned } else { done };
    let differences = match step.differences.as_slice() {
        [] => String::new(),
        names => format!(" [diff: {}]", names.join(",")),
    };
    line(format!(" {sign:<2} {kind} {} {word}{differences}", step.urn.name()).trim_end())
}

/// Prints what a provider says while it works on a resource.
pub fn status(urn: &Urn, message: &str) -> io::Result<()> {
    line(&format!(" @  {} {} {message}", urn.kind(), urn.name()))
}

/// Prints what the stack gives; secrets are hidden.
pub fn outputs(outputs: &Properties) -> io::Result<()> {
    if outputs.is_empty() {
        return Ok(());
    }
    let width = outputs.keys().map(String::len).max().unwrap_or_default();
    line("Outputs:")?;
    for (name, value) in outputs {
        let value = if value.contains_secret() {
            "[secret]".to_owned()
        } else {
            value.revealed().to_string()
        };
        line(&format!("    {name:<width$}: {value}"))?;
    }
    line("")
}

/// Prints how much was done.
pub fn summary(changes: &Changes, seconds: u64, preview: bool) -> io::Result<()> {
    line("Resources:")?;
    let words = [
        ("create", "+", "created"),
        ("update", "~", "updated"),
        ("delete", "-", "deleted"),
        ("replace", "+-", "replaced"),
    ];
    for (name, sign, done) in words {
        if let Some(count) = changes.get(name) {
            let word = if preview {
                format!("to {name}")
            } else {
                done.to_owned()
            };
            line(&format!("    {sign:<2}{count} {word}"))?;
        }
    }
    if let Some(count) = changes.get("same") {
        line(&format!("    {count} unchanged"))?;
    }
    line("")?;
    if preview {
        Ok(())
    } else {
        line(&format!("Duration: {seconds}s\n"))
    }
}

/// A diagnostic with the line of the program it is about.
#[must_use]
pub fn diagnostic(diagnostic: &Diagnostic, file: &str, source: &str) -> String {
    let Some(Place {
        line: number,
        column,
    }) = diagnostic.line
    else {
        return diagnostic.message.clone();
    };
    let within = if column > 0 {
        format!(", column {column}")
    } else {
        String::new()
    };
    let text = source
        .lines()
        .nth(number.saturating_sub(1))
        .unwrap_or_default();
    format!(
        "{}\n\n  on {file} line {number}{within}:\n\n  {number:>2}: {text}\n",
        diagnostic.message
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diagnostics_show_their_column_where_it_is_known() {
        let place = Place { line: 1, column: 4 };
        let shown = diagnostic(&Diagnostic::error(place, "wrong"), "Main.yaml", "a: b");
        assert!(shown.contains("on Main.yaml line 1, column 4:"), "{shown}");
    }

    #[test]
    fn diagnostics_show_their_line() {
        let shown = diagnostic(
            &Diagnostic::error(2, "no such name"),
            "Pulumi.yaml",
            "a: 1\nb: ${c}\n",
        );
        assert_eq!(
            shown,
            "no such name\n\n  on Pulumi.yaml line 2:\n\n   2: b: ${c}\n"
        );
    }
}

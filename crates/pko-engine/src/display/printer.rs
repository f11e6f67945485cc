//! Values and what differs between them, one line for each place. Pure.

use serde_json::Value;

use super::{
    Options,
    difference::{self, Change, Difference, Differences},
    lines::{self, Line},
    palette::color,
    words::{escaped, quoted, sign},
};
use crate::{
    plan::Operation,
    property::{
        ARCHIVE_SIGNATURE, ASSET_SIGNATURE, BLINDED, Properties, Property, RESOURCE_SIGNATURE,
        SIGNATURE_KEY,
    },
    syntax, text,
};

/// How many unchanged lines of a text are shown beside a changed one.
const CONTEXT: usize = 2;

/// Writes values at a place of the tree.
#[derive(Clone, Copy)]
pub(super) struct Printer<'a> {
    pub(super) options: &'a Options,
    pub(super) indent: usize,
    /// What is done to what it writes.
    pub(super) operation: Operation,
    /// Whether lines begin with the sign of the operation.
    pub(super) signed: bool,
}

/// Writes the name of a place.
type Title<'t> = &'t dyn Fn(&Printer<'_>, &mut String);

impl Printer<'_> {
    fn deeper(self, levels: usize) -> Self {
        Self {
            indent: self.indent + levels,
            ..self
        }
    }

    fn with(self, operation: Operation, signed: bool) -> Self {
        Self {
            operation,
            signed,
            ..self
        }
    }

    /// A part of a line.
    fn put(&self, out: &mut String, text: &str) {
        out.push_str(&self.options.colors.paint(color(self.operation), text));
    }

    /// The start of a line.
    fn begin(&self, out: &mut String, text: &str) {
        let mut start = "    ".repeat(self.indent);
        if self.signed && self.indent > 0 {
            start.truncate(start.len() - 2);
            start.push_str(sign(self.operation));
        }
        self.put(out, &format!("{start}{text}"));
    }

    /// The line that ends a list or a map; it has no sign.
    fn end(&self, out: &mut String, text: &str) {
        self.with(self.operation, false).begin(out, text);
    }

    /// All properties, with their names in one column.
    pub(super) fn object(&self, out: &mut String, properties: &Properties) {
        let width = width(properties.keys());
        for (name, value) in properties {
            if !difference::is_internal(name) {
                self.property(out, name, width, value);
            }
        }
    }

    /// One property on a line of its own.
    pub(super) fn property(&self, out: &mut String, name: &str, width: usize, value: &Property) {
        self.title(out, name, width);
        self.value_line(out, value);
    }

    fn title(&self, out: &mut String, name: &str, width: usize) {
        self.begin(out, &format!("{:<width$}: ", self.shortened(name)));
    }

    fn value_line(&self, out: &mut String, value: &Property) {
        self.value(out, value);
        self.put(out, "\n");
    }

    fn value(&self, out: &mut String, value: &Property) {
        match value {
            Property::Secret(inner) if self.options.show_secrets => self.value(out, inner),
            Property::List(values) if values.is_empty() => self.put(out, "[]"),
            Property::List(values) => {
                self.put(out, "[\n");
                for (index, value) in values.iter().enumerate() {
                    self.begin(out, &format!("    [{index}]: "));
                    self.deeper(1).value_line(out, value);
                }
                self.end(out, "]");
            }
            Property::Object(entries) if entries.is_empty() => self.put(out, "{}"),
            Property::Object(entries) => match signature(entries) {
                Some(ASSET_SIGNATURE) => self.asset(out, entries),
                Some(ARCHIVE_SIGNATURE) => self.archive(out, entries),
                Some(RESOURCE_SIGNATURE) => self.reference(out, entries),
                _ => {
                    self.put(out, "{\n");
                    self.deeper(1).object(out, entries);
                    self.end(out, "}");
                }
            },
            simple => self.simple(out, simple),
        }
    }

    /// A value that fits on a line, or a text that holds a document.
    fn simple(&self, out: &mut String, value: &Property) {
        match value {
            Property::Null => self.put(out, "<null>"),
            Property::Bool(value) => self.put(out, &value.to_string()),
            Property::Number(value) => self.put(out, &text::number(value)),
            Property::Secret(_) => self.put(out, BLINDED),
            Property::Unknown => self.put(out, "[unknown]"),
            Property::String(text) => match document(text) {
                Some((kind, value)) => {
                    self.put(out, &format!("({kind}) "));
                    self.value_line(out, &value);
                }
                None => self.put(out, &quoted(&self.shortened(text))),
            },
            Property::List(_) | Property::Object(_) => {}
        }
    }

    fn asset(&self, out: &mut String, entries: &Properties) {
        let hash = short_hash(entries);
        if let Some(Property::String(_)) = entries.get("text") {
            // programs and secrets are in such texts: they are never shown
            self.put(out, &format!("asset(text:{hash}) {{\n"));
            self.end(out, "    <contents elided>\n");
            self.end(out, "}");
            return;
        }
        let (kind, place) = place(entries);
        self.put(out, &format!("asset({kind}:{hash}) {{ {place} }}"));
    }

    fn archive(&self, out: &mut String, entries: &Properties) {
        let hash = short_hash(entries);
        let Some(Property::Object(assets)) = entries.get("assets") else {
            let (kind, place) = place(entries);
            self.put(out, &format!("archive({kind}:{hash}) {{ {place} }}"));
            return;
        };
        self.put(out, &format!("archive(assets:{hash}) {{\n"));
        for (name, asset) in assets {
            self.begin(out, &format!("    \"{name}\": "));
            self.deeper(1).value_line(out, asset);
        }
        self.end(out, "}");
    }

    fn reference(&self, out: &mut String, entries: &Properties) {
        self.put(out, "{\n");
        for (name, key) in [
            ("URN", "urn"),
            ("ID", "id"),
            ("PackageVersion", "packageVersion"),
        ] {
            let none = Property::String(String::new());
            let value = entries.get(key).unwrap_or(&none);
            self.deeper(1).property(out, name, 3, value);
        }
        self.end(out, "}");
    }

    /// What differs; `only` names the properties to show, all if it is empty.
    pub(super) fn differences(&self, out: &mut String, differences: &Differences, only: &[String]) {
        let shown = |name: &&String| only.is_empty() || only.contains(name);
        let width = width(differences.keys().filter(shown));
        for (name, difference) in differences.iter().filter(|(name, _)| shown(name)) {
            self.difference(out, name, width, difference);
        }
    }

    /// What became of one property.
    pub(super) fn difference(
        &self,
        out: &mut String,
        name: &str,
        width: usize,
        difference: &Difference,
    ) {
        let title = |printer: &Printer<'_>, out: &mut String| printer.title(out, name, width);
        match difference {
            Difference::Same(value) if is_worth_showing(value) => {
                self.with(Operation::Same, false)
                    .property(out, name, width, value);
            }
            Difference::Same(_) => {}
            other => self.changed(out, other, &title),
        }
    }

    fn changed(&self, out: &mut String, difference: &Difference, title: Title<'_>) {
        match difference {
            Difference::Add(value) => self.whole(out, Operation::Create, value, title),
            Difference::Delete(value) => self.whole(out, Operation::Delete, value, title),
            Difference::Update(change) => self.change(out, change, title),
            Difference::Same(value) => self.whole(out, Operation::Same, value, title),
        }
    }

    fn whole(&self, out: &mut String, operation: Operation, value: &Property, title: Title<'_>) {
        let printer = self.with(operation, operation != Operation::Same);
        title(&printer, out);
        printer.value_line(out, value);
    }

    fn change(&self, out: &mut String, change: &Change, title: Title<'_>) {
        let printer = self.with(Operation::Update, true);
        match change {
            Change::List(elements) => {
                title(&printer, out);
                printer.put(out, "[\n");
                for (index, element) in elements.iter().enumerate() {
                    let title = |printer: &Printer<'_>, out: &mut String| {
                        let outer = Printer {
                            indent: printer.indent - 1,
                            ..*printer
                        };
                        outer.begin(out, &format!("[{index}]: "));
                    };
                    printer.deeper(2).changed(out, element, &title);
                }
                printer.end(out, "]\n");
            }
            Change::Object(entries) => {
                title(&printer, out);
                printer.put(out, "{\n");
                printer.deeper(1).differences(out, entries, &[]);
                printer.end(out, "}\n");
            }
            Change::Plain { old, new } => printer.plain(out, old, new, title),
        }
    }

    fn plain(&self, out: &mut String, old: &Property, new: &Property, title: Title<'_>) {
        if self.options.show_secrets
            && (old.contains_secret() || new.contains_secret())
            && let Some(change) = difference::change(&old.opened().0, &new.opened().0)
        {
            return self.change(out, &change, title);
        }
        let shown = (is_worth_showing(old), is_worth_showing(new));
        match (old, new) {
            (Property::String(old), Property::String(new)) if shown == (true, true) => {
                title(self, out);
                self.text(out, old, new);
            }
            (Property::Object(old), Property::Object(new)) if are_archives(old, new) => {
                title(self, out);
                let hash = moved(&short_hash(old), &short_hash(new));
                let ((kind, before), (_, after)) = (place(old), place(new));
                let place = moved(before, after);
                self.put(out, &format!("archive({kind}:{hash}) {{ {place} }}\n"));
            }
            (Property::List(_) | Property::Object(_), _)
            | (_, Property::List(_) | Property::Object(_)) => self.replaced(out, old, new, title),
            _ if shown == (true, true) => {
                title(self, out);
                self.with(Operation::Delete, true).simple(out, old);
                self.put(out, " => ");
                self.with(Operation::Create, true).simple(out, new);
                self.put(out, "\n");
            }
            _ => self.replaced(out, old, new, title),
        }
    }

    /// One value gone, another there.
    fn replaced(&self, out: &mut String, old: &Property, new: &Property, title: Title<'_>) {
        if is_worth_showing(old) {
            self.whole(out, Operation::Delete, old, title);
        }
        if is_worth_showing(new) {
            self.whole(out, Operation::Create, new, title);
        }
    }

    fn text(&self, out: &mut String, old: &str, new: &str) {
        if let (Some((kind, before)), Some((new_kind, after))) = (document(old), document(new))
            && let Some(change) = difference::change(&before, &after)
        {
            let kinds = if kind == new_kind {
                format!("({kind}) ")
            } else {
                format!("({kind} => {new_kind}) ")
            };
            self.put(out, &kinds);
            return self.change(out, &change, &|_, _| {});
        }
        if old.contains('\n') || new.contains('\n') {
            self.put(out, "\n");
            return self.deeper(1).lines(out, &lines::compare(old, new));
        }
        let (start, end) = common(old, new);
        self.marked(out, Operation::Delete, old, start, end);
        self.put(out, " => ");
        self.marked(out, Operation::Create, new, start, end);
        self.put(out, "\n");
    }

    /// A text in quotes, with what differs in it in the color of the operation.
    fn marked(&self, out: &mut String, operation: Operation, text: &str, start: usize, end: usize) {
        let parts = [
            (Operation::Same, 0..start),
            (operation, start..text.len() - end),
            (Operation::Same, text.len() - end..text.len()),
        ];
        self.put(out, "\"");
        for (operation, range) in parts.into_iter().filter(|(_, range)| !range.is_empty()) {
            let part = escaped(text.get(range).unwrap_or_default());
            self.with(operation, false).put(out, &part);
        }
        self.put(out, "\"");
    }

    fn lines(&self, out: &mut String, lines: &[Line<'_>]) {
        let mut rest = lines;
        while let Some(first) = rest.first() {
            let is_same = |line: &&Line<'_>| matches!(line, Line::Same(_));
            let same = rest.iter().take_while(is_same).count();
            if same > 0 {
                let (here, beyond) = rest.split_at(same);
                let at_start = rest.len() == lines.len();
                self.unchanged(out, here, at_start, beyond.is_empty());
                rest = beyond;
                continue;
            }
            self.line(out, *first);
            rest = rest.get(1..).unwrap_or_default();
        }
    }

    /// Unchanged lines; only those near a change if they are many.
    fn unchanged(&self, out: &mut String, lines: &[Line<'_>], at_start: bool, at_end: bool) {
        let (head, tail) = match (at_start, at_end) {
            (true, _) => (0, CONTEXT),
            (false, true) => (CONTEXT, 0),
            (false, false) => (CONTEXT, CONTEXT),
        };
        let (head, tail) = if lines.len() > head + tail + 1 {
            (head, tail)
        } else {
            (lines.len(), 0)
        };
        for line in lines.iter().take(head) {
            self.line(out, *line);
        }
        if head < lines.len() {
            self.with(Operation::Same, false).begin(out, "...\n");
        }
        for line in lines.iter().skip(lines.len() - tail) {
            self.line(out, *line);
        }
    }

    fn line(&self, out: &mut String, line: Line<'_>) {
        let (operation, text) = match line {
            Line::Same(text) => (Operation::Same, text),
            Line::Old(text) => (Operation::Delete, text),
            Line::New(text) => (Operation::Create, text),
        };
        let printer = self.with(operation, operation != Operation::Same);
        printer.begin(out, &format!("{}\n", self.shortened(text)));
    }

    /// Places that the program wants to be hidden.
    pub(super) fn hidden(&self, out: &mut String, paths: &[String]) {
        for path in paths {
            self.with(Operation::Update, true)
                .begin(out, &format!("{path} (hidden)\n"));
        }
    }

    /// A long text in short, unless all of it is wanted.
    fn shortened(&self, text: &str) -> String {
        const LINES: usize = 3;
        const LENGTH: usize = 150;
        if self.options.full_output {
            return text.to_owned();
        }
        let lines = text.split('\n').take(LINES).map(|line| {
            let cut = line
                .char_indices()
                .map(|(at, _)| at)
                .find(|at| *at >= LENGTH);
            match cut {
                Some(cut) => format!("{}...", line.get(..cut).unwrap_or_default()),
                None => line.to_owned(),
            }
        });
        let mut short = lines.collect::<Vec<_>>().join("\n");
        if text.split('\n').count() > LINES {
            short.push_str("\n...");
        }
        short
    }
}

/// How wide the longest name is.
pub(super) fn width<'n>(names: impl Iterator<Item = &'n String>) -> usize {
    names.map(String::len).max().unwrap_or_default()
}

/// Nothing, and what holds nothing, is left out.
pub(super) fn is_worth_showing(value: &Property) -> bool {
    match value {
        Property::Null => false,
        Property::String(text) => !text.is_empty(),
        Property::List(values) => !values.is_empty(),
        Property::Object(entries) => !entries.is_empty(),
        Property::Bool(_) | Property::Number(_) | Property::Secret(_) | Property::Unknown => true,
    }
}

fn signature(entries: &Properties) -> Option<&str> {
    match entries.get(SIGNATURE_KEY) {
        Some(Property::String(signature)) => Some(signature),
        _ => None,
    }
}

fn short_hash(entries: &Properties) -> String {
    match entries.get("hash") {
        Some(Property::String(hash)) => hash.chars().take(7).collect(),
        _ => String::new(),
    }
}

fn place(entries: &Properties) -> (&'static str, &str) {
    let text = |name: &str| match entries.get(name) {
        Some(Property::String(text)) if !text.is_empty() => Some(text.as_str()),
        _ => None,
    };
    match (text("path"), text("uri")) {
        (Some(path), _) => ("file", path),
        (None, Some(uri)) => ("uri", uri),
        (None, None) => ("unknown", ""),
    }
}

/// Whether both are archives at a place of the same kind.
fn are_archives(old: &Properties, new: &Properties) -> bool {
    let kind = |entries: &Properties| match place(entries).0 {
        "unknown" => None,
        kind => (signature(entries) == Some(ARCHIVE_SIGNATURE)).then_some(kind),
    };
    kind(old).is_some() && kind(old) == kind(new)
}

fn moved(old: &str, new: &str) -> String {
    if old == new {
        old.to_owned()
    } else {
        format!("{old}->{new}")
    }
}

/// The list or map that a text holds, if it is JSON, or YAML of more than one line.
fn document(text: &str) -> Option<(&'static str, Property)> {
    let text = text.trim();
    let holds = |value: &Value| value.is_array() || value.is_object();
    if !text.starts_with(['{', '[']) && !text.contains('\n') {
        return None;
    }
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        return holds(&value).then(|| ("json", Property::from_json(value)));
    }
    if !text.contains('\n') {
        return None;
    }
    let value = syntax::parse(text).ok()?.to_json();
    holds(&value).then(|| ("yaml", Property::from_json(value)))
}

/// How much two texts share at their start and end, in bytes.
fn common(old: &str, new: &str) -> (usize, usize) {
    let same = |(before, after): &(char, char)| before == after;
    let own = old.chars().zip(new.chars()).take_while(same);
    let start: usize = own.map(|(character, _)| character.len_utf8()).sum();
    let rest = |text: &str| text.get(start..).unwrap_or_default().to_owned();
    let (old, new) = (rest(old), rest(new));
    let own = old.chars().rev().zip(new.chars().rev()).take_while(same);
    (start, own.map(|(character, _)| character.len_utf8()).sum())
}

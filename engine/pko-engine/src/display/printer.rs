//! Prints values, one line for each property.

use pulumi_engine_deploy::plan::Operation;
use pulumi_engine_model::property::{
    ARCHIVE_SIGNATURE, ASSET_SIGNATURE, BLINDED, Properties, Property, RESOURCE_SIGNATURE,
    SIGNATURE_KEY,
};
use pulumi_yaml::{syntax, text};
use serde_json::Value;

use super::{
    Options, difference,
    palette::color,
    words::{quoted, sign},
};

/// Prints values at a depth of the tree.
#[derive(Clone, Copy)]
pub(super) struct Printer<'a> {
    pub(super) options: &'a Options,
    pub(super) indent: usize,
    pub(super) operation: Operation,
    /// Whether lines begin with the operation's sign.
    pub(super) signed: bool,
}

impl Printer<'_> {
    pub(super) fn deeper(self, levels: usize) -> Self {
        Self {
            indent: self.indent + levels,
            ..self
        }
    }

    pub(super) fn with(self, operation: Operation, signed: bool) -> Self {
        Self {
            operation,
            signed,
            ..self
        }
    }

    /// A part of a line.
    pub(super) fn put(&self, out: &mut String, text: &str) {
        out.push_str(&self.options.colors.paint(color(self.operation), text));
    }

    /// The start of a line.
    pub(super) fn begin(&self, out: &mut String, text: &str) {
        let mut start = "    ".repeat(self.indent);
        if self.signed && self.indent > 0 {
            start.truncate(start.len() - 2);
            start.push_str(sign(self.operation));
        }
        self.put(out, &format!("{start}{text}"));
    }

    /// The line that ends a list or a map, without a sign.
    pub(super) fn end(&self, out: &mut String, text: &str) {
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

    pub(super) fn title(&self, out: &mut String, name: &str, width: usize) {
        self.begin(out, &format!("{:<width$}: ", self.shortened(name)));
    }

    pub(super) fn value_line(&self, out: &mut String, value: &Property) {
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
    pub(super) fn simple(&self, out: &mut String, value: &Property) {
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
            // assets may contain programs and secrets, so they are never shown
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

    /// Truncates a long string, unless disabled.
    pub(super) fn shortened(&self, text: &str) -> String {
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

/// The width of the longest name.
pub(super) fn width<'n>(names: impl Iterator<Item = &'n String>) -> usize {
    names.map(String::len).max().unwrap_or_default()
}

/// Whether a value is null or empty, which is not shown.
pub(super) fn is_worth_showing(value: &Property) -> bool {
    match value {
        Property::Null => false,
        Property::String(text) => !text.is_empty(),
        Property::List(values) => !values.is_empty(),
        Property::Object(entries) => !entries.is_empty(),
        Property::Bool(_) | Property::Number(_) | Property::Secret(_) | Property::Unknown => true,
    }
}

pub(super) fn signature(entries: &Properties) -> Option<&str> {
    match entries.get(SIGNATURE_KEY) {
        Some(Property::String(signature)) => Some(signature),
        _ => None,
    }
}

pub(super) fn short_hash(entries: &Properties) -> String {
    match entries.get("hash") {
        Some(Property::String(hash)) => hash.chars().take(7).collect(),
        _ => String::new(),
    }
}

pub(super) fn place(entries: &Properties) -> (&'static str, &str) {
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

/// Parses a string that is a list or map in JSON, or in YAML of several lines.
pub(super) fn document(text: &str) -> Option<(&'static str, Property)> {
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

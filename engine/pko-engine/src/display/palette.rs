//! Colors of the output.

use pulumi_engine_deploy::plan::Operation;

/// Whether and how colors are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Colors {
    /// Not at all.
    #[default]
    Never,
    /// ANSI escape codes.
    Always,
    /// Pulumi's own color tags, for other programs to replace.
    Raw,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Color {
    /// Resets the color.
    Plain,
    /// A running step.
    Strong,
    /// A heading.
    Headline,
    /// The name of a resource above its diagnostics.
    Resource,
    /// A deletion or an error.
    Red,
    /// A creation.
    Green,
    /// An update or a warning.
    Yellow,
    /// The deletion of a replacement.
    BrightRed,
    /// The creation of a replacement.
    BrightGreen,
    /// A replacement.
    BrightMagenta,
    /// A read.
    BrightCyan,
}

impl Colors {
    /// Parses `--color`. `auto` colors only a terminal.
    #[must_use]
    pub(crate) fn named(word: &str, terminal: bool) -> Option<Self> {
        match word {
            "always" => Some(Self::Always),
            "raw" => Some(Self::Raw),
            "auto" if terminal => Some(Self::Always),
            "auto" | "never" => Some(Self::Never),
            _ => None,
        }
    }

    /// The code of a color. [`Color::Plain`] resets.
    #[must_use]
    pub(crate) fn start(self, color: Color) -> &'static str {
        match self {
            Self::Never => "",
            Self::Always => escape(color),
            Self::Raw => mark(color),
        }
    }

    #[must_use]
    pub(crate) fn paint(self, color: Color, text: &str) -> String {
        let end = self.start(Color::Plain);
        format!("{}{text}{end}", self.start(color))
    }
}

fn escape(color: Color) -> &'static str {
    match color {
        Color::Plain => "\x1b[0m",
        Color::Strong => "\x1b[1m",
        Color::Headline => "\x1b[38;5;13m\x1b[1m",
        Color::Resource => "\x1b[38;5;12m",
        Color::Red => "\x1b[38;5;1m",
        Color::Green => "\x1b[38;5;2m",
        Color::Yellow => "\x1b[38;5;3m",
        Color::BrightRed => "\x1b[38;5;9m",
        Color::BrightGreen => "\x1b[38;5;10m",
        Color::BrightMagenta => "\x1b[38;5;13m",
        Color::BrightCyan => "\x1b[38;5;14m",
    }
}

fn mark(color: Color) -> &'static str {
    match color {
        Color::Plain => "<{%reset%}>",
        Color::Strong => "<{%bold%}>",
        Color::Headline => "<{%fg 13%}><{%bold%}>",
        Color::Resource => "<{%fg 12%}>",
        Color::Red => "<{%fg 1%}>",
        Color::Green => "<{%fg 2%}>",
        Color::Yellow => "<{%fg 3%}>",
        Color::BrightRed => "<{%fg 9%}>",
        Color::BrightGreen => "<{%fg 10%}>",
        Color::BrightMagenta => "<{%fg 13%}>",
        Color::BrightCyan => "<{%fg 14%}>",
    }
}

/// The color of an operation.
#[must_use]
pub(crate) fn color(operation: Operation) -> Color {
    match operation {
        Operation::Same | Operation::RemovePendingReplace => Color::Plain,
        Operation::Create | Operation::Import => Color::Green,
        Operation::Delete | Operation::Discard | Operation::DiscardReplaced => Color::Red,
        Operation::Update | Operation::Refresh => Color::Yellow,
        Operation::Replace | Operation::ReadReplacement | Operation::ImportReplacement => {
            Color::BrightMagenta
        }
        Operation::CreateReplacement => Color::BrightGreen,
        Operation::DeleteReplaced => Color::BrightRed,
        Operation::Read => Color::BrightCyan,
    }
}

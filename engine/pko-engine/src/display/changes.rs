//! Prints the differences between values, one line for each property.

use pulumi_engine_deploy::plan::Operation;
use pulumi_engine_model::property::{ARCHIVE_SIGNATURE, Properties, Property};

use super::{
    difference::{self, Change, Difference, Differences},
    lines::{self, Line},
    printer::{Printer, document, is_worth_showing, place, short_hash, signature, width},
    words::escaped,
};

/// How many unchanged lines are shown around a changed one.
const CONTEXT: usize = 2;

/// Prints the name of a property.
type Title<'t> = &'t dyn Fn(&Printer<'_>, &mut String);

impl Printer<'_> {
    /// Prints the differences of the properties in `only`, or of all if it is empty.
    pub(super) fn differences(&self, out: &mut String, differences: &Differences, only: &[String]) {
        let shown = |name: &&String| only.is_empty() || only.contains(name);
        let width = width(differences.keys().filter(shown));
        for (name, difference) in differences.iter().filter(|(name, _)| shown(name)) {
            self.difference(out, name, width, difference);
        }
    }

    /// Prints the difference of one property.
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

    /// Prints a replaced value.
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

    /// Prints a quoted string, with the differences in the color of the operation.
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

    /// Prints unchanged lines, only near a change if they are many.
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

    /// Prints the properties of `hideDiffs`.
    pub(super) fn hidden(&self, out: &mut String, paths: &[String]) {
        for path in paths {
            self.with(Operation::Update, true)
                .begin(out, &format!("{path} (hidden)\n"));
        }
    }
}

/// Whether both are archives with the same kind of source.
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

/// The length of the common prefix and suffix of two strings, in bytes.
fn common(old: &str, new: &str) -> (usize, usize) {
    let same = |(before, after): &(char, char)| before == after;
    let own = old.chars().zip(new.chars()).take_while(same);
    let start: usize = own.map(|(character, _)| character.len_utf8()).sum();
    let rest = |text: &str| text.get(start..).unwrap_or_default().to_owned();
    let (old, new) = (rest(old), rest(new));
    let own = old.chars().rev().zip(new.chars().rev()).take_while(same);
    (start, own.map(|(character, _)| character.len_utf8()).sum())
}

//! Objects as text, made from the schema of their CRD. The same number gives the same object.
//!
//! They are text because a value of ten thousand levels can be neither written nor dropped.

use serde_json::{Value, json};

/// Texts that mean something somewhere, or nothing anywhere.
const TEXTS: [&str; 12] = [
    "",
    "a",
    "dev",
    "a/b/c",
    "..",
    "Größe-🦀",
    "\u{202e}x",
    "line\nbreak",
    "${a}",
    "1h",
    "null",
    "0",
];
const NUMBERS: [&str; 12] = [
    "0",
    "-1",
    "1",
    "2147483648",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "1.2345678901234568e+29",
    "1.5e+300",
    "5e-324",
    "-0.0",
    "0.1",
];
/// How deep something without schema is nested.
const DEPTHS: [usize; 6] = [3, 28, 64, 120, 300, 10_000];
const WIDTHS: [usize; 4] = [10, 100, 5_000, 150_000];
const LENGTHS: [usize; 3] = [100, 70_000, 1_000_000];

pub(super) struct Generator {
    kind: String,
    api_version: String,
    schema: Value,
}

impl Generator {
    pub(super) fn new(kind: &str) -> Self {
        let definitions = pko_api::crd::all();
        let found = definitions
            .iter()
            .find(|found| found["spec"]["names"]["kind"] == kind);
        let spec = &found.unwrap()["spec"];
        let versions = spec["versions"].as_array().unwrap();
        let stored = versions
            .iter()
            .find(|version| version["storage"] == json!(true))
            .unwrap();
        let group = spec["group"].as_str().unwrap();
        Self {
            kind: kind.to_owned(),
            api_version: format!("{group}/{}", stored["name"].as_str().unwrap()),
            schema: stored["schema"]["openAPIV3Schema"]["properties"].clone(),
        }
    }

    pub(super) fn object(&self, number: u64) -> String {
        let mut text = GeneratedText::new(number);
        let (kind, version) = (&self.kind, &self.api_version);
        text.push(&format!(
            r#"{{"apiVersion":"{version}","kind":"{kind}","metadata":{{"name":"x-{number}","namespace":"shop","uid":"u-{number}","resourceVersion":"7","generation":2,"creationTimestamp":"2026-01-01T00:00:00Z""#
        ));
        if text.one_in(4) {
            text.push(r#","deletionTimestamp":"2026-01-02T00:00:00Z","finalizers":["finalizer.stack.pulumi.com"]"#);
        }
        if text.one_in(3) {
            text.push(r#","managedFields":[{"time":"-0001-12-31T10:00:00Z","fieldsV1":"#);
            text.nonsense();
            text.push("}]");
        }
        text.push("}");
        for body in ["spec", "program"] {
            if let Some(schema) = self.schema.get(body) {
                text.push(&format!(",{body:?}:"));
                text.value(schema, 0);
            }
        }
        let status = self.status(number);
        if !status.is_empty() {
            text.push(",\"status\":");
            text.push(&status);
        }
        text.push("}");
        text.written
    }

    pub(super) fn stored_status_bytes(&self, number: u64) -> usize {
        self.status(number).len()
    }

    fn status(&self, number: u64) -> String {
        let mut text = GeneratedText::new(number.wrapping_mul(31));
        if text.one_in(2) {
            return String::new();
        }
        text.value(&self.schema["status"], 0);
        text.written
    }
}

/// A text that grows by chance.
struct GeneratedText {
    dice: u64,
    written: String,
}

impl GeneratedText {
    fn new(seed: u64) -> Self {
        Self {
            dice: seed,
            written: String::new(),
        }
    }

    fn push(&mut self, text: &str) {
        self.written.push_str(text);
    }

    /// A number below `end`, by `SplitMix64`.
    fn below(&mut self, end: usize) -> usize {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.dice;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % u64::try_from(end).unwrap()).unwrap()
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// One of these, the later the rarer.
    fn rarely<T: Copy>(&mut self, all: &[T]) -> T {
        let mut index = 0;
        while index + 1 < all.len() && self.one_in(3) {
            index += 1;
        }
        all[index]
    }

    fn value(&mut self, schema: &Value, depth: usize) {
        if self.one_in(2000) {
            return self.nonsense();
        }
        if let Some(choices) = schema["enum"].as_array() {
            let choice = choices[self.below(choices.len())].to_string();
            return self.push(&choice);
        }
        match schema["type"].as_str() {
            Some("string") => self.string(schema),
            Some("integer" | "number") => {
                let number = if self.one_in(20) {
                    self.of(&NUMBERS)
                } else {
                    "60"
                };
                self.push(number);
            }
            Some("boolean") => {
                let flag = self.of(&["true", "false"]);
                self.push(flag);
            }
            Some("array") => self.array(&schema["items"], depth),
            Some("object") => self.object(schema, depth),
            _ if schema["x-kubernetes-int-or-string"] == json!(true) => self.push("\"64Mi\""),
            _ => self.nonsense(),
        }
    }

    fn string(&mut self, schema: &Value) {
        match schema["format"].as_str() {
            Some("date-time") => self.push("\"2030-01-01T00:00:00Z\""),
            Some("byte") => self.push("\"AAAA\""),
            _ => self.text(),
        }
    }

    fn text(&mut self) {
        let text = if self.one_in(500) {
            "long".repeat(self.rarely(&LENGTHS) / 4)
        } else {
            self.of(&TEXTS).to_owned()
        };
        let quoted = json!(text).to_string();
        self.push(&quoted);
    }

    fn array(&mut self, items: &Value, depth: usize) {
        let most = if depth < 3 { 3 } else { 2 };
        let count = self.below(most);
        self.push("[");
        for index in 0..count {
            self.separate(index);
            self.value(items, depth + 1);
        }
        self.push("]");
    }

    fn object(&mut self, schema: &Value, depth: usize) {
        self.push("{");
        let mut count = 0;
        let required: Vec<&str> = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        // The deeper, the fewer.
        let one_in = [3, 5, 9, 20].get(depth).copied().unwrap_or(40);
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            if required.contains(&name.as_str()) || self.one_in(one_in) {
                self.separate(count);
                count += 1;
                self.push(&format!("{}:", json!(name)));
                self.value(field, depth + 1);
            }
        }
        if schema["additionalProperties"].is_object()
            || schema["x-kubernetes-preserve-unknown-fields"] == json!(true)
        {
            for number in 0..self.below(4) {
                self.separate(count);
                count += 1;
                self.push(&format!("\"key-{number}\":"));
                self.value(&schema["additionalProperties"], depth + 1);
            }
        }
        self.push("}");
    }

    fn separate(&mut self, index: usize) {
        if index > 0 {
            self.push(",");
        }
    }

    /// Something that no schema describes.
    fn nonsense(&mut self) {
        match self.below(6) {
            0 => self.text(),
            1 => {
                let number = self.of(&NUMBERS);
                self.push(number);
            }
            2 => self.push("null"),
            3 => {
                let (open, close) = self.of(&[("[", "]"), ("{\"a\":", "}"), ("[1,", "]")]);
                let levels = self.rarely(&DEPTHS);
                let inner = self.of(&["1", "\"x\"", "{}"]);
                self.push(&open.repeat(levels));
                self.push(inner);
                self.push(&close.repeat(levels));
            }
            4 => {
                let more = self.rarely(&WIDTHS).saturating_sub(1);
                let item = self.of(&["0", "{}", "\"${a}\""]);
                self.push(&format!("[{item}{}]", format!(",{item}").repeat(more)));
            }
            _ => {
                let count = self.rarely(&WIDTHS[..3]);
                self.push("{");
                for index in 0..count {
                    self.separate(index);
                    self.push(&format!("\"k{index}\":{index}"));
                }
                self.push("}");
            }
        }
    }
}

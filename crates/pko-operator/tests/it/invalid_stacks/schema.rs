//! Values that a schema may accept, most of them nonsense. The same number gives the same value.

use serde_json::{Map, Value, json};

/// Texts that users may write. None names another host.
const TEXTS: [&str; 24] = [
    "",
    " ",
    "a",
    "dev",
    "organization/project/dev",
    "a/b/c/d/e",
    "-",
    "..",
    "../../etc/passwd",
    "/nonexistent",
    "Größe-测试-🦀",
    "\u{202e}right-to-left",
    "line\nbreak\ttab",
    "quote\"'`$(id)${x}",
    "{{ .Template }}",
    "null",
    "1h",
    "-5m",
    "99999999h",
    "one hour",
    "http://127.0.0.1:1/repo.git",
    "file:///nonexistent",
    "UPPER_case.and-dots",
    "0",
];

const NUMBERS: [i64; 10] = [
    0,
    1,
    -1,
    2,
    60,
    2_147_483_647,
    -2_147_483_648,
    i64::MAX,
    i64::MIN,
    86_400,
];

/// How deep the deepest value is.
const DEEPEST: u32 = 300;
/// From this level on, each value has one other in it at most, or there would be too many of them.
const NARROW: u32 = 7;
/// How many in a thousand of those that have one go down to the deepest.
const DEEP: usize = 20;

/// A stream of numbers that follows from its seed.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        // SplitMix64: small, and good enough to look random.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % u64::try_from(end).unwrap()).unwrap()
    }

    /// Whether it is one of so many in a thousand.
    pub(super) fn is(&mut self, in_a_thousand: usize) -> bool {
        self.below(1000) < in_a_thousand
    }

    pub(super) fn of<'all, T>(&mut self, all: &'all [T]) -> &'all T {
        &all[self.below(all.len())]
    }

    pub(super) fn text(&mut self) -> String {
        if self.is(30) {
            return "long".repeat(300);
        }
        (*self.of(&TEXTS)).to_owned()
    }
}

/// A value for this schema.
pub(super) fn value(schema: &Value, dice: &mut Dice, depth: u32) -> Value {
    if let Some(choices) = schema["enum"].as_array() {
        return dice.of(choices).clone();
    }
    match schema["type"].as_str() {
        Some("string") => text(schema, dice),
        Some("integer" | "number") => number(schema, dice),
        Some("boolean") => dice.is(500).into(),
        Some("array") => {
            let count = dice.below(3);
            let items = (0..count).map(|_| value(&schema["items"], dice, depth + 1));
            items.collect()
        }
        Some("object") => object(schema, dice, depth),
        _ if schema["x-kubernetes-int-or-string"] == json!(true) => quantity(dice),
        _ => nonsense(dice, depth),
    }
}

fn text(schema: &Value, dice: &mut Dice) -> Value {
    match schema["format"].as_str() {
        Some("date-time") => json!("2030-01-01T00:00:00Z"),
        Some("byte") => json!("AAAA"),
        _ => dice.text().into(),
    }
}

/// Mostly one that keeps the schema's limits.
fn number(schema: &Value, dice: &mut Dice) -> Value {
    let is_small = schema["format"] == json!("int32");
    let least = schema["minimum"].as_f64().unwrap_or(f64::MIN);
    let fitting = NUMBERS.into_iter().filter(|number| {
        let fits = !is_small || i32::try_from(*number).is_ok();
        #[expect(clippy::cast_precision_loss, reason = "limits are small")]
        let is_enough = *number as f64 >= least;
        fits && is_enough
    });
    let fitting: Vec<i64> = fitting.collect();
    (*dice.of(&fitting)).into()
}

fn quantity(dice: &mut Dice) -> Value {
    dice.of(&[
        json!("1"),
        json!("64Mi"),
        json!("0.1"),
        json!(3),
        json!("0"),
    ])
    .clone()
}

fn object(schema: &Value, dice: &mut Dice, depth: u32) -> Value {
    let mut fields = Map::new();
    let required = schema["required"].as_array();
    let is_required = |name: &str| {
        let mut required = required.into_iter().flatten();
        required.any(|field| field == name)
    };
    // The deeper, the fewer.
    let often = [70, 250, 120, 60].get(usize::try_from(depth).unwrap());
    let often = often.copied().unwrap_or(20);
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        // The API server refuses these by name.
        let is_never = field.to_string().contains(r#""rule":"false""#);
        let often = if is_never { 1 } else { often };
        let is_there = is_required(name) || (depth < NARROW && dice.is(often));
        if is_there {
            fields.insert(name.clone(), value(field, dice, depth + 1));
        }
    }
    if let Some(values) = schema
        .get("additionalProperties")
        .filter(|all| all.is_object())
    {
        for _ in 0..dice.below(3) {
            let key = dice.text();
            fields.insert(key, value(values, dice, depth + 1));
        }
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == json!(true) {
        fields.insert("unheard-of".to_owned(), nonsense(dice, depth));
    }
    fields.into()
}

fn nonsense(dice: &mut Dice, depth: u32) -> Value {
    if dice.is(DEEP) {
        return (depth..DEEPEST).fold(json!(1), |inner, _| json!({ "deep": inner }));
    }
    match dice.below(if depth < NARROW { 7 } else { 4 }) {
        0 => dice.text().into(),
        1 => (*dice.of(&NUMBERS)).into(),
        2 => dice.is(500).into(),
        3 => json!(1.5e300),
        4 => json!([nonsense(dice, depth + 1), nonsense(dice, depth + 1)]),
        _ => {
            let (key, other) = (dice.text(), dice.text());
            json!({ key: nonsense(dice, depth + 1), other: nonsense(dice, depth + 1) })
        }
    }
}

//! The rules of `RandomString` and `RandomPassword`: character classes and their minimum counts.

use pulumi_engine_model::property::{Properties, Property};

use super::{
    randomness,
    resource::{Fallback, Input, KEEPERS, MOST, Shape, failure, integer},
    settings::RandomInputs,
};
use crate::{CheckFailure, ProviderError};

const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
const NUMERIC: &str = "0123456789";
/// The default special characters.
pub(super) const SPECIAL: &str = "!@#$%&*()-_=+[]{}<>:?";

const MINIMA: [&str; 4] = ["minUpper", "minLower", "minNumeric", "minSpecial"];

const fn minimum(name: &'static str, meaning: &'static str) -> Input {
    let shape = Shape::Integer {
        least: 0,
        most: MOST,
    };
    Input::optional(name, shape, meaning).or(Fallback::Integer(0))
}

const fn class_input(name: &'static str, meaning: &'static str) -> Input {
    Input::optional(name, Shape::Boolean, meaning).or(Fallback::Boolean(true))
}

/// The inputs of both resources.
pub(super) static INPUTS: [Input; 12] = [
    KEEPERS,
    Input::required(
        "length",
        Shape::Integer {
            least: 1,
            most: MOST,
        },
        "how many characters the result has",
    ),
    class_input("lower", "whether there may be lower case letters"),
    minimum("minLower", "how many lower case letters there are at least"),
    minimum("minNumeric", "how many digits there are at least"),
    minimum(
        "minSpecial",
        "how many special characters there are at least",
    ),
    minimum("minUpper", "how many upper case letters there are at least"),
    Input::optional("number", Shape::Boolean, "the old name of 'numeric'"),
    Input::optional("numeric", Shape::Boolean, "whether there may be digits"),
    Input::optional(
        "overrideSpecial",
        Shape::Text,
        "which characters are special",
    ),
    class_input("special", "whether there may be special characters"),
    class_input("upper", "whether there may be upper case letters"),
];

/// `number` and `numeric` are synonyms. The default is `true`.
pub(super) fn complete(values: &mut Properties) {
    let number = values.get("number").or_else(|| values.get("numeric"));
    let numeric = values.get("numeric").or_else(|| values.get("number"));
    let (number, numeric) = (number.cloned(), numeric.cloned());
    for (name, value) in [("number", number), ("numeric", numeric)] {
        values.insert(name.to_owned(), value.unwrap_or(Property::Bool(true)));
    }
}

/// Inputs that conflict.
pub(super) fn problems(settings: &RandomInputs) -> Vec<CheckFailure> {
    let mut problems = Vec::new();
    if let (Some(number), Some(numeric)) = (settings.boolean("number"), settings.boolean("numeric"))
        && number != numeric
    {
        problems.push(failure(
            "number",
            "differs from 'numeric', which is its new name; remove 'number'",
        ));
    }
    let kinds = ["upper", "lower", "numeric", "special"];
    if kinds
        .iter()
        .all(|kind| settings.boolean(kind) == Some(false))
    {
        problems.push(failure(
            "numeric",
            "leaves no characters to choose from: set at least one of 'upper', 'lower', 'numeric' and 'special' to true",
        ));
    }
    let least: i64 = MINIMA
        .iter()
        .filter_map(|name| settings.integer(name))
        .sum();
    if settings
        .integer("length")
        .is_some_and(|length| length < least)
    {
        problems.push(failure(
            "length",
            format!(
                "must be at least {least}, the sum of 'minUpper', 'minLower', 'minNumeric' and 'minSpecial'; make it \
                 larger or them smaller"
            ),
        ));
    }
    problems
}

/// Generates characters by the rules, shuffled.
pub(super) fn generate(settings: &RandomInputs) -> Result<String, ProviderError> {
    let special = settings
        .text("overrideSpecial")
        .filter(|characters| !characters.is_empty())
        .unwrap_or(SPECIAL);
    let kinds = [
        ("upper", "minUpper", UPPER),
        ("lower", "minLower", LOWER),
        ("numeric", "minNumeric", NUMERIC),
        ("special", "minSpecial", special),
    ];
    let mut result = Vec::new();
    let mut all = Vec::new();
    for (kind, minimum, characters) in kinds {
        let characters: Vec<_> = characters.chars().collect();
        // as in Pulumi's plugin, a minimum counts even if its class is disabled
        for _ in 0..settings.count(minimum)? {
            result.push(randomness::pick(&characters)?);
        }
        if settings.boolean(kind) != Some(false) {
            all.extend(characters);
        }
    }
    for _ in result.len()..settings.count("length")? {
        result.push(randomness::pick(&all)?);
    }
    randomness::shuffle(&mut result)?;
    Ok(result.into_iter().collect())
}

/// The inputs of an imported string; none if it is empty.
pub(super) fn settings_of(imported: &str) -> Option<Properties> {
    // in bytes, as Pulumi's plugin counts imported strings
    let length = i64::try_from(imported.len())
        .ok()
        .filter(|length| *length > 0)?;
    let defaults = INPUTS.iter().filter_map(|input| match input.absence {
        super::Absence::Default(default) => Some((input.name.to_owned(), default.property())),
        _ => None,
    });
    let mut settings: Properties = defaults.collect();
    settings.insert("length".to_owned(), integer(length));
    complete(&mut settings);
    Some(settings)
}

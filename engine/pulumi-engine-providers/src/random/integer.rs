//! `RandomInteger`: a number between two bounds, both included. A seed makes it deterministic.

use pulumi_engine_model::property::{Properties, Property};

use super::{
    go_sequence::GoSequence,
    randomness,
    resource::{
        Generated, GeneratedResource, Imported, Input, KEEPERS, Resource, Shape, bad_import,
        failure, integer, text,
    },
    settings::RandomInputs,
};
use crate::{CheckFailure, ProviderError};

pub(super) struct Integer;

impl Resource for Integer {
    fn token(&self) -> &'static str {
        "random:index/randomInteger:RandomInteger"
    }

    fn inputs(&self) -> &'static [Input] {
        const ANY: Shape = Shape::Integer {
            least: i64::MIN,
            most: i64::MAX,
        };
        &const {
            [
                KEEPERS,
                Input::required("max", ANY, "the largest number that may come"),
                Input::required("min", ANY, "the smallest number that may come"),
                Input::optional("seed", Shape::Text, "what decides the number"),
            ]
        }
    }

    fn generated(&self) -> &'static [Generated] {
        &const { [Generated::open("result")] }
    }

    fn complete(&self, values: &mut Properties) {
        // an empty seed means none
        if matches!(values.get("seed"), Some(Property::String(seed)) if seed.is_empty()) {
            values.remove("seed");
        }
    }

    fn problems(&self, settings: &RandomInputs) -> Vec<CheckFailure> {
        match (settings.integer("min"), settings.integer("max")) {
            (Some(min), Some(max)) if max < min => {
                vec![failure(
                    "max",
                    "must be at least as large as 'min'; swap the two",
                )]
            }
            (Some(min), Some(max)) if choices(min, max).is_none() => vec![failure(
                "max",
                "is too far from 'min': there may be at most 9223372036854775807 numbers to choose from",
            )],
            _ => Vec::new(),
        }
    }

    fn generate(&self, settings: &RandomInputs) -> Result<GeneratedResource, ProviderError> {
        let (min, max) = (
            settings.required_integer("min")?,
            settings.required_integer("max")?,
        );
        let choices = choices(min, max).ok_or_else(|| {
            ProviderError::Failed("'max' must be at least as large as 'min'".to_owned())
        })?;
        let offset = match settings.text("seed") {
            Some(seed) => GoSequence::seeded(seed).below(choices),
            None => randomness::below(choices)?,
        };
        let number = min.wrapping_add_unsigned(offset);
        Ok(GeneratedResource {
            id: number.to_string(),
            generated: vec![("result", integer(number))],
        })
    }

    fn import(&self, id: &str) -> Result<Imported, ProviderError> {
        let form = "RESULT,MIN,MAX or RESULT,MIN,MAX,SEED, such as 15390,1,50000";
        let parts: Vec<_> = id.split(',').collect();
        let (numbers, seed) = match parts.as_slice() {
            [result, min, max] => ([result, min, max], None),
            [result, min, max, seed] => ([result, min, max], Some(*seed)),
            _ => return Err(bad_import(self.token(), form)),
        };
        let [Ok(result), Ok(min), Ok(max)] = numbers.map(|number| number.parse::<i64>()) else {
            return Err(bad_import(self.token(), form));
        };
        let mut settings = Properties::from([
            ("max".to_owned(), integer(max)),
            ("min".to_owned(), integer(min)),
        ]);
        if let Some(seed) = seed.filter(|seed| !seed.is_empty()) {
            settings.insert("seed".to_owned(), text(seed));
        }
        Ok(Imported {
            settings,
            made: GeneratedResource {
                id: result.to_string(),
                generated: vec![("result", integer(result))],
            },
        })
    }
}

/// The size of the range, if Go supports it.
fn choices(min: i64, max: i64) -> Option<u64> {
    let choices = max.checked_sub(min)?.checked_add(1)?;
    u64::try_from(choices).ok().filter(|choices| *choices > 0)
}

//! `RandomPet`: a pronounceable name.

use pulumi_engine_model::property::{Properties, Property};

use super::{
    randomness,
    resource::{
        Fallback, Generated, GeneratedResource, Imported, Input, KEEPERS, MOST, Resource, Shape,
        not_importable,
    },
    settings::RandomInputs,
};
use crate::ProviderError;

const ADVERBS: &str = include_str!("words/adverbs.txt");
const ADJECTIVES: &str = include_str!("words/adjectives.txt");
const NAMES: &str = include_str!("words/names.txt");

pub(super) struct Pet;

impl Resource for Pet {
    fn token(&self) -> &'static str {
        "random:index/randomPet:RandomPet"
    }

    fn inputs(&self) -> &'static [Input] {
        const LENGTH: Shape = Shape::Integer {
            least: 1,
            most: MOST,
        };
        &const {
            [
                KEEPERS,
                Input::optional("length", LENGTH, "how many words the name has")
                    .or(Fallback::Integer(2)),
                Input::optional("prefix", Shape::Text, "what the name starts with"),
                Input::optional("separator", Shape::Text, "what is between the words")
                    .or(Fallback::Text("-")),
            ]
        }
    }

    fn generated(&self) -> &'static [Generated] {
        &[]
    }

    fn complete(&self, values: &mut Properties) {
        // an empty prefix means none
        if matches!(values.get("prefix"), Some(Property::String(prefix)) if prefix.is_empty()) {
            values.remove("prefix");
        }
    }

    fn generate(&self, settings: &RandomInputs) -> Result<GeneratedResource, ProviderError> {
        let separator = settings.text("separator").unwrap_or_default();
        let mut parts: Vec<&str> = settings.text("prefix").into_iter().collect();
        for remaining in (0..settings.count("length")?).rev() {
            parts.push(word(match remaining {
                0 => NAMES,
                1 => ADJECTIVES,
                _ => ADVERBS,
            })?);
        }
        Ok(GeneratedResource {
            id: parts.join(separator),
            generated: Vec::new(),
        })
    }

    fn import(&self, _id: &str) -> Result<Imported, ProviderError> {
        Err(not_importable(self.token()))
    }
}

fn word(list: &'static str) -> Result<&'static str, ProviderError> {
    randomness::pick(&list.split_ascii_whitespace().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn pet_words_are_many_and_unique() {
        for list in [ADVERBS, ADJECTIVES, NAMES] {
            let words: Vec<_> = list.split_ascii_whitespace().collect();
            let different: BTreeSet<_> = words.iter().collect();
            assert!(words.len() >= 200, "{}", words.len());
            assert_eq!(words.len(), different.len());
            for word in words {
                let is_plain = word.bytes().all(|byte| byte.is_ascii_lowercase());
                assert!(is_plain && word.len() < 16, "{word}");
            }
        }
    }
}

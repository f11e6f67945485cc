//! `RandomShuffle`: a shuffled list, shortened or repeated. A seed makes it deterministic.

use pulumi_engine_model::property::Property;

use super::{
    go_sequence::GoSequence,
    randomness,
    resource::{
        Generated, GeneratedResource, Imported, Input, KEEPERS, MOST, Resource, Shape,
        not_importable,
    },
    settings::RandomInputs,
};
use crate::ProviderError;

pub(super) struct Shuffle;

impl Resource for Shuffle {
    fn token(&self) -> &'static str {
        "random:index/randomShuffle:RandomShuffle"
    }

    fn inputs(&self) -> &'static [Input] {
        const COUNT: Shape = Shape::Integer {
            least: 0,
            most: MOST,
        };
        &const {
            [
                Input::required("inputs", Shape::Texts, "the list to shuffle"),
                KEEPERS,
                Input::optional("resultCount", COUNT, "how many entries the result has"),
                Input::optional("seed", Shape::Text, "what decides the order"),
            ]
        }
    }

    fn generated(&self) -> &'static [Generated] {
        &const { [Generated::open("results")] }
    }

    fn generate(&self, settings: &RandomInputs) -> Result<GeneratedResource, ProviderError> {
        let inputs = settings.list("inputs").unwrap_or_default();
        let count = if settings.has("resultCount") {
            settings.count("resultCount")?
        } else {
            inputs.len()
        };
        let mut seeded = settings
            .text("seed")
            .filter(|seed| !seed.is_empty())
            .map(GoSequence::seeded);
        let results = rounds(inputs, count, || match &mut seeded {
            Some(sequence) => Ok(sequence.order(inputs.len())),
            None => unseeded(inputs.len()),
        })?;
        Ok(GeneratedResource {
            // the id that the Terraform provider has always used
            id: "-".to_owned(),
            generated: vec![("results", Property::List(results))],
        })
    }

    fn import(&self, _id: &str) -> Result<Imported, ProviderError> {
        Err(not_importable(self.token()))
    }
}

fn unseeded(count: usize) -> Result<Vec<usize>, ProviderError> {
    let mut order: Vec<_> = (0..count).collect();
    randomness::shuffle(&mut order)?;
    Ok(order)
}

/// Concatenates shuffled lists until there are enough entries, so entries repeat evenly.
fn rounds(
    inputs: &[Property],
    count: usize,
    mut order: impl FnMut() -> Result<Vec<usize>, ProviderError>,
) -> Result<Vec<Property>, ProviderError> {
    let mut results = Vec::new();
    while results.len() < count && !inputs.is_empty() {
        let entries = order()?;
        let missing = count - results.len();
        let entries = entries.iter().filter_map(|index| inputs.get(*index));
        results.extend(entries.take(missing).cloned());
    }
    Ok(results)
}

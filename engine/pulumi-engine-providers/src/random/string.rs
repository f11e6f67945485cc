//! `RandomString`: random characters.

use pulumi_engine_model::property::Properties;

use super::{
    characters,
    resource::{Generated, GeneratedResource, Imported, Input, Resource, bad_import, text},
    settings::RandomInputs,
};
use crate::{CheckFailure, ProviderError};

pub(super) struct Text;

impl Resource for Text {
    fn token(&self) -> &'static str {
        "random:index/randomString:RandomString"
    }

    fn inputs(&self) -> &'static [Input] {
        &characters::INPUTS
    }

    fn generated(&self) -> &'static [Generated] {
        &const { [Generated::open("result")] }
    }

    fn schema_version(&self) -> Option<u8> {
        Some(2)
    }

    fn complete(&self, values: &mut Properties) {
        characters::complete(values);
    }

    fn problems(&self, settings: &RandomInputs) -> Vec<CheckFailure> {
        characters::problems(settings)
    }

    fn generate(&self, settings: &RandomInputs) -> Result<GeneratedResource, ProviderError> {
        Ok(generated_resource(characters::generate(settings)?))
    }

    fn import(&self, id: &str) -> Result<Imported, ProviderError> {
        let settings = characters::settings_of(id)
            .ok_or_else(|| bad_import(self.token(), "the text to import"))?;
        Ok(Imported {
            settings,
            made: generated_resource(id.to_owned()),
        })
    }
}

fn generated_resource(result: String) -> GeneratedResource {
    GeneratedResource {
        generated: vec![("result", text(&result))],
        id: result,
    }
}

//! `RandomPassword`: so many characters, by rules, that must not be shown, and their bcrypt hash. Asks for randomness.

use pulumi_engine_model::property::Properties;

use super::{
    characters, randomness,
    resource::{Generated, GeneratedResource, Imported, Input, Resource, bad_import, text},
    settings::RandomInputs,
};
use crate::{CheckFailure, ProviderError};

/// The cost that Go takes where none is asked for.
const COST: u32 = 10;

pub(super) struct Password;

impl Resource for Password {
    fn token(&self) -> &'static str {
        "random:index/randomPassword:RandomPassword"
    }

    fn inputs(&self) -> &'static [Input] {
        &characters::INPUTS
    }

    fn generated(&self) -> &'static [Generated] {
        &const { [Generated::secret("bcryptHash"), Generated::secret("result")] }
    }

    fn schema_version(&self) -> Option<u8> {
        Some(3)
    }

    fn complete(&self, values: &mut Properties) {
        characters::complete(values);
    }

    fn problems(&self, settings: &RandomInputs) -> Vec<CheckFailure> {
        characters::problems(settings)
    }

    fn generate(&self, settings: &RandomInputs) -> Result<GeneratedResource, ProviderError> {
        made(&characters::generate(settings)?)
    }

    fn import(&self, id: &str) -> Result<Imported, ProviderError> {
        let settings = characters::settings_of(id)
            .ok_or_else(|| bad_import(self.token(), "the password that it shall have"))?;
        Ok(Imported {
            settings,
            made: made(id)?,
        })
    }
}

fn made(result: &str) -> Result<GeneratedResource, ProviderError> {
    Ok(GeneratedResource {
        // an id can't be secret, so it says nothing
        id: "none".to_owned(),
        generated: vec![
            ("bcryptHash", text(hash(result)?)),
            ("result", text(result)),
        ],
    })
}

/// Of the first 72 bytes: there bcrypt ends.
fn hash(password: &str) -> Result<String, ProviderError> {
    let salt = randomness::array()?;
    bcrypt::hash_with_salt(password, COST, salt)
        .map(|hash| hash.format_for_version(bcrypt::Version::TwoA))
        .map_err(|error| ProviderError::Failed(format!("failed to hash the password: {error}")))
}

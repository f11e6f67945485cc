//! `RandomPassword`: secret random characters and their bcrypt hash.

use pulumi_engine_model::property::Properties;

use super::{
    characters, randomness,
    resource::{Generated, GeneratedResource, Imported, Input, Resource, bad_import, text},
    settings::RandomInputs,
};
use crate::{CheckFailure, ProviderError};

/// Go's default cost.
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
        generated_resource(&characters::generate(settings)?)
    }

    fn import(&self, id: &str) -> Result<Imported, ProviderError> {
        let settings = characters::settings_of(id)
            .ok_or_else(|| bad_import(self.token(), "the password to import"))?;
        Ok(Imported {
            settings,
            made: generated_resource(id)?,
        })
    }
}

fn generated_resource(result: &str) -> Result<GeneratedResource, ProviderError> {
    Ok(GeneratedResource {
        // an id cannot be secret, so it reveals nothing
        id: "none".to_owned(),
        generated: vec![
            ("bcryptHash", text(hash(result)?)),
            ("result", text(result)),
        ],
    })
}

/// Hashes the first 72 bytes, the limit of bcrypt.
fn hash(password: &str) -> Result<String, ProviderError> {
    let salt = randomness::array()?;
    bcrypt::hash_with_salt(password, COST, salt)
        .map(|hash| hash.format_for_version(bcrypt::Version::TwoA))
        .map_err(|error| ProviderError::Failed(format!("failed to hash the password: {error}")))
}

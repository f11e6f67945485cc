//! `RandomBytes`: secret random bytes, such as a key.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use pulumi_engine_model::property::{Properties, Property};

use super::{
    randomness,
    resource::{
        Generated, GeneratedResource, Imported, Input, KEEPERS, MOST, Resource, Shape, bad_import,
        integer, text,
    },
    settings::RandomInputs,
};
use crate::ProviderError;

pub(super) struct Bytes;

impl Resource for Bytes {
    fn token(&self) -> &'static str {
        "random:index/randomBytes:RandomBytes"
    }

    fn inputs(&self) -> &'static [Input] {
        const LENGTH: Shape = Shape::Integer {
            least: 1,
            most: MOST,
        };
        &const {
            [
                KEEPERS,
                Input::required("length", LENGTH, "how many bytes are made"),
            ]
        }
    }

    fn generated(&self) -> &'static [Generated] {
        &const { [Generated::secret("base64"), Generated::secret("hex")] }
    }

    fn shows_id(&self) -> bool {
        false
    }

    fn generate(&self, settings: &RandomInputs) -> Result<GeneratedResource, ProviderError> {
        let bytes = randomness::bytes(settings.count("length")?)?;
        Ok(generated_resource(&bytes))
    }

    fn import(&self, id: &str) -> Result<Imported, ProviderError> {
        let refuse = || bad_import(self.token(), "the bytes in base64");
        let bytes = STANDARD.decode(id).map_err(|_| refuse())?;
        let length = i64::try_from(bytes.len()).map_err(|_| refuse())?;
        if length == 0 {
            return Err(refuse());
        }
        Ok(Imported {
            settings: Properties::from([("length".to_owned(), integer(length))]),
            made: generated_resource(&bytes),
        })
    }
}

fn generated_resource(bytes: &[u8]) -> GeneratedResource {
    let base64 = STANDARD.encode(bytes);
    GeneratedResource {
        generated: vec![
            ("base64", text(&base64)),
            ("hex", Property::String(hex::encode(bytes))),
        ],
        // as in Pulumi's plugin, although it reveals the secret outputs
        id: base64,
    }
}

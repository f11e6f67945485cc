//! `RandomUuid`, `RandomUuid4`, `RandomUuid7`.

use jiff::Timestamp;
use pulumi_engine_model::property::Properties;
use uuid::{Builder, Uuid};

use super::{
    randomness,
    resource::{
        Generated, GeneratedResource, Imported, Input, KEEPERS, Resource, bad_import, text,
    },
    settings::RandomInputs,
};
use crate::ProviderError;

/// 128 random bits in UUID format, without a version.
pub(super) const ANY: UuidVersion = UuidVersion {
    token: "random:index/randomUuid:RandomUuid",
    make: any,
    read: hyphenated,
};

/// A random UUID by RFC 9562.
pub(super) const VERSION_4: UuidVersion = UuidVersion {
    token: "random:index/randomUuid4:RandomUuid4",
    make: version_4,
    read: |text| Uuid::try_parse(text).ok(),
};

/// A UUID by RFC 9562 that starts with a time stamp.
pub(super) const VERSION_7: UuidVersion = UuidVersion {
    token: "random:index/randomUuid7:RandomUuid7",
    make: version_7,
    read: |text| Uuid::try_parse(text).ok(),
};

/// One of the three types.
pub(super) struct UuidVersion {
    token: &'static str,
    make: fn() -> Result<Uuid, ProviderError>,
    read: fn(&str) -> Option<Uuid>,
}

impl Resource for UuidVersion {
    fn token(&self) -> &'static str {
        self.token
    }

    fn inputs(&self) -> &'static [Input] {
        &const { [KEEPERS] }
    }

    fn generated(&self) -> &'static [Generated] {
        &const { [Generated::open("result")] }
    }

    fn generate(&self, _settings: &RandomInputs) -> Result<GeneratedResource, ProviderError> {
        (self.make)().map(generated_resource)
    }

    fn import(&self, id: &str) -> Result<Imported, ProviderError> {
        let uuid = (self.read)(id).ok_or_else(|| {
            let form = "a UUID, such as 827d0b34-00cc-b03d-d29b-542f354122cb,";
            bad_import(self.token, form)
        })?;
        Ok(Imported {
            settings: Properties::new(),
            made: generated_resource(uuid),
        })
    }
}

fn generated_resource(uuid: Uuid) -> GeneratedResource {
    let id = uuid.hyphenated().to_string();
    GeneratedResource {
        generated: vec![("result", text(&id))],
        id,
    }
}

fn any() -> Result<Uuid, ProviderError> {
    randomness::array().map(Uuid::from_bytes)
}

fn version_4() -> Result<Uuid, ProviderError> {
    randomness::array().map(|bytes| Builder::from_random_bytes(bytes).into_uuid())
}

fn version_7() -> Result<Uuid, ProviderError> {
    let now = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or_default();
    let bytes = randomness::array()?;
    Ok(Builder::from_unix_timestamp_millis(now, &bytes).into_uuid())
}

/// The only format that Pulumi's plugin accepts.
fn hyphenated(text: &str) -> Option<Uuid> {
    Uuid::try_parse(text).ok().filter(|_| text.len() == 36)
}

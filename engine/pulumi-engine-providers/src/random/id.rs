//! `RandomId`: a number for unique names, in four notations.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use pulumi_engine_model::property::Properties;

use super::{
    randomness,
    resource::{
        Generated, GeneratedResource, Imported, Input, KEEPERS, MOST, Resource, Shape, bad_import,
        integer, text,
    },
    settings::RandomInputs,
};
use crate::ProviderError;

pub(super) struct Id;

impl Resource for Id {
    fn token(&self) -> &'static str {
        "random:index/randomId:RandomId"
    }

    fn inputs(&self) -> &'static [Input] {
        const LENGTH: Shape = Shape::Integer {
            least: 1,
            most: MOST,
        };
        &const {
            [
                Input::required("byteLength", LENGTH, "how many random bytes the id has"),
                KEEPERS,
                Input::optional(
                    "prefix",
                    Shape::Text,
                    "what each way of writing starts with",
                ),
            ]
        }
    }

    fn generated(&self) -> &'static [Generated] {
        &const {
            [
                Generated::open("b64Std"),
                Generated::open("b64Url"),
                Generated::open("dec"),
                Generated::open("hex"),
            ]
        }
    }

    fn generate(&self, settings: &RandomInputs) -> Result<GeneratedResource, ProviderError> {
        let bytes = randomness::bytes(settings.count("byteLength")?)?;
        Ok(generated_resource(
            &bytes,
            settings.text("prefix").unwrap_or_default(),
        ))
    }

    fn import(&self, id: &str) -> Result<Imported, ProviderError> {
        let form = "its base64 in the form for URLs, after its prefix and a comma if it has one";
        let refuse = || bad_import(self.token(), form);
        let (prefix, id) = id.rsplit_once(',').unwrap_or(("", id));
        let bytes = URL_SAFE_NO_PAD.decode(id).map_err(|_| refuse())?;
        let length = i64::try_from(bytes.len()).map_err(|_| refuse())?;
        if length == 0 {
            return Err(refuse());
        }
        let mut settings = Properties::from([("byteLength".to_owned(), integer(length))]);
        if !prefix.is_empty() {
            settings.insert("prefix".to_owned(), text(prefix));
        }
        Ok(Imported {
            settings,
            made: generated_resource(&bytes, prefix),
        })
    }
}

fn generated_resource(bytes: &[u8], prefix: &str) -> GeneratedResource {
    let id = URL_SAFE_NO_PAD.encode(bytes);
    let prefixed = |value: &str| text(format!("{prefix}{value}"));
    GeneratedResource {
        generated: vec![
            ("b64Std", prefixed(&STANDARD.encode(bytes))),
            ("b64Url", prefixed(&id)),
            ("dec", prefixed(&decimal(bytes))),
            ("hex", prefixed(&hex::encode(bytes))),
        ],
        id,
    }
}

/// The bytes as one number, the first of them the highest.
fn decimal(bytes: &[u8]) -> String {
    const BASE: u64 = 1_000_000_000;
    // nine digits each, the lowest first
    let mut groups: Vec<u64> = Vec::new();
    for byte in bytes {
        let mut carry = u64::from(*byte);
        for group in &mut groups {
            let value = *group * 256 + carry;
            *group = value % BASE;
            carry = value / BASE;
        }
        if carry > 0 {
            groups.push(carry);
        }
    }
    let mut groups = groups.iter().rev();
    let first = groups.next().map_or_else(|| "0".to_owned(), u64::to_string);
    groups.fold(first, |digits, group| digits + &format!("{group:09}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_id_decimal_is_big_endian() {
        for (bytes, digits) in [
            (&[][..], "0"),
            (&[0], "0"),
            (&[0, 0, 7], "7"),
            (&[1, 0], "256"),
            (&[0x3b, 0x9a, 0xca, 0x00], "1000000000"),
            (&[0x3b, 0x9a, 0xc9, 0xff], "999999999"),
            (
                &[0x80, 0x4b, 0x64, 0xd9, 0x5f, 0xc6, 0x54, 0x94],
                "9244593544885589140",
            ),
            (&[255; 16], "340282366920938463463374607431768211455"),
        ] {
            assert_eq!(decimal(bytes), digits);
        }
    }
}

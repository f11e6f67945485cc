//! The built-in functions of Pulumi YAML. Pure, but for the file that the host reads.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};

use super::value::Value;
use crate::{
    property::{ASSET_SIGNATURE, SIGNATURE_KEY},
    text,
};

/// A function this engine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in Pulumi's own documentation")]
pub enum Function {
    FileAsset,
    FileBase64,
    FileBase64Sha256,
    FromBase64,
    Join,
    Length,
    ReadFile,
    ResourceName,
    ResourceType,
    Secret,
    Select,
    Sha1,
    SingleOrNone,
    Split,
    StackReference,
    StringAsset,
    ToBase64,
    ToJson,
    Unsecret,
}

/// Their names, as they are documented.
pub const NAMES: [&str; 19] = [
    "fn::fileAsset",
    "fn::filebase64",
    "fn::filebase64sha256",
    "fn::fromBase64",
    "fn::join",
    "fn::length",
    "fn::pulumiResourceName",
    "fn::pulumiResourceType",
    "fn::readFile",
    "fn::secret",
    "fn::select",
    "fn::sha1",
    "fn::singleOrNone",
    "fn::split",
    "fn::stackReference",
    "fn::stringAsset",
    "fn::toBase64",
    "fn::toJSON",
    "fn::unsecret",
];

/// Why a name gives no function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unnamed {
    /// Pulumi has it, this engine does not.
    Refused,
    /// Nobody has it.
    Unknown,
}

/// The function of a key such as `fn::join`, in any case of letters.
pub fn named(key: &str) -> Result<Function, Unnamed> {
    let name = key.to_ascii_lowercase();
    Ok(match name.strip_prefix("fn::").unwrap_or(&name) {
        "fileasset" => Function::FileAsset,
        "filebase64" => Function::FileBase64,
        "filebase64sha256" => Function::FileBase64Sha256,
        "frombase64" => Function::FromBase64,
        "join" => Function::Join,
        "length" => Function::Length,
        "readfile" => Function::ReadFile,
        "pulumiresourcename" => Function::ResourceName,
        "pulumiresourcetype" => Function::ResourceType,
        "secret" => Function::Secret,
        "select" => Function::Select,
        "sha1" => Function::Sha1,
        "singleornone" => Function::SingleOrNone,
        "split" => Function::Split,
        "stackreference" => Function::StackReference,
        "stringasset" => Function::StringAsset,
        "tobase64" => Function::ToBase64,
        "tojson" => Function::ToJson,
        "unsecret" => Function::Unsecret,
        "invoke" | "assetarchive" | "remoteasset" | "filearchive" | "remotearchive" => {
            return Err(Unnamed::Refused);
        }
        // `fn::package:module:function` is a call into a provider
        other if other.contains(':') => return Err(Unnamed::Refused),
        _ => return Err(Unnamed::Unknown),
    })
}

/// Applies a function to a plain argument. `read` gives the bytes of a file.
///
/// `Secret`, `Unsecret`, `ResourceName`, `ResourceType` and `StackReference` need more than a plain value and are
/// the evaluator's own.
pub fn apply(
    function: Function,
    argument: Value,
    read: &dyn Fn(&str) -> Result<Vec<u8>, String>,
) -> Result<Value, String> {
    match function {
        Function::Join => join(&list("fn::join", argument)?),
        Function::Split => split(&list("fn::split", argument)?),
        Function::Select => select(list("fn::select", argument)?),
        Function::ToJson => Ok(Value::String(text::escaped_json(&argument.plain_json()))),
        Function::ToBase64 => Ok(Value::String(
            STANDARD.encode(string("fn::toBase64", &argument)?),
        )),
        Function::FromBase64 => from_base64(string("fn::fromBase64", &argument)?),
        Function::ReadFile => String::from_utf8(read(string("fn::readFile", &argument)?)?)
            .map(Value::String)
            .map_err(|_| "fn::readFile needs a file of UTF-8 text".to_owned()),
        Function::FileBase64 => Ok(Value::String(
            STANDARD.encode(read(string("fn::filebase64", &argument)?)?),
        )),
        Function::FileBase64Sha256 => {
            let bytes = read(string("fn::filebase64sha256", &argument)?)?;
            Ok(Value::String(STANDARD.encode(digest(&SHA256, &bytes))))
        }
        Function::Sha1 => Ok(Value::String(sha1(string("fn::sha1", &argument)?))),
        Function::Length => length(&argument),
        Function::SingleOrNone => single_or_none(list("fn::singleOrNone", argument)?),
        Function::StringAsset => {
            let text = string("fn::stringAsset", &argument)?;
            Ok(asset("text", text, text.as_bytes()))
        }
        Function::FileAsset => {
            let path = string("fn::fileAsset", &argument)?;
            Ok(asset("path", path, &read(path)?))
        }
        Function::Secret
        | Function::Unsecret
        | Function::ResourceName
        | Function::ResourceType
        | Function::StackReference => Ok(argument),
    }
}

/// An asset as states and events have it: where it is, and the hash of what it holds.
fn asset(place: &str, value: &str, content: &[u8]) -> Value {
    let hash = hexadecimal(digest(&SHA256, content).as_ref());
    let entry = |key: &str, value: &str| (key.to_owned(), Value::String(value.to_owned()));
    Value::Object(
        [
            entry(SIGNATURE_KEY, ASSET_SIGNATURE),
            entry("hash", &hash),
            entry(place, value),
        ]
        .into(),
    )
}

/// SHA-1 of a text, in hexadecimal: a name for it, not a protection.
#[must_use]
pub fn sha1(text: &str) -> String {
    hexadecimal(digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()).as_ref())
}

/// SHA-256 of a text, in hexadecimal.
#[must_use]
pub fn sha256(text: &str) -> String {
    hexadecimal(digest(&SHA256, text.as_bytes()).as_ref())
}

/// Bytes as lowercase hexadecimal digits.
fn hexadecimal(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn string<'a>(function: &str, value: &'a Value) -> Result<&'a str, String> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(format!(
            "{function} needs a string, not {}",
            other.describe()
        )),
    }
}

fn list(function: &str, value: Value) -> Result<Vec<Value>, String> {
    match value {
        Value::List(values) => Ok(values),
        other => Err(format!("{function} needs a list, not {}", other.describe())),
    }
}

fn join(arguments: &[Value]) -> Result<Value, String> {
    let [delimiter, Value::List(parts)] = arguments else {
        return Err("fn::join needs a delimiter and a list of strings".to_owned());
    };
    let delimiter = match delimiter {
        Value::Null => "",
        other => string("the delimiter of fn::join", other)?,
    };
    let parts = parts
        .iter()
        .map(|part| string("fn::join", part))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Value::String(parts.join(delimiter)))
}

fn split(arguments: &[Value]) -> Result<Value, String> {
    let [delimiter, source] = arguments else {
        return Err("fn::split needs a delimiter and a string".to_owned());
    };
    let (delimiter, source) = (
        string("fn::split", delimiter)?,
        string("fn::split", source)?,
    );
    let part = |part: &str| Value::String(part.to_owned());
    Ok(Value::List(if delimiter.is_empty() {
        source
            .chars()
            .map(|character| part(character.encode_utf8(&mut [0; 4])))
            .collect()
    } else {
        source.split(delimiter).map(part).collect()
    }))
}

fn select(arguments: Vec<Value>) -> Result<Value, String> {
    let Ok([index, Value::List(mut values)]) = <[Value; 2]>::try_from(arguments) else {
        return Err("fn::select needs an index and a list".to_owned());
    };
    let position = match &index {
        Value::Number(number) => number
            .as_u64()
            .and_then(|number| usize::try_from(number).ok()),
        _ => None,
    };
    match position {
        Some(position) if position < values.len() => Ok(values.swap_remove(position)),
        Some(position) => Err(format!(
            "list index {position} out-of-bounds for list of length {}",
            values.len()
        )),
        None => Err(format!(
            "fn::select needs a whole number from 0, not {}",
            index.describe()
        )),
    }
}

fn from_base64(text: &str) -> Result<Value, String> {
    let bytes = STANDARD
        .decode(text)
        .map_err(|error| format!("fn::fromBase64 could not decode its argument: {error}"))?;
    String::from_utf8(bytes)
        .map(Value::String)
        .map_err(|_| "fn::fromBase64 output is not a valid UTF-8 string".to_owned())
}

fn length(value: &Value) -> Result<Value, String> {
    let length = match value {
        Value::List(values) => values.len(),
        Value::Object(entries) => entries.len(),
        // what a reader would count as one character may be several of these
        Value::String(text) if text.is_ascii() => text.len(),
        Value::String(_) => {
            return Err(
                "fn::length of text beyond ASCII is not supported by pulumi-engine".to_owned(),
            );
        }
        other => {
            return Err(format!(
                "fn::length needs a list, map, or string, not {}",
                other.describe()
            ));
        }
    };
    Ok(Value::Number(length.into()))
}

fn single_or_none(mut values: Vec<Value>) -> Result<Value, String> {
    match values.len() {
        0 | 1 => Ok(values.pop().unwrap_or(Value::Null)),
        length => Err(format!(
            "fn::singleOrNone needs a list of 0 or 1 elements, not {length}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(name: &str, argument: serde_json::Value) -> Result<serde_json::Value, String> {
        let read = |path: &str| match path {
            "notes" => Ok(b"hello".to_vec()),
            other => Err(format!("no file {other}")),
        };
        apply(named(name).unwrap(), Value::from_json(argument), &read)
            .map(|value| value.plain_json())
    }

    #[test]
    fn functions_give_what_the_real_ones_give() {
        for (name, argument, expected) in [
            ("fn::join", json!(["+", ["x", "y"]]), json!("x+y")),
            ("fn::join", json!([null, ["x", "y"]]), json!("xy")),
            ("fn::split", json!(["-", "a-b"]), json!(["a", "b"])),
            ("fn::split", json!(["", "ab"]), json!(["a", "b"])),
            ("fn::select", json!([1, ["a", "b"]]), json!("b")),
            (
                "fn::toJSON",
                json!({"b": 1, "a": "<"}),
                json!(r#"{"a":"\u003c","b":1}"#),
            ),
            ("fn::toBase64", json!("héllo"), json!("aMOpbGxv")),
            ("fn::fromBase64", json!("aGVsbG8="), json!("hello")),
            ("fn::readFile", json!("notes"), json!("hello")),
            ("fn::filebase64", json!("notes"), json!("aGVsbG8=")),
            (
                "fn::sha1",
                json!("hello"),
                json!("aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d"),
            ),
            ("fn::length", json!([1, 2]), json!(2)),
            ("fn::length", json!("abc"), json!(3)),
            ("fn::singleOrNone", json!([]), json!(null)),
            ("fn::singleOrNone", json!([5]), json!(5)),
        ] {
            assert_eq!(call(name, argument), Ok(expected), "{name}");
        }
    }

    #[test]
    fn an_asset_is_known_by_the_hash_of_its_content() {
        let hash = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        let of = |place: &str, value: &str| json!({"4dabf18193072939515e22adb298388d": "c44067f5952c0a294b673a41bacd8c17", "hash": hash, place: value});
        assert_eq!(
            call("fn::stringAsset", json!("hello")),
            Ok(of("text", "hello"))
        );
        assert_eq!(
            call("fn::fileAsset", json!("notes")),
            Ok(of("path", "notes"))
        );
        assert!(call("fn::fileAsset", json!("nosuch")).is_err());
    }

    #[test]
    fn wrong_arguments_are_explained() {
        for (name, argument, expected) in [
            ("fn::join", json!(["+"]), "delimiter and a list"),
            ("fn::join", json!(["+", [1]]), "a string, not a number"),
            ("fn::select", json!([2, ["a"]]), "out-of-bounds"),
            ("fn::select", json!([-1, ["a"]]), "whole number"),
            ("fn::fromBase64", json!("%"), "could not decode"),
            ("fn::fromBase64", json!("/w=="), "UTF-8"),
            ("fn::readFile", json!("nosuch"), "no file nosuch"),
            ("fn::length", json!(1), "a number"),
            ("fn::singleOrNone", json!([1, 2]), "not 2"),
        ] {
            let error = call(name, argument).unwrap_err();
            assert!(error.contains(expected), "{name}: {error}");
        }
    }

    #[test]
    fn names_are_found_in_any_case() {
        assert_eq!(named("Fn::ToJson"), Ok(Function::ToJson));
        assert_eq!(named("fn::invoke"), Err(Unnamed::Refused));
        assert_eq!(named("fn::nosuch"), Err(Unnamed::Unknown));
    }
}

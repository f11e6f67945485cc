//! Calls of the built-in functions of Pulumi YAML.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use pulumi_yaml::{function::Function, text};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};

use super::{archive, files::Files, value::Value};

/// Applies a function to a plain argument.
///
/// The evaluator implements `Secret`, `Unsecret`, `ResourceName`, `ResourceType` and
/// `StackReference`, which need more than a plain value.
pub(super) fn apply(
    function: Function,
    argument: Value,
    files: &dyn Files,
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
        Function::ReadFile => String::from_utf8(files.read(string("fn::readFile", &argument)?)?)
            .map(Value::String)
            .map_err(|_| "fn::readFile needs a file of UTF-8 text".to_owned()),
        Function::FileBase64 => Ok(Value::String(
            STANDARD.encode(files.read(string("fn::filebase64", &argument)?)?),
        )),
        Function::FileBase64Sha256 => {
            let bytes = files.read(string("fn::filebase64sha256", &argument)?)?;
            Ok(Value::String(STANDARD.encode(digest(&SHA256, &bytes))))
        }
        Function::Sha1 => Ok(Value::String(sha1(string("fn::sha1", &argument)?))),
        Function::Length => length(&argument),
        Function::SingleOrNone => single_or_none(list("fn::singleOrNone", argument)?),
        Function::StringAsset => Ok(archive::text(string("fn::stringAsset", &argument)?)),
        Function::FileAsset => archive::file(string("fn::fileAsset", &argument)?, files),
        Function::RemoteAsset => archive::remote(string("fn::remoteAsset", &argument)?, files),
        Function::FileArchive => archive::folder(string("fn::fileArchive", &argument)?, files),
        Function::RemoteArchive => {
            archive::remote_archive(string("fn::remoteArchive", &argument)?, files)
        }
        Function::AssetArchive => archive::members(&argument, files),
        Function::Secret
        | Function::Unsecret
        | Function::ResourceName
        | Function::ResourceType
        | Function::StackReference => Ok(argument),
    }
}

/// SHA-1 of a text, in hexadecimal.
fn sha1(text: &str) -> String {
    hex::encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()))
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
        Value::String(text) => text::characters(text).ok_or(
            "fn::length of text with combined characters is not supported by pulumi-engine; use an image with Pulumi's CLI",
        )?,
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
    use crate::program::files::InMemory;
    use pulumi_yaml::function::lookup;
    use serde_json::json;

    fn call(name: &str, argument: serde_json::Value) -> Result<serde_json::Value, String> {
        let files = InMemory::from([("notes", "hello")]);
        apply(lookup(name).unwrap(), Value::from_json(argument), &files)
            .map(|value| value.plain_json())
    }

    #[test]
    fn function_results_match_pulumi() {
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
            ("fn::length", json!("größe"), json!(5)),
            ("fn::singleOrNone", json!([]), json!(null)),
            ("fn::singleOrNone", json!([5]), json!(5)),
        ] {
            assert_eq!(call(name, argument), Ok(expected), "{name}");
        }
    }

    #[test]
    fn function_wrong_argument_reports_error() {
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
}

//! The table of built-in functions, `fn::…`.

use crate::expression::{Expression, ExpressionKind};

/// A built-in function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    AssetArchive,
    FileArchive,
    FileAsset,
    FileBase64,
    FileBase64Sha256,
    FromBase64,
    Join,
    Length,
    ReadFile,
    RemoteArchive,
    RemoteAsset,
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

/// Prefix of the keys that call a function.
pub const PREFIX: &str = "fn::";

/// All of them, with their names as they are documented.
const FUNCTIONS: [(Function, &str); 23] = [
    (Function::AssetArchive, "fn::assetArchive"),
    (Function::FileArchive, "fn::fileArchive"),
    (Function::FileAsset, "fn::fileAsset"),
    (Function::FileBase64, "fn::filebase64"),
    (Function::FileBase64Sha256, "fn::filebase64sha256"),
    (Function::FromBase64, "fn::fromBase64"),
    (Function::Join, "fn::join"),
    (Function::Length, "fn::length"),
    (Function::ReadFile, "fn::readFile"),
    (Function::RemoteArchive, "fn::remoteArchive"),
    (Function::RemoteAsset, "fn::remoteAsset"),
    (Function::ResourceName, "fn::pulumiResourceName"),
    (Function::ResourceType, "fn::pulumiResourceType"),
    (Function::Secret, "fn::secret"),
    (Function::Select, "fn::select"),
    (Function::Sha1, "fn::sha1"),
    (Function::SingleOrNone, "fn::singleOrNone"),
    (Function::Split, "fn::split"),
    (Function::StackReference, "fn::stackReference"),
    (Function::StringAsset, "fn::stringAsset"),
    (Function::ToBase64, "fn::toBase64"),
    (Function::ToJson, "fn::toJSON"),
    (Function::Unsecret, "fn::unsecret"),
];

/// The names of all functions.
pub fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS
        .iter()
        .map(|(_, name)| *name)
        .chain(["fn::invoke"])
}

/// Whether a key starts as the call of a function does.
#[must_use]
pub fn has_prefix(key: &str) -> bool {
    key.get(..PREFIX.len())
        .is_some_and(|prefix| prefix.eq_ignore_ascii_case(PREFIX))
}

/// A key that names no built-in function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotBuiltin {
    /// `fn::invoke`.
    Invoke,
    /// Short for an invoke: `fn::package:function` or `fn::package:module:function`.
    ProviderFunction,
    /// Neither.
    Unknown,
}

impl Function {
    /// Its name, as it is documented.
    #[must_use]
    pub fn name(self) -> &'static str {
        FUNCTIONS
            .iter()
            .find(|(function, _)| *function == self)
            .map_or("fn::", |(_, name)| name)
    }

    /// Whether its argument is a list of two values.
    #[must_use]
    pub fn takes_pair(self) -> bool {
        matches!(
            self,
            Self::Join | Self::Select | Self::Split | Self::StackReference
        )
    }

    /// Whether it makes an asset or an archive from one string.
    #[must_use]
    pub fn makes_asset(self) -> bool {
        matches!(
            self,
            Self::FileArchive
                | Self::FileAsset
                | Self::RemoteArchive
                | Self::RemoteAsset
                | Self::StringAsset
        )
    }
}

/// Looks up a key such as `fn::join`, ignoring case.
pub fn lookup(key: &str) -> Result<Function, NotBuiltin> {
    if let Some((function, _)) = FUNCTIONS
        .iter()
        .find(|(_, name)| name.eq_ignore_ascii_case(key))
    {
        return Ok(*function);
    }
    let name = key.get(PREFIX.len()..).unwrap_or_default();
    // One more than a token has: a hostile key may have any number.
    let parts = || name.split(':').take(4);
    let is_token = matches!(parts().count(), 2 | 3) && parts().all(|part| !part.is_empty());
    Err(match name {
        _ if name.eq_ignore_ascii_case("invoke") => NotBuiltin::Invoke,
        _ if is_token => NotBuiltin::ProviderFunction,
        _ => NotBuiltin::Unknown,
    })
}

/// Checks the argument of a call as far as it is literal.
pub(crate) fn check_shape(function: Function, argument: &Expression) -> Result<(), String> {
    let pair = match &argument.kind {
        ExpressionKind::List(values) => values.len() == 2,
        _ => false,
    };
    match function {
        _ if function.takes_pair() && !pair => Err(format!(
            "the argument to {} must be a two-valued list",
            function.name()
        )),
        Function::AssetArchive => check_members(argument),
        _ => Ok(()),
    }
}

fn check_members(argument: &Expression) -> Result<(), String> {
    let ExpressionKind::Object(entries) = &argument.kind else {
        return Err("the argument to fn::assetArchive must be an object".to_owned());
    };
    for (key, value) in entries {
        let ExpressionKind::String(name) = &key.kind else {
            return Err("keys in fn::assetArchive arguments must be string literals".to_owned());
        };
        let member = match value.kind {
            ExpressionKind::Call(function, _) => {
                function.makes_asset() || function == Function::AssetArchive
            }
            _ => false,
        };
        if !member {
            return Err(format!(
                "{name:?} of fn::assetArchive must be an asset or an archive"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_lookup_ignores_case() {
        assert_eq!(lookup("Fn::ToJson"), Ok(Function::ToJson));
        assert_eq!(lookup("fn::invoke"), Err(NotBuiltin::Invoke));
        assert_eq!(
            lookup("Fn::aws:ec2:getAmi"),
            Err(NotBuiltin::ProviderFunction)
        );
        assert_eq!(lookup("fn::a:b:c:d"), Err(NotBuiltin::Unknown));
        assert_eq!(lookup("fn::nosuch"), Err(NotBuiltin::Unknown));
    }
}

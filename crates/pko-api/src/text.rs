//! Enums that are strings on the wire. Closed ones reject unknown strings; open ones keep them.

/// Declares a closed set of strings as an enum.
macro_rules! text_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$variant_meta])* $variant,)+ }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The string that users and other programs read.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            #[must_use]
            pub fn from_text(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }
    };
}

/// Declares a set of strings that may grow. An unknown string is kept, because the CRDs have no
/// enum there and a stored object must always be readable.
macro_rules! open_text_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)+
            /// A string that this version of the operator does not define.
            Other(String),
        }

        impl $name {
            /// The string on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self { $(Self::$variant => $text,)+ Self::Other(text) => text }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text { $($text => Self::$variant,)+ other => Self::Other(other.to_owned()) }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer).map(|text| Self::from(text.as_str()))
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> { stringify!($name).into() }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string" })
            }
        }

        #[cfg(test)]
        impl proptest::arbitrary::Arbitrary for $name {
            type Parameters = ();
            type Strategy = proptest::strategy::BoxedStrategy<Self>;

            fn arbitrary_with((): ()) -> Self::Strategy {
                use proptest::prelude::*;
                prop_oneof![
                    $(Just(Self::$variant),)+
                    "[a-z]{0,8}".prop_map(|text| Self::from(text.as_str()))
                ].boxed()
            }
        }
    };
}

pub(crate) use {open_text_enum, text_enum};

#[cfg(test)]
#[expect(unreachable_pub, reason = "the macros declare public types")]
mod tests {
    text_enum! {
        Closed { One = "one", Two = "two", }
    }
    open_text_enum! {
        Open { One = "one", }
    }

    #[test]
    fn closed_enum_is_found_by_its_string() {
        assert_eq!(Closed::from_text("two"), Some(Closed::Two));
        assert_eq!(Closed::from_text("three"), None);
        assert_eq!(Closed::ALL.len(), 2);
        assert_eq!(Closed::One.to_string(), "one");
    }

    #[test]
    fn open_enum_keeps_unknown_strings() {
        let open: Open = serde_json::from_str("\"three\"").unwrap();
        assert_eq!(open, Open::Other("three".into()));
        assert_eq!(serde_json::to_string(&open).unwrap(), "\"three\"");
        assert_eq!(serde_json::from_str::<Open>("\"one\"").unwrap(), Open::One);
    }
}

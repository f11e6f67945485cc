//! Implements Kubernetes' traits for our kinds: names, metadata, serialization.

/// A kind of object that [`crate::Decoded`] can read.
pub trait StoredKind:
    k8s_openapi::Metadata<Ty = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta>
    + serde::de::DeserializeOwned
{
}

/// Implements the Kubernetes traits for a kind whose body is the field `$body`.
///
/// `kube`'s derive requires a `spec`. A Program has none, and upstream's schemas leave it optional.
/// `$kind` is the kind's name in the API, which may differ from the name of the type.
macro_rules! kind {
    ($name:ident, $kind:literal, $group:literal, $version:literal, $plural:literal, $body:ident) => {
        impl k8s_openapi::Resource for $name {
            const API_VERSION: &'static str = concat!($group, "/", $version);
            const GROUP: &'static str = $group;
            const KIND: &'static str = $kind;
            const VERSION: &'static str = $version;
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = k8s_openapi::NamespaceResourceScope;
        }

        impl k8s_openapi::ListableResource for $name {
            const LIST_KIND: &'static str = concat!($kind, "List");
        }

        impl k8s_openapi::Metadata for $name {
            type Ty = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

            fn metadata(&self) -> &Self::Ty {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut Self::Ty {
                &mut self.metadata
            }
        }

        impl $crate::StoredKind for $name {}

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeStruct as _;

                use k8s_openapi::Resource as _;

                let fields = 4 + usize::from(self.status.is_some());
                let mut object = serializer.serialize_struct(Self::KIND, fields)?;
                object.serialize_field("apiVersion", Self::API_VERSION)?;
                object.serialize_field("kind", Self::KIND)?;
                object.serialize_field("metadata", &self.metadata)?;
                object.serialize_field(stringify!($body), &self.$body)?;
                match &self.status {
                    Some(status) => object.serialize_field("status", status)?,
                    None => object.skip_field("status")?,
                }
                object.end()
            }
        }
    };
}

pub(crate) use kind;

//! The schema of resource types, as far as a check needs it.

/// The inputs and outputs of a resource type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceType {
    /// The token in states, if a program may write it in other ways too.
    pub canonical: Option<&'static str>,
    /// Its inputs; none if any name is allowed.
    pub inputs: Option<Vec<&'static str>>,
    pub required: Vec<&'static str>,
    /// Its outputs besides `id` and `urn`; none if any name is allowed.
    pub outputs: Option<Vec<&'static str>>,
    /// Outputs that are always secret.
    pub secret_outputs: Vec<&'static str>,
    /// Whether a replacement deletes first by default.
    pub delete_before_replace: bool,
}

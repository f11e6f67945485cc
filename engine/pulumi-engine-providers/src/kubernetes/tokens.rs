//! The kinds of type tokens.

use serde_json::Value;

use super::scope;

/// The package whose tokens these are.
pub(crate) const PACKAGE: &str = "kubernetes";
/// Token of an object whose kind is in its inputs.
const CUSTOM_RESOURCE: (&str, &str) = ("apiextensions.k8s.io", "CustomResource");
/// The hint for types that only Pulumi's own provider supports.
const WAY_OUT: &str = "use an image with Pulumi's CLI for it";

/// A kind of API objects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ResourceKind {
    /// API group; empty for the core.
    pub group: String,
    /// Version in the group.
    pub version: String,
    /// Name.
    pub kind: String,
}

impl ResourceKind {
    /// From `group/version` (or a version of the core) and a name.
    #[must_use]
    pub(crate) fn new(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let group = if group == "core" { "" } else { group };
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        }
    }

    #[must_use]
    pub(crate) fn of(object: &Value) -> Option<Self> {
        let text = |key| object.get(key).and_then(Value::as_str);
        Some(Self::new(text("apiVersion")?, text("kind")?))
    }

    /// Its `apiVersion`: `v1`, `apps/v1`.
    #[must_use]
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Whether it is this kind of this group, in any version.
    #[must_use]
    pub(crate) fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }

    /// Whether it is `CustomResourceDefinition`.
    #[must_use]
    pub(crate) fn is_definition(&self) -> bool {
        self.is("apiextensions.k8s.io", "CustomResourceDefinition")
    }

    /// For display: `apps/v1 Deployment`.
    #[must_use]
    pub(crate) fn describe(&self) -> String {
        format!("{} {}", self.api_version(), self.kind)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// Objects of one kind.
    ResourceKind(ResourceKind),
    /// An object of the kind in its inputs.
    CustomResource,
}

/// Parses a type token. The error tells the user what to do instead.
pub(crate) fn parse(token: &str) -> Result<Token, String> {
    let mut parts = token.split(':');
    let (Some(PACKAGE), Some(module), Some(kind), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(format!(
            "`{token}` is no type of package `kubernetes`: types are `kubernetes:<group>/<version>:<Kind>`"
        ));
    };
    if (module, kind) == CUSTOM_RESOURCE {
        return Ok(Token::CustomResource);
    }
    if let Some(instead) = left_out(module, kind) {
        return Err(format!(
            "`{token}` is not supported by pulumi-engine: {instead}"
        ));
    }
    match module.split_once('/') {
        Some((group, version))
            if !group.is_empty()
                && !version.is_empty()
                && !version.contains('/')
                && !kind.is_empty() =>
        {
            Ok(Token::ResourceKind(ResourceKind::new(module, kind)))
        }
        _ => Err(format!(
            "`{token}` lacks the group or the version of its kind: write `kubernetes:<group>/<version>:<Kind>`, \
             with `core/v1` for the core"
        )),
    }
}

/// The kind of a resource, by its token and, for a custom resource, by its inputs.
pub(crate) fn kind_of(token: &str, inputs: &Value) -> Result<ResourceKind, String> {
    match parse(token)? {
        Token::ResourceKind(kind) => Ok(kind),
        Token::CustomResource => ResourceKind::of(inputs).ok_or_else(|| {
            format!("`{token}` needs `apiVersion` and `kind`, the names of its kind in the cluster")
        }),
    }
}

/// Token of a resource, from the types of it and its parents.
#[must_use]
pub(crate) fn own(qualified_type: &str) -> &str {
    qualified_type.rsplit('$').next().unwrap_or(qualified_type)
}

fn left_out(module: &str, kind: &str) -> Option<String> {
    let group = module.split('/').next().unwrap_or(module);
    match group {
        "helm.sh" => {
            return Some(format!(
                "render the chart into objects of their own, or {WAY_OUT}"
            ));
        }
        "kustomize" => {
            return Some(format!(
                "build the overlay into objects of their own, or {WAY_OUT}"
            ));
        }
        "yaml" => {
            return Some(format!(
                "write each object as a resource of its own, or {WAY_OUT}"
            ));
        }
        _ => {}
    }
    if !scope::is_own_group(group) {
        return None;
    }
    if kind.len() > "Patch".len() && kind.ends_with("Patch") {
        return Some(format!(
            "manage the whole object, if need be with the annotation `pulumi.com/patchForce`, or {WAY_OUT}"
        ));
    }
    (kind.len() > "List".len() && kind.ends_with("List"))
        .then(|| "lists cannot be made; write each object as a resource of its own".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn token_parses_to_kind() {
        let cases = [
            ("kubernetes:core/v1:ConfigMap", "v1", "", "ConfigMap"),
            (
                "kubernetes:apps/v1:Deployment",
                "apps/v1",
                "apps",
                "Deployment",
            ),
            (
                "kubernetes:networking.k8s.io/v1:Ingress",
                "networking.k8s.io/v1",
                "networking.k8s.io",
                "Ingress",
            ),
            (
                "kubernetes:pulumi.com/v1:Stack",
                "pulumi.com/v1",
                "pulumi.com",
                "Stack",
            ),
            // names of custom kinds may end with anything
            (
                "kubernetes:example.com/v1:ShoppingList",
                "example.com/v1",
                "example.com",
                "ShoppingList",
            ),
        ];
        for (token, api_version, group, kind) in cases {
            let Ok(Token::ResourceKind(parsed)) = parse(token) else {
                panic!("{token}");
            };
            assert_eq!(parsed.api_version(), api_version);
            assert_eq!((parsed.group.as_str(), parsed.kind.as_str()), (group, kind));
        }
    }

    #[test]
    fn token_of_unsupported_type_is_rejected() {
        let cases = [
            ("kubernetes:helm.sh/v3:Release", "render the chart"),
            ("kubernetes:helm.sh/v4:Chart", "render the chart"),
            ("kubernetes:kustomize/v2:Directory", "build the overlay"),
            ("kubernetes:kustomize:Directory", "build the overlay"),
            ("kubernetes:yaml:ConfigFile", "each object as a resource"),
            (
                "kubernetes:yaml/v2:ConfigGroup",
                "each object as a resource",
            ),
            ("kubernetes:core/v1:ConfigMapPatch", "pulumi.com/patchForce"),
            ("kubernetes:core/v1:PodList", "lists cannot be made"),
            (
                "kubernetes:apiextensions.k8s.io:CustomResourcePatch",
                "patchForce",
            ),
            ("kubernetes:apps:Deployment", "<group>/<version>"),
            ("kubernetes:apps/v1", "kubernetes:<group>/<version>:<Kind>"),
            ("kubernetes:apps/v1/x:Deployment", "lacks the group"),
            ("random:index:RandomId", "no type of package `kubernetes`"),
        ];
        for (token, instead) in cases {
            let refusal = parse(token).unwrap_err();
            assert!(refusal.contains(token), "{refusal}");
            assert!(refusal.contains(instead), "{refusal}");
        }
    }

    #[test]
    fn custom_resource_kind_comes_from_inputs() {
        let token = "kubernetes:apiextensions.k8s.io:CustomResource";
        let inputs = json!({"apiVersion": "example.com/v1", "kind": "Widget"});
        assert_eq!(
            kind_of(token, &inputs),
            Ok(ResourceKind::new("example.com/v1", "Widget"))
        );
        let refusal = kind_of(token, &json!({"kind": "Widget"})).unwrap_err();
        assert!(refusal.contains("`apiVersion` and `kind`"), "{refusal}");
        assert_eq!(
            own("a:b:C$kubernetes:core/v1:Pod"),
            "kubernetes:core/v1:Pod"
        );
    }
}

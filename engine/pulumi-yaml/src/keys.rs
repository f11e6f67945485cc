//! The keys that Pulumi YAML defines. Pulumi ignores the case of their letters, with a warning.

/// Prefix of the type tokens of providers. The package follows.
pub const PROVIDER_TYPE_PREFIX: &str = "pulumi:providers:";

/// Sections of a program.
pub(crate) const SECTIONS: [&str; 11] = [
    "components",
    "config",
    "configuration",
    "description",
    "name",
    "namespace",
    "outputs",
    "pulumi",
    "resources",
    "variables",
    "version",
];

/// Fields of a config variable.
pub(crate) const CONFIG_FIELDS: [&str; 7] = [
    "default",
    "description",
    "items",
    "name",
    "secret",
    "type",
    "value",
];

/// Fields of a resource.
pub const RESOURCE_FIELDS: [&str; 6] = [
    "defaultProvider",
    "get",
    "name",
    "options",
    "properties",
    "type",
];

/// Fields of a resource that Pulumi accepts and ignores.
pub const IGNORED_RESOURCE_FIELDS: [&str; 2] = ["condition", "metadata"];

/// Options of a resource.
pub const RESOURCE_OPTIONS: [&str; 20] = [
    "additionalSecretOutputs",
    "aliases",
    "customTimeouts",
    "deleteBeforeReplace",
    "deletedWith",
    "dependsOn",
    "envVarMappings",
    "hideDiffs",
    "ignoreChanges",
    "import",
    "parent",
    "pluginDownloadURL",
    "protect",
    "provider",
    "providers",
    "replaceOnChanges",
    "replaceWith",
    "replacementTrigger",
    "retainOnDelete",
    "version",
];

/// Fields of an alias.
pub(crate) const ALIAS_FIELDS: [&str; 7] = [
    "name", "noParent", "parent", "project", "stack", "type", "urn",
];

/// Operations for which `customTimeouts` can set a limit.
pub(crate) const TIMEOUTS: [&str; 4] = ["create", "delete", "read", "update"];

/// Fields of the argument of `fn::invoke`.
pub(crate) const INVOKE_FIELDS: [&str; 4] = ["arguments", "function", "options", "return"];

/// Options of a call of a provider's function.
pub(crate) const INVOKE_OPTIONS: [&str; 5] = [
    "dependsOn",
    "parent",
    "pluginDownloadURL",
    "provider",
    "version",
];

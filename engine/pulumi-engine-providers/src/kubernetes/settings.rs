//! The provider's configuration, from its inputs and the environment.

use pulumi_engine_model::property::{Properties, Property};

/// Options without effect here: they concern warnings, clients or charts.
const WITHOUT_EFFECT: &[&str] = &[
    "alwaysRender",
    "clusterIdentifier",
    "enableReplaceCRD",
    "helmReleaseSettings",
    "kubeClientSettings",
    "pluginDownloadURL",
    "strictMode",
    "suppressDeprecationWarnings",
    "suppressHelmHookWarnings",
    "version",
];
/// Options that have an effect.
const WITH_EFFECT: &[&str] = &[
    "cluster",
    "context",
    "deleteUnreachable",
    "enableConfigMapMutable",
    "enablePatchForce",
    "enableSecretMutable",
    "enableServerSideApply",
    "kubeconfig",
    "namespace",
    "renderYamlToDirectory",
    "skipUpdateUnreachable",
    "upsertExistingObjects",
];

/// The behavior of the provider, and the address of its cluster.
#[derive(Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "Pulumi's options")]
pub(super) struct KubernetesConfig {
    /// Content or path. Hidden, because it may contain keys.
    pub kubeconfig: Option<String>,
    /// Files to read if no kubeconfig is given.
    pub ambient: Option<String>,
    pub context: Option<String>,
    pub cluster: Option<String>,
    pub namespace: Option<String>,
    pub delete_unreachable: bool,
    pub skip_update_unreachable: bool,
    pub patch_force: bool,
    pub upsert: bool,
    pub config_map_mutable: bool,
    pub secret_mutable: bool,
    /// Whether to wait for all kinds with standard conditions.
    pub await_all: bool,
}

impl KubernetesConfig {
    /// Parses the inputs of the provider's resource, or the values of its `kubernetes:*` config.
    /// Missing inputs may come from Pulumi's environment variables.
    pub(super) fn read(
        inputs: &Properties,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        refuse(inputs)?;
        let options = Options {
            inputs,
            environment,
        };
        if options.text("renderYamlToDirectory", None)?.is_some() {
            return Err("`renderYamlToDirectory` of provider `kubernetes` is not supported by pulumi-engine: \
                        use an image with Pulumi's CLI for it"
                .to_owned());
        }
        let apply = options.flag(
            "enableServerSideApply",
            "PULUMI_K8S_ENABLE_SERVER_SIDE_APPLY",
        )?;
        if apply == Some(false) {
            return Err("`enableServerSideApply: false` of provider `kubernetes` is not supported by pulumi-engine: \
                        leave it out, or use an image with Pulumi's CLI"
                .to_owned());
        }
        let flag = |name, variable| Ok::<_, String>(options.flag(name, variable)?.unwrap_or(false));
        Ok(Self {
            kubeconfig: options.kubeconfig()?,
            ambient: environment("KUBECONFIG").filter(|files| !files.is_empty()),
            context: options.text("context", None)?,
            cluster: options.text("cluster", None)?,
            namespace: options.text("namespace", None)?,
            delete_unreachable: flag("deleteUnreachable", "PULUMI_K8S_DELETE_UNREACHABLE")?,
            skip_update_unreachable: flag(
                "skipUpdateUnreachable",
                "PULUMI_K8S_SKIP_UPDATE_UNREACHABLE",
            )?,
            patch_force: flag("enablePatchForce", "PULUMI_K8S_ENABLE_PATCH_FORCE")?,
            upsert: flag(
                "upsertExistingObjects",
                "PULUMI_K8S_UPSERT_EXISTING_OBJECTS",
            )?,
            config_map_mutable: flag(
                "enableConfigMapMutable",
                "PULUMI_K8S_ENABLE_CONFIGMAP_MUTABLE",
            )?,
            secret_mutable: flag("enableSecretMutable", "PULUMI_K8S_ENABLE_SECRET_MUTABLE")?,
            await_all: environment("PULUMI_K8S_AWAIT_ALL").as_deref() == Some("true"),
        })
    }
}

fn refuse(inputs: &Properties) -> Result<(), String> {
    let known = |name: &&str| WITH_EFFECT.contains(name) || WITHOUT_EFFECT.contains(name);
    let ours = |name: &&str| !name.starts_with("__");
    let Some(unknown) = inputs
        .keys()
        .map(String::as_str)
        .filter(ours)
        .find(|name| !known(name))
    else {
        return Ok(());
    };
    let nearest = WITH_EFFECT
        .iter()
        .chain(WITHOUT_EFFECT)
        .max_by(|one, other| strsim::jaro(one, unknown).total_cmp(&strsim::jaro(other, unknown)))
        .unwrap_or(&"kubeconfig");
    Err(format!(
        "provider `kubernetes` has no option `{unknown}`: did you mean `{nearest}`?"
    ))
}

struct Options<'a> {
    inputs: &'a Properties,
    environment: &'a dyn Fn(&str) -> Option<String>,
}

impl Options<'_> {
    fn text(&self, name: &str, variable: Option<&str>) -> Result<Option<String>, String> {
        let given = match self.inputs.get(name).map(Property::opened) {
            None | Some((Property::Null, _)) => None,
            Some((Property::String(text), _)) => Some(text),
            Some((Property::Unknown, _)) => {
                return Err(format!(
                    "`{name}` of provider `kubernetes` comes of a resource that is not there yet: \
                     make that resource first, with a target"
                ));
            }
            Some(_) => return Err(format!("`{name}` of provider `kubernetes` must be a text")),
        };
        Ok(given
            .or_else(|| variable.and_then(|variable| (self.environment)(variable)))
            .filter(|text| !text.is_empty()))
    }

    fn flag(&self, name: &str, variable: &str) -> Result<Option<bool>, String> {
        if let Some((Property::Bool(value), _)) = self.inputs.get(name).map(Property::opened) {
            return Ok(Some(value));
        }
        match self.text(name, Some(variable))?.as_deref() {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(format!(
                "`{name}` of provider `kubernetes` must be `true` or `false`"
            )),
        }
    }

    /// Converts a kubeconfig that is a map to its content.
    fn kubeconfig(&self) -> Result<Option<String>, String> {
        match self.inputs.get("kubeconfig").map(Property::opened) {
            Some((map @ Property::Object(_), _)) => Ok(Some(map.revealed().to_string())),
            _ => self.text("kubeconfig", None),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(inputs: Value) -> Result<KubernetesConfig, String> {
        let Property::Object(inputs) = Property::from_json(inputs) else {
            panic!("no object");
        };
        KubernetesConfig::read(&inputs, &|_| None)
    }

    #[test]
    fn settings_flags_accept_strings() {
        for value in [json!(true), json!("true")] {
            let settings =
                read(json!({"enablePatchForce": value, "deleteUnreachable": value})).unwrap();
            assert!(settings.patch_force && settings.delete_unreachable && !settings.upsert);
        }
        let refusal = read(json!({"enablePatchForce": "yes"})).err().unwrap();
        assert!(refusal.contains("`enablePatchForce`"), "{refusal}");
    }

    #[test]
    fn settings_fall_back_to_environment() {
        let environment =
            |name: &str| (name == "PULUMI_K8S_ENABLE_PATCH_FORCE").then(|| "true".to_owned());
        assert!(
            KubernetesConfig::read(&Properties::new(), &environment)
                .unwrap()
                .patch_force
        );
        let inputs = Properties::from([("enablePatchForce".to_owned(), Property::Bool(false))]);
        assert!(
            !KubernetesConfig::read(&inputs, &environment)
                .unwrap()
                .patch_force
        );
    }

    #[test]
    fn settings_kubeconfig_is_string_or_map() {
        let text = |value| read(json!({"kubeconfig": value})).unwrap().kubeconfig;
        assert_eq!(
            text(json!("~/.kube/config")).as_deref(),
            Some("~/.kube/config")
        );
        assert_eq!(
            text(json!({"kind": "Config"})).as_deref(),
            Some(r#"{"kind":"Config"}"#)
        );
        assert_eq!(text(json!("")), None);
        let secret = Properties::from([(
            "kubeconfig".to_owned(),
            Property::String("content".into()).into_secret(),
        )]);
        let settings = KubernetesConfig::read(&secret, &|_| None).unwrap();
        assert_eq!(settings.kubeconfig.as_deref(), Some("content"));
    }

    #[test]
    fn settings_unsupported_option_is_rejected() {
        let cases = [
            (
                json!({"renderYamlToDirectory": "out"}),
                "`renderYamlToDirectory`",
            ),
            (
                json!({"enableServerSideApply": false}),
                "`enableServerSideApply: false`",
            ),
            (
                json!({"enableServerSideApply": "false"}),
                "`enableServerSideApply: false`",
            ),
            (json!({"kubeConfig": "x"}), "did you mean `kubeconfig`?"),
            (
                json!({"namespace": 7}),
                "`namespace` of provider `kubernetes` must be a text",
            ),
        ];
        for (inputs, reason) in cases {
            let refusal = read(inputs).err().unwrap();
            assert!(refusal.contains(reason), "{refusal}");
        }
    }

    #[test]
    fn settings_options_without_effect_are_accepted() {
        let inputs = json!({"suppressDeprecationWarnings": true, "version": "4.23.0", "kubeClientSettings": {"qps": 5},
                            "enableServerSideApply": true, "renderYamlToDirectory": ""});
        assert!(read(inputs).is_ok());
    }
}

//! Names of volumes: upstream's, unless no pod could have them.

use super::*;

/// The volumes of a Stack with a Secret and a ConfigMap of this name in its config: name, object,
/// folder and file.
fn volumes(name: &str) -> Vec<[String; 4]> {
    let workspace = workspace(&fixture().spec(json!({
        "secretsRef": { "a": { "type": "Secret", "secret": { "name": name, "key": "k" } } },
        "configRef": { "b": { "name": name, "key": "k" } },
    })));
    let pod = &workspace["spec"]["podTemplate"]["spec"];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let volumes = pod["volumes"].as_array().unwrap().iter();
    let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
    let config = workspace["spec"]["stacks"][0]["config"].as_array().unwrap();
    let each = volumes.zip(mounts).zip(config);
    each.map(|((volume, mount), item)| {
        assert_eq!(volume["name"], mount["name"]);
        let object = volume["secret"].get("secretName");
        let object = object.unwrap_or(&volume["configMap"]["name"]);
        [
            text(&volume["name"]),
            text(object),
            text(&mount["mountPath"]),
            text(&item["valueFrom"]["path"]),
        ]
    })
    .collect()
}

fn names(name: &str) -> [String; 2] {
    let [config_map, secret] = volumes(name).try_into().unwrap();
    let ([config_map, ..], [secret, ..]) = (config_map, secret);
    [config_map, secret]
}

fn is_label(name: &str) -> bool {
    let usable = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.len() <= 63 && name.chars().all(usable) && !name.starts_with('-') && !name.ends_with('-')
}

#[test]
fn valid_volume_name_is_upstreams() {
    for name in ["settings", "a-1", &"x".repeat(53)] {
        let expected = [format!("configmap-{name}"), format!("secret-{name}")];
        assert_eq!(names(name), expected);
    }
    let [_, secret] = names(&"x".repeat(56));
    assert_eq!(secret, format!("secret-{}", "x".repeat(56)));
}

#[test]
fn invalid_volume_name_is_shortened_and_unique() {
    let long = "x".repeat(57);
    let longer = "x".repeat(253);
    for name in ["a.b", "tls.example.com", &long, &longer] {
        let [config_map, secret] = names(name);
        assert!(is_label(&config_map), "{config_map}");
        assert!(is_label(&secret), "{secret}");
        assert!(config_map.starts_with("configmap-"), "{config_map}");
        assert!(secret.starts_with("secret-"), "{secret}");
    }
    assert_eq!(names("a.b")[1], "secret-a-b-4e23aaee53");
    assert_ne!(names("a.b"), names("a-b"));
    assert_ne!(names(&long), names(&longer));
}

#[test]
fn shortened_name_is_used_for_volume_only() {
    let expected = [
        [
            "cm.x",
            "/var/run/configmaps/stacks.pulumi.com/configmaps/cm.x",
            "/var/run/configmaps/stacks.pulumi.com/configmaps/cm.x/k",
        ],
        [
            "cm.x",
            "/var/run/secrets/stacks.pulumi.com/secrets/cm.x",
            "/var/run/secrets/stacks.pulumi.com/secrets/cm.x/k",
        ],
    ];
    let found = volumes("cm.x").into_iter().map(|[_, rest @ ..]| rest);
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

//! What is in which image, and how it is run. Pure: programs come as bytes.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use pko_api::names::images;
use serde_json::{Value, json};
use webpki_root_certs::TLS_SERVER_ROOT_CERTS;

use super::oci::{Entry, Image};

/// What a name without a registry is short for.
const REGISTRY: &str = "docker.io";

/// The user of the operator's image, upstream's.
const OPERATOR_USER: u32 = 65532;
/// The user of workspaces, as in Pulumi's images without root.
const WORKSPACE_USER: u32 = 1000;

/// Where TLS looks for authorities on Debian, and so on most systems.
const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";

/// Our programs, for one architecture.
pub(crate) struct Programs {
    /// The operator.
    pub(crate) manager: Vec<u8>,
    /// What serves a workspace.
    pub(crate) agent: Vec<u8>,
    /// The embedded engine.
    pub(crate) engine: Vec<u8>,
}

/// The manager, and the agent that copies itself into workspaces.
pub(crate) fn operator(programs: &Programs, architecture: &'static str, tag: &str) -> Image {
    let mut entries = common();
    entries.extend([
        Entry::file("manager", 0o755, programs.manager.clone()),
        Entry::file("agent", 0o755, programs.agent.clone()),
    ]);
    Image {
        reference: format!("{REGISTRY}/{}:{tag}", images::OPERATOR),
        architecture,
        // No entrypoint: upstream's manifests give the whole command, `/manager …`, as arguments.
        config: json!({
            "User": format!("{OPERATOR_USER}:{OPERATOR_USER}"),
            "Env": environment("/", &[]),
            "Cmd": ["/manager"],
            "WorkingDir": "/",
            "Labels": labels("Pulumi Kubernetes Operator", tag),
        }),
        entries,
        is_plain: false,
    }
}

/// The embedded engine under its own name and as `pulumi`, where the agent looks.
pub(crate) fn workspace(programs: &Programs, architecture: &'static str, tag: &str) -> Image {
    let mut entries = common();
    entries.extend([
        Entry::folder("home", 0o755, 0),
        Entry::folder("home/pulumi", 0o755, WORKSPACE_USER),
        Entry::folder("usr", 0o755, 0),
        Entry::folder("usr/bin", 0o755, 0),
        Entry::file("usr/bin/pulumi-engine", 0o755, programs.engine.clone()),
        Entry::link("usr/bin/pulumi", "pulumi-engine"),
    ]);
    Image {
        reference: format!("{REGISTRY}/{}:{tag}", images::WORKSPACE),
        architecture,
        config: json!({
            "User": format!("{WORKSPACE_USER}:{WORKSPACE_USER}"),
            "Env": environment("/home/pulumi", &["USER=pulumi"]),
            "Entrypoint": ["/usr/bin/pulumi"],
            "WorkingDir": "/home/pulumi",
            "Labels": labels("Pulumi's embedded engine, for workspaces", tag),
        }),
        entries,
        is_plain: false,
    }
}

/// Certificates, and a place for temporary files.
fn common() -> Vec<Entry> {
    vec![
        Entry::folder("etc", 0o755, 0),
        Entry::folder("etc/ssl", 0o755, 0),
        Entry::folder("etc/ssl/certs", 0o755, 0),
        Entry::file(CERTIFICATES, 0o644, certificates().into_bytes()),
        Entry::folder("tmp", 0o1777, 0),
    ]
}

fn environment(home: &str, more: &[&str]) -> Vec<String> {
    let mut variables = vec![
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
        format!("HOME={home}"),
    ];
    variables.extend(more.iter().map(|variable| (*variable).to_owned()));
    variables
}

fn labels(title: &str, tag: &str) -> Value {
    json!({
        "org.opencontainers.image.title": title,
        "org.opencontainers.image.version": tag,
        "org.opencontainers.image.licenses": env!("CARGO_PKG_LICENSE"),
        "org.opencontainers.image.source": env!("CARGO_PKG_REPOSITORY"),
    })
}

/// The authorities that browsers trust, in PEM.
pub(crate) fn certificates() -> String {
    TLS_SERVER_ROOT_CERTS.iter().map(|root| pem(root)).collect()
}

fn pem(certificate: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(certificate);
    let mut lines = String::from("-----BEGIN CERTIFICATE-----\n");
    for (place, letter) in text.chars().enumerate() {
        if place > 0 && place % 64 == 0 {
            lines.push('\n');
        }
        lines.push(letter);
    }
    lines + "\n-----END CERTIFICATE-----\n"
}

#[cfg(test)]
mod tests {
    use rustls_pki_types::{CertificateDer, pem::PemObject as _};

    use super::{
        super::oci::{Content, Image},
        *,
    };

    fn programs() -> Programs {
        Programs {
            manager: b"manager".to_vec(),
            agent: b"agent".to_vec(),
            engine: b"engine".to_vec(),
        }
    }

    /// Path, mode and owner of each.
    fn files(image: &Image) -> Vec<(&str, u32, u32)> {
        let entries = image.entries.iter();
        let mut files: Vec<_> = entries
            .map(|entry| (entry.path.as_str(), entry.mode, entry.owner))
            .collect();
        files.sort_unstable();
        files
    }

    #[test]
    fn the_operators_image_has_its_programs_and_certificates() {
        let image = operator(&programs(), "amd64", "v1");
        let wanted = [
            ("agent", 0o755, 0),
            ("etc", 0o755, 0),
            ("etc/ssl", 0o755, 0),
            ("etc/ssl/certs", 0o755, 0),
            (CERTIFICATES, 0o644, 0),
            ("manager", 0o755, 0),
            ("tmp", 0o1777, 0),
        ];
        assert_eq!(files(&image), wanted);
        assert_eq!(
            image.reference,
            "docker.io/pulumi/pulumi-kubernetes-operator:v1"
        );
        assert_eq!(image.config["User"], "65532:65532");
        assert_eq!(image.config["Cmd"], json!(["/manager"]));
        assert!(image.config.get("Entrypoint").is_none());
    }

    #[test]
    fn the_workspaces_image_has_the_engine_where_agents_look() {
        let image = workspace(&programs(), "arm64", "v1");
        let own = files(&image)
            .into_iter()
            .filter(|(path, ..)| !path.starts_with("etc"));
        let wanted = [
            ("home", 0o755, 0),
            ("home/pulumi", 0o755, 1000),
            ("tmp", 0o1777, 0),
            ("usr", 0o755, 0),
            ("usr/bin", 0o755, 0),
            ("usr/bin/pulumi", 0o777, 0),
            ("usr/bin/pulumi-engine", 0o755, 0),
        ];
        assert_eq!(own.collect::<Vec<_>>(), wanted);
        assert_eq!(image.config["User"], "1000:1000");
        let variables = image.config["Env"].as_array().unwrap();
        let path = variables
            .iter()
            .filter_map(Value::as_str)
            .find(|text| text.starts_with("PATH="));
        assert!(path.unwrap().contains("/usr/bin:"));
        assert!(variables.contains(&json!("HOME=/home/pulumi")));
    }

    #[test]
    fn each_folder_of_a_file_is_there() {
        for image in [
            operator(&programs(), "amd64", "v1"),
            workspace(&programs(), "amd64", "v1"),
        ] {
            let folders = image
                .entries
                .iter()
                .filter(|entry| matches!(entry.content, Content::Folder));
            let folders: Vec<&str> = folders.map(|entry| entry.path.as_str()).collect();
            for entry in &image.entries {
                if let Some((folder, _)) = entry.path.rsplit_once('/') {
                    assert!(folders.contains(&folder), "{}", entry.path);
                }
            }
        }
    }

    #[test]
    fn the_certificates_are_those_that_browsers_trust() {
        let text = certificates();
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
        assert_eq!(read.unwrap(), TLS_SERVER_ROOT_CERTS);
        assert!(text.lines().all(|line| line.len() <= 64));
    }
}

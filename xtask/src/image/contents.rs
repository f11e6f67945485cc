//! The contents and the configuration of each image. Does no I/O.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use pko_api::names::images;
use serde_json::{Value, json};
use webpki_root_certs::TLS_SERVER_ROOT_CERTS;

use super::oci::{Image, ImageEntry};

/// The default registry.
const REGISTRY: &str = "docker.io";

/// Upstream's user.
const OPERATOR_USER: u32 = 65532;
/// The user of Pulumi's nonroot images.
const WORKSPACE_USER: u32 = 1000;

/// The path of root certificates on Debian.
const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";

/// Our programs for one architecture.
pub(crate) struct ImagePrograms {
    pub(crate) manager: Vec<u8>,
    pub(crate) agent: Vec<u8>,
    pub(crate) engine: Vec<u8>,
}

/// The manager, and the agent, which is copied into workspaces.
pub(crate) fn operator(programs: &ImagePrograms, architecture: &'static str, tag: &str) -> Image {
    let mut entries = common();
    entries.extend([
        ImageEntry::file("manager", 0o755, programs.manager.clone()),
        ImageEntry::file("agent", 0o755, programs.agent.clone()),
    ]);
    Image {
        reference: format!("{REGISTRY}/{}:{tag}", images::OPERATOR),
        architecture,
        // No entrypoint: upstream's manifests pass the whole command, `/manager …`, as arguments.
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

/// The embedded engine, also as `pulumi`, which the agent runs.
pub(crate) fn workspace(programs: &ImagePrograms, architecture: &'static str, tag: &str) -> Image {
    let mut entries = common();
    entries.extend([
        ImageEntry::folder("home", 0o755, 0),
        ImageEntry::folder("home/pulumi", 0o755, WORKSPACE_USER),
        ImageEntry::folder("usr", 0o755, 0),
        ImageEntry::folder("usr/bin", 0o755, 0),
        ImageEntry::file("usr/bin/pulumi-engine", 0o755, programs.engine.clone()),
        ImageEntry::link("usr/bin/pulumi", "pulumi-engine"),
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

/// Root certificates and `/tmp`.
fn common() -> Vec<ImageEntry> {
    vec![
        ImageEntry::folder("etc", 0o755, 0),
        ImageEntry::folder("etc/ssl", 0o755, 0),
        ImageEntry::folder("etc/ssl/certs", 0o755, 0),
        ImageEntry::file(CERTIFICATES, 0o644, certificates().into_bytes()),
        ImageEntry::folder("tmp", 0o1777, 0),
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

/// Mozilla's root certificates in PEM.
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
        super::oci::{EntryContent, Image},
        *,
    };

    fn programs() -> ImagePrograms {
        ImagePrograms {
            manager: b"manager".to_vec(),
            agent: b"agent".to_vec(),
            engine: b"engine".to_vec(),
        }
    }

    fn files(image: &Image) -> Vec<(&str, u32, u32)> {
        let entries = image.entries.iter();
        let mut files: Vec<_> = entries
            .map(|entry| (entry.path.as_str(), entry.mode, entry.owner))
            .collect();
        files.sort_unstable();
        files
    }

    #[test]
    fn operator_image_has_programs_and_certificates() {
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
    fn workspace_image_has_engine_on_path() {
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
    fn image_has_all_parent_folders() {
        for image in [
            operator(&programs(), "amd64", "v1"),
            workspace(&programs(), "amd64", "v1"),
        ] {
            let folders = image
                .entries
                .iter()
                .filter(|entry| matches!(entry.content, EntryContent::Folder));
            let folders: Vec<&str> = folders.map(|entry| entry.path.as_str()).collect();
            for entry in &image.entries {
                if let Some((folder, _)) = entry.path.rsplit_once('/') {
                    assert!(folders.contains(&folder), "{}", entry.path);
                }
            }
        }
    }

    #[test]
    fn certificates_match_mozillas_roots() {
        let text = certificates();
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
        assert_eq!(read.unwrap(), TLS_SERVER_ROOT_CERTS);
        assert!(text.lines().all(|line| line.len() <= 64));
    }
}

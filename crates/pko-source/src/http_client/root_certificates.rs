//! Root certificates: Mozilla's, which are built in because an image may have none, and those that
//! the environment adds.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use ureq::tls::{Certificate, PemItem, RootCerts, parse_pem};
use webpki_root_certs::TLS_SERVER_ROOT_CERTS;

const FILES: [&str; 2] = ["SSL_CERT_FILE", "GIT_SSL_CAINFO"];
/// Colon-separated.
const FOLDERS: [&str; 2] = ["SSL_CERT_DIR", "GIT_SSL_CAPATH"];

/// Cached: the environment of a process does not change.
pub(super) fn from_environment() -> RootCerts {
    static ROOTS: OnceLock<RootCerts> = OnceLock::new();
    let read = || all(load_extra(|name| std::env::var(name).ok()));
    ROOTS.get_or_init(read).clone()
}

/// Returns `None` if an extra certificate is invalid.
pub(super) fn with(
    variable: &dyn Fn(&str) -> Option<String>,
    extra: &[Vec<u8>],
) -> Option<RootCerts> {
    let mut more = load_extra(variable);
    for text in extra {
        let found = parse_certificates(text);
        if found.is_empty() {
            return None;
        }
        more.extend(found);
    }
    Some(all(more))
}

fn all(more: Vec<Certificate<'static>>) -> RootCerts {
    if more.is_empty() {
        return RootCerts::WebPki;
    }
    RootCerts::new_with_certs(&[built_in(), more].concat())
}

fn built_in() -> Vec<Certificate<'static>> {
    let all = TLS_SERVER_ROOT_CERTS.iter();
    all.map(|root| Certificate::from_der(root.as_ref()))
        .collect()
}

/// Unreadable files are logged and skipped: the variables are often set for other images.
fn load_extra(variable: impl Fn(&str) -> Option<String>) -> Vec<Certificate<'static>> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let mut found = Vec::new();
    for (name, file) in FILES.iter().filter_map(|name| Some((name, set(name)?))) {
        match read_file(Path::new(&file)) {
            Ok(certificates) if certificates.is_empty() => {
                tracing::warn!(variable = name, file, "The file contains no certificates");
            }
            Ok(certificates) => found.extend(certificates),
            Err(error) => {
                tracing::warn!(variable = name, file, %error, "Failed to read certificates, skipping them");
            }
        }
    }
    for (name, folders) in FOLDERS.iter().filter_map(|name| Some((name, set(name)?))) {
        for folder in folders.split(':').filter(|folder| !folder.is_empty()) {
            match read_folder(Path::new(folder)) {
                Ok(certificates) => found.extend(certificates),
                Err(error) => {
                    tracing::warn!(variable = name, folder, %error, "Failed to read certificates, skipping them");
                }
            }
        }
    }
    found
}

fn read_folder(folder: &Path) -> io::Result<Vec<Certificate<'static>>> {
    let files: Vec<PathBuf> = fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_file())
        .collect();
    // Such folders also contain other files and dangling links.
    Ok(files
        .iter()
        .flat_map(|file| read_file(file).unwrap_or_default())
        .collect())
}

fn read_file(file: &Path) -> io::Result<Vec<Certificate<'static>>> {
    Ok(parse_certificates(&fs::read(file)?))
}

fn parse_certificates(text: &[u8]) -> Vec<Certificate<'static>> {
    let items = parse_pem(text).filter_map(Result::ok);
    let certificates = items.filter_map(|item| match item {
        PemItem::Certificate(certificate) => Some(certificate),
        _ => None,
    });
    certificates.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority() -> String {
        let key = rcgen::KeyPair::generate().unwrap();
        let parameters = rcgen::CertificateParams::new(vec!["ca.test".to_owned()]).unwrap();
        parameters.self_signed(&key).unwrap().pem()
    }

    #[test]
    fn root_certificates_are_added_from_environment() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        fs::write(path("two.pem"), [authority(), authority()].concat()).unwrap();
        fs::create_dir(path("folder")).unwrap();
        fs::write(path("folder/one.pem"), authority()).unwrap();
        fs::write(path("folder/README"), "no certificate").unwrap();
        let found = load_extra(|name| match name {
            "SSL_CERT_FILE" => Some(path("two.pem")),
            "SSL_CERT_DIR" => Some(format!("{}:{}:", path("missing"), path("folder"))),
            "GIT_SSL_CAINFO" => Some(path("missing.pem")),
            _ => None,
        });
        assert_eq!(found.len(), 3);
        assert!(load_extra(|_| None).is_empty());
        assert!(built_in().len() > 100);
    }
}

//! Whom we trust to vouch for a server: Mozilla's list, which is built in since an image may have none,
//! and what the usual variables add.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use ureq::tls::{Certificate, PemItem, RootCerts, parse_pem};
use webpki_root_certs::TLS_SERVER_ROOT_CERTS;

/// A file each.
const FILES: [&str; 2] = ["SSL_CERT_FILE", "GIT_SSL_CAINFO"];
/// Folders each, with a colon in between.
const FOLDERS: [&str; 2] = ["SSL_CERT_DIR", "GIT_SSL_CAPATH"];

/// Read once: a process' environment does not change.
pub(super) fn of_this_process() -> RootCerts {
    static ROOTS: OnceLock<RootCerts> = OnceLock::new();
    let read = || all(added(|name| std::env::var(name).ok()));
    ROOTS.get_or_init(read).clone()
}

/// With what these variables add, and with these, of which each must be one.
pub(super) fn with(
    variable: &dyn Fn(&str) -> Option<String>,
    extra: &[Vec<u8>],
) -> Option<RootCerts> {
    let mut more = added(variable);
    for text in extra {
        let found = of_text(text);
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

/// What can't be read is said and left out: many a variable is set for another image than this one.
fn added(variable: impl Fn(&str) -> Option<String>) -> Vec<Certificate<'static>> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let mut found = Vec::new();
    for (name, file) in FILES.iter().filter_map(|name| Some((name, set(name)?))) {
        match of_file(Path::new(&file)) {
            Ok(certificates) if certificates.is_empty() => {
                tracing::warn!(
                    variable = name,
                    file,
                    "There are no certificates in the file"
                );
            }
            Ok(certificates) => found.extend(certificates),
            Err(error) => tracing::warn!(variable = name, file, %error, "Certificates left out"),
        }
    }
    for (name, folders) in FOLDERS.iter().filter_map(|name| Some((name, set(name)?))) {
        for folder in folders.split(':').filter(|folder| !folder.is_empty()) {
            match of_folder(Path::new(folder)) {
                Ok(certificates) => found.extend(certificates),
                Err(error) => {
                    tracing::warn!(variable = name, folder, %error, "Certificates left out");
                }
            }
        }
    }
    found
}

fn of_folder(folder: &Path) -> io::Result<Vec<Certificate<'static>>> {
    let files: Vec<PathBuf> = fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_file())
        .collect();
    // Folders of certificates have other files and dangling links beside them.
    Ok(files
        .iter()
        .flat_map(|file| of_file(file).unwrap_or_default())
        .collect())
}

fn of_file(file: &Path) -> io::Result<Vec<Certificate<'static>>> {
    Ok(of_text(&fs::read(file)?))
}

fn of_text(text: &[u8]) -> Vec<Certificate<'static>> {
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
    fn variables_add_authorities() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        fs::write(path("two.pem"), [authority(), authority()].concat()).unwrap();
        fs::create_dir(path("folder")).unwrap();
        fs::write(path("folder/one.pem"), authority()).unwrap();
        fs::write(path("folder/README"), "no certificate").unwrap();
        let found = added(|name| match name {
            "SSL_CERT_FILE" => Some(path("two.pem")),
            "SSL_CERT_DIR" => Some(format!("{}:{}:", path("missing"), path("folder"))),
            "GIT_SSL_CAINFO" => Some(path("missing.pem")),
            _ => None,
        });
        assert_eq!(found.len(), 3);
        assert!(added(|_| None).is_empty());
        assert!(built_in().len() > 100);
    }
}

//! Whose certificates we believe: those that browsers do, and those of a file or a folder, as `SSL_CERT_FILE`,
//! `SSL_CERT_DIR` and `GIT_SSL_CAINFO` name them. A bundle of one's own adds to the others.

use std::{fs, io, path::Path, sync::Arc};

use rustls_pki_types::{CertificateDer, pem::PemObject};
use ureq::tls::{Certificate, RootCerts};

use super::super::GitError;

/// The certificates beside those that browsers believe.
pub(super) fn of(
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<Certificate<'static>>, GitError> {
    let value = |name| variable(name).filter(|value: &String| !value.is_empty());
    let mut all = Vec::new();
    for name in ["SSL_CERT_FILE", "GIT_SSL_CAINFO"] {
        if let Some(path) = value(name) {
            all.extend(of_file(Path::new(&path), name).map_err(|source| failed(&path, source))?);
        }
    }
    for folder in value("SSL_CERT_DIR")
        .iter()
        .flat_map(|folders| folders.split(':'))
    {
        all.extend(of_folder(Path::new(folder)).map_err(|source| failed(folder, source))?);
    }
    Ok(all)
}

fn failed(path: &str, source: io::Error) -> GitError {
    GitError::Certificates {
        path: path.to_owned(),
        source,
    }
}

/// A file that is not there has none: images have variables for files that only some of them have.
fn of_file(path: &Path, variable: &str) -> io::Result<Vec<Certificate<'static>>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            tracing::warn!(variable, path = %path.display(), "There is no file of certificates");
            Ok(Vec::new())
        }
        text => of_pem(&text?),
    }
}

/// A folder holds other things too, and each certificate perhaps twice; a folder that is not there has none.
fn of_folder(path: &Path) -> io::Result<Vec<Certificate<'static>>> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut all = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.is_file() {
            all.extend(
                fs::read(&path)
                    .and_then(|text| of_pem(&text))
                    .unwrap_or_default(),
            );
        }
    }
    Ok(all)
}

pub(super) fn of_pem(text: &[u8]) -> io::Result<Vec<Certificate<'static>>> {
    CertificateDer::pem_slice_iter(text)
        .map(|each| {
            each.map(|each| Certificate::from_der(&each).to_owned())
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
        })
        .collect()
}

/// All that we believe.
pub(super) fn roots(extra: Vec<Certificate<'static>>) -> RootCerts {
    if extra.is_empty() {
        return RootCerts::WebPki;
    }
    let mut all: Vec<_> = webpki_root_certs::TLS_SERVER_ROOT_CERTS
        .iter()
        .map(|each| Certificate::from_der(each))
        .collect();
    for each in extra {
        if !all.iter().any(|known| known.der() == each.der()) {
            all.push(each);
        }
    }
    RootCerts::Specific(Arc::new(all))
}

//! The manager's key pair, generated at the first start. Agents verify its tokens by the public
//! key.
//!
//! For process workspaces it is a file in their folder, for pods a Secret in the manager's
//! namespace, which all replicas share.
//!
//! # Caveats
//! Process workspaces run as the manager's user, so their programs can read the file.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Client, core::ObjectMeta};
use pko_api::names::field_managers;
use pko_auth::token::{KeyError, SigningKey};
use pko_kube::RequestError;

const FILE: &str = ".manager-key";
const PUBLIC_FILE: &str = ".manager-key.pub";
const SECRET: &str = "pulumi-kubernetes-operator-manager-key";
const SECRET_KEY: &str = "private-key.pem";
const PRIVATE: u32 = 0o600;
const OTHERS: u32 = 0o077;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ManagerKeyError {
    #[error("failed to read or write the manager's key {path}")]
    File { path: PathBuf, source: io::Error },
    #[error(
        "the manager's key {0} can be read by others: set its mode to 0600, or remove it to generate a new one"
    )]
    Exposed(PathBuf),
    #[error(
        "the manager's key {path} is damaged: remove it to generate a new one; agents with the old one are replaced"
    )]
    Damaged { path: PathBuf, source: KeyError },
    #[error(
        "the manager's key in the Secret {namespace}/{SECRET} is damaged: delete the Secret to generate a new one; \
         pods with the old one are replaced"
    )]
    DamagedSecret { namespace: String },
    #[error("{}; the manager's key is in the namespace of POD_NAMESPACE", .0.full_text())]
    Request(#[from] RequestError),
    #[error(transparent)]
    Made(#[from] KeyError),
}

/// The key in a namespace of the cluster, generated if there is none.
pub(crate) async fn in_cluster(
    client: &Client,
    namespace: &str,
) -> Result<SigningKey, ManagerKeyError> {
    if let Some(key) = of_secret(client, namespace).await? {
        return Ok(key);
    }
    let key = SigningKey::generate()?;
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(SECRET.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some([(SECRET_KEY.to_owned(), ByteString(key.to_pem().into()))].into()),
        type_: Some("Opaque".to_owned()),
        immutable: Some(true),
        ..Secret::default()
    };
    pko_kube::create_if_absent(client, &secret, field_managers::OPERATOR).await?;
    // Another replica may have been faster.
    let kept = of_secret(client, namespace).await?;
    Ok(kept.unwrap_or(key))
}

async fn of_secret(
    client: &Client,
    namespace: &str,
) -> Result<Option<SigningKey>, ManagerKeyError> {
    let Some(secret) = pko_kube::find::<Secret>(client, namespace, SECRET).await? else {
        return Ok(None);
    };
    let pem = secret.data.as_ref().and_then(|data| data.get(SECRET_KEY));
    let pem = pem.and_then(|pem| std::str::from_utf8(&pem.0).ok());
    let key = pem.and_then(|pem| SigningKey::from_pem(pem).ok());
    let damaged = || ManagerKeyError::DamagedSecret {
        namespace: namespace.to_owned(),
    };
    key.ok_or_else(damaged).map(Some)
}

/// The key in a folder, generated if there is none. The folder belongs to one manager at a time.
pub(crate) fn in_folder(folder: &Path) -> Result<SigningKey, ManagerKeyError> {
    let path = folder.join(FILE);
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| ManagerKeyError::File { path, source }
    };
    let key = match fs::read_to_string(&path) {
        Ok(text) => read(&path, &text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let key = SigningKey::generate()?;
            write(&path, &key.to_pem()).map_err(failed(&path))?;
            key
        }
        Err(error) => return Err(failed(&path)(error)),
    };
    let public = public_file(folder);
    write(&public, &key.public_key().to_pem()).map_err(failed(&public))?;
    Ok(key)
}

/// The public key in a folder, for agents.
pub(crate) fn public_file(folder: &Path) -> PathBuf {
    folder.join(PUBLIC_FILE)
}

fn read(path: &Path, text: &str) -> Result<SigningKey, ManagerKeyError> {
    let metadata = fs::metadata(path).map_err(|source| ManagerKeyError::File {
        path: path.to_owned(),
        source,
    })?;
    if metadata.permissions().mode() & OTHERS != 0 {
        return Err(ManagerKeyError::Exposed(path.to_owned()));
    }
    SigningKey::from_pem(text).map_err(|source| ManagerKeyError::Damaged {
        path: path.to_owned(),
        source,
    })
}

/// Writes a file atomically, for this user only.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let unfinished = path.with_added_extension("unfinished");
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(PRIVATE)
        .open(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(unfinished, path)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use pko_auth::token::PublicKey;

    use super::*;

    #[test]
    fn manager_key_is_generated_once() {
        let folder = tempfile::tempdir().unwrap();
        let first = in_folder(folder.path()).unwrap().public_key();
        let second = in_folder(folder.path()).unwrap().public_key();
        assert_eq!(first, second);
        let public = fs::read_to_string(public_file(folder.path())).unwrap();
        assert_eq!(PublicKey::all_from_pem(&public), Ok(vec![first]));
        let metadata = fs::metadata(folder.path().join(FILE)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, PRIVATE);
        let files = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(files, 2, "no temporary file is left");
    }

    #[test]
    fn manager_key_exposed_or_damaged_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        in_folder(folder.path()).unwrap();
        let path = folder.path().join(FILE);
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let error = in_folder(folder.path()).err().unwrap().to_string();
        assert!(error.contains("0600"), "{error}");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "half a k").unwrap();
        let error = in_folder(folder.path()).err().unwrap().to_string();
        assert!(error.contains("is damaged: remove it"), "{error}");
    }
}

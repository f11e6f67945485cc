//! Fetches submodules on request, each as a clone of its own.
//!
//! The commit's author chooses the address. So it must have a supported scheme, and it gets the
//! credentials only if it is on the same server.

use std::{collections::HashMap, os::unix::ffi::OsStrExt, path::Path};

use gix_object::Kind as ObjectKind;

use super::{
    Address, CommitId, Credentials, FetchOptions, GitError, Remote, Scheme,
    checkout::{Budget, EntryKind, Plan, PlannedEntry},
    error::LimitExceeded,
    gitmodules,
    pack::PackObjects,
};

impl Remote<'_> {
    pub(super) fn fetch_submodules(
        &self,
        folder: &Path,
        plan: &Plan,
        objects: &mut PackObjects,
        options: &FetchOptions<'_>,
        budget: &mut Budget,
        depth: u32,
    ) -> Result<(), GitError> {
        let submodules: Vec<_> = plan
            .entries
            .iter()
            .filter(|entry| entry.kind == EntryKind::Submodule)
            .collect();
        if submodules.is_empty() {
            return Ok(());
        }
        if depth >= self.limits.submodule_depth {
            return Err(GitError::Limit {
                address: self.address.to_string(),
                limit: LimitExceeded::SubmoduleDepth(self.limits.submodule_depth),
            });
        }
        let addresses = addresses(plan, objects)?;
        for entry in submodules {
            self.fetch_submodule(folder, entry, &addresses, options, budget, depth)
                .map_err(|error| GitError::Submodule {
                    path: String::from_utf8_lossy(&entry.path).into_owned(),
                    source: Box::new(error),
                })?;
        }
        Ok(())
    }

    fn fetch_submodule(
        &self,
        folder: &Path,
        entry: &PlannedEntry,
        addresses: &HashMap<String, String>,
        options: &FetchOptions<'_>,
        budget: &mut Budget,
        depth: u32,
    ) -> Result<(), GitError> {
        let text = std::str::from_utf8(&entry.path)
            .ok()
            .and_then(|path| addresses.get(path))
            .ok_or_else(|| GitError::NoSubmoduleAddress {
                address: self.address.to_string(),
            })?;
        let address = self.submodule_address(text)?;
        let anonymous = Credentials::Anonymous;
        let credentials = if self.shares_credentials(&address) {
            self.credentials
        } else {
            &anonymous
        };
        let remote = Remote {
            address: &address,
            credentials,
            ..*self
        };
        let place = folder.join(std::ffi::OsStr::from_bytes(&entry.path));
        remote.fetch_into(&place, CommitId(entry.id), options, budget, depth + 1)?;
        Ok(())
    }

    /// Resolves a relative address, or parses a full one.
    fn submodule_address(&self, text: &str) -> Result<Address, GitError> {
        if text.starts_with("./") || text.starts_with("../") {
            return Ok(self.address.relative(text)?);
        }
        let address = Address::parse(text)?;
        // A repository behind TLS or SSH must not depend on plain http.
        if self.address.scheme() != Scheme::Http && address.scheme() == Scheme::Http {
            return Err(GitError::InsecureSubmodule {
                address: address.to_string(),
            });
        }
        Ok(address)
    }

    fn shares_credentials(&self, address: &Address) -> bool {
        self.address.same_server(address)
    }
}

fn addresses(plan: &Plan, objects: &mut PackObjects) -> Result<HashMap<String, String>, GitError> {
    let file = plan.entries.iter().find(|entry| {
        entry.path == b".gitmodules"
            && matches!(entry.kind, EntryKind::File | EntryKind::Executable)
    });
    match file {
        Some(file) => {
            let text = objects.require(&file.id, ObjectKind::Blob)?;
            Ok(gitmodules::addresses(&String::from_utf8_lossy(text)))
        }
        None => Ok(HashMap::new()),
    }
}

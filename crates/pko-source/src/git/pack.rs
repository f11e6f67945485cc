//! Receives a pack, writes it with its index and reads objects from it.

use std::{
    io::{BufReader, Read},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use gix_hash::{Kind, ObjectId};
use gix_object::Kind as ObjectKind;
use gix_pack::{
    Bundle, bundle::write::Options, cache::lru::MemoryCappedHashmap, data::input::Mode,
};

use super::{CommitId, GitError, GitLimits, error::LimitExceeded};
use crate::Deadline;

/// For the bases of deltas.
const DELTA_CACHE_BYTES: usize = 32 << 20;
const MAX_TAG_DEPTH: usize = 10;
/// More threads cost memory and gain little: the network is slower.
const INDEX_THREADS: usize = 2;

pub(super) struct PackObjects {
    bundle: Bundle,
    cache: MemoryCappedHashmap,
    inflate: gix_zlib::Inflate,
    buffer: Vec<u8>,
    hash: Kind,
    limit: LimitExceeded,
    address: String,
}

pub(super) struct PackDestination<'a> {
    pub(super) folder: &'a Path,
    pub(super) address: &'a str,
    pub(super) hash: Kind,
    pub(super) limits: GitLimits,
    pub(super) deadline: Deadline,
}

impl PackObjects {
    /// Reads a pack to its end, writes it with its index and opens it. Returns `None` for an empty
    /// pack.
    pub(super) fn receive(
        pack: &mut dyn Read,
        place: &PackDestination<'_>,
    ) -> Result<Option<Self>, GitError> {
        let limit = LimitExceeded::ObjectBytes(place.limits.object_bytes);
        let failed = |error: gix_error::Error| pack_error(place.address, limit, error);
        let most = usize::try_from(place.limits.object_bytes).unwrap_or(usize::MAX);
        let options = Options {
            thread_limit: Some(INDEX_THREADS),
            iteration_mode: Mode::Verify,
            alloc_limit_bytes: Some(most),
            ..Options::default()
        };
        let written = with_interrupt(place.deadline, |interrupt| {
            Bundle::write_to_directory(
                &mut BufReader::with_capacity(64 << 10, pack),
                Some(place.folder),
                &mut gix_utils::progress::Discard,
                interrupt,
                None::<gix_object::find::Never>,
                place.hash,
                options,
            )
        });
        if place.deadline.remaining().is_err() {
            return Err(GitError::Deadline {
                address: place.address.to_owned(),
            });
        }
        let written = written.map_err(failed)?;
        if let Some(keep) = written.keep_path {
            // `gix-pack` leaves a file that keeps `git gc` away while the pack is being written.
            let _ = std::fs::remove_file(keep);
        }
        let Some(index) = written.index_path else {
            return Ok(None);
        };
        let Bundle { pack, index } = Bundle::at(index, place.hash).map_err(failed)?;
        let pack = pack.with_alloc_limit_bytes(Some(most));
        Ok(Some(Self {
            bundle: Bundle { pack, index },
            cache: MemoryCappedHashmap::new(DELTA_CACHE_BYTES),
            inflate: gix_zlib::Inflate::default(),
            buffer: Vec::new(),
            hash: place.hash,
            limit,
            address: place.address.to_owned(),
        }))
    }

    pub(super) fn ids(&self) -> Vec<ObjectId> {
        self.bundle.index.iter().map(|entry| entry.oid).collect()
    }

    pub(super) fn hash(&self) -> Kind {
        self.hash
    }

    /// Returns `None` if the pack does not contain the object.
    pub(super) fn find(&mut self, id: &ObjectId) -> Result<Option<(ObjectKind, &[u8])>, GitError> {
        let Self {
            bundle,
            cache,
            inflate,
            buffer,
            ..
        } = self;
        match bundle.find(id, buffer, inflate, cache) {
            Ok(found) => Ok(found.map(|(object, _)| (object.kind, object.data))),
            Err(error) => Err(pack_error(&self.address, self.limit, error)),
        }
    }

    /// Like [`Self::find`], but a missing object is an error.
    pub(super) fn require(&mut self, id: &ObjectId, wanted: ObjectKind) -> Result<&[u8], GitError> {
        let address = self.address.clone();
        match self.find(id)? {
            Some((kind, data)) if kind == wanted => Ok(data),
            _ => Err(GitError::Protocol {
                address,
                problem: "the pack lacks an object of the commit",
            }),
        }
    }

    /// Peels tags and returns the commit with its tree.
    pub(super) fn commit(
        &mut self,
        wanted: CommitId,
    ) -> Result<Option<(CommitId, ObjectId)>, GitError> {
        let hash = self.hash;
        let mut id = wanted.0;
        for _ in 0..MAX_TAG_DEPTH {
            let next = match self.find(&id)? {
                Some((ObjectKind::Commit, data)) => {
                    let tree = gix_object::CommitRefIter::from_bytes(data, hash).tree_id();
                    let tree =
                        tree.map_err(|error| pack_error(&self.address, self.limit, error))?;
                    return Ok(Some((CommitId(id), tree)));
                }
                Some((ObjectKind::Tag, data)) => {
                    gix_object::TagRefIter::from_bytes(data, hash).target_id()
                }
                _ => return Ok(None),
            };
            id = next.map_err(|error| pack_error(&self.address, self.limit, error))?;
        }
        Ok(None)
    }
}

fn pack_error(address: &str, limit: LimitExceeded, error: gix_error::Error) -> GitError {
    let address = address.to_owned();
    if error.is_resource_exhausted() {
        GitError::Limit { address, limit }
    } else {
        GitError::Pack {
            address,
            source: Box::new(error),
        }
    }
}

/// Runs a function with a flag that is set at the deadline.
fn with_interrupt<T>(deadline: Deadline, run: impl FnOnce(&AtomicBool) -> T) -> T {
    let interrupt = AtomicBool::new(false);
    let (finished, waits) = std::sync::mpsc::channel::<()>();
    thread::scope(|scope| {
        let interrupt = &interrupt;
        scope.spawn(move || {
            let left = deadline.remaining().unwrap_or_default();
            if waits.recv_timeout(left) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                interrupt.store(true, Ordering::Relaxed);
            }
        });
        let outcome = run(interrupt);
        drop(finished);
        outcome
    })
}

//! Finds the archive of a request: of the current generation from the Program, of others from
//! `ControllerRevision`s.
//!
//! # Guarantees
//! A request without a valid seal reads nothing from the API server, and neither does one for a
//! namespace that is not watched. A client that has the archive gets no other one made. What does
//! not exist is read a few times a second, however many requests ask for it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Resource as _,
    runtime::reflector::{ObjectRef, Store},
};
use parking_lot::Mutex;
use pko_api::{Decoded, Program};
use pko_core::program::{
    AbsentReads, Archive, ArchiveError, ArchiveKey, ReadAdmission, archive, archive_of,
    document_in, generation_in, is_published, revision_name,
};
use pko_kube::RequestError;

use super::{
    identifier::ArchiveRequest,
    reads::ProgramReads,
    store::{ArchiveStore, ProcessingError, process},
    url_signer::UrlSigner,
};

/// For how long an object that was not found is taken to be absent.
const ABSENT_FOR: Duration = Duration::from_secs(5);
/// How many objects may not be found in this time.
const ABSENT_READS: usize = 100;

pub(crate) struct ProgramArchives<R> {
    pub(crate) programs: Store<Decoded<Program>>,
    pub(crate) reads: R,
    /// None if URLs are not sealed.
    pub(crate) signer: Option<Arc<UrlSigner>>,
    /// Empty for all.
    pub(crate) namespaces: Vec<String>,
    pub(crate) store: Arc<ArchiveStore>,
    pub(crate) absent: AbsentObjects,
}

/// What was not found a moment ago.
pub(crate) struct AbsentObjects(Mutex<AbsentReads<AbsentName>>);

impl Default for AbsentObjects {
    fn default() -> Self {
        Self(Mutex::new(AbsentReads::new(ABSENT_READS, ABSENT_FOR)))
    }
}

/// A Program, or a generation of it.
type AbsentName = (String, String, Option<i64>);

#[derive(Debug)]
pub(super) enum FoundArchive {
    /// The client has the archive with this digest.
    Cached(String),
    Archive(Archive),
}

/// Messages are upstream's where it has one.
#[derive(Debug, thiserror::Error)]
pub(super) enum ArchiveMissing {
    /// It does not exist, is not served, or the seal is wrong.
    #[error("Program.pulumi.com {0:?} not found")]
    Program(String),
    /// This generation is not stored, or never existed.
    #[error(
        "program {namespace}/{name} with generation {generation} does not match requested generation {wanted}"
    )]
    Generation {
        namespace: String,
        name: String,
        generation: i64,
        wanted: i64,
    },
    /// It does not decode.
    #[error("{0}")]
    Undecodable(String),
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error(transparent)]
    Processing(#[from] ProcessingError),
    #[error("the API server is unavailable: try again")]
    Unavailable(#[from] RequestError),
    #[error("too many requests for Programs that do not exist: try again")]
    Busy(Duration),
}

/// What is known of a Program without its body.
struct KnownProgram {
    metadata: ObjectMeta,
    /// The digest of the current generation's archive, if this operator has published it.
    digest: Option<String>,
    /// Why it does not decode.
    error: Option<String>,
}

impl<R: ProgramReads> ProgramArchives<R> {
    /// Whether URLs are sealed.
    pub(super) fn is_sealed(&self) -> bool {
        self.signer.is_some()
    }

    /// `is_cached` returns whether the client has the archive with a digest.
    pub(super) async fn find(
        &self,
        wanted: &ArchiveRequest<'_>,
        is_cached: impl Fn(&str) -> bool,
    ) -> Result<FoundArchive, ArchiveMissing> {
        let missing = || ArchiveMissing::Program(wanted.name.to_owned());
        if !self.is_served(wanted) {
            return Err(missing());
        }
        let uid = self.sealed_uid(wanted).map_err(|()| missing())?;
        let known = self.known(wanted).await?.ok_or_else(missing)?;
        if uid.is_some_and(|uid| known.metadata.uid.as_deref() != Some(uid)) {
            return Err(missing());
        }
        let is_current = known.metadata.generation == Some(wanted.generation);
        match known.digest.as_ref().filter(|_| is_current) {
            Some(digest) if is_cached(digest) => return Ok(FoundArchive::Cached(digest.clone())),
            _ => {}
        }
        let archive = self.archive(wanted, &known).await?;
        if is_cached(&archive.digest) {
            return Ok(FoundArchive::Cached(archive.digest));
        }
        Ok(FoundArchive::Archive(archive))
    }

    fn is_served(&self, wanted: &ArchiveRequest<'_>) -> bool {
        let mut watched = self.namespaces.iter();
        wanted.has_valid_names()
            && (self.namespaces.is_empty() || watched.any(|name| name == wanted.namespace))
    }

    /// The uid in the seal; none if no seal is needed.
    fn sealed_uid<'path>(&self, wanted: &ArchiveRequest<'path>) -> Result<Option<&'path str>, ()> {
        let Some(signer) = &self.signer else {
            return Ok(None);
        };
        let program = (wanted.namespace, wanted.name);
        let seal = wanted.seal.unwrap_or_default();
        let uid = signer.uid_in(seal, program, wanted.generation);
        uid.map(Some).ok_or(())
    }

    /// The Program, if it exists. The cache of a replica may lag behind that of the leader, so only
    /// a live read proves its absence.
    async fn known(
        &self,
        wanted: &ArchiveRequest<'_>,
    ) -> Result<Option<KnownProgram>, ArchiveMissing> {
        let reference = ObjectRef::new(wanted.name).within(wanted.namespace);
        if let Some(program) = self.programs.get(&reference) {
            return Ok(Some(KnownProgram::of(&program)));
        }
        let _place = self.store.place_to_serve().await;
        let name = (wanted.namespace.to_owned(), wanted.name.to_owned(), None);
        if !self.absent.admits(&name)? {
            return Ok(None);
        }
        let metadata = self.reads.metadata(wanted.namespace, wanted.name).await?;
        if metadata.is_none() {
            self.absent.record(name);
        }
        Ok(metadata.map(|metadata| KnownProgram {
            metadata,
            digest: None,
            error: None,
        }))
    }

    /// The archive from memory, or made now.
    async fn archive(
        &self,
        wanted: &ArchiveRequest<'_>,
        known: &KnownProgram,
    ) -> Result<Archive, ArchiveMissing> {
        let key = ArchiveKey {
            uid: known.metadata.uid.clone().unwrap_or_default(),
            generation: wanted.generation,
        };
        if let Some(archive) = self.store.get(&key) {
            return Ok(archive);
        }
        let make = async {
            let _place = self.store.place_to_serve().await;
            if known.metadata.generation == Some(wanted.generation)
                && let Some(archive) = self.current(wanted, known).await?
            {
                return Ok(archive);
            }
            let kept = self.kept(wanted, &known.metadata).await?;
            kept.ok_or_else(|| ArchiveMissing::Generation {
                namespace: wanted.namespace.to_owned(),
                name: wanted.name.to_owned(),
                generation: known.metadata.generation.unwrap_or_default(),
                wanted: wanted.generation,
            })
        };
        self.store.get_or_make(key, make).await
    }

    /// From the Program, unless that was edited meanwhile.
    async fn current(
        &self,
        wanted: &ArchiveRequest<'_>,
        known: &KnownProgram,
    ) -> Result<Option<Archive>, ArchiveMissing> {
        if let Some(error) = &known.error {
            return Err(ArchiveMissing::Undecodable(error.clone()));
        }
        let live = self.reads.program(wanted.namespace, wanted.name).await?;
        let live = live.ok_or_else(|| ArchiveMissing::Program(wanted.name.to_owned()))?;
        let metadata = live.meta();
        if metadata.uid != known.metadata.uid || metadata.generation != Some(wanted.generation) {
            return Ok(None);
        }
        match live {
            Decoded::Object(program) => Ok(Some(process(move || archive(&program)).await??)),
            Decoded::Undecodable(bad) => Err(ArchiveMissing::Undecodable(bad.error.to_string())),
        }
    }

    /// A stored generation; also a newer one, which the cache lacks.
    async fn kept(
        &self,
        wanted: &ArchiveRequest<'_>,
        program: &ObjectMeta,
    ) -> Result<Option<Archive>, ArchiveMissing> {
        let generation = wanted.generation;
        let (namespace, name) = (wanted.namespace.to_owned(), wanted.name.to_owned());
        let absent = (namespace, name, Some(generation));
        if generation < 1 || !self.absent.admits(&absent)? {
            return Ok(None);
        }
        let name = revision_name(program, generation);
        let kept = self.reads.revision(wanted.namespace, &name).await?;
        let kept = kept.filter(|kept| generation_in(kept, program) == Some(generation));
        let Some(kept) = kept else {
            self.absent.record(absent);
            return Ok(None);
        };
        let made = process(move || document_in(&kept).map(archive_of).transpose());
        Ok(made.await??)
    }
}

impl KnownProgram {
    fn of(program: &Decoded<Program>) -> Self {
        let (digest, error) = match program.as_result() {
            Ok(program) => (published_digest(program), None),
            Err(bad) => (None, Some(bad.error.to_string())),
        };
        Self {
            metadata: program.meta().clone(),
            digest,
            error,
        }
    }
}

fn published_digest(program: &Program) -> Option<String> {
    let artifact = program.status.as_ref()?.artifact.as_ref()?;
    let generation = program.metadata.generation?.to_string();
    (is_published(program) && artifact.revision == generation).then(|| artifact.digest.clone())?
}

impl AbsentObjects {
    /// Whether a read may be tried. It is not if the object did not exist a moment ago.
    fn admits(&self, name: &AbsentName) -> Result<bool, ArchiveMissing> {
        match self.0.lock().admit(name, Instant::now()) {
            ReadAdmission::Allowed => Ok(true),
            ReadAdmission::Absent => Ok(false),
            ReadAdmission::Later(wait) => Err(ArchiveMissing::Busy(wait)),
        }
    }

    fn record(&self, name: AbsentName) {
        self.0.lock().record(name, Instant::now());
    }
}

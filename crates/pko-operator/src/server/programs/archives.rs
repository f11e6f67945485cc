//! The archives of Programs: of the current generation from the cache, of others from
//! `ControllerRevision`s.

use std::sync::Arc;

use k8s_openapi::{
    api::apps::v1::ControllerRevision, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Client, Resource as _,
    runtime::reflector::{ObjectRef, Store},
};
use pko_api::{Decoded, Program};
use pko_core::program::{
    Archive, ArchiveError, archive, archive_of, document_in, generation_in, revision_name,
};
use pko_kube::RequestError;

use super::url_signer::UrlSigner;

pub(crate) struct ProgramArchives {
    programs: Store<Decoded<Program>>,
    client: Client,
    signer: Option<Arc<UrlSigner>>,
}

/// A parsed URL path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ArchiveRequest<'path> {
    namespace: &'path str,
    name: &'path str,
    /// 0 if it is not a number; no Program has that.
    generation: i64,
    seal: Option<&'path str>,
}

/// Messages are upstream's where it has one.
#[derive(Debug, thiserror::Error)]
pub(super) enum ArchiveMissing {
    /// It does not exist, or the signature is wrong.
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
    #[error("the API server is unavailable: try again")]
    Unavailable(#[from] RequestError),
}

impl ProgramArchives {
    pub(crate) fn new(
        programs: Store<Decoded<Program>>,
        client: Client,
        signer: Option<Arc<UrlSigner>>,
    ) -> Self {
        Self {
            programs,
            client,
            signer,
        }
    }

    /// Whether URLs are signed.
    pub(super) fn is_sealed(&self) -> bool {
        self.signer.is_some()
    }

    /// Parses the rest of a path. None if it is malformed.
    pub(super) fn wanted<'path>(&self, identifier: &'path str) -> Option<ArchiveRequest<'path>> {
        wanted(identifier, self.is_sealed())
    }

    pub(super) async fn find(
        &self,
        wanted: &ArchiveRequest<'_>,
    ) -> Result<Archive, ArchiveMissing> {
        let program = self.program(wanted).await?;
        let metadata = program.meta();
        let generation = metadata.generation.unwrap_or_default();
        if generation == wanted.generation {
            return match program.as_result() {
                Ok(program) => Ok(archive(program)?),
                Err(bad) => Err(ArchiveMissing::Undecodable(bad.error.to_string())),
            };
        }
        let kept = self.kept(metadata, wanted.generation).await?;
        kept.ok_or_else(|| ArchiveMissing::Generation {
            namespace: wanted.namespace.to_owned(),
            name: wanted.name.to_owned(),
            generation,
            wanted: wanted.generation,
        })
    }

    /// The Program, if it exists and the signature is right. The cache of a replica may lag behind
    /// that of the leader, so only a live read proves its absence.
    async fn program(
        &self,
        wanted: &ArchiveRequest<'_>,
    ) -> Result<Arc<Decoded<Program>>, ArchiveMissing> {
        let known = ObjectRef::new(wanted.name).within(wanted.namespace);
        let program = match self.programs.get(&known) {
            Some(program) => Some(program),
            None => self.live(wanted).await?,
        };
        program
            .filter(|program| self.has_valid_signature(program.meta(), wanted))
            .ok_or_else(|| ArchiveMissing::Program(wanted.name.to_owned()))
    }

    async fn live(
        &self,
        wanted: &ArchiveRequest<'_>,
    ) -> Result<Option<Arc<Decoded<Program>>>, ArchiveMissing> {
        if !is_name(wanted.namespace) || !is_name(wanted.name) {
            return Ok(None);
        }
        let live = pko_kube::find(&self.client, wanted.namespace, wanted.name).await?;
        Ok(live.map(Arc::new))
    }

    fn has_valid_signature(&self, program: &ObjectMeta, wanted: &ArchiveRequest<'_>) -> bool {
        let Some(signer) = &self.signer else {
            return true;
        };
        let seal = wanted.seal.unwrap_or_default();
        signer.is_valid(program, wanted.generation, seal)
    }

    /// A stored generation; also a newer one, which the cache lacks.
    async fn kept(
        &self,
        program: &ObjectMeta,
        generation: i64,
    ) -> Result<Option<Archive>, ArchiveMissing> {
        if generation < 1 {
            return Ok(None);
        }
        let namespace = program.namespace.as_deref().unwrap_or_default();
        let name = revision_name(program, generation);
        let kept: Option<ControllerRevision> =
            pko_kube::find(&self.client, namespace, &name).await?;
        let kept = kept.filter(|kept| generation_in(kept, program) == Some(generation));
        let document = kept.as_ref().and_then(document_in);
        Ok(document.map(archive_of).transpose()?)
    }
}

fn wanted(identifier: &str, sealed: bool) -> Option<ArchiveRequest<'_>> {
    let parts: Vec<&str> = identifier.split('/').collect();
    let (namespace, name, generation, seal) = match (parts.as_slice(), sealed) {
        ([namespace, name, generation], _) => (namespace, name, generation, None),
        ([namespace, name, generation, seal], true) => (namespace, name, generation, Some(*seal)),
        _ => return None,
    };
    Some(ArchiveRequest {
        namespace,
        name,
        generation: generation.parse().unwrap_or_default(),
        seal,
    })
}

/// Whether a text is safe in a path of the API server.
fn is_name(text: &str) -> bool {
    let plain = |character: char| {
        character.is_ascii_lowercase() || character.is_ascii_digit() || "-.".contains(character)
    };
    text.starts_with(|first: char| first.is_ascii_alphanumeric()) && text.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_path_has_a_fourth_segment_if_signed() {
        let found = |identifier, sealed| {
            wanted(identifier, sealed).map(|wanted| (wanted.generation, wanted.seal))
        };
        for (identifier, open, sealed) in [
            ("a/b/1", Some((1, None)), Some((1, None))),
            ("a/b/1/s", None, Some((1, Some("s")))),
            ("a/b/1/", None, Some((1, Some("")))),
            ("a/b/1.tar.gz", Some((0, None)), Some((0, None))),
            ("a/b/x/s", None, Some((0, Some("s")))),
            ("a/b", None, None),
            ("a", None, None),
            ("", None, None),
            ("a/b/1/s/t", None, None),
        ] {
            assert_eq!(found(identifier, false), open, "{identifier}");
            assert_eq!(found(identifier, true), sealed, "{identifier}");
        }
    }

    #[test]
    fn program_path_must_have_valid_names() {
        for name in ["a", "a-b.c", "0"] {
            assert!(is_name(name), "{name}");
        }
        for text in ["", ".", "..", "a/b", "A", "a?b", "a%2f", "a b", "ü"] {
            assert!(!is_name(text), "{text}");
        }
    }
}

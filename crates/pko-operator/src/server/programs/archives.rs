//! Where archives are: the current generation in the cache, others where they are kept.

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

use super::url_signer::Seals;

/// All archives of all Programs.
pub(crate) struct Shelf {
    programs: Store<Decoded<Program>>,
    client: Client,
    seals: Option<Arc<Seals>>,
}

/// Which archive is wanted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wanted<'path> {
    namespace: &'path str,
    name: &'path str,
    /// What is no number is 0, which no Program has.
    generation: i64,
    seal: Option<&'path str>,
}

/// Why there is no archive, in upstream's words where it has some.
#[derive(Debug, thiserror::Error)]
pub(super) enum Missing {
    /// There is no such Program, or nobody may know that there is one.
    #[error("Program.pulumi.com {0:?} not found")]
    Program(String),
    /// This generation is not kept, or never was.
    #[error(
        "program {namespace}/{name} with generation {generation} does not match requested generation {wanted}"
    )]
    Generation {
        namespace: String,
        name: String,
        generation: i64,
        wanted: i64,
    },
    /// The Program is not of a Program's form.
    #[error("{0}")]
    Undecodable(String),
    /// The archive can't be made.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The API server does not tell.
    #[error("the cluster does not answer: try again")]
    Unavailable(#[from] RequestError),
}

impl Shelf {
    pub(crate) fn new(
        programs: Store<Decoded<Program>>,
        client: Client,
        seals: Option<Arc<Seals>>,
    ) -> Self {
        Self {
            programs,
            client,
            seals,
        }
    }

    /// Whether addresses can't be guessed.
    pub(super) fn is_sealed(&self) -> bool {
        self.seals.is_some()
    }

    /// What the rest of an address asks for; nothing if it is none.
    pub(super) fn wanted<'path>(&self, identifier: &'path str) -> Option<Wanted<'path>> {
        wanted(identifier, self.is_sealed())
    }

    /// Finds an archive.
    pub(super) async fn find(&self, wanted: &Wanted<'_>) -> Result<Archive, Missing> {
        let program = self.program(wanted).await?;
        let metadata = program.meta();
        let generation = metadata.generation.unwrap_or_default();
        if generation == wanted.generation {
            return match program.as_result() {
                Ok(program) => Ok(archive(program)?),
                Err(bad) => Err(Missing::Undecodable(bad.error.to_string())),
            };
        }
        let kept = self.kept(metadata, wanted.generation).await?;
        kept.ok_or_else(|| Missing::Generation {
            namespace: wanted.namespace.to_owned(),
            name: wanted.name.to_owned(),
            generation,
            wanted: wanted.generation,
        })
    }

    /// The Program, if it is there and its seal is right. The cache of a replica may be a moment behind the one that
    /// published the address, so an absence is believed from the API server only.
    async fn program(&self, wanted: &Wanted<'_>) -> Result<Arc<Decoded<Program>>, Missing> {
        let known = ObjectRef::new(wanted.name).within(wanted.namespace);
        let program = match self.programs.get(&known) {
            Some(program) => Some(program),
            None => self.live(wanted).await?,
        };
        program
            .filter(|program| self.may_be_seen(program.meta(), wanted))
            .ok_or_else(|| Missing::Program(wanted.name.to_owned()))
    }

    async fn live(&self, wanted: &Wanted<'_>) -> Result<Option<Arc<Decoded<Program>>>, Missing> {
        if !is_name(wanted.namespace) || !is_name(wanted.name) {
            return Ok(None);
        }
        let live = pko_kube::find(&self.client, wanted.namespace, wanted.name).await?;
        Ok(live.map(Arc::new))
    }

    fn may_be_seen(&self, program: &ObjectMeta, wanted: &Wanted<'_>) -> bool {
        let Some(seals) = &self.seals else {
            return true;
        };
        let seal = wanted.seal.unwrap_or_default();
        seals.is_seal(program, wanted.generation, seal)
    }

    /// A generation that is kept; a newer one, too, which the cache has not seen.
    async fn kept(
        &self,
        program: &ObjectMeta,
        generation: i64,
    ) -> Result<Option<Archive>, Missing> {
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

fn wanted(identifier: &str, sealed: bool) -> Option<Wanted<'_>> {
    let parts: Vec<&str> = identifier.split('/').collect();
    let (namespace, name, generation, seal) = match (parts.as_slice(), sealed) {
        ([namespace, name, generation], _) => (namespace, name, generation, None),
        ([namespace, name, generation, seal], true) => (namespace, name, generation, Some(*seal)),
        _ => return None,
    };
    Some(Wanted {
        namespace,
        name,
        generation: generation.parse().unwrap_or_default(),
        seal,
    })
}

/// Whether a text may stand in a path of the API server: nobody is asked for anything else.
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
    fn an_address_has_three_segments_and_one_more_if_it_is_sealed() {
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
    fn the_api_server_is_asked_for_names_only() {
        for name in ["a", "a-b.c", "0"] {
            assert!(is_name(name), "{name}");
        }
        for text in ["", ".", "..", "a/b", "A", "a?b", "a%2f", "a b", "ü"] {
            assert!(!is_name(text), "{text}");
        }
    }
}

//! What the server reads of the API server, counted.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use k8s_openapi::{
    api::apps::v1::ControllerRevision, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Resource as _,
    runtime::{reflector, watcher::Event},
};
use pko_api::{Decoded, Program};
use pko_auth::token::SigningKey;
use pko_core::program::{ObservedProgram, ProgramRead, ProgramResponse, ProgramStep, Publication};
use pko_core::{Fact, Machine as _, program::ProgramEffect};
use pko_kube::RequestError;
use serde_json::json;

use super::{
    AbsentObjects, ArchiveStore, ProgramArchives, ProgramUrls, UrlSigner, reads::ProgramReads,
    response, *,
};

/// The API server, with Programs of the namespaces `shop` and `other`, and their generations.
#[derive(Clone, Default)]
struct ApiServer {
    objects: Arc<Vec<(Program, Vec<ControllerRevision>)>>,
    metadata: Arc<AtomicUsize>,
    bodies: Arc<AtomicUsize>,
    revisions: Arc<AtomicUsize>,
}

impl ApiServer {
    fn find(&self, namespace: &str, name: &str) -> Option<&Program> {
        let mut programs = self.objects.iter().map(|(program, _)| program);
        programs.find(|program| {
            let metadata = &program.metadata;
            metadata.namespace.as_deref() == Some(namespace)
                && metadata.name.as_deref() == Some(name)
        })
    }

    /// Metadata, bodies and revisions that were read.
    fn reads(&self) -> [usize; 3] {
        [&self.metadata, &self.bodies, &self.revisions].map(|it| it.load(Ordering::Relaxed))
    }
}

impl ProgramReads for ApiServer {
    async fn metadata(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<ObjectMeta>, RequestError> {
        self.metadata.fetch_add(1, Ordering::Relaxed);
        let program = self.find(namespace, name);
        Ok(program.map(|program| program.metadata.clone()))
    }

    async fn program(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Decoded<Program>>, RequestError> {
        self.bodies.fetch_add(1, Ordering::Relaxed);
        let program = self.find(namespace, name).cloned();
        Ok(program.map(|program| Decoded::Object(Box::new(program))))
    }

    async fn revision(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<ControllerRevision>, RequestError> {
        self.revisions.fetch_add(1, Ordering::Relaxed);
        let mut all = self.objects.iter().flat_map(|(_, revisions)| revisions);
        let found = all.find(|revision| {
            let metadata = &revision.metadata;
            metadata.namespace.as_deref() == Some(namespace)
                && metadata.name.as_deref() == Some(name)
        });
        Ok(found.cloned())
    }
}

/// The server, with two Programs `demo` of generation 2, whose first generation is stored.
struct Server {
    api: ApiServer,
    urls: ProgramUrls,
    routes: ProgramArchives<ApiServer>,
}

impl Server {
    fn new(sealed: bool, namespaces: &[&str], cached: bool) -> Self {
        let key = SigningKey::generate().unwrap();
        let urls = ProgramUrls {
            host: "operator".to_owned(),
            signer: sealed.then(|| Arc::new(UrlSigner::new(&key))),
        };
        let objects = ["shop", "other"].map(|namespace| published(namespace, &urls));
        let (programs, mut writer) = reflector::store::<Decoded<Program>>();
        for (program, _) in objects.iter().filter(|_| cached) {
            // As the watch has it
            let mut program = program.clone();
            program.program = pko_api::pulumi::v1::ProgramBody::default();
            writer.apply_watcher_event(&Event::Apply(Decoded::Object(Box::new(program))));
        }
        let api = ApiServer {
            objects: Arc::new(objects.into()),
            ..ApiServer::default()
        };
        let routes = ProgramArchives {
            programs,
            reads: api.clone(),
            signer: urls.signer.clone(),
            namespaces: namespaces.iter().map(|&name| name.to_owned()).collect(),
            store: Arc::new(ArchiveStore::default()),
            absent: AbsentObjects::default(),
        };
        Self { api, urls, routes }
    }

    fn program(&self, namespace: &str) -> &Program {
        self.api.find(namespace, "demo").unwrap()
    }

    /// The part of the URL behind `/programs/`.
    fn identifier(&self, namespace: &str, generation: i64) -> String {
        let open = format!("{namespace}/demo/{generation}");
        let seal = self.urls.seal(self.program(namespace), generation);
        seal.map_or(open.clone(), |seal| format!("{open}/{seal}"))
    }

    async fn get(&self, identifier: &str, tag: Option<&str>) -> StatusCode {
        let Some(wanted) = ArchiveRequest::parse(identifier, self.routes.is_sealed()) else {
            return StatusCode::BAD_REQUEST;
        };
        let mut headers = HeaderMap::new();
        if let Some(tag) = tag {
            headers.insert(header::IF_NONE_MATCH, HeaderValue::from_str(tag).unwrap());
        }
        let is_cached = |digest: &str| response::is_cached(&headers, digest);
        let answer = match self.routes.find(&wanted, is_cached).await {
            Ok(found) => response::found(found, self.routes.is_sealed()),
            Err(missing) => response::without_archive(&missing),
        };
        answer.status()
    }
}

/// A Program of generation 2 as the controller leaves it, and its stored generations.
fn published(namespace: &str, urls: &ProgramUrls) -> (Program, Vec<ControllerRevision>) {
    let mut program: Program = serde_json::from_value(json!({
        "metadata": {
            "name": "demo", "namespace": namespace, "uid": format!("{namespace}-uid"),
            "generation": 1,
        },
        "program": { "outputs": { "a": "first" } },
    }))
    .unwrap();
    let mut revisions = Vec::new();
    for generation in 1..=2 {
        program.metadata.generation = Some(generation);
        let mut observed = ObservedProgram {
            seal: urls.seal(&program, generation),
            program: program.clone(),
            advertised: urls.host.clone(),
            generations: Fact::Known(pko_core::program::Generations::default()),
            publication: Fact::Unknown,
        };
        let now = jiff::Timestamp::UNIX_EPOCH;
        assert_eq!(
            observed.decide(now),
            ProgramStep::Read(ProgramRead::Publication)
        );
        let made = Publication::of(&program);
        observed.observe(ProgramResponse::Publication(Some(Box::new(made))));
        let ProgramStep::Finish(plan) = observed.decide(now) else {
            panic!("something more is read")
        };
        for effect in plan.effects {
            match effect {
                ProgramEffect::StoreRevision(revision) => revisions.push(*revision),
                ProgramEffect::PatchStatus(status) => program.status = Some(*status),
                other => panic!("{other:?}"),
            }
        }
    }
    (program, revisions)
}

fn tag(program: &Program) -> String {
    let artifact = program.status.as_ref().unwrap().artifact.as_ref();
    format!("\"{}\"", artifact.unwrap().digest.as_ref().unwrap())
}

#[tokio::test]
async fn request_without_a_valid_seal_reads_nothing() {
    let server = Server::new(true, &[], false);
    let sealed = server.identifier("shop", 2);
    let (open, seal) = sealed.rsplit_once('/').unwrap();
    let others = server.identifier("other", 2);
    let others = others.rsplit_once('/').unwrap().1;
    let (_, signature) = seal.split_once('.').unwrap();
    for identifier in [
        open.to_owned(),
        format!("{open}/"),
        format!("{open}/{others}"),
        format!("{open}/{signature}"),
        format!("{open}/other-uid.{signature}"),
        format!("shop/demo/1/{seal}"),
        format!("shop/missing/2/{seal}"),
        format!("nowhere/demo/2/{seal}"),
    ] {
        let status = server.get(&identifier, Some("*")).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{identifier}");
        assert_eq!(server.api.reads(), [0, 0, 0], "{identifier}");
    }
    assert_eq!(server.get(&sealed, None).await, StatusCode::OK);
}

#[tokio::test]
async fn archive_is_read_and_made_once() {
    let server = Server::new(true, &[], true);
    for _ in 0..3 {
        for generation in [1, 2] {
            let identifier = server.identifier("shop", generation);
            assert_eq!(server.get(&identifier, None).await, StatusCode::OK);
        }
    }
    assert_eq!(server.api.reads(), [0, 1, 1]);
}

#[tokio::test]
async fn known_archive_is_neither_read_nor_made() {
    for sealed in [true, false] {
        let server = Server::new(sealed, &[], true);
        let tag = tag(server.program("shop"));
        for identifier in [server.identifier("shop", 2), server.identifier("shop", 2)] {
            let status = server.get(&identifier, Some(&tag)).await;
            assert_eq!(status, StatusCode::NOT_MODIFIED);
        }
        assert_eq!(server.api.reads(), [0, 0, 0]);
        let other = Some("\"sha256:other\"");
        let status = server.get(&server.identifier("shop", 2), other).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(server.api.reads(), [0, 1, 0]);
    }
}

#[tokio::test]
async fn flood_of_unknown_names_is_no_flood_of_reads() {
    let server = Server::new(false, &[], true);
    let mut unavailable = 0;
    for number in 0..1000 {
        for identifier in [
            format!("shop/name-{number}/1"),
            "shop/same/1".to_owned(),
            format!("shop/demo/{}", number + 3),
        ] {
            match server.get(&identifier, None).await {
                StatusCode::NOT_FOUND => {}
                StatusCode::SERVICE_UNAVAILABLE => unavailable += 1,
                other => panic!("{identifier}: {other}"),
            }
        }
    }
    let [metadata, bodies, revisions] = server.api.reads();
    assert!(metadata + revisions <= 300, "{metadata} and {revisions}");
    assert_eq!(bodies, 0);
    assert!(unavailable > 1000, "{unavailable}");
    // What exists is served all the same.
    let status = server.get(&server.identifier("shop", 2), None).await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn only_watched_namespaces_are_served() {
    for sealed in [true, false] {
        let server = Server::new(sealed, &["shop"], true);
        let identifier = server.identifier("other", 2);
        assert_eq!(server.get(&identifier, None).await, StatusCode::NOT_FOUND);
        assert_eq!(server.api.reads(), [0, 0, 0]);
        let status = server.get(&server.identifier("shop", 2), None).await;
        assert_eq!(status, StatusCode::OK);
    }
}

#[tokio::test]
async fn replica_with_an_old_cache_serves_what_exists() {
    let server = Server::new(true, &[], false);
    for generation in [2, 1] {
        let identifier = server.identifier("shop", generation);
        assert_eq!(server.get(&identifier, None).await, StatusCode::OK);
    }
    assert_eq!(server.api.reads(), [2, 1, 1]);
    assert_eq!(server.program("shop").meta().generation, Some(2));
}

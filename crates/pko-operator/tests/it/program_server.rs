//! Programs over HTTP: what is served, to whom, and for how long.

use k8s_openapi::api::{apps::v1::ControllerRevision, core::v1::Event};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use pko_api::{Program, Workspace, names::labels, pulumi::v1::Artifact};
use pko_testkit::{
    ProgramBuilder, TestNamespace, WorkspaceBuilder, audit::AuditPosition, eventually,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::harness::{System, Watched, with_namespace};

/// Upstream's addresses.
const UNSEALED: (&str, &str) = ("PKO_PROGRAM_FS_SEALED", "false");

/// An answer of the server.
struct Answer {
    status: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str())
    }

    fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    /// That of an archive.
    fn tag(&self) -> String {
        self.header("etag").expect("an ETag").to_owned()
    }
}

async fn request(address: &str, head: &str) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("{head}\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n");
    let end = end.unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().to_owned();
    let headers = lines.map(|line| line.split_once(": ").unwrap());
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    Answer {
        status,
        headers: headers.collect(),
        body: answer[end + 4..].to_vec(),
    }
}

async fn get(address: &str, path: &str) -> Answer {
    request(address, &format!("GET {path} HTTP/1.1")).await
}

/// The server and the path of an address.
fn parts(url: &str) -> (&str, &str) {
    let rest = url.strip_prefix("http://").unwrap();
    rest.split_at(rest.find('/').unwrap())
}

/// Fetches an archive as a workspace does.
async fn fetched(artifact: &Artifact) -> Answer {
    let (address, path) = parts(&artifact.url);
    get(address, path).await
}

/// The Program, once the operator has looked at this generation of it.
async fn published(namespace: &TestNamespace, name: &str, generation: i64) -> Program {
    let program = eventually("the Program to be published", async || {
        let program = namespace.api::<Program>().get(name).await.unwrap();
        let observed = program
            .status
            .as_ref()
            .and_then(|status| status.observed_generation);
        if observed == Some(generation) {
            Ok(program)
        } else {
            Err(format!("{observed:?}"))
        }
    });
    program.await.unwrap()
}

fn artifact(program: &Program) -> Artifact {
    let status = program.status.clone().unwrap();
    status.artifact.unwrap()
}

/// Makes a Program with one output, and gives its archive.
async fn created(namespace: &TestNamespace, name: &str) -> Artifact {
    let program = ProgramBuilder::new(name).output("a", "1").build();
    namespace.create_object(program).await.unwrap();
    artifact(&published(namespace, name, 1).await)
}

/// Gives the output another value, which is another generation.
async fn edited(namespace: &TestNamespace, name: &str, generation: i64) -> Artifact {
    let patch = json!({ "program": { "outputs": { "a": generation.to_string() } } });
    let api = namespace.api::<Program>();
    let patch = Patch::Merge(patch);
    api.patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
    artifact(&published(namespace, name, generation).await)
}

/// Whether these generations are kept of a Program, or else which.
async fn are_kept(namespace: &TestNamespace, name: &str, expected: &[i64]) -> Result<(), String> {
    let revisions = namespace.api::<ControllerRevision>();
    let revisions = revisions.list(&ListParams::default()).await.unwrap();
    let of_program = revisions.items.iter().filter(|revision| {
        let labels = revision.metadata.labels.as_ref();
        labels.is_some_and(|labels| {
            labels
                .get(labels::PROGRAM_NAME)
                .is_some_and(|label| label == name)
        })
    });
    let mut kept: Vec<i64> = of_program.map(|revision| revision.revision).collect();
    kept.sort_unstable();
    if kept == expected {
        Ok(())
    } else {
        Err(format!("{kept:?}"))
    }
}

/// A Workspace that takes its program from an archive.
fn workspace(name: &str, artifact: &Artifact) -> Value {
    let source = json!({ "url": artifact.url, "digest": artifact.digest });
    WorkspaceBuilder::new(name)
        .set("/spec/flux", source)
        .build()
}

/// The reads of Programs and of their generations since a mark.
async fn reads_since(system: &System, mark: AuditPosition) -> usize {
    let requests = system.requests_since(mark).await;
    let resources = ["programs.pulumi.com", "controllerrevisions.apps"];
    let reads = requests
        .only(|request| request.verb == "get" && resources.contains(&request.resource.as_str()));
    reads.len()
}

#[tokio::test]
async fn program_current_generation_is_served() {
    let system = System::start(&[UNSEALED]).await;
    with_namespace(&system, async |namespace| {
        let artifact = created(namespace, "demo").await;
        let answer = fetched(&artifact).await;
        assert_eq!(answer.status, "HTTP/1.1 200 OK");
        assert_eq!(
            Some(i64::try_from(answer.body.len()).unwrap()),
            artifact.size
        );
        assert_eq!(answer.header("content-type"), Some("application/gzip"));
        let name = "attachment; filename=project.tar.gz";
        assert_eq!(answer.header("content-disposition"), Some(name));

        let (address, path) = parts(&artifact.url);
        let folder = path.rsplit_once('/').unwrap().0;
        let identifier = folder.strip_prefix("/programs/").unwrap();
        for (path, status, text) in [
            (
                format!("{folder}/7"),
                "404 Not Found",
                format!(
                    "program {identifier} with generation 1 does not match requested generation 7"
                ),
            ),
            (
                format!("{folder}/1.tar.gz"),
                "404 Not Found",
                format!(
                    "program {identifier} with generation 1 does not match requested generation 0"
                ),
            ),
            (
                "/programs/no/body/1".to_owned(),
                "404 Not Found",
                "Program.pulumi.com \"body\" not found".to_owned(),
            ),
            (
                "/programs/".to_owned(),
                "400 Bad Request",
                "Program identifier is required.".to_owned(),
            ),
            (
                "/programs/a/b".to_owned(),
                "400 Bad Request",
                "invalid program identifier, unable to locate Program".to_owned(),
            ),
            (
                format!("{path}/"),
                "400 Bad Request",
                "invalid program identifier, unable to locate Program".to_owned(),
            ),
            (
                "/programs".to_owned(),
                "307 Temporary Redirect",
                String::new(),
            ),
            ("/elsewhere".to_owned(), "404 Not Found", String::new()),
        ] {
            let answer = get(address, &path).await;
            assert_eq!(answer.status, format!("HTTP/1.1 {status}"), "{path}");
            assert_eq!(answer.text(), text, "{path}");
        }
        let redirect = get(address, "/programs").await;
        assert_eq!(redirect.header("location"), Some("/programs/"));
        // Upstream does not look at the method.
        let posted = request(
            address,
            &format!("POST {path} HTTP/1.1\r\nContent-Length: 0"),
        )
        .await;
        assert_eq!(posted.body, answer.body);
    })
    .await;
}

#[tokio::test]
async fn program_archive_has_a_stable_etag() {
    let mut system = System::start(&[]).await;
    let namespace = system.namespace().await;
    let artifact = created(&namespace, "demo").await;
    let tag = fetched(&artifact).await.tag();
    assert_eq!(tag, format!("\"{}\"", artifact.digest.as_ref().unwrap()));

    let (address, path) = parts(&artifact.url);
    let conditional = format!("GET {path} HTTP/1.1\r\nIf-None-Match: {tag}");
    let again = request(address, &conditional).await;
    assert_eq!(again.status, "HTTP/1.1 304 Not Modified");
    assert_eq!((again.tag(), again.body.len()), (tag.clone(), 0));

    let head = request(address, &format!("HEAD {path} HTTP/1.1")).await;
    assert_eq!(head.status, "HTTP/1.1 200 OK");
    let length = artifact.size.unwrap().to_string();
    assert_eq!(head.header("content-length"), Some(length.as_str()));
    assert_eq!((head.tag(), head.body.len()), (tag.clone(), 0));

    system.kill_manager();
    let mark = system.plane.audit_position().await.unwrap();
    system.start_manager();
    // By the time that a new one is published, the old one was looked at.
    created(&namespace, "other").await;
    let before = reads_since(&system, mark).await;
    let known = request(address, &conditional).await;
    assert_eq!(known.status, "HTTP/1.1 304 Not Modified");
    // The archive of the new one was read to be published; that of the old one is not needed.
    assert_eq!((before, reads_since(&system, mark).await), (1, 1));
    assert_eq!(fetched(&artifact).await.tag(), tag);
    assert_eq!(fetched(&artifact).await.tag(), tag);
    assert_eq!(reads_since(&system, mark).await, 2, "it is made once");
    namespace.remove().await.unwrap();
}

#[tokio::test]
async fn program_generation_in_use_is_served_after_edits() {
    let mut system = System::start(&[UNSEALED]).await;
    let namespace = system.namespace().await;
    let first = created(&namespace, "demo").await;
    let original = fetched(&first).await;
    namespace
        .create_object(workspace("uses-first", &first))
        .await
        .unwrap();
    for generation in 2..=4 {
        edited(&namespace, "demo", generation).await;
    }
    // Nobody refers to the second one; the third one is the one before.
    eventually("what nobody needs to be let go", async || {
        are_kept(&namespace, "demo", &[1, 3, 4]).await
    })
    .await
    .unwrap();
    let again = fetched(&first).await;
    assert_eq!(again.status, "HTTP/1.1 200 OK");
    assert_eq!((again.tag(), &again.body), (original.tag(), &original.body));
    let second = Artifact {
        url: first.url.replace("/demo/1", "/demo/2"),
        ..first.clone()
    };
    let gone = fetched(&second).await;
    assert_eq!(gone.status, "HTTP/1.1 404 Not Found");
    assert!(
        gone.text()
            .ends_with("does not match requested generation 2")
    );

    // The next manager finds that the Workspace is gone, too.
    system.kill_manager();
    let workspaces = namespace.api::<Workspace>();
    workspaces
        .delete("uses-first", &DeleteParams::default())
        .await
        .unwrap();
    system.start_manager();
    eventually("the first one to be let go", async || {
        are_kept(&namespace, "demo", &[3, 4]).await
    })
    .await
    .unwrap();
    assert_eq!(fetched(&first).await.status, "HTTP/1.1 404 Not Found");
    namespace.remove().await.unwrap();
}

#[tokio::test]
async fn program_invalid_is_reported_and_served() {
    let system = System::start(&[]).await;
    with_namespace(&system, async |namespace| {
        let options = json!({ "dependsOn": ["bukcet"] });
        let program = ProgramBuilder::new("demo")
            .resource("bucket", "pulumi:index:Stash", &json!({ "input": "${" }))
            .resource("other", "pulumi:index:Stash", &json!({ "input": 1 }))
            .set("/program/resources/other/options", options);
        namespace.create_object(program.build()).await.unwrap();
        let program = published(namespace, "demo", 1).await;
        assert_eq!(fetched(&artifact(&program)).await.status, "HTTP/1.1 200 OK");
        let conditions = program.status.unwrap().conditions;
        let ready = conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
        assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "ProgramInvalid"));
        assert_eq!(ready.observed_generation, Some(1));
        for text in [
            "program.resources.bucket.properties.input: \"${\" has no closing brace",
            "program.resources.other.options.dependsOn[0]: \"bukcet\" is a string, not a resource; write \"${bucket}\"",
        ] {
            assert!(ready.message.contains(text), "{}", ready.message);
        }
        let event = eventually("an event", async || {
            let events = namespace.api::<Event>().list(&ListParams::default()).await.unwrap();
            let mut events = events.items.into_iter();
            let found = events.find(|event| event.reason.as_deref() == Some("ProgramInvalid"));
            found.ok_or("none")
        });
        let event = event.await.unwrap();
        let source = event.source.and_then(|source| source.component);
        assert_eq!(source.as_deref(), Some("program-controller"));
        assert_eq!(event.type_.as_deref(), Some("Warning"));

        let corrected = json!([
            { "op": "replace", "path": "/program/resources/bucket/properties/input", "value": 1 },
            { "op": "remove", "path": "/program/resources/other/options" },
        ]);
        let corrected = Patch::<()>::Json(serde_json::from_value(corrected).unwrap());
        let api = namespace.api::<Program>();
        api.patch("demo", &PatchParams::default(), &corrected).await.unwrap();
        let conditions = published(namespace, "demo", 2).await.status.unwrap().conditions;
        let [ready] = conditions.as_slice() else {
            panic!("{conditions:?}")
        };
        assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("True", "Published"));
    })
    .await;
}

#[tokio::test]
async fn program_signed_url_is_required() {
    let mut system = System::start_watching(Watched::Namespaces(2), &[]).await;
    // Two tenants, each with a Program of the same name.
    let one = system.namespace().await;
    let other = system.namespace().await;
    let (ones, others) = (created(&one, "demo").await, created(&other, "demo").await);
    for artifact in [&ones, &others] {
        let answer = fetched(artifact).await;
        assert_eq!(answer.status, "HTTP/1.1 200 OK");
        let kept_for_ever = "private, max-age=31536000, immutable";
        assert_eq!(answer.header("cache-control"), Some(kept_for_ever));
    }
    let (address, path) = parts(&ones.url);
    let (open, seal) = path.rsplit_once('/').unwrap();
    let others_seal = others.url.rsplit_once('/').unwrap().1;
    let mark = system.plane.audit_position().await.unwrap();
    let unknown = get(address, "/programs/nobody/demo/1/seal").await;
    assert_eq!(unknown.text(), "Program.pulumi.com \"demo\" not found");
    for guess in [
        open.to_owned(),
        format!("{open}/"),
        format!("{open}/{others_seal}"),
        format!("{open}/{}", seal.to_lowercase()),
        format!("{}/2/{seal}", open.rsplit_once('/').unwrap().0),
    ] {
        let answer = get(address, &guess).await;
        // A guessed name and a missing name get the same response.
        assert_eq!(answer.status, unknown.status, "{guess}");
        assert_eq!(answer.body, unknown.body, "{guess}");
        assert_eq!(answer.header("etag"), None, "{guess}");
    }
    assert_eq!(reads_since(&system, mark).await, 0);
    // An older generation has a seal of its own, which is still good.
    edited(&one, "demo", 2).await;
    assert_eq!(fetched(&ones).await.status, "HTTP/1.1 200 OK");

    // The next manager has the same key.
    system.kill_manager();
    system.start_manager();
    let served = eventually(
        "the next manager to serve",
        async || match TcpStream::connect(address).await {
            Ok(_) => Ok(fetched(&others).await),
            Err(error) => Err(error.to_string()),
        },
    );
    assert_eq!(served.await.unwrap().status, "HTTP/1.1 200 OK");
    for namespace in [one, other] {
        namespace.remove().await.unwrap();
    }
}

#[tokio::test]
async fn program_flood_of_unknown_names_is_not_passed_on() {
    const FLOOD: usize = 300;
    let system = System::start(&[UNSEALED]).await;
    with_namespace(&system, async |namespace| {
        let artifact = created(namespace, "demo").await;
        let (address, path) = parts(&artifact.url);
        let own = namespace.name();
        // A Program that exists, in a namespace that is not watched
        let unwatched = TestNamespace::create(&system.plane).await.unwrap();
        let program = ProgramBuilder::new("hidden").output("a", "1").build();
        unwatched.create_object(program).await.unwrap();
        let mark = system.plane.audit_position().await.unwrap();
        for _ in 0..3 {
            let hidden = get(address, &format!("/programs/{}/hidden/1", unwatched.name())).await;
            assert_eq!(hidden.text(), "Program.pulumi.com \"hidden\" not found");
            let absent = get(address, &format!("/programs/{own}/absent/1")).await;
            assert_eq!(absent.text(), "Program.pulumi.com \"absent\" not found");
        }
        assert_eq!(reads_since(&system, mark).await, 1);
        let mut refused = 0;
        for number in 0..FLOOD {
            let answer = get(address, &format!("/programs/{own}/no-{number}/1")).await;
            match answer.status.as_str() {
                "HTTP/1.1 404 Not Found" => {}
                "HTTP/1.1 503 Service Unavailable" => {
                    assert!(answer.header("retry-after").is_some());
                    refused += 1;
                }
                other => panic!("{other}"),
            }
        }
        assert!(refused > 0);
        let reads = reads_since(&system, mark).await;
        assert_eq!(
            reads,
            FLOOD + 1 - refused,
            "a refused request reads nothing"
        );
        assert_eq!(get(address, path).await.status, "HTTP/1.1 200 OK");
        unwatched.remove().await.unwrap();
    })
    .await;
}

/// Upstream's operator leaves such addresses.
#[tokio::test]
async fn program_workspace_with_an_unsealed_address_fetches_the_sealed_one() {
    let system = System::start(&[]).await;
    with_namespace(&system, async |namespace| {
        let sealed = created(namespace, "demo").await;
        let open = Artifact {
            url: sealed.url.rsplit_once('/').unwrap().0.to_owned(),
            ..sealed.clone()
        };
        assert_eq!(fetched(&open).await.status, "HTTP/1.1 404 Not Found");
        for (name, generation) in [("current", 2), ("older", 3)] {
            let mut object = workspace(name, &open);
            let backend = json!({ "name": "PULUMI_BACKEND_URL", "value": system.backend() });
            object["spec"]["env"] = json!([backend]);
            namespace.create_object(object).await.unwrap();
            eventually("the Workspace to be ready", async || {
                let workspace = namespace.api::<Workspace>().get(name).await.unwrap();
                let conditions = workspace.status.unwrap_or_default().conditions;
                let mut ready = conditions.iter().filter(|found| found.type_ == "Ready");
                if ready.any(|ready| ready.status == "True") {
                    Ok(())
                } else {
                    Err(format!("{conditions:#?}"))
                }
            })
            .await
            .unwrap();
            edited(namespace, "demo", generation).await;
        }
    })
    .await;
}

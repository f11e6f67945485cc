//! Programs over HTTP.

use pko_api::Program;
use pko_testkit::{ProgramBuilder, eventually, with_namespace};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::system::System;

/// The status line and the body of an answer.
async fn get(address: &str, path: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let end = answer
        .windows(4)
        .position(|part| part == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    (
        head.lines().next().unwrap().to_owned(),
        answer[end + 4..].to_vec(),
    )
}

#[tokio::test]
async fn the_current_generation_is_served() {
    let system = System::start(&[]).await;
    with_namespace(&system.plane, async |namespace| {
        namespace
            .create_object(ProgramBuilder::new("demo").output("a", "b").build())
            .await
            .unwrap();
        let published = eventually("the Program to be published", async || {
            let program = namespace.api::<Program>().get("demo").await.unwrap();
            program
                .status
                .and_then(|status| status.artifact)
                .ok_or("no artifact")
        });
        let artifact = published.await.unwrap();
        let (address, path) = artifact
            .url
            .strip_prefix("http://")
            .unwrap()
            .split_once('/')
            .unwrap();
        let (status, body) = get(address, &format!("/{path}")).await;
        assert_eq!(status, "HTTP/1.1 200 OK");
        assert_eq!(Some(i64::try_from(body.len()).unwrap()), artifact.size);

        let folder = path.rsplit_once('/').unwrap().0;
        for (path, status, text) in [
            (
                format!("/{folder}/7"),
                "HTTP/1.1 404 Not Found",
                "does not match requested generation 7",
            ),
            (
                format!("/{folder}/1.tar.gz"),
                "HTTP/1.1 404 Not Found",
                "does not match requested generation 0",
            ),
            (
                "/programs/no/body/1".to_owned(),
                "HTTP/1.1 404 Not Found",
                "Program.pulumi.com \"body\" not found",
            ),
            (
                "/programs/".to_owned(),
                "HTTP/1.1 400 Bad Request",
                "Program identifier is required.",
            ),
            (
                "/programs/a/b".to_owned(),
                "HTTP/1.1 400 Bad Request",
                "invalid program identifier, unable to locate Program",
            ),
        ] {
            let (found, body) = get(address, &path).await;
            let body = String::from_utf8(body).unwrap();
            assert_eq!(found, status, "{path}");
            assert!(body.contains(text), "{path}: {body}");
        }
    })
    .await;
}

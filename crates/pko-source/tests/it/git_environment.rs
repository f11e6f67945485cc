//! Proxies and certificates from the environment.

use std::{
    fs,
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use pko_source::git::{GitClient, GitError, HttpClient, HttpSettings, Revision};
use pko_testkit::git_server::{GitServer, TestFile};

use crate::git_harness::{GitFixture, all_text};

/// Records requests. It lives as long as the process.
struct Proxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let proxy = Self {
            address: listener.local_addr().unwrap(),
            asked: Arc::clone(&asked),
        };
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let asked = Arc::clone(&asked);
                thread::spawn(move || tunnel(stream, &asked));
            }
        });
        proxy
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

fn tunnel(mut client: TcpStream, asked: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && client.read(&mut byte)? > 0 {
        head.extend_from_slice(&byte);
    }
    let head = String::from_utf8(head).unwrap();
    asked.lock().unwrap().push(head.clone());
    let place = head.split(' ').nth(1).unwrap();
    // Only the proxy resolves this name.
    let mut server = TcpStream::connect(place.replace("git.test", "127.0.0.1"))?;
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    io::copy(&mut server, &mut client)?;
    client.shutdown(Shutdown::Write)
}

fn client(variables: &[(&str, &str)]) -> Result<GitClient, GitError> {
    let variable = |wanted: &str| {
        let found = variables.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| (*value).to_owned())
    };
    HttpClient::with_variables(&HttpSettings::default(), &variable).map(GitClient::new)
}

#[test]
fn git_requests_use_proxy_from_environment() {
    let proxy = Proxy::start();
    let place = format!("http://user:canary@{}", proxy.address);
    for start in [GitServer::start, GitServer::start_with_tls] {
        let mut scene = GitFixture::with(start);
        let commit = scene
            .repository
            .commit("main", &[TestFile::plain("a", "1")])
            .unwrap();
        let certificate = scene.folder.path().join("certificate.pem");
        fs::write(&certificate, scene.server.certificate().unwrap_or_default()).unwrap();
        let certificate = certificate.to_str().unwrap().to_owned();
        let with = |more: &[(&str, &str)]| {
            let usual = [
                ("https_proxy", place.as_str()),
                ("HTTP_PROXY", &place),
                ("SSL_CERT_FILE", &certificate),
            ];
            client(&[&usual, more].concat()).unwrap()
        };

        scene.client = with(&[]);
        let origin = scene.server.origin("git.test");
        let url = format!("{origin}/repository.git");
        let main = Revision::parse("main").unwrap();
        let found = scene.ask_at(&url, |remote| remote.resolve(&main)).unwrap();
        assert_eq!(found.to_string(), commit);
        let asked = proxy.asked();
        let expected = format!(
            "CONNECT {} HTTP/1.1\r\n",
            origin.split_once("://").unwrap().1
        );
        assert!(
            !asked.is_empty() && asked.iter().all(|head| head.starts_with(&expected)),
            "{asked:?}"
        );
        assert!(
            asked
                .iter()
                .all(|head| head.to_lowercase().contains("proxy-authorization: basic")),
            "{asked:?}"
        );

        scene.client = with(&[("NO_PROXY", "example.com,127.0.0.0/8")]);
        assert_eq!(scene.resolve("main").unwrap().to_string(), commit);
        assert_eq!(proxy.asked(), [""; 0]);
    }
}

#[test]
fn git_unreachable_proxy_error_hides_password() {
    let mut scene = GitFixture::new();
    let gone = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    scene.client = client(&[("http_proxy", &format!("http://canary:canary@{gone}"))]).unwrap();
    let url = format!("{}/repository.git", scene.server.origin("git.test"));
    let main = Revision::parse("main").unwrap();
    let error = scene
        .ask_at(&url, |remote| remote.resolve(&main))
        .unwrap_err();
    assert!(matches!(error, GitError::Network { .. }), "{error:?}");
    assert!(!all_text(&error).contains("canary"), "{error:?}");
}

#[test]
fn git_ca_from_each_variable_is_trusted() {
    let mut scene = GitFixture::with(GitServer::start_with_tls);
    let commit = scene
        .repository
        .commit("main", &[TestFile::plain("a", "1")])
        .unwrap();
    let folder = scene.folder.path().join("certificates");
    fs::create_dir(&folder).unwrap();
    let file = folder.join("authority.pem");
    fs::write(&file, scene.server.certificate().unwrap()).unwrap();
    fs::write(folder.join("README"), "not a certificate").unwrap();
    let folders = format!("/nowhere:{}", folder.display());
    let file = file.to_str().unwrap();
    for variable in [
        ("SSL_CERT_FILE", file),
        ("GIT_SSL_CAINFO", file),
        ("SSL_CERT_DIR", &folders),
    ] {
        scene.client = client(&[variable]).unwrap();
        assert_eq!(
            scene.resolve("main").unwrap().to_string(),
            commit,
            "{variable:?}"
        );
    }
    scene.client = client(&[]).unwrap();
    let error = scene.resolve("main").unwrap_err();
    assert!(error.to_string().contains("SSL_CERT_FILE"), "{error}");
    assert!(client(&[("SSL_CERT_FILE", "/nowhere/file")]).is_ok());
    let error = client(&[("HTTPS_PROXY", "canary://canary@p")]).unwrap_err();
    assert!(error.to_string().contains("HTTPS_PROXY"), "{error}");
    assert!(!all_text(&error).contains("canary"), "{error:?}");
}

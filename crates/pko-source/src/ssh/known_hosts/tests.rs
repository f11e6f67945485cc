use std::fs;

use super::{sources::Files, *};

const ONE: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIO3jzfR9wNyDQggE4yRdZ/l9Q/yDbgEP9idvZ+G4/BIE";
const TWO: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";
const CURVE: &str = "AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBEmKSENjQEezOmxkZMy7opKgwFB9nkt5YRrYMjNuG5N87uRgg6CLrbo5wAdT/y6v0mKV0U2w0WZ2YB/++Tpockg=";

fn key(base64: &str) -> HostKey {
    HostKey::parse("ssh-ed25519", base64).unwrap()
}

fn read(text: &str) -> KnownHosts {
    KnownHosts::none().with_text("test", text)
}

fn is_known(text: &str, host: &str, port: u16) -> bool {
    read(text).judge(host, port, &key(ONE)) == Verdict::Known
}

#[test]
fn a_server_is_known_by_its_line() {
    let line = |names: &str| format!("{names} ssh-ed25519 {ONE} a comment of words\n");
    let table = [
        ("git.example.com", "git.example.com", 22, true),
        ("git.example.com", "GIT.example.com", 22, true),
        ("git.example.com", "example.com", 22, false),
        ("git.example.com,192.0.2.1", "192.0.2.1", 22, true),
        ("[git.example.com]:2222", "git.example.com", 2222, true),
        ("[git.example.com]:2222", "git.example.com", 22, false),
        ("[git.example.com]:2222", "git.example.com", 2223, false),
        // As OpenSSH does: the same key at another port is the same server.
        ("git.example.com", "git.example.com", 2222, true),
        (
            "*.example.com,!bad.example.com",
            "bad.example.com",
            22,
            false,
        ),
        (
            "*.example.com,!bad.example.com",
            "git.example.com",
            22,
            true,
        ),
        ("[::1]:2222", "::1", 2222, true),
        ("::1", "::1", 22, true),
        (
            "|1|azuujmUqTE1Ovk0PtN98ZV3z6sQ=|rWmK/lmEyOUyAYRpTwg9hPeiHpI=",
            "git.example.com",
            22,
            true,
        ),
        (
            "|1|0CMo/R9tsu5/Z/oOTDtOyrkOiII=|AEpKgtC5lgFA0ujfHuM7x2g6lpg=",
            "Git.Example.Com",
            2222,
            true,
        ),
    ];
    for (names, host, port, expected) in table {
        assert_eq!(
            is_known(&line(names), host, port),
            expected,
            "{names} {host}:{port}"
        );
    }
}

#[test]
fn lines_may_be_written_in_many_ways() {
    for text in [
        format!("a ssh-ed25519 {ONE}"),
        format!("  a\tssh-ed25519   {ONE}\r\n"),
        format!("# comment\n\n   \n#\na ssh-ed25519 {ONE}\n"),
        format!("a ssh-ed25519 {TWO}\na ssh-ed25519 {ONE}\n"),
    ] {
        let hosts = read(&text);
        assert_eq!(hosts.judge("a", 22, &key(ONE)), Verdict::Known, "{text}");
        assert_eq!(hosts.warnings(), [], "{text}");
    }
}

#[test]
fn bad_lines_are_skipped_and_named() {
    let text = format!(
        "a ssh-ed25519\n\
         a ssh-ed25519 AAAA\n\
         a ssh-rsa {ONE}\n\
         @cert-authority *.example.com ssh-ed25519 {ONE}\n\
         @unknown a ssh-ed25519 {ONE}\n\
         !a ssh-ed25519 {ONE}\n\
         a 2048 35 1234567\n\
         good ssh-ed25519 {ONE}\n"
    );
    let hosts = read(&text);
    let lines: Vec<_> = hosts
        .warnings()
        .iter()
        .map(|warning| warning.place.line)
        .collect();
    assert_eq!(lines, (1..=7).map(Some).collect::<Vec<_>>());
    let problems: Vec<_> = hosts
        .warnings()
        .iter()
        .map(|warning| &warning.problem)
        .collect();
    assert_eq!(problems[0], &Problem::Form);
    assert_eq!(problems[2], &Problem::Key("ssh-rsa".to_owned()));
    assert_eq!(problems[3], &Problem::CertificateAuthority);
    assert_eq!(problems[4], &Problem::Marker("@unknown".to_owned()));
    assert_eq!(problems[5], &Problem::Hosts);
    assert_eq!(
        hosts.warnings()[3].to_string(),
        "test, line 4 was skipped: @cert-authority is not supported: give the server's own key"
    );
    assert_eq!(hosts.judge("good", 22, &key(ONE)), Verdict::Known);
    assert_eq!(
        hosts.judge("git.example.com", 22, &key(ONE)),
        Verdict::Unknown
    );
}

#[test]
fn another_key_is_a_changed_one() {
    let hosts = read(&format!("\na ssh-ed25519 {TWO}\n"));
    let place = Place {
        source: "test".to_owned(),
        line: Some(2),
    };
    let verdict = hosts.judge("a", 22, &key(ONE));
    assert_eq!(verdict, Verdict::Changed(vec![(key(TWO), place)]));
    assert_eq!(hosts.judge("b", 22, &key(ONE)), Verdict::Unknown);
    // Another port may well be another server.
    assert_eq!(hosts.judge("a", 2222, &key(ONE)), Verdict::Unknown);
    // A key of another kind is no excuse.
    let hosts = read(&format!("a ecdsa-sha2-nistp256 {CURVE}\n"));
    assert!(matches!(
        hosts.judge("a", 22, &key(ONE)),
        Verdict::Changed(_)
    ));
}

#[test]
fn a_revoked_key_is_refused_wherever_it_is_known() {
    for text in [
        format!("a ssh-ed25519 {ONE}\n@revoked a ssh-ed25519 {ONE}\n"),
        format!("@revoked * ssh-ed25519 {ONE}\na ssh-ed25519 {ONE}\n"),
    ] {
        let verdict = read(&text).judge("a", 22, &key(ONE));
        assert!(matches!(verdict, Verdict::Revoked(_)), "{text}");
    }
    let hosts = read(&format!("@revoked github.com ssh-ed25519 {TWO}\n"));
    let hosts = hosts.with_text("built in", forges::KEYS);
    assert!(matches!(
        hosts.judge("github.com", 22, &key(TWO)),
        Verdict::Revoked(_)
    ));
    assert_eq!(hosts.algorithms("github.com", 22).len(), 3);
}

#[test]
fn a_given_key_replaces_those_after_it_for_its_server() {
    let hosts = read(&format!("github.com ssh-ed25519 {ONE}\n"));
    let hosts = hosts.with_text("built in", forges::KEYS);
    assert_eq!(hosts.judge("github.com", 22, &key(ONE)), Verdict::Known);
    assert!(matches!(
        hosts.judge("github.com", 22, &key(TWO)),
        Verdict::Changed(_)
    ));
    assert_eq!(hosts.algorithms("github.com", 22), ["ssh-ed25519"]);
    assert_eq!(hosts.algorithms("gitlab.com", 22).len(), 3);
    assert_eq!(hosts.algorithms("example.com", 22), [""; 0]);
}

/// What the forges publish, each on a page of its own:
/// - docs.github.com: GitHub's SSH key fingerprints
/// - docs.gitlab.com: GitLab.com settings, SSH host keys fingerprints
/// - support.atlassian.com: Configure SSH and two-step verification
/// - learn.microsoft.com: Use SSH key authentication (Azure Repos)
/// - docs.codeberg.org: Verifying you're connected to Codeberg
const PUBLISHED: &str = "\
github.com 22 SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU
github.com 22 SHA256:p2QAMXNIC1TJYWeIOttrVc98/R1BUFWu3/LiyKgUfQM
github.com 22 SHA256:uNiVztksCsDhcc0u9e8BujQXVUpKZIDTMczCvj3tD2s
ssh.github.com 443 SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU
ssh.github.com 443 SHA256:p2QAMXNIC1TJYWeIOttrVc98/R1BUFWu3/LiyKgUfQM
ssh.github.com 443 SHA256:uNiVztksCsDhcc0u9e8BujQXVUpKZIDTMczCvj3tD2s
gitlab.com 22 SHA256:eUXGGm1YGsMAS7vkcx6JOJdOGHPem5gQp4taiCfCLB8
gitlab.com 22 SHA256:HbW3g8zUjNSksFbqTiUWPWg2Bq1x8xdGUrliXFzSnUw
gitlab.com 22 SHA256:ROQFvPThGrW4RuWLoL9tq9I9zJ42fK4XywyRtbOz/EQ
bitbucket.org 22 SHA256:ybgmFkzwOSotHTHLJgHO0QN8L0xErw6vd0VhFA9m3SM
bitbucket.org 22 SHA256:FC73VB6C4OQLSCrjEayhMp9UMxS97caD/Yyi2bhW/J0
bitbucket.org 22 SHA256:46OSHA1Rmj8E8ERTC6xkNcmGOw9oFxYr0WF6zWW8l1E
ssh.dev.azure.com 22 SHA256:ohD8VZEXGWo6Ez8GSEJQ9WpafgLFsOfLOtGGQCQo6Og
vs-ssh.visualstudio.com 22 SHA256:ohD8VZEXGWo6Ez8GSEJQ9WpafgLFsOfLOtGGQCQo6Og
codeberg.org 22 SHA256:mIlxA9k46MmM6qdJOdMnAQpzGxF4WIVVL+fj+wZbw0g
codeberg.org 22 SHA256:T9FYDEHELhVkulEKKwge5aVhVTbqCW0MIRwAfpARs/E
codeberg.org 22 SHA256:6QQmYi4ppFS4/+zSZ5S4IU+4sa6rwvQ4PbhCtPEBekQ";

#[test]
fn the_built_in_keys_have_the_published_fingerprints() {
    let published = PUBLISHED.lines().map(|line| {
        let fields: Vec<_> = line.split(' ').collect();
        (fields[0], fields[1].parse().unwrap(), fields[2])
    });
    let hosts = KnownHosts::built_in();
    assert_eq!(hosts.warnings(), []);
    let mut confirmed = 0;
    for (host, port, fingerprint) in published {
        let known = hosts.deciding(&known_name(host, port));
        let same = |entry: &&&Entry| entry.key.fingerprint() == fingerprint;
        assert_eq!(known.iter().filter(same).count(), 1, "{host} {fingerprint}");
        confirmed += 1;
    }
    let names = forges::KEYS.lines().map(|line| {
        let names = line.split(' ').next().unwrap();
        names.split(',').count()
    });
    let names: usize = names.sum();
    assert_eq!(confirmed, names, "each key of each name is confirmed");
}

#[test]
fn files_come_between_the_secret_and_what_is_built_in() {
    let folder = tempfile::tempdir().unwrap();
    let ssh = folder.path().join(".ssh");
    fs::create_dir(&ssh).unwrap();
    fs::write(ssh.join("known_hosts"), format!("home ssh-ed25519 {ONE}\n")).unwrap();
    let listed = folder.path().join("listed");
    fs::write(&listed, format!("listed,both ssh-ed25519 {ONE}\n")).unwrap();
    let missing = folder.path().join("missing");

    let mut files = Files {
        variable: None,
        home: Some(folder.path().to_owned()),
        system: false,
    };
    let hosts = KnownHosts::load(None, &files);
    assert_eq!(hosts.judge("home", 22, &key(ONE)), Verdict::Known);
    assert_eq!(hosts.judge("github.com", 22, &key(TWO)), Verdict::Known);
    assert_eq!(hosts.warnings(), []);

    let nothing = std::path::PathBuf::new();
    files.variable = Some(env_list(&[&listed, &nothing, &missing]));
    let secret = format!("secret,both ssh-ed25519 {TWO}\n");
    let hosts = KnownHosts::load(Some(&secret), &files);
    assert_eq!(hosts.judge("home", 22, &key(ONE)), Verdict::Unknown);
    assert_eq!(hosts.judge("listed", 22, &key(ONE)), Verdict::Known);
    assert_eq!(hosts.judge("secret", 22, &key(TWO)), Verdict::Known);
    assert_eq!(
        hosts.judge("both", 22, &key(TWO)),
        Verdict::Known,
        "the Secret wins"
    );
    assert!(matches!(
        hosts.judge("both", 22, &key(ONE)),
        Verdict::Changed(_)
    ));
    let warnings: Vec<_> = hosts.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].contains("missing was skipped: it can't be read"),
        "{warnings:?}"
    );
}

fn env_list(paths: &[&std::path::PathBuf]) -> std::ffi::OsString {
    std::env::join_paths(paths).unwrap()
}

#[test]
fn a_text_without_an_end_is_not_read() {
    let long = format!("a ssh-ed25519 {ONE}\n").repeat(LONGEST_TEXT / 50);
    let hosts = read(&long);
    assert_eq!(hosts.judge("a", 22, &key(ONE)), Verdict::Unknown);
    assert_eq!(hosts.warnings()[0].problem, Problem::TooLong);
    let bad = "x\n".repeat(1000);
    assert_eq!(read(&bad).warnings().len(), MOST_WARNINGS);
}

use std::fs;

use super::{sources::KnownHostsFiles, *};

const ONE: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIO3jzfR9wNyDQggE4yRdZ/l9Q/yDbgEP9idvZ+G4/BIE";
const TWO: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";
const CURVE: &str = "AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBEmKSENjQEezOmxkZMy7opKgwFB9nkt5YRrYMjNuG5N87uRgg6CLrbo5wAdT/y6v0mKV0U2w0WZ2YB/++Tpockg=";

fn key(base64: &str) -> HostKey {
    HostKey::parse("ssh-ed25519", base64).unwrap()
}

fn read(text: &str) -> KnownHosts {
    KnownHosts::empty().with_text("test", text)
}

fn is_known(text: &str, host: &str, port: u16) -> bool {
    read(text).verify(host, port, &key(ONE)) == HostKeyVerdict::Trusted
}

#[test]
fn known_hosts_line_makes_server_known() {
    let line = |names: &str| format!("{names} ssh-ed25519 {ONE} a comment of words\n");
    let table = [
        ("git.example.com", "git.example.com", 22, true),
        ("git.example.com", "GIT.example.com", 22, true),
        ("git.example.com", "example.com", 22, false),
        ("git.example.com,192.0.2.1", "192.0.2.1", 22, true),
        ("[git.example.com]:2222", "git.example.com", 2222, true),
        ("[git.example.com]:2222", "git.example.com", 22, false),
        ("[git.example.com]:2222", "git.example.com", 2223, false),
        // As in OpenSSH, the same key on another port is the same server.
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
fn known_hosts_line_formatting_is_tolerated() {
    for text in [
        format!("a ssh-ed25519 {ONE}"),
        format!("  a\tssh-ed25519   {ONE}\r\n"),
        format!("# comment\n\n   \n#\na ssh-ed25519 {ONE}\n"),
        format!("a ssh-ed25519 {TWO}\na ssh-ed25519 {ONE}\n"),
    ] {
        let hosts = read(&text);
        assert_eq!(
            hosts.verify("a", 22, &key(ONE)),
            HostKeyVerdict::Trusted,
            "{text}"
        );
        assert_eq!(hosts.warnings(), [], "{text}");
    }
}

#[test]
fn known_hosts_invalid_lines_are_warnings() {
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
        .map(|warning| warning.location.line)
        .collect();
    assert_eq!(lines, (1..=7).map(Some).collect::<Vec<_>>());
    let problems: Vec<_> = hosts
        .warnings()
        .iter()
        .map(|warning| &warning.problem)
        .collect();
    assert_eq!(problems[0], &KnownHostsProblem::Form);
    assert_eq!(problems[2], &KnownHostsProblem::Key("ssh-rsa".to_owned()));
    assert_eq!(problems[3], &KnownHostsProblem::CertificateAuthority);
    assert_eq!(
        problems[4],
        &KnownHostsProblem::Marker("@unknown".to_owned())
    );
    assert_eq!(problems[5], &KnownHostsProblem::Hosts);
    assert_eq!(
        hosts.warnings()[3].to_string(),
        "test, line 4 was skipped: @cert-authority is not supported; use the server's own key"
    );
    assert_eq!(hosts.verify("good", 22, &key(ONE)), HostKeyVerdict::Trusted);
    assert_eq!(
        hosts.verify("git.example.com", 22, &key(ONE)),
        HostKeyVerdict::Unknown
    );
}

#[test]
fn known_hosts_other_key_is_changed() {
    let hosts = read(&format!("\na ssh-ed25519 {TWO}\n"));
    let location = KnownHostsLocation {
        source: "test".to_owned(),
        line: Some(2),
    };
    let verdict = hosts.verify("a", 22, &key(ONE));
    assert_eq!(verdict, HostKeyVerdict::Changed(vec![(key(TWO), location)]));
    assert_eq!(hosts.verify("b", 22, &key(ONE)), HostKeyVerdict::Unknown);
    // Another port may be another server.
    assert_eq!(hosts.verify("a", 2222, &key(ONE)), HostKeyVerdict::Unknown);
    // A key with another algorithm does not count.
    let hosts = read(&format!("a ecdsa-sha2-nistp256 {CURVE}\n"));
    assert!(matches!(
        hosts.verify("a", 22, &key(ONE)),
        HostKeyVerdict::Changed(_)
    ));
}

#[test]
fn known_hosts_revoked_key_is_rejected_in_any_layer() {
    for text in [
        format!("a ssh-ed25519 {ONE}\n@revoked a ssh-ed25519 {ONE}\n"),
        format!("@revoked * ssh-ed25519 {ONE}\na ssh-ed25519 {ONE}\n"),
    ] {
        let verdict = read(&text).verify("a", 22, &key(ONE));
        assert!(matches!(verdict, HostKeyVerdict::Revoked(_)), "{text}");
    }
    let hosts = read(&format!("@revoked github.com ssh-ed25519 {TWO}\n"));
    let hosts = hosts.with_text("built in", forges::KEYS);
    assert!(matches!(
        hosts.verify("github.com", 22, &key(TWO)),
        HostKeyVerdict::Revoked(_)
    ));
    assert_eq!(hosts.algorithms("github.com", 22).len(), 3);
}

#[test]
fn known_hosts_first_layer_decides() {
    let hosts = read(&format!("github.com ssh-ed25519 {ONE}\n"));
    let hosts = hosts.with_text("built in", forges::KEYS);
    assert_eq!(
        hosts.verify("github.com", 22, &key(ONE)),
        HostKeyVerdict::Trusted
    );
    assert!(matches!(
        hosts.verify("github.com", 22, &key(TWO)),
        HostKeyVerdict::Changed(_)
    ));
    assert_eq!(hosts.algorithms("github.com", 22), ["ssh-ed25519"]);
    assert_eq!(hosts.algorithms("gitlab.com", 22).len(), 3);
    assert_eq!(hosts.algorithms("example.com", 22), [""; 0]);
}

/// Fingerprints that the forges publish:
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
fn known_hosts_built_in_keys_match_published_fingerprints() {
    let published = PUBLISHED.lines().map(|line| {
        let fields: Vec<_> = line.split(' ').collect();
        (fields[0], fields[1].parse().unwrap(), fields[2])
    });
    let hosts = KnownHosts::built_in();
    assert_eq!(hosts.warnings(), []);
    let mut confirmed = 0;
    for (host, port, fingerprint) in published {
        let known = hosts.trusted_entries(&known_hosts_name(host, port));
        let same = |entry: &&&KnownHostsEntry| entry.key.fingerprint() == fingerprint;
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
fn known_hosts_files_are_between_secret_and_built_in() {
    let folder = tempfile::tempdir().unwrap();
    let ssh = folder.path().join(".ssh");
    fs::create_dir(&ssh).unwrap();
    fs::write(ssh.join("known_hosts"), format!("home ssh-ed25519 {ONE}\n")).unwrap();
    let listed = folder.path().join("listed");
    fs::write(&listed, format!("listed,both ssh-ed25519 {ONE}\n")).unwrap();
    let missing = folder.path().join("missing");

    let mut files = KnownHostsFiles {
        variable: None,
        home: Some(folder.path().to_owned()),
        system: false,
    };
    let hosts = KnownHosts::load(None, &files);
    assert_eq!(hosts.verify("home", 22, &key(ONE)), HostKeyVerdict::Trusted);
    assert_eq!(
        hosts.verify("github.com", 22, &key(TWO)),
        HostKeyVerdict::Trusted
    );
    assert_eq!(hosts.warnings(), []);

    let nothing = std::path::PathBuf::new();
    files.variable = Some(env_list(&[&listed, &nothing, &missing]));
    let secret = format!("secret,both ssh-ed25519 {TWO}\n");
    let hosts = KnownHosts::load(Some(&secret), &files);
    assert_eq!(hosts.verify("home", 22, &key(ONE)), HostKeyVerdict::Unknown);
    assert_eq!(
        hosts.verify("listed", 22, &key(ONE)),
        HostKeyVerdict::Trusted
    );
    assert_eq!(
        hosts.verify("secret", 22, &key(TWO)),
        HostKeyVerdict::Trusted
    );
    assert_eq!(
        hosts.verify("both", 22, &key(TWO)),
        HostKeyVerdict::Trusted,
        "the Secret wins"
    );
    assert!(matches!(
        hosts.verify("both", 22, &key(ONE)),
        HostKeyVerdict::Changed(_)
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
fn known_hosts_oversized_text_is_skipped() {
    let long = format!("a ssh-ed25519 {ONE}\n").repeat(MAX_TEXT_BYTES / 50);
    let hosts = read(&long);
    assert_eq!(hosts.verify("a", 22, &key(ONE)), HostKeyVerdict::Unknown);
    assert_eq!(hosts.warnings()[0].problem, KnownHostsProblem::TooLong);
    let bad = "x\n".repeat(1000);
    assert_eq!(read(&bad).warnings().len(), MAX_WARNINGS);
}

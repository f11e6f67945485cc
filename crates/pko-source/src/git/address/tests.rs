use super::*;

fn parsed(text: &str) -> Address {
    Address::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> AddressError {
    match Address::parse(text) {
        Ok(address) => panic!("{text} is {address}"),
        Err(error) => error,
    }
}

#[test]
fn address_formats_of_forges_are_parsed() {
    for line in [
        "https://github.com/org/repo https github.com 443 /org/repo",
        "https://github.com/org/repo.git https github.com 443 /org/repo.git",
        "https://gitlab.com/group/sub/sub/r.git https gitlab.com 443 /group/sub/sub/r.git",
        "https://o@dev.azure.com/o/p/_git/r https dev.azure.com 443 /o/p/_git/r",
        "https://gist.github.com/owner/0123.git https gist.github.com 443 /owner/0123.git",
        "http://gitea.svc.cluster.local:3000/o/r http gitea.svc.cluster.local 3000 /o/r",
        "http://git-server/repo.git http git-server 80 /repo.git",
        "HTTPS://GitHub.com/Org/Repo https github.com 443 /Org/Repo",
        "https://[2001:db8::1]:8443/r.git https 2001:db8::1 8443 /r.git",
        "https://host:/r.git https host 443 /r.git",
        "ssh://git@github.com/org/repo.git ssh github.com 22 /org/repo.git",
        "ssh://git@host:2222/org/repo.git ssh host 2222 /org/repo.git",
        "ssh://me@host/~me/repo.git ssh host 22 ~me/repo.git",
        "git@github.com:org/repo.git ssh github.com 22 org/repo.git",
        "git@ssh.dev.azure.com:v3/o/p/r ssh ssh.dev.azure.com 22 v3/o/p/r",
        "host:/srv/repo.git ssh host 22 /srv/repo.git",
        "git@[::1]:repo.git ssh ::1 22 repo.git",
    ] {
        let (text, expected) = line.split_once(' ').unwrap();
        let address = parsed(text);
        let (scheme, host) = (address.scheme().name(), address.host());
        let found = format!("{scheme} {host} {} {}", address.port(), address.path());
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn address_invalid_text_is_rejected() {
    for text in [
        "file:///srv/repo.git",
        "git://host/r",
        "ext::sh -c id",
        "fd::3",
        "ftp://h/r",
        "://h/r",
    ] {
        assert!(matches!(refused(text), AddressError::Scheme(_)), "{text}");
    }
    assert_eq!(
        refused("file:///srv/repo.git").to_string(),
        "invalid URL scheme: file; use https, http or ssh"
    );
    for text in ["", "/srv/repo.git", "./repo", "../repo:x", "repo", "a/b:c"] {
        assert_eq!(refused(text), AddressError::NotAnAddress, "{text}");
    }
    for text in [
        "https:///r",
        "ssh://git@/r",
        "git@:r",
        "https://user:password@/r",
    ] {
        assert_eq!(refused(text), AddressError::NoHost, "{text}");
    }
    for text in [
        "https://ho st/r",
        "https://hóst/r",
        "https://[::1/r",
        "https://[::1]x/r",
        "https://a%2fb/r",
        "https://./r",
    ] {
        assert_eq!(refused(text), AddressError::Host, "{text}");
    }
    for text in [
        "https://h:0/r",
        "https://h:65536/r",
        "https://h:+1/r",
        "https://h:x/r",
    ] {
        assert_eq!(refused(text), AddressError::Port, "{text}");
    }
    for text in [
        "https://h",
        "https://h/",
        "https://h//",
        "git@h:",
        "git@h:/",
    ] {
        assert_eq!(refused(text), AddressError::NoPath, "{text}");
    }
    for text in [
        "ssh://-oProxyCommand=id/r",
        "git@-oProxyCommand:r",
        "git@h:-option",
        "ssh://-o@h/r",
    ] {
        assert!(
            matches!(refused(text), AddressError::OptionLike(_)),
            "{text}"
        );
    }
    for text in [
        "https://h/r\ninjected",
        "https://h/\0",
        "https://us%0aer@h/r",
        "https://u:p%00@h/r",
    ] {
        assert_eq!(refused(text), AddressError::ControlCharacter, "{text:?}");
    }
    for text in ["https://h/r?ref=main", "https://h/r#main"] {
        assert_eq!(refused(text), AddressError::QueryOrFragment, "{text}");
    }
    assert_eq!(refused("https://u%zz@h/r"), AddressError::Encoding("user"));
}

#[test]
fn address_credentials_are_never_printed() {
    let address = parsed("https://canary-user:canary%40%2Fpassword@host:8443/org/repo.git");
    assert_eq!(address.user(), Some("canary-user"));
    assert_eq!(address.password(), Some("canary@/password"));
    assert_eq!(address.to_string(), "https://host:8443/org/repo.git");
    assert_eq!(
        format!("{address:?}"),
        "Address(https://host:8443/org/repo.git)"
    );

    let token = parsed("https://canary@host/r");
    assert_eq!((token.user(), token.password()), (Some("canary"), None));
    assert_eq!(token.to_string(), "https://host/r");
}

#[test]
fn address_ssh_user_is_printed() {
    assert_eq!(parsed("git@host:r.git").to_string(), "git@host:r.git");
    assert_eq!(
        parsed("ssh://git@host:22/r.git").to_string(),
        "ssh://git@host:22/r.git"
    );
    assert_eq!(
        parsed("ssh://git:canary@host/r.git").to_string(),
        "ssh://git@host/r.git"
    );
}

#[test]
fn address_path_is_kept_in_requests() {
    let url = |text| parsed(text).http_url("/info/refs");
    assert_eq!(url("https://u:p@h/r.git"), "https://h/r.git/info/refs");
    assert_eq!(url("https://h/r.git/"), "https://h/r.git/info/refs");
    assert_eq!(
        url("http://[::1]:80/My%20Project/_git/r"),
        "http://[::1]:80/My%20Project/_git/r/info/refs"
    );
    assert_eq!(
        url("http://h/My Project/é"),
        "http://h/My%20Project/%C3%A9/info/refs"
    );
}

#[test]
fn address_relative_stays_on_server() {
    let base = parsed("https://u:p@host/org/repo.git");
    assert_eq!(
        base.relative("../other.git").unwrap().to_string(),
        "https://host/org/other.git"
    );
    assert_eq!(
        base.relative("./inner.git").unwrap().to_string(),
        "https://host/org/repo.git/inner.git"
    );
    assert_eq!(
        base.relative("../../other/o.git").unwrap().to_string(),
        "https://host/other/o.git"
    );
    assert_eq!(base.relative("../../../x"), Err(AddressError::NoPath));
    let scp = parsed("git@host:org/repo.git");
    assert_eq!(
        scp.relative("../other.git").unwrap().to_string(),
        "git@host:org/other.git"
    );
    assert_eq!(
        scp.relative("../../-option"),
        Err(AddressError::OptionLike("path"))
    );
}

#[test]
fn address_redirect_drops_credentials() {
    let base = parsed("https://u:p@host/r");
    let moved = |location| base.redirected(location, "/info/refs");
    let same = moved("/r.git/info/refs").unwrap();
    assert_eq!(
        (same.to_string().as_str(), same.user()),
        ("https://host/r.git", Some("u"))
    );
    let other = moved("https://a:b@other/r.git/info/refs").unwrap();
    assert_eq!(
        (other.to_string().as_str(), other.user()),
        ("https://other/r.git", None)
    );
    assert_eq!(moved("https://other/login"), None);
    assert_eq!(moved("ssh://other/r/info/refs"), None);
    assert_eq!(moved("file:///r/info/refs"), None);
}

/// Found by fuzzing: an accepted address was printed as one that is rejected.
#[test]
fn address_with_colons_in_path_is_not_a_helper() {
    for (text, printed) in [("host:a::b", "host:a::b"), ("@R:P`::@", "r:P`::@")] {
        let address = Address::parse(text).unwrap();
        assert_eq!(address.to_string(), printed);
        assert_eq!(Address::parse(printed).unwrap().path(), address.path());
    }
    assert!(matches!(
        Address::parse("ext::sh -c id"),
        Err(AddressError::Scheme(_))
    ));
}

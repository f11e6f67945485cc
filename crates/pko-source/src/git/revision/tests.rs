use super::*;

fn references() -> References {
    References::of(&[
        ("HEAD", "1", None),
        ("refs/heads/main", "1", None),
        ("refs/heads/both", "2", None),
        ("refs/tags/both", "3", None),
        ("refs/tags/v1", "4", Some("5")),
        ("refs/pull/7/head", "6", None),
        ("refs/heads/deadbeef", "7", None),
        ("refs/heads/feature/a", "8", None),
        ("refs/heads/refs/heads/main", "9", None),
    ])
}

fn commit(text: &str) -> String {
    Revision::parse(text)
        .unwrap()
        .resolve(&references())
        .unwrap()
        .to_string()
}

fn failure(text: &str) -> String {
    Revision::parse(text)
        .and_then(|revision| revision.resolve(&references()))
        .unwrap_err()
        .to_string()
}

#[test]
fn revision_names_resolve_by_precedence() {
    for (text, digit) in [
        ("HEAD", "1"),
        ("main", "1"),
        (" main\n", "1"),
        ("heads/main", "1"),
        ("refs/heads/main", "1"),
        ("both", "2"),
        ("heads/both", "2"),
        ("tags/both", "3"),
        ("refs/tags/both", "3"),
        ("v1", "5"),
        ("refs/tags/v1", "5"),
        ("pull/7/head", "6"),
        ("refs/pull/7/head", "6"),
        ("deadbeef", "7"),
        ("feature/a", "8"),
    ] {
        assert_eq!(commit(text), digit.repeat(40), "{text}");
    }
}

#[test]
fn revision_full_hash_needs_no_reference() {
    for text in [
        "a".repeat(40),
        "A".repeat(40),
        "0123456789".repeat(4),
        "b".repeat(64),
    ] {
        let revision = Revision::parse(&text).unwrap();
        assert_eq!(revision.commit().unwrap().to_string(), text.to_lowercase());
        assert!(revision.candidates().is_empty());
        assert_eq!(commit(&text), text.to_lowercase());
    }
}

#[test]
fn revision_not_found_suggests_a_name() {
    assert_eq!(
        failure("refs/head/main"),
        r#"no commits found for ref "refs/head/main"; did you mean "refs/heads/main"?"#
    );
    assert_eq!(
        failure("mian"),
        r#"no commits found for ref "mian"; did you mean "main"?"#
    );
    assert_eq!(
        failure("nothing-like-it"),
        r#"no commits found for ref "nothing-like-it""#
    );
    assert_eq!(
        failure("0123abc"),
        r#"no commits found for ref "0123abc"; if it is an abbreviated commit, use all 40 digits"#
    );
    let empty = References {
        empty_repository: true,
        ..References::default()
    };
    assert_eq!(
        Revision::parse("main")
            .unwrap()
            .resolve(&empty)
            .unwrap_err()
            .to_string(),
        r#"no commits found for ref "main"; the repository is empty"#
    );
}

#[test]
fn revision_invalid_name_is_rejected() {
    for text in [
        "",
        " ",
        "-",
        "--upload-pack=id",
        "a b",
        "a..b",
        "a~1",
        "a^",
        "a:b",
        "a?",
        "a*",
        "a[",
        "a\\b",
        "a.lock",
        "/a",
        "a/",
        "a//b",
        ".a",
        "a\nb",
        "a\0",
        "@{1}",
        "a@{u}",
    ] {
        let invalid = matches!(Revision::parse(text), Err(RevisionError::Invalid { .. }));
        assert!(invalid, "{text:?}");
    }
    assert!(Revision::parse(&"a/".repeat(1000)).is_err());
}

#[test]
fn revision_candidates_have_fixed_order() {
    assert_eq!(
        Revision::parse("x").unwrap().candidates(),
        ["refs/heads/x", "refs/tags/x", "refs/x", "refs/remotes/x"]
    );
}

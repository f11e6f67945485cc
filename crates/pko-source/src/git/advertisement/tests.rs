use super::*;
use crate::git::pkt_line::{push_flush, push_line};

fn message(lines: &[&str]) -> Vec<u8> {
    let mut message = Vec::new();
    for line in lines {
        match *line {
            "" => push_flush(&mut message),
            line => push_line(&mut message, line),
        }
    }
    message
}

fn seen(lines: &[&str]) -> Result<(Capabilities, Vec<String>), ProtocolError> {
    let mut seen = Vec::new();
    let capabilities = read(&message(lines)[..], &mut |each: &AdvertisedReference<
        '_,
    >| {
        let short = |id: ObjectId| id.to_hex_with_len(2).to_string();
        let peeled = each.peeled.map(short);
        seen.push(format!(
            "{} {} {peeled:?} {:?}",
            each.name,
            short(each.id),
            each.symbolic
        ));
        Ok(())
    })?;
    Ok((capabilities, seen))
}

fn line(digit: char, rest: &str) -> String {
    format!("{} {rest}", digit.to_string().repeat(40))
}

#[test]
fn advertisement_v0_lists_references() {
    let head = line(
        '1',
        "HEAD\0side-band-64k symref=HEAD:refs/heads/main agent=git/1",
    );
    let (main, tag, of) = (
        line('1', "refs/heads/main"),
        line('2', "refs/tags/v1"),
        line('3', "refs/tags/v1^{}"),
    );
    let (capabilities, seen) =
        seen(&["# service=git-upload-pack", "", &head, &main, &tag, &of, ""]).unwrap();
    assert_eq!(capabilities.version(), Version::V0OrV1);
    assert!(capabilities.has("side-band-64k") && !capabilities.has("side-band"));
    assert_eq!(
        seen,
        [
            r#"HEAD 11 None Some("refs/heads/main")"#,
            "refs/heads/main 11 None None",
            r#"refs/tags/v1 22 Some("33") None"#,
        ]
    );
}

#[test]
fn advertisement_v2_lists_capabilities() {
    let (capabilities, seen) = seen(&[
        "version 2",
        "ls-refs=unborn",
        "fetch=shallow filter",
        "object-format=sha256",
        "",
    ])
    .unwrap();
    assert_eq!(capabilities.version(), Version::V2);
    assert!(
        capabilities.has_word("fetch", "shallow")
            && !capabilities.has_word("fetch", "sideband-all")
    );
    assert_eq!(capabilities.hash().unwrap(), gix_hash::Kind::Sha256);
    assert!(seen.is_empty());
}

#[test]
fn advertisement_of_empty_repository_has_no_references() {
    let (_, none) = seen(&[&line('0', "capabilities^{}\0agent=git/1"), ""]).unwrap();
    assert!(none.is_empty());
    let (_, none) = seen(&["# service=git-upload-pack", "", ""]).unwrap();
    assert!(none.is_empty());
}

#[test]
fn advertisement_skips_invalid_names() {
    let (_, left) = seen(&[
        &line('1', "refs/heads/../../etc\0"),
        &line('2', "refs/heads/a b"),
        &line('3', "refs/heads/good"),
        &line('4', "refs/heads/bad.lock"),
        &line('5', "refs/heads/bad.lock^{}"),
        "",
    ])
    .unwrap();
    assert_eq!(left, ["refs/heads/good 33 None None"]);
}

#[test]
fn advertisement_truncated_or_refused_is_an_error() {
    assert!(matches!(
        seen(&[&line('1', "HEAD\0")]),
        Err(ProtocolError::Problem(_))
    ));
    assert!(
        matches!(seen(&["ERR access denied", ""]), Err(ProtocolError::Refused(words)) if words == b"access denied")
    );
    assert!(matches!(
        seen(&["<html>", ""]),
        Err(ProtocolError::Problem(_))
    ));
    assert!(read(&b""[..], &mut |_: &AdvertisedReference<'_>| Ok(())).is_err());
}

#[test]
fn ls_refs_lines_are_parsed() {
    let mut seen = Vec::new();
    let mut visit = |each: &AdvertisedReference<'_>| {
        seen.push((
            each.name.to_owned(),
            each.peeled.is_some(),
            each.symbolic.map(str::to_owned),
        ));
        Ok(())
    };
    for rest in [
        "HEAD symref-target:refs/heads/main",
        "refs/tags/v1 peeled:1111111111111111111111111111111111111111",
    ] {
        read_ls_refs_line(line('2', rest).as_bytes(), &mut visit).unwrap();
    }
    read_ls_refs_line(b"unborn HEAD symref-target:refs/heads/main", &mut visit).unwrap();
    assert!(read_ls_refs_line(b"nonsense", &mut visit).is_err());
    assert_eq!(
        seen,
        [
            ("HEAD".to_owned(), false, Some("refs/heads/main".to_owned())),
            ("refs/tags/v1".to_owned(), true, None),
        ]
    );
}

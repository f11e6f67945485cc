//! The addresses of Programs' generations.

/// The first segment of the path, which is upstream's.
pub const FOLDER: &str = "programs";

/// The path of a generation's archive in the status.
pub(super) fn path(namespace: &str, name: &str, generation: i64) -> String {
    format!("{FOLDER}/{namespace}/{name}/{generation}.tar.gz")
}

/// The address of a generation for workspaces. A seal is one more segment, which cannot be guessed.
pub(super) fn url(
    advertised: &str,
    namespace: &str,
    name: &str,
    generation: i64,
    seal: Option<&str>,
) -> String {
    let server = with_scheme(advertised);
    let address = format!("{server}/{FOLDER}/{namespace}/{name}/{generation}");
    seal.map_or(address.clone(), |seal| format!("{address}/{seal}"))
}

/// The generation in an address of this Program, on any server, with or without a seal.
#[must_use]
pub fn generation_at(url: &str, namespace: &str, name: &str) -> Option<i64> {
    let (found_namespace, found_name, generation) = program_at(url)?;
    (found_namespace == namespace && found_name == name).then_some(generation)
}

/// The namespace, the name and the generation of the Program in an address.
#[must_use]
pub fn program_at(url: &str) -> Option<(&str, &str, i64)> {
    let (_, identifier) = url.split_once(&format!("/{FOLDER}/"))?;
    let mut segments = identifier.split('/');
    let (namespace, name) = (segments.next()?, segments.next()?);
    Some((namespace, name, segments.next()?.parse().ok()?))
}

fn with_scheme(advertised: &str) -> String {
    let address = advertised.trim_end_matches('/');
    if address.starts_with("http://") || address.starts_with("https://") {
        address.to_owned()
    } else {
        format!("http://{address}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn address_has_a_scheme() {
        for (advertised, expected) in [
            (
                "operator.svc:9090",
                "http://operator.svc:9090/programs/a/b/3",
            ),
            ("http://operator", "http://operator/programs/a/b/3"),
            ("https://operator/", "https://operator/programs/a/b/3"),
            ("127.0.0.1:1/", "http://127.0.0.1:1/programs/a/b/3"),
        ] {
            assert_eq!(url(advertised, "a", "b", 3, None), expected);
        }
    }

    #[test]
    fn seal_is_the_last_segment() {
        assert_eq!(
            url("operator", "a", "b", 3, Some("seal")),
            "http://operator/programs/a/b/3/seal"
        );
        assert_eq!(path("a", "b", 3), "programs/a/b/3.tar.gz");
    }

    #[test]
    fn foreign_address_has_no_generation() {
        for other in [
            "",
            "http://flux/gitrepository/a/b/3.tar.gz",
            "http://operator/programs/a/c/3",
            "http://operator/programs/b/b/3",
            "http://operator/programs/a/b",
            "http://operator/programs/a/b/x",
            "http://operator/programs/a/b/3.tar.gz",
            "programs/a/b/3",
        ] {
            assert_eq!(generation_at(other, "a", "b"), None, "{other}");
        }
    }

    proptest! {
        /// Every address is parsed back.
        #[test]
        fn address_is_parsed_back(
            server in "(https?://)?[a-z.]{1,8}(:[0-9]{1,4})?/?", namespace in "[a-z-]{1,8}",
            name in "[a-z.-]{1,8}", generation in 0_i64.., seal in prop::option::of("[0-9a-f]{8}"),
        ) {
            let url = url(&server, &namespace, &name, generation, seal.as_deref());
            prop_assert_eq!(generation_at(&url, &namespace, &name), Some(generation));
            prop_assert_eq!(generation_at(&url, "other0", &name), None);
        }
    }
}

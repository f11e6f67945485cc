//! Decides whether a symbolic link leads out of the repository. Does no I/O.
//!
//! The target alone is not sufficient: `a -> b/c/..` looks harmless, but leads out if `b/c` is a
//! link to `..`. So links are resolved as the kernel does, with the other links of the commit.

use std::collections::HashMap;

/// Linux gives up after 40.
const MOST_FOLLOWED: usize = 64;

/// Whether the link leaves the folder at any step of its resolution.
pub(in super::super) fn leads_out(path: &[u8], links: &HashMap<&[u8], &[u8]>) -> bool {
    let mut place: Vec<&[u8]> = Vec::new();
    let mut left: Vec<&[u8]> = parts(path).collect();
    let mut followed = 0;
    while let Some(part) = left.pop() {
        match part {
            b"" | b"." => continue,
            b".." => {
                if place.pop().is_none() {
                    return true;
                }
                continue;
            }
            name => place.push(name),
        }
        let Some(target) = links.get(place.join(&b'/').as_slice()) else {
            continue;
        };
        followed += 1;
        if followed > MOST_FOLLOWED {
            return false;
        }
        if target.starts_with(b"/") {
            return true;
        }
        place.pop();
        left.extend(parts(target));
    }
    false
}

/// In reverse order.
fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.rsplit(|byte| *byte == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outward(links: &[(&str, &str)]) -> Vec<String> {
        let by_path: HashMap<&[u8], &[u8]> = links
            .iter()
            .map(|(path, target)| (path.as_bytes(), target.as_bytes()))
            .collect();
        links
            .iter()
            .filter(|(path, _)| leads_out(path.as_bytes(), &by_path))
            .map(|(path, _)| (*path).to_owned())
            .collect()
    }

    #[test]
    fn links_within_repository_are_accepted() {
        let none: [&str; 0] = [];
        for links in [
            &[("a", "b")][..],
            &[("a/b/c", "../../d")],
            &[("a/b/c", "../..")],
            &[("a", "./b/../c")],
            &[("a", "b"), ("b", "c/d")],
            &[("a", "a")],
            &[("a", "b"), ("b", "a")],
            &[("a", ".")],
            &[("node_modules/.bin/x", "../x/bin")],
        ] {
            assert_eq!(outward(links), none, "{links:?}");
        }
    }

    #[test]
    fn links_leading_out_are_detected() {
        for (links, which) in [
            (&[("a", "/etc/passwd")][..], &["a"][..]),
            (&[("a", "..")], &["a"]),
            (&[("a", "../x")], &["a"]),
            (&[("a/b", "../../x")], &["a/b"]),
            (&[("a", "b/../../x")], &["a"]),
            // Each target looks harmless on its own.
            (&[("b/c", ".."), ("a", "b/c/../x")], &["a"]),
            (&[("d/l", ".."), ("x", "d/l/..")], &["x"]),
            (&[("a", "b"), ("b", "../x")], &["a", "b"]),
            // Out and back in.
            (&[("a", "../repository/x")], &["a"]),
        ] {
            assert_eq!(outward(links), which, "{links:?}");
        }
    }
}

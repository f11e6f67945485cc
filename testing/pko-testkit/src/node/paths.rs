//! Maps a container's paths to paths of this machine.

use std::path::PathBuf;

/// Which folders of this machine stand for the paths of a container.
#[derive(Clone, Debug, Default)]
pub(super) struct Paths(Vec<(String, PathBuf)>);

impl Paths {
    /// From the paths that the container sees to the ones that are there.
    pub(super) fn new(mut paths: Vec<(String, PathBuf)>) -> Self {
        for (seen, _) in &mut paths {
            *seen = seen.trim_end_matches('/').to_owned();
        }
        paths.retain(|(seen, _)| seen.starts_with('/'));
        // A mount inside of another one wins
        paths.sort_by_key(|(seen, _)| std::cmp::Reverse(seen.len()));
        Self(paths)
    }

    /// A text in which each path of the container is the one on this machine, also in the middle of
    /// a script or behind `file://`.
    pub(super) fn rewrite(&self, text: &str) -> String {
        let mut result = String::new();
        let mut rest = text;
        while let Some(slash) = rest.find('/') {
            let (before, from_slash) = rest.split_at(slash);
            result.push_str(before);
            if let Some((real, after)) = self.mount_at(&result, from_slash) {
                result.push_str(&real);
                rest = after;
            } else {
                result.push('/');
                rest = from_slash.get(1..).unwrap_or_default();
            }
        }
        result + rest
    }

    fn mount_at<'a>(&self, before: &str, text: &'a str) -> Option<(String, &'a str)> {
        let begins = before.ends_with("://") || !before.ends_with(is_part_of_a_path);
        if !begins {
            return None;
        }
        self.0.iter().find_map(|(seen, real)| {
            let after = text.strip_prefix(seen)?;
            let ends = after.starts_with('/') || !after.starts_with(is_part_of_a_path);
            ends.then(|| (real.display().to_string(), after))
        })
    }
}

fn is_part_of_a_path(character: char) -> bool {
    character.is_alphanumeric() || "/._-".contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_below_mounts_are_rewritten() {
        let paths = Paths::new(vec![
            ("/share".into(), "/pod/share".into()),
            ("/share/keys/".into(), "/pod/keys".into()),
            ("relative".into(), "/never".into()),
        ]);
        let table = [
            ("/share", "/pod/share"),
            ("/share/agent", "/pod/share/agent"),
            ("/share/keys/a", "/pod/keys/a"),
            ("/shared", "/shared"),
            ("/other/share", "/other/share"),
            ("https://example.com/share/x", "https://example.com/share/x"),
            ("file:///share/state", "file:///pod/share/state"),
            ("--to=/share", "--to=/pod/share"),
            ("cat /share/a >/share/b", "cat /pod/share/a >/pod/share/b"),
            ("'/share'", "'/pod/share'"),
            ("/a:/share:/b", "/a:/pod/share:/b"),
            ("relative", "relative"),
            ("", ""),
        ];
        for (text, expected) in table {
            assert_eq!(paths.rewrite(text), expected, "{text}");
        }
    }
}

//! Finds the most similar of many names, for "did you mean". Does no I/O.

/// Longer names are ignored, which bounds the work.
const MAX_NAME_BYTES: usize = 128;

/// Keeps the most similar name seen so far.
#[derive(Debug)]
pub(super) struct SimilarName {
    wanted: Vec<u8>,
    match_full_names: bool,
    best: Option<(usize, String)>,
    max_distance: usize,
    rows: [Vec<usize>; 3],
}

impl SimilarName {
    pub(super) fn new(wanted: &str) -> Self {
        // Users who think of a clone write `origin/main`.
        let wanted = wanted
            .strip_prefix("refs/remotes/origin/")
            .or_else(|| wanted.strip_prefix("origin/"))
            .unwrap_or(wanted);
        let wanted = wanted.get(..MAX_NAME_BYTES).unwrap_or(wanted);
        let length = wanted.len();
        Self {
            wanted: wanted.to_ascii_lowercase().into_bytes(),
            match_full_names: wanted.starts_with("refs/") || wanted.starts_with("ref/"),
            best: None,
            max_distance: if length < 3 {
                1
            } else {
                (length / 4).clamp(2, 5)
            },
            rows: Default::default(),
        }
    }

    pub(super) fn consider(&mut self, full_name: &str) {
        let name = if self.match_full_names {
            full_name
        } else {
            short_name(full_name)
        };
        if name.len() > MAX_NAME_BYTES || name.len().abs_diff(self.wanted.len()) > self.max_distance
        {
            return;
        }
        let limit = match &self.best {
            Some((0, _)) => return,
            Some((distance, _)) => distance - 1,
            None => self.max_distance,
        };
        if let Some(distance) = self.distance(name.as_bytes(), limit) {
            self.best = Some((distance, name.to_owned()));
        }
    }

    pub(super) fn into_best(self) -> Option<String> {
        self.best.map(|(_, name)| name)
    }

    /// The Damerau-Levenshtein distance, ignoring case. Returns `None` above the limit.
    fn distance(&mut self, name: &[u8], limit: usize) -> Option<usize> {
        let wanted = &self.wanted;
        let [before, previous, current] = &mut self.rows;
        *previous = (0..=wanted.len()).collect();
        let mut last = 0;
        for (row, letter) in name.iter().map(u8::to_ascii_lowercase).enumerate() {
            current.clear();
            current.push(row + 1);
            let mut left = row + 1;
            let mut above_wanted = 0;
            let pairs = previous.iter().zip(previous.iter().skip(1)).zip(wanted);
            for (column, ((diagonal, above), wanted_letter)) in pairs.enumerate() {
                let changed = diagonal + usize::from(letter != *wanted_letter);
                let mut cost = changed.min(above + 1).min(left + 1);
                if row > 0 && column > 0 && letter == above_wanted && last == *wanted_letter {
                    let swapped = before.get(column - 1).map_or(usize::MAX, |cost| cost + 1);
                    cost = cost.min(swapped);
                }
                current.push(cost);
                left = cost;
                above_wanted = *wanted_letter;
            }
            if current.iter().min().is_some_and(|least| *least > limit) {
                return None;
            }
            last = letter;
            std::mem::swap(before, previous);
            std::mem::swap(previous, current);
        }
        previous
            .last()
            .copied()
            .filter(|distance| *distance <= limit)
    }
}

fn short_name(full_name: &str) -> &str {
    ["refs/heads/", "refs/tags/", "refs/"]
        .iter()
        .find_map(|prefix| full_name.strip_prefix(prefix))
        .unwrap_or(full_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nearest(wanted: &str, names: &[&str]) -> Option<String> {
        let mut nearest = SimilarName::new(wanted);
        for name in names {
            nearest.consider(name);
        }
        nearest.into_best()
    }

    #[test]
    fn similar_name_finds_typos() {
        let names = [
            "HEAD",
            "refs/heads/main",
            "refs/heads/feature/login",
            "refs/tags/v1.2.3",
            "refs/pull/1/head",
        ];
        for (wanted, found) in [
            ("mian", Some("main")),
            ("Main", Some("main")),
            ("man", Some("main")),
            ("origin/main", Some("main")),
            ("refs/head/main", Some("refs/heads/main")),
            ("ref/heads/main", Some("refs/heads/main")),
            ("v1.2.4", Some("v1.2.3")),
            ("feature/logn", Some("feature/login")),
            ("head", Some("HEAD")),
            ("completely-different", None),
            ("x", None),
        ] {
            assert_eq!(nearest(wanted, &names).as_deref(), found, "{wanted}");
        }
    }

    #[test]
    fn similar_name_prefers_first_of_equals() {
        assert_eq!(
            nearest("v1", &["refs/tags/v2", "refs/tags/v3"]).as_deref(),
            Some("v2")
        );
        assert_eq!(
            nearest("v1", &["refs/tags/v3", "refs/tags/v2"]).as_deref(),
            Some("v3")
        );
    }

    #[test]
    fn similar_name_ignores_long_names() {
        let long = "a".repeat(100_000);
        assert_eq!(nearest(&long, &[&long]), None);
        assert_eq!(nearest("é", &["refs/heads/è"]).as_deref(), Some("è"));
    }
}

//! Finds the name that is nearest to a wanted one among any number of names, in bounded work. Pure.

/// Names longer than this are not looked at.
const LONGEST: usize = 128;

/// Looks at one name after the other and remembers the nearest.
#[derive(Debug)]
pub(super) struct Nearest {
    wanted: Vec<u8>,
    in_full: bool,
    best: Option<(usize, String)>,
    farthest: usize,
    rows: [Vec<usize>; 3],
}

impl Nearest {
    pub(super) fn new(wanted: &str) -> Self {
        // who thinks of a clone writes `origin/main`
        let wanted = wanted
            .strip_prefix("refs/remotes/origin/")
            .or_else(|| wanted.strip_prefix("origin/"))
            .unwrap_or(wanted);
        let wanted = wanted.get(..LONGEST).unwrap_or(wanted);
        let length = wanted.len();
        Self {
            wanted: wanted.to_ascii_lowercase().into_bytes(),
            in_full: wanted.starts_with("refs/") || wanted.starts_with("ref/"),
            best: None,
            farthest: if length < 3 {
                1
            } else {
                (length / 4).clamp(2, 5)
            },
            rows: Default::default(),
        }
    }

    /// Looks at the full name of a reference.
    pub(super) fn look_at(&mut self, full_name: &str) {
        let name = if self.in_full {
            full_name
        } else {
            short(full_name)
        };
        if name.len() > LONGEST || name.len().abs_diff(self.wanted.len()) > self.farthest {
            return;
        }
        let limit = match &self.best {
            Some((0, _)) => return,
            Some((distance, _)) => distance - 1,
            None => self.farthest,
        };
        if let Some(distance) = self.distance(name.as_bytes(), limit) {
            self.best = Some((distance, name.to_owned()));
        }
    }

    /// The nearest of all names, if any is near.
    pub(super) fn found(self) -> Option<String> {
        self.best.map(|(_, name)| name)
    }

    /// How many letters must be added, removed, changed or swapped with the next; nothing if more than the
    /// limit. Capital letters count as small ones.
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

/// The name as users write it.
fn short(full_name: &str) -> &str {
    ["refs/heads/", "refs/tags/", "refs/"]
        .iter()
        .find_map(|prefix| full_name.strip_prefix(prefix))
        .unwrap_or(full_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nearest(wanted: &str, names: &[&str]) -> Option<String> {
        let mut nearest = Nearest::new(wanted);
        for name in names {
            nearest.look_at(name);
        }
        nearest.found()
    }

    #[test]
    fn the_nearest_name() {
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
    fn the_first_of_two_that_are_equally_near() {
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
    fn long_names_cost_nothing() {
        let long = "a".repeat(100_000);
        assert_eq!(nearest(&long, &[&long]), None);
        assert_eq!(nearest("é", &["refs/heads/è"]).as_deref(), Some("è"));
    }
}

//! [`Path`]: the path of a value in a program, in the notation of Pulumi.

use std::fmt;

use super::finding::{QUOTED_CHARACTERS, beginning, quote};

/// The number of steps that are printed, half of them from each end.
const WRITTEN_STEPS: usize = 16;

/// A linked list from the end to the root, which allocates nothing until it is printed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path<'path> {
    parent: Option<&'path Path<'path>>,
    step: PathStep<'path>,
    depth: usize,
}

#[derive(Clone, Copy, Debug)]
enum PathStep<'path> {
    Root,
    Key(&'path str),
    Index(usize),
}

impl<'path> Path<'path> {
    pub(super) fn root() -> Self {
        Self {
            parent: None,
            step: PathStep::Root,
            depth: 0,
        }
    }

    /// A key of the object at this path.
    pub(super) fn key(&'path self, key: &'path str) -> Self {
        self.child(PathStep::Key(key))
    }

    /// An element of the list at this path.
    pub(super) fn index(&'path self, index: usize) -> Self {
        self.child(PathStep::Index(index))
    }

    fn child(&'path self, step: PathStep<'path>) -> Self {
        Self {
            parent: Some(self),
            step,
            depth: self.depth + 1,
        }
    }

    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// From the root.
    fn steps(&self) -> Vec<PathStep<'path>> {
        let mut steps = vec![self.step];
        let mut parent = self.parent;
        while let Some(path) = parent {
            steps.push(path.step);
            parent = path.parent;
        }
        steps.reverse();
        steps
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = self.steps();
        let left_out = WRITTEN_STEPS / 2..steps.len().saturating_sub(WRITTEN_STEPS / 2);
        for (number, step) in steps.iter().enumerate() {
            if !left_out.contains(&number) {
                step.fmt(formatter)?;
            } else if number == left_out.start {
                formatter.write_str("…")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for PathStep<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => formatter.write_str("program"),
            Self::Index(index) => write!(formatter, "[{index}]"),
            Self::Key(key) if is_plain(key) => {
                let (beginning, rest) = beginning(key);
                write!(formatter, ".{beginning}{rest}")
            }
            Self::Key(key) => write!(formatter, "[{}]", quote(key)),
        }
    }
}

/// Whether a key needs no quotes, as far as it is written out.
fn is_plain(key: &str) -> bool {
    let mut written = key.chars().take(QUOTED_CHARACTERS);
    !key.is_empty()
        && written.all(|character| character.is_alphanumeric() || "_-:".contains(character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_displayed_as_written() {
        let root = Path::root();
        let resources = root.key("resources");
        let resource = resources.key("my-bucket");
        let options = resource.key("options");
        for (path, written) in [
            (resource, "program.resources.my-bucket"),
            (
                options.key("dependsOn").index(0),
                "program.resources.my-bucket.options.dependsOn[0]",
            ),
            (resource.key("a.b"), "program.resources.my-bucket[\"a.b\"]"),
            (resource.key(""), "program.resources.my-bucket[\"\"]"),
            (
                resource.key("fn::join"),
                "program.resources.my-bucket.fn::join",
            ),
        ] {
            assert_eq!(path.to_string(), written);
        }
    }

    #[test]
    fn long_path_is_displayed_in_part() {
        fn deeper(path: &Path<'_>, levels: usize) -> String {
            match levels {
                0 => path.to_string(),
                _ => deeper(&path.index(levels), levels - 1),
            }
        }
        assert_eq!(deeper(&Path::root(), 3), "program[3][2][1]");
        assert_eq!(
            deeper(&Path::root(), 100),
            "program[100][99][98][97][96][95][94]…[8][7][6][5][4][3][2][1]"
        );
        let (plain, other) = ("k".repeat(400_000), "k.".repeat(400_000));
        let written = Path::root().key(&plain).to_string();
        assert_eq!(written, format!("program.{}…", "k".repeat(60)));
        let written = Path::root().key(&other).to_string();
        assert_eq!(written, format!("program[\"{}\"…]", "k.".repeat(30)));
    }
}

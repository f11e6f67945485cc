//! Finds the project's folder in a source, and links the workspace to it.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Component, Path, PathBuf},
};

use anyhow::{Context, bail, ensure};

/// Folders that an error lists.
const MAX_LISTED: usize = 20;

/// The project's folder. It must exist, and be in the source after links are resolved.
pub(super) fn project(source: &Path, inner: Option<&Path>) -> anyhow::Result<PathBuf> {
    let source = std::path::absolute(source)?;
    let Some(inner) = inner else {
        return Ok(source);
    };
    let project = join_inside(&source, inner)?;
    let real = project.canonicalize();
    let real = real.map_err(|error| missing_folder(&source, &project, inner, error))?;
    ensure!(
        real.starts_with(source.canonicalize()?),
        "the folder `{}` leaves the source by a symbolic link to {}",
        inner.display(),
        real.display()
    );
    ensure!(
        real.is_dir(),
        "`{}` is a file in the source; set the folder that contains it",
        inner.display()
    );
    Ok(project)
}

/// Joins a relative folder to the source. A leading slash is ignored, as in upstream's
/// `ln -s "/share/source/$GIT_DIR"`.
fn join_inside(source: &Path, inner: &Path) -> anyhow::Result<PathBuf> {
    let mut path = source.to_owned();
    for part in inner.components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                bail!("the folder `{}` leads out of the source", inner.display())
            }
        }
    }
    Ok(path)
}

/// The error for a missing folder, with the folders that exist instead.
fn missing_folder(source: &Path, project: &Path, inner: &Path, error: io::Error) -> anyhow::Error {
    let inner = inner.display();
    if error.kind() != io::ErrorKind::NotFound {
        return anyhow::Error::new(error).context(format!("failed to read `{inner}`"));
    }
    let mut above = project.ancestors().skip(1);
    let above = above.find(|folder| folder.is_dir() || *folder == source);
    let above = above.unwrap_or(source);
    let parent = match above.strip_prefix(source) {
        Ok(name) if !name.as_os_str().is_empty() => format!("`{}` in it", name.display()),
        _ => "it".to_owned(),
    };
    match folders(above) {
        names if names.is_empty() => {
            anyhow::anyhow!("the source has no folder `{inner}`; {parent} has no folders")
        }
        names => anyhow::anyhow!("the source has no folder `{inner}`; {parent} has {names}"),
    }
}

fn folders(folder: &Path) -> String {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    let names = folders.map(|entry| format!("`{}`", entry.file_name().display()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    let more = names.len().saturating_sub(MAX_LISTED);
    names.truncate(MAX_LISTED);
    let list = names.join(", ");
    match more {
        0 => list,
        _ => format!("{list} and {more} more"),
    }
}

/// Creates or replaces the link atomically. Anything but a link is not replaced.
pub(super) fn replace(link: &Path, target: &Path) -> anyhow::Result<()> {
    let existing = link.symlink_metadata();
    ensure!(
        existing.is_err() || link.is_symlink(),
        "failed to link {}: a file or folder exists there, which is not replaced; remove it or set another --workspace-link",
        link.display()
    );
    let context = || format!("failed to link {}", link.display());
    replace_atomically(link, target).with_context(context)?;
    tracing::debug!(link = %link.display(), target = %target.display(), "Linked");
    Ok(())
}

fn replace_atomically(link: &Path, target: &Path) -> io::Result<()> {
    let parent = link.parent();
    let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    fs::create_dir_all(parent)?;
    // A unique folder, for a link with a unique name.
    let folder = tempfile::Builder::new()
        .prefix(".link-")
        .tempdir_in(parent)?;
    let new = folder.path().join("link");
    symlink(target, &new)?;
    fs::rename(new, link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_dir_is_relative_to_source() {
        let source = Path::new("/share/source");
        assert_eq!(
            join_inside(source, Path::new("a/b")).unwrap(),
            Path::new("/share/source/a/b")
        );
        assert_eq!(
            join_inside(source, Path::new("/a")).unwrap(),
            Path::new("/share/source/a")
        );
        assert!(join_inside(source, Path::new("a/../../b")).is_err());
    }

    #[test]
    fn source_dir_spellings_are_normalized() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        fs::create_dir_all(source.join("a/b")).unwrap();
        for (inner, found) in [
            ("", ""),
            ("/", ""),
            (".", ""),
            ("./", ""),
            ("a", "a"),
            ("a/", "a"),
            ("./a//./b/", "a/b"),
            ("/a/b", "a/b"),
        ] {
            let project = project(&source, Some(Path::new(inner))).unwrap();
            assert_eq!(project, source.join(found), "{inner}");
        }
        assert_eq!(project(&source, None).unwrap(), source);
    }

    #[test]
    fn source_dir_outside_or_missing_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        for name in ["a/b", "a/c", "d"] {
            fs::create_dir_all(source.join(name)).unwrap();
        }
        fs::create_dir(folder.path().join("source-of-others")).unwrap();
        fs::write(source.join("file"), "").unwrap();
        symlink("../../source-of-others", source.join("a/out")).unwrap();
        symlink("/etc", source.join("etc")).unwrap();
        symlink("a/b", source.join("within")).unwrap();
        symlink("gone", source.join("dangling")).unwrap();
        let table = [
            ("..", "leads out of the source"),
            ("a/../..", "leads out of the source"),
            ("a/../d", "leads out of the source"),
            ("a/out", "leaves the source by a symbolic link"),
            ("etc", "leaves the source by a symbolic link to /etc"),
            ("file", "is a file in the source"),
            (
                "infra",
                "the source has no folder `infra`; it has `a`, `d`, `etc`, `within`",
            ),
            (
                "a/x/y",
                "the source has no folder `a/x/y`; `a` in it has `b`, `c`, `out`",
            ),
            (
                "d/e",
                "the source has no folder `d/e`; `d` in it has no folders",
            ),
            ("dangling", "the source has no folder `dangling`"),
        ];
        for (inner, expected) in table {
            let error = project(&source, Some(Path::new(inner))).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(expected), "{inner}: {text}");
        }
        let within = project(&source, Some(Path::new("within"))).unwrap();
        assert_eq!(within, source.join("within"));
    }

    #[test]
    fn missing_source_dir_lists_at_most_twenty_folders() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..30 {
            fs::create_dir(folder.path().join(format!("folder-{number}"))).unwrap();
        }
        let error = project(folder.path(), Some(Path::new("x"))).unwrap_err();
        assert!(error.to_string().ends_with("and 10 more"), "{error}");
    }

    #[test]
    fn workspace_link_replaces_only_links() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("above/workspace");
        for target in ["/first", "/second", "relative"] {
            replace(&link, Path::new(target)).unwrap();
            assert_eq!(fs::read_link(&link).unwrap(), Path::new(target));
        }
        let left = fs::read_dir(link.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1, "nothing else is left there");

        let real = folder.path().join("real");
        fs::create_dir(&real).unwrap();
        fs::write(real.join("precious"), "").unwrap();
        let error = replace(&real, Path::new("/x")).unwrap_err().to_string();
        assert!(error.contains("which is not replaced"), "{error}");
        let error = replace(&real.join("precious"), Path::new("/x")).unwrap_err();
        assert!(
            error.to_string().contains("which is not replaced"),
            "{error}"
        );
        assert!(real.join("precious").is_file());
    }
}

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn fill_with(name: &'static str) -> impl FnOnce(&Path) -> Result<(), DirectorySwapError> {
    move |folder| {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join(name), name).unwrap();
        Ok(())
    }
}

/// Like `replace_directory` for a target that cannot be renamed.
fn replace_contents(target: &Path, name: &'static str) {
    let (strategy, staging) = stage_inside(target).unwrap();
    assert_eq!(strategy, SwapStrategy::Inside);
    fill_with(name)(&staging.new_folder()).unwrap();
    strategy.swap(&staging, target).unwrap();
}

#[test]
fn directory_swap_replaces_target_without_leftovers() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("above/target");
    for name in ["one", "two"] {
        replace_directory(&target, fill_with(name)).unwrap();
        assert_eq!(names(&target), [name]);
        assert_eq!(names(target.parent().unwrap()), ["target"]);
    }
}

#[test]
fn directory_swap_failure_keeps_target() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    replace_directory(&target, fill_with("one")).unwrap();
    let outcome: Result<(), DirectorySwapError> = replace_directory(&target, |new| {
        fs::create_dir(new).unwrap();
        fs::write(new.join("half"), "").unwrap();
        fs::write(new.with_file_name("download"), "").unwrap();
        Err(DirectorySwapError::NotAFolder(new.to_owned()))
    });
    assert!(outcome.is_err());
    assert_eq!(names(&target), ["one"]);
    assert_eq!(names(folder.path()), ["target"]);
}

#[test]
fn directory_swap_rejects_file_and_replaces_link() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("file"), folder.path().join("link"));
    fs::write(&file, "precious").unwrap();
    let error = replace_directory(&file, fill_with("one")).unwrap_err();
    assert!(
        matches!(error, DirectorySwapError::NotAFolder(_)),
        "{error}"
    );

    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("precious"), "").unwrap();
    symlink(&other, &link).unwrap();
    replace_directory(&link, fill_with("one")).unwrap();
    assert!(!link.is_symlink());
    assert_eq!(names(&link), ["one"]);
    assert_eq!(names(&other), ["precious"]);
    assert_eq!(names(folder.path()), ["file", "link", "other"]);
}

#[test]
fn directory_swap_replaces_contents_of_unmovable_target() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    fs::create_dir_all(target.join("old/deep")).unwrap();
    for name in ["one", "two"] {
        replace_contents(&target, name);
        assert_eq!(names(&target), [name]);
        assert_eq!(names(folder.path()), ["target"]);
    }
}

#[test]
fn directory_swap_unmovable_targets_are_detected() {
    let folder = tempfile::tempdir().unwrap();
    for target in [Path::new("."), Path::new("/"), &folder.path().join("..")] {
        assert!(is_unmovable(target), "{}", target.display());
    }
    assert!(!is_unmovable(folder.path()));
    assert!(is_unmovable(Path::new("/proc")), "mounted on every Linux");
}

#[test]
fn staging_removes_only_stale_folders() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    let dead = folder.path().join(".incoming-dead");
    fs::create_dir_all(dead.join("new/deep")).unwrap();
    fs::write(dead.join(".lock"), "").unwrap();
    let unfinished = folder.path().join(".incoming-unfinished");
    fs::create_dir(&unfinished).unwrap();
    let stranger = folder.path().join(".incoming-mail");
    fs::create_dir_all(stranger.join("inbox")).unwrap();
    let living = StagingDirectory::new(folder.path()).unwrap();
    fs::create_dir(living.new_folder()).unwrap();

    replace_directory(&target, fill_with("one")).unwrap();
    assert!(!dead.exists() && !unfinished.exists());
    assert!(living.new_folder().exists());
    assert!(stranger.join("inbox").exists());
    drop(living);
    assert_eq!(names(folder.path()), [".incoming-mail", "target"]);
}

#[test]
fn directory_swap_removes_inaccessible_folders() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    let locked = target.join("a/locked");
    fs::create_dir_all(locked.join("b")).unwrap();
    for folder in [locked.join("b"), locked.clone()] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o000)).unwrap();
    }
    symlink("/", target.join("a/link")).unwrap();
    // Modes do not restrict root, so this part is tested directly.
    removal::make_writable(&target).unwrap();
    let mode = locked.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);

    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    replace_directory(&target, fill_with("one")).unwrap();
    assert_eq!(names(&target), ["one"]);
    assert_eq!(names(folder.path()), ["target"]);
}

#[test]
fn directory_swap_concurrent_runs_leave_one_complete() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    // Concurrent renames of the same folder may fail.
                    let _ = replace_directory(&target, fill_with("one"));
                }
            });
        }
    });
    assert_eq!(names(&target), ["one"]);
    assert_eq!(names(folder.path()), ["target"]);
}

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

/// Fills the folder with one file of that name.
fn filled(name: &'static str) -> impl FnOnce(&Path) -> Result<(), PlaceError> {
    move |folder| {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join(name), name).unwrap();
        Ok(())
    }
}

/// As `into_place` would do it where the target can't be renamed.
fn into_fixed_place(target: &Path, name: &'static str) {
    let (strategy, staging) = inside(target).unwrap();
    assert_eq!(strategy, Strategy::Inside);
    filled(name)(&staging.new_folder()).unwrap();
    strategy.swap(&staging, target).unwrap();
}

#[test]
fn the_new_takes_the_place_of_the_old_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("above/target");
    for name in ["one", "two"] {
        into_place(&target, filled(name)).unwrap();
        assert_eq!(names(&target), [name]);
        assert_eq!(names(target.parent().unwrap()), ["target"]);
    }
}

#[test]
fn a_failure_leaves_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    into_place(&target, filled("one")).unwrap();
    let outcome: Result<(), PlaceError> = into_place(&target, |new| {
        fs::create_dir(new).unwrap();
        fs::write(new.join("half"), "").unwrap();
        fs::write(new.with_file_name("download"), "").unwrap();
        Err(PlaceError::NotAFolder(new.to_owned()))
    });
    assert!(outcome.is_err());
    assert_eq!(names(&target), ["one"]);
    assert_eq!(names(folder.path()), ["target"]);
}

#[test]
fn a_file_is_not_replaced_and_a_link_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("file"), folder.path().join("link"));
    fs::write(&file, "precious").unwrap();
    let error = into_place(&file, filled("one")).unwrap_err();
    assert!(matches!(error, PlaceError::NotAFolder(_)), "{error}");

    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("precious"), "").unwrap();
    symlink(&other, &link).unwrap();
    into_place(&link, filled("one")).unwrap();
    assert!(!link.is_symlink());
    assert_eq!(names(&link), ["one"]);
    assert_eq!(names(&other), ["precious"]);
    assert_eq!(names(folder.path()), ["file", "link", "other"]);
}

#[test]
fn a_target_that_can_not_be_renamed_gets_other_contents() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    fs::create_dir_all(target.join("old/deep")).unwrap();
    for name in ["one", "two"] {
        into_fixed_place(&target, name);
        assert_eq!(names(&target), [name]);
        assert_eq!(names(folder.path()), ["target"]);
    }
}

#[test]
fn a_folder_with_no_name_of_its_own_is_not_renamed() {
    let folder = tempfile::tempdir().unwrap();
    for target in [Path::new("."), Path::new("/"), &folder.path().join("..")] {
        assert!(is_fixed(target), "{}", target.display());
    }
    assert!(!is_fixed(folder.path()));
    assert!(is_fixed(Path::new("/proc")), "mounted on every Linux");
}

#[test]
fn what_a_dead_run_left_is_removed_and_what_a_living_one_makes_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    let dead = folder.path().join(".incoming-dead");
    fs::create_dir_all(dead.join("new/deep")).unwrap();
    fs::write(dead.join(".lock"), "").unwrap();
    let unfinished = folder.path().join(".incoming-unfinished");
    fs::create_dir(&unfinished).unwrap();
    let stranger = folder.path().join(".incoming-mail");
    fs::create_dir_all(stranger.join("inbox")).unwrap();
    let living = Staging::new(folder.path()).unwrap();
    fs::create_dir(living.new_folder()).unwrap();

    into_place(&target, filled("one")).unwrap();
    assert!(!dead.exists() && !unfinished.exists());
    assert!(living.new_folder().exists());
    assert!(stranger.join("inbox").exists());
    drop(living);
    assert_eq!(names(folder.path()), [".incoming-mail", "target"]);
}

#[test]
fn folders_that_nobody_may_enter_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    let locked = target.join("a/locked");
    fs::create_dir_all(locked.join("b")).unwrap();
    for folder in [locked.join("b"), locked.clone()] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o000)).unwrap();
    }
    symlink("/", target.join("a/link")).unwrap();
    // The superuser is not stopped by modes, so that this part is tried on its own.
    remove::open_up(&target).unwrap();
    let mode = locked.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);

    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    into_place(&target, filled("one")).unwrap();
    assert_eq!(names(&target), ["one"]);
    assert_eq!(names(folder.path()), ["target"]);
}

#[test]
fn many_at_once_leave_one_whole() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    // Two may want to rename the same old one: one of them says so.
                    let _ = into_place(&target, filled("one"));
                }
            });
        }
    });
    assert_eq!(names(&target), ["one"]);
    assert_eq!(names(folder.path()), ["target"]);
}

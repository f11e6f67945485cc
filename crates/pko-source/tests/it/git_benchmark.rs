//! Time and memory for a large repository, compared with git. `PKO_FULL` uses 100,000 files. For
//! meaningful figures:
//! `PKO_FULL=1 cargo test --release -p pko-source --test it -- --nocapture git_benchmark::measures`

use std::{fs, process::Command, time::Instant};

use pko_testkit::git_server::TestFile;

use crate::git_harness::{GitFixture, LONG};

#[test]
fn measures_fetch_of_many_files() {
    let count = if std::env::var_os("PKO_FULL").is_some() {
        100_000
    } else {
        2_000
    };
    let mut scene = GitFixture::new();
    let line = "one of many lines in one of many files\n";
    let files: Vec<_> = (0..count)
        .map(|number| {
            let path = format!("d{:02}/e{:02}/f{number}", number % 100, number / 100 % 50);
            TestFile::plain(&path, format!("{number}\n{}", line.repeat(number % 100)))
        })
        .collect();
    scene.repository.commit("main", &files).unwrap();
    drop(files);
    scene.repository.git(&["repack", "-a", "-d", "-q"]).unwrap();
    scene.deadline = LONG * 10;

    for shallow in [false, true] {
        fs::write("/proc/self/clear_refs", "5").unwrap();
        let start = Instant::now();
        scene.fetch("main", shallow).unwrap();
        let peak = fs::read_to_string("/proc/self/status").unwrap();
        let peak = peak
            .lines()
            .find(|line| line.starts_with("VmHWM:"))
            .unwrap()
            .to_owned();
        println!(
            "ours, shallow: {shallow}: {:?}, server and client: {peak}",
            start.elapsed()
        );
        assert_eq!(scene.files().len(), count);
    }
    let target = scene.folder.path().join("by-git");
    let start = Instant::now();
    let cloned = Command::new("git")
        .args(["clone", "--quiet", &scene.url()])
        .arg(&target)
        .status();
    assert!(cloned.unwrap().success());
    println!("git's: {:?}", start.elapsed());
}

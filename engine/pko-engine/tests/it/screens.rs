//! What people see: whole sessions, printed alike by the engine and by Pulumi's own CLI.
//!
//! A folder of `tests/screens` has programs and `session.txt`: a line `$ use a.yaml` takes a
//! program, any other line that begins with `$` is a command; what follows is its standard output,
//! then `! ` before each line of its standard error. Ids and times differ from run to run and are
//! written as `ID` and `TIME`.

use std::{fmt::Write as _, fs, path::Path};

use crate::stage::{ENGINE, Stage, judge_all, real_cli};

#[test]
fn sessions_read_as_those_of_pulumi() {
    run_all(ENGINE);
}

#[test]
fn sessions_read_so_under_the_real_cli() {
    run_all(real_cli());
}

fn run_all(cli: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/screens");
    let mut cases: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    cases.sort();
    assert!(!cases.is_empty());
    judge_all(&cases, |case| {
        let expected = fs::read_to_string(case.join("session.txt")).unwrap();
        let seen = replay(cli, case, &expected);
        let difference = || {
            let difference = first_difference(&expected, &seen);
            format!("{}:\n{difference}", case.display())
        };
        (seen != expected).then(difference).into_iter().collect()
    });
}

fn first_difference(expected: &str, seen: &str) -> String {
    let lines = expected.lines().zip(seen.lines());
    let same = lines.take_while(|(expected, seen)| expected == seen);
    let number = same.count();
    let from = |text: &str| -> Vec<String> {
        let lines = text.lines().skip(number.saturating_sub(3)).take(12);
        lines.map(ToOwned::to_owned).collect()
    };
    format!(
        "line {}, expected:\n{}\nseen:\n{}",
        number + 1,
        from(expected).join("\n"),
        from(seen).join("\n")
    )
}

/// Runs the commands of a session and writes its recording again.
fn replay(cli: &str, case: &Path, session: &str) -> String {
    let stage = Stage::with(cli);
    let mut seen = String::new();
    for line in session.lines() {
        let Some(command) = line.strip_prefix("$ ") else {
            continue;
        };
        writeln!(seen, "{line}").unwrap();
        if let Some(program) = command.strip_prefix("use ") {
            let text = fs::read_to_string(case.join(program)).unwrap();
            stage.write("Pulumi.yaml", &text);
            if !stage.path("project/Pulumi.dev.yaml").exists() {
                stage.ok(&["stack", "init", "dev"]);
            }
            continue;
        }
        let mut words: Vec<_> = command.split_whitespace().collect();
        words.extend(["--stack", "dev"]);
        let done = stage.run(&words);
        seen.push_str(&masked(&done.stdout));
        for line in masked(&done.stderr).lines() {
            writeln!(seen, "! {line}").unwrap();
        }
        writeln!(seen, "exit {}", done.code.unwrap_or(-1)).unwrap();
    }
    seen
}

/// A text without what differs from run to run.
fn masked(text: &str) -> String {
    let mut masked = String::new();
    for line in text.lines() {
        let words: Vec<_> = line.split(' ').map(masked_word).collect();
        masked.push_str(&words.join(" "));
        masked.push('\n');
    }
    masked
}

fn masked_word(word: &str) -> String {
    let time = |text: &str| {
        let digits = text.strip_suffix('s').unwrap_or("");
        !digits.is_empty()
            && digits
                .chars()
                .all(|letter| letter.is_ascii_digit() || letter == '.')
    };
    if time(word) {
        return "TIME".to_owned();
    }
    let inner = word.strip_prefix('(').and_then(|word| word.split_once(')'));
    if let Some((_, rest)) = inner.filter(|(inner, _)| time(inner)) {
        return format!("(TIME){rest}");
    }
    match word.strip_prefix("[id=") {
        Some(_) => "[id=ID]".to_owned(),
        None => word.to_owned(),
    }
}

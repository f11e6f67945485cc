//! The stand-in held against what the real CLI answered, call by call; and, if `PKO_PULUMI` names one, a real
//! CLI against the same, so that neither the stand-in nor the transcripts drift.

use std::path::PathBuf;

use pko_testkit::transcripts::{Journey, between};
use pko_testkit::{Script, StandIn};

/// Of these only the exit code and the events are compared: their text tells how long things took, or what
/// else there is in the surroundings.
const FREE_TEXT: [&str; 4] = [
    "55-small-history",
    "58-small-refresh",
    "61-small-log-level",
    "80-small-destroy",
];

/// On the stand-in, and on a real CLI if there is one.
fn repeat(names: &[String]) {
    let real = std::env::var_os("PKO_PULUMI").map(PathBuf::from);
    for program in [StandIn::program()].into_iter().chain(real) {
        let folder = tempfile::tempdir().unwrap();
        let stand_in = StandIn::new(folder.path().join("stand-in"), &Script::new());
        let mut journey = Journey::new(program)
            .environment("PKO_STAND_IN", stand_in.folder())
            .own_text(FREE_TEXT);
        for name in names {
            journey.repeat(name);
        }
        journey.end();
    }
}

#[test]
fn stacks_and_configuration() {
    let mut names = between("01", "16");
    // What is between is of a larger program, or of a lock that somebody else holds.
    for number in ["32", "34", "35", "36", "37", "38", "41", "42"] {
        names.extend(between(number, number));
    }
    repeat(&names);
}

#[test]
fn the_life_of_a_small_stack() {
    repeat(&between("50", "85"));
}

#[test]
fn changes_of_a_program() {
    repeat(&between("92", "99"));
}

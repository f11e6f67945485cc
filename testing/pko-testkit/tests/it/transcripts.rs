//! Transcripts of the real CLI, replayed against the stand-in and the pinned CLI, so that neither
//! the stand-in nor the transcripts drift.

use std::path::PathBuf;

use pko_testkit::transcripts::{TranscriptReplay, between};
use pko_testkit::{Script, StandIn, pulumi_cli};

/// Only exit code and events of these are compared: their text contains durations or details
/// of the environment.
const FREE_TEXT: [&str; 4] = [
    "55-small-history",
    "58-small-refresh",
    "61-small-log-level",
    "80-small-destroy",
];

fn repeat(program: PathBuf, names: &[String]) {
    let folder = tempfile::tempdir().unwrap();
    let stand_in = StandIn::new(folder.path().join("stand-in"), &Script::new());
    let mut replay = TranscriptReplay::new(program)
        .environment("PKO_STAND_IN", stand_in.folder())
        // A CLI lives too briefly for garbage collection to be of use.
        .environment("GOGC", "off")
        .ignore_text(FREE_TEXT);
    for name in names {
        replay.run(name);
    }
    replay.finish();
}

fn stack_and_config_commands() -> Vec<String> {
    let mut names = between("01", "16");
    // The others are of a larger program, or of a foreign lock.
    for number in ["32", "34", "35", "36", "37", "38", "41", "42"] {
        names.extend(between(number, number));
    }
    names
}

fn small_stack_lifecycle() -> Vec<String> {
    between("50", "85")
}

fn program_changes() -> Vec<String> {
    between("92", "99")
}

/// Makes two tests of each list of transcripts: with the stand-in, and with Pulumi's own CLI.
macro_rules! on_both {
    ($($names:ident)*) => {
        mod stand_in {
            $(
                #[test]
                fn $names() {
                    super::repeat(super::StandIn::program(), &super::$names());
                }
            )*
        }

        mod real {
            $(
                #[test]
                fn $names() {
                    super::repeat(super::pulumi_cli().unwrap(), &super::$names());
                }
            )*
        }
    };
}

on_both!(stack_and_config_commands small_stack_lifecycle program_changes);

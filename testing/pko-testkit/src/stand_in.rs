//! A stand-in for `pulumi` that follows a script and records its calls.
//!
//! The program is `pulumi-stand-in`. It takes Pulumi's command line. The variable `PKO_STAND_IN`
//! names its folder, with its [`Script`], its state, and the record of its [`Call`]s. Commands that
//! the script does not mention behave as Pulumi does on a file backend: texts, exit codes and
//! events are those of the transcripts in this crate, which were recorded from the real CLI.
//!
//! ```no_run
//! use pko_testkit::{Reply, Script, StandIn};
//!
//! let script = Script::new().on("up", Reply::new().waits_for("gate").run_default());
//! let stand_in = StandIn::new("/some/folder", &script);
//! // … start what runs `StandIn::program()` with `PKO_STAND_IN=/some/folder` …
//! stand_in.create("gate");
//! assert_eq!(stand_in.count("up"), 1);
//! ```

mod calls;
mod failure_replies;
mod script;

use std::{
    env, fs,
    path::{Path, PathBuf},
};

pub use calls::{Call, CallEvent, RECORD};
pub use script::{Interrupt, Reply, ReplyStep, SCRIPT, Script, ScriptRule};

/// The variable that names the stand-in's folder.
pub const FOLDER: &str = "PKO_STAND_IN";

/// The file with the stand-in's stacks, in its folder.
pub const STATE: &str = "state.json";

const PROGRAM: &str = "pulumi-stand-in";

/// The stand-in of one test.
#[derive(Debug, Clone)]
pub struct StandIn {
    folder: PathBuf,
}

#[expect(
    clippy::panic,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a test whose stand-in can't be set up has failed"
)]
impl StandIn {
    /// Creates the folder if needed.
    pub fn new(folder: impl Into<PathBuf>, script: &Script) -> Self {
        let folder = folder.into();
        fs::create_dir_all(&folder).expect("the stand-in's folder can't be made");
        let stand_in = Self { folder };
        stand_in.set_script(script);
        stand_in
    }

    /// The program in `$PKO_BIN_DIR`, or in cargo's target folder. Panics if it is in neither.
    #[must_use]
    pub fn program() -> PathBuf {
        let named = env::var_os("PKO_BIN_DIR").map(|folder| PathBuf::from(folder).join(PROGRAM));
        let found = named.into_iter().chain(beside_the_test());
        let mut found = found.filter(|file| file.is_file());
        found.next().unwrap_or_else(|| {
            panic!(
                "{PROGRAM} is not built: `cargo xtask test` builds it, or \
                 `cargo build -p pko-testkit --bins`"
            )
        })
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Replaces the script, from the next call on.
    pub fn set_script(&self, script: &Script) {
        let text = serde_json::to_string_pretty(script).expect("a script is JSON");
        fs::write(self.folder.join(SCRIPT), text).expect("the script can't be written");
    }

    /// Creates a file that a step waits for.
    pub fn create(&self, name: &str) {
        fs::write(self.folder.join(name), "").expect("a file can't be made");
    }

    /// True if a file exists in its folder.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.folder.join(name).exists()
    }

    /// Removes all stacks.
    pub fn forget_stacks(&self) {
        let _ = fs::remove_file(self.folder.join(STATE));
    }

    /// All calls so far, in the order in which they began.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        calls::read(&self.folder.join(RECORD))
    }

    /// The number of calls of a command, such as `up` or `stack select`.
    #[must_use]
    pub fn count(&self, command: &str) -> usize {
        let calls = self.calls();
        calls.iter().filter(|call| call.is(command)).count()
    }
}

/// Tests are in `target/debug/deps`, programs in `target/debug`.
fn beside_the_test() -> Vec<PathBuf> {
    let test = env::current_exe().unwrap_or_default();
    let folders = test.ancestors().skip(1).take(2);
    folders.map(|folder| folder.join(PROGRAM)).collect()
}

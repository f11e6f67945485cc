//! The programs with which a test runs.

use std::{path::PathBuf, sync::LazyLock};

use pko_testkit::StandIn;

/// A program with Pulumi's command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CliKind {
    /// Follows a test's script; without one it is a small Pulumi.
    StandIn,
    /// The embedded engine, in `PKO_BIN_DIR` or beside the agent.
    Engine,
    /// Pulumi's CLI: the pinned one, unless `PKO_PULUMI` is set.
    Real,
}

/// Located once, because checking the pinned CLI takes time.
static REAL: LazyLock<PathBuf> = LazyLock::new(|| pko_testkit::pulumi_cli().unwrap());

impl CliKind {
    /// A missing program fails the test; `cargo xtask test` builds all of them.
    pub(crate) fn program(self) -> PathBuf {
        match self {
            Self::StandIn => StandIn::program(),
            Self::Engine => engine(),
            Self::Real => REAL.clone(),
        }
    }
}

fn engine() -> PathBuf {
    const PROGRAM: &str = "pulumi-engine";
    let named = std::env::var_os("PKO_BIN_DIR").map(|folder| PathBuf::from(folder).join(PROGRAM));
    let built = PathBuf::from(env!("CARGO_BIN_EXE_agent")).with_file_name(PROGRAM);
    let mut found = named.into_iter().chain([built]);
    found
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("{PROGRAM} is not built: `cargo build -p pko-engine --bins`"))
}

/// Generates a test of each function for each given CLI, by default for all three.
macro_rules! on_each_cli {
    (engine and real: $($test:ident)*) => {
        $crate::harness::on_each_cli!(engine Engine: $($test)*);
        $crate::harness::on_each_cli!(real Real: $($test)*);
    };
    ($module:ident $cli:ident: $($test:ident)*) => {
        mod $module {
            use $crate::harness::CliKind;

            $(
                #[tokio::test]
                async fn $test() {
                    super::$test(CliKind::$cli).await;
                }
            )*
        }
    };
    ($($test:ident)*) => {
        $crate::harness::on_each_cli!(stand_in StandIn: $($test)*);
        $crate::harness::on_each_cli!(engine and real: $($test)*);
    };
}

pub(crate) use on_each_cli;

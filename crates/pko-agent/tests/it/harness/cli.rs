//! The programs that the same test is tried with.

use std::path::PathBuf;

use pko_testkit::StandIn;

/// A program that takes Pulumi's command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cli {
    /// Does what a test says; without a word it is a small Pulumi.
    StandIn,
    /// The embedded engine in `PKO_BIN_DIR`.
    Engine,
    /// The one that `PKO_PULUMI` names.
    Real,
}

impl Cli {
    /// Where it is, if it is there.
    pub(crate) fn program(self) -> Option<PathBuf> {
        let named = |variable| std::env::var_os(variable).map(PathBuf::from);
        let program = match self {
            Self::StandIn => Some(StandIn::program()),
            Self::Engine => named("PKO_BIN_DIR").map(|folder| folder.join("pulumi-engine")),
            Self::Real => named("PKO_PULUMI"),
        };
        program.filter(|file| file.exists())
    }

    /// Says so if there is none.
    #[expect(clippy::print_stdout, reason = "a test says that it was skipped")]
    pub(crate) fn is_there(self, test: &str) -> bool {
        let there = self.program().is_some();
        if !there {
            println!("skipped {test} with {self:?}: neither PKO_PULUMI nor PKO_BIN_DIR has it");
        }
        there
    }

    /// Whether it is there and keeps a log, as all but the embedded engine do, which `PKO_PULUMI` may name, too.
    #[expect(clippy::print_stdout, reason = "a test says that it was skipped")]
    pub(crate) fn has_log(self, test: &str) -> bool {
        let program = self.program().unwrap_or_default();
        let is_engine = program.ends_with("pulumi-engine");
        if is_engine {
            println!("skipped {test} with {self:?}: the embedded engine keeps no log");
        }
        !is_engine && self.is_there(test)
    }
}

/// Makes three tests of each function: with the stand-in, with the embedded engine, and with a real CLI.
macro_rules! on_each_cli {
    ($($test:ident)*) => {
        $crate::harness::on_each_cli!(stand_in StandIn: $($test)*);
        $crate::harness::on_each_cli!(engine Engine: $($test)*);
        $crate::harness::on_each_cli!(real Real: $($test)*);
    };
    ($module:ident $cli:ident: $($test:ident)*) => {
        mod $module {
            use $crate::harness::Cli;

            $(
                #[tokio::test]
                async fn $test() {
                    if Cli::$cli.is_there(stringify!($test)) {
                        super::$test(Cli::$cli).await;
                    }
                }
            )*
        }
    };
}

pub(crate) use on_each_cli;

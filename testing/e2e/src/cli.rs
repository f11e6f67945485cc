//! The program that runs a test's programs: the embedded engine, or Pulumi's own CLI.

/// A program that takes Pulumi's command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cli {
    /// The embedded engine, in the image that we ship.
    Engine,
    /// Pulumi's own CLI with its host for YAML programs.
    Pulumi,
}

tokio::task_local! {
    static CLI: Cli;
}

impl Cli {
    /// The CLI of the current test; the engine where it makes no difference.
    pub(crate) fn of_this_test() -> Self {
        CLI.try_with(|cli| *cli).unwrap_or(Self::Engine)
    }

    /// Runs a test with it.
    pub(crate) async fn run(self, test: impl Future<Output = ()>) {
        CLI.scope(self, Box::pin(test)).await;
    }
}

/// Makes two tests of each function, `engine::…` and `pulumi::…`: it runs with either.
macro_rules! on_each_cli {
    ($($test:ident)*) => {
        $crate::cli::on_each_cli!(engine Engine: $($test)*);
        $crate::cli::on_each_cli!(pulumi Pulumi: $($test)*);
    };
    ($module:ident $cli:ident: $($test:ident)*) => {
        mod $module {
            use $crate::cli::Cli;

            $(
                #[tokio::test]
                async fn $test() {
                    Cli::$cli.run(super::$test()).await;
                }
            )*
        }
    };
}

pub(crate) use on_each_cli;

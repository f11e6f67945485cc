//! What of a test cluster is a process of ours; see [`pko_testkit::cluster`].
//!
//! ```text
//! cluster-part dns KUBECONFIG ADDRESS   serve the names of a cluster
//! cluster-part down NAME                take a cluster away, for an owner that can't any more
//! ```

use std::env;
use std::io::Write as _;
use std::process::ExitCode;

use pko_testkit::cluster;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match cluster::help(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            let _ = writeln!(std::io::stderr(), "cluster-part: {problem}");
            ExitCode::FAILURE
        }
    }
}

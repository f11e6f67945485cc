//! Test infrastructure: a real Kubernetes control plane, a real cluster, a fault proxy, and
//! stand-ins.
//!
//! ```no_run
//! # async fn test() -> Result<(), Box<dyn std::error::Error>> {
//! use pko_testkit::{ControlPlane, StackBuilder, with_namespace};
//!
//! let plane = ControlPlane::shared().await?;
//! with_namespace(&plane, async |namespace| {
//!     let stack = StackBuilder::new("demo").stack("dev").program("demo").build();
//!     namespace.create_object(stack).await.unwrap();
//! })
//! .await;
//! # Ok(())
//! # }
//! ```
//!
//! Only tests and xtask link this crate; it is never shipped.

#![expect(missing_docs, reason = "no other project links this crate")]

pub mod audit;
pub mod builders;
pub mod checkout;
pub mod cluster;
pub mod components;
pub mod control_plane;
mod error_text;
mod eventually;
pub mod fault_proxy;
mod find_tool;
pub mod fixtures;
pub mod flux;
mod fuzzing;
pub mod git_server;
pub mod kstatus;
mod last_lines;
mod lifeline;
pub mod lying_agent;
pub mod namespace;
pub mod node;
mod process_group;
mod processes;
pub mod progress;
mod pulumi_cli;
pub mod readiness;
mod shared_folder;
mod skip;
pub mod stand_in;
pub mod transcripts;

pub use builders::{Builder, ProgramBuilder, StackBuilder, UpdateBuilder, WorkspaceBuilder};
pub use cluster::Cluster;
pub use components::{Component, Components};
pub use control_plane::ControlPlane;
pub use eventually::{DEADLINE, TimedOut, eventually, eventually_within};
pub use fault_proxy::FaultProxy;
pub use find_tool::{find_moto_server, find_tool};
pub use fuzzing::{fuzz_cases, fuzz_timed};
pub use namespace::{TestNamespace, run_in, with_namespace};
pub use node::FakeNode;
pub use processes::{FolderGuard, end_processes_of, kill_processes_of, processes_of};
pub use pulumi_cli::{PKO_PULUMI, pulumi_cli};
pub use shared_folder::shared_folder;
pub use skip::{SKIPPED, skip};
pub use stand_in::{Interrupt, Reply, Script, StandIn};

//! Fetches programs from git servers and artifact URLs, and polls git for new commits.
//!
//! ```text
//!   agent init ─┬─▶ git::Remote::fetch ─┬─▶ HTTP (ureq)
//!               │                       └─▶ SSH (russh)
//!               └─▶ artifact::fetch ──────▶ HTTP (ureq)
//!   operator ──────▶ poll::Poller ────────▶ git::Remote::look_up, once for all Stacks of a repository
//! ```
//!
//! - A fetch builds the new content in a staging folder and swaps it with the target
//!   (`directory_swap`).
//! - All calls but the poller's block, and every call has a [`Deadline`].
//! - Data from a server is untrusted: sizes, names and redirects are checked before use.

#![expect(missing_docs, reason = "internal crate: names and comments suffice")]

pub mod artifact;
mod deadline;
mod directory_swap;
#[doc(hidden)]
pub mod fuzz;
pub mod git;
mod http_client;
mod metadata_address;
mod pem;
pub mod poll;
pub mod ssh;

pub use deadline::{Deadline, DeadlineExceeded};
pub use directory_swap::DirectorySwapError;
pub use http_client::{HttpClientError, RedirectError};

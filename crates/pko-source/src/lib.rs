//! Where a program comes from: git servers and artifacts.
//!
//! ```text
//!   agent init ──▶ git::fetch ─┬─▶ git over http (ureq)     both end in a folder that takes the
//!              └─▶ artifact    └─▶ ssh (russh)              old one's place when it is whole
//!   operator ───▶ poll ────────▶ git::list (one question for all Stacks that want the answer)
//! ```
//!
//! Everything here blocks and belongs on a thread of its own; every call has a [`Deadline`]. What comes
//! from a server is hostile until it is checked.

pub mod artifact;
mod deadline;
#[doc(hidden)]
pub mod fuzz;
pub mod git;
mod http_client;
mod pem;
mod place;
pub mod poll;
mod redacted;
pub mod ssh;

pub use deadline::{Deadline, DeadlineExceeded};
pub use http_client::{ClientError, RedirectError};
pub use place::PlaceError;
pub use redacted::Redacted;

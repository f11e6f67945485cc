//! Who may call, and what must not be printed.
//!
//! - [`token`]: tokens that a manager signs and its agents verify.
//! - `reviews`: `TokenReview` and `SubjectAccessReview` with one cache, for the agent's gRPC server
//!   and the manager's metrics endpoint.
//! - [`Redacted`] and [`Mask`]: secrets of our own, and secrets in the output of other programs.
#![expect(
    missing_docs,
    reason = "only crates of this workspace link it, and most names speak for themselves"
)]

mod mask;
mod redacted;
#[cfg(feature = "reviews")]
pub mod reviews;
pub mod token;

pub use mask::Mask;
pub use redacted::Redacted;

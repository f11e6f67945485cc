//! The gRPC services between the manager and the workspace agent: upstream's `agent` package, and
//! our own `pko.agent.v1`, in which the agent owns the runs.
//!
//! `cargo xtask generate` generates the Rust in `src/gen` from `proto/`. It is committed, so builds
//! need no `protoc`.

#![expect(missing_docs, reason = "only this workspace links the crate")]

pub use prost_types::{Struct, Timestamp};

pub mod agent_codec;
pub mod convert;
pub mod details;
mod printing;
pub mod wire_scan;

/// Upstream's `agent.AutomationService`.
pub mod agent {
    #![expect(
        clippy::allow_attributes,
        clippy::allow_attributes_without_reason,
        clippy::large_enum_variant,
        clippy::pedantic,
        unused_qualifications,
        reason = "generated code"
    )]
    include!("gen/agent.rs");
}

/// Nested as the generated code requires; see [`run`].
mod pko {
    pub(crate) mod agent {
        /// See [`crate::run`].
        pub mod v1 {
            #![expect(
                clippy::allow_attributes,
                clippy::allow_attributes_without_reason,
                clippy::large_enum_variant,
                clippy::pedantic,
                unused_qualifications,
                reason = "generated code"
            )]
            include!("gen/run.rs");
        }
    }
}

/// Our own `pko.agent.v1.RunService`.
pub use pko::agent::v1 as run;

/// Pulumi's `pulumirpc.Events`, to which the CLI sends the events of an operation.
pub mod events {
    #![expect(
        clippy::allow_attributes,
        clippy::allow_attributes_without_reason,
        clippy::pedantic,
        unused_qualifications,
        reason = "generated code"
    )]
    include!("gen/events.rs");
}

/// An agent's limit for messages of its callers and of the CLI, such as large config and events.
pub const MAX_MESSAGE_BYTES: usize = 400 * 1024 * 1024;

/// An agent's limit for the headers of its callers.
pub const MAX_HEADER_BYTES: u32 = 16 * 1024 * 1024;

/// A manager's limit for a response of an agent without the result of a run.
pub const MAX_CONTROL_BYTES: usize = 4 * 1024 * 1024;

/// A manager's limit for a message with the result of a run. Our agents omit the outputs from a
/// larger result.
pub const MAX_RESULT_BYTES: usize = 8 * 1024 * 1024;

/// A manager's limit for the headers and trailers of an agent. The trailers of a failed call
/// contain the CLI's output, which our agents shorten to fit.
pub const MAX_AGENT_HEADER_BYTES: u32 = 64 * 1024;

//! The gRPC services between the manager and the workspace agent: upstream's `agent` package, and
//! our own `pko.agent.v1`, in which the agent owns the runs.
//!
//! `cargo xtask generate` generates the Rust in `src/gen` from `proto/`. It is committed, so builds
//! need no `protoc`.

pub mod convert;
pub mod details;
mod printing;

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

/// The largest messages carry a stack's outputs or a large configuration.
pub const MAX_MESSAGE_BYTES: usize = 400 * 1024 * 1024;

/// The trailers of a failed call carry the CLI's output.
pub const MAX_HEADER_BYTES: u32 = 16 * 1024 * 1024;

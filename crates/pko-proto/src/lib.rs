//! What the manager and the workspace agent say to each other: upstream's `agent` service, and our
//! own `pko.agent.v1`, in which the agent owns the runs; and the tokens by which the one knows the other.
//!
//! The Rust in `src/gen` is made from `proto/` by `cargo xtask generate` and committed, so that
//! building needs no `protoc`.

pub mod convert;
pub mod details;
mod printing;
pub mod token;

/// Upstream's `agent.AutomationService`.
pub mod agent {
    #![expect(
        clippy::allow_attributes,
        clippy::allow_attributes_without_reason,
        clippy::large_enum_variant,
        clippy::pedantic,
        unused_qualifications,
        reason = "the generator decides how this looks"
    )]
    include!("gen/agent.rs");
}

/// The packages under `pko`, nested as the generated code wants them; see [`run`].
mod pko {
    pub(crate) mod agent {
        /// Version 1 of the agent's own services.
        pub mod v1 {
            #![expect(
                clippy::allow_attributes,
                clippy::allow_attributes_without_reason,
                clippy::large_enum_variant,
                clippy::pedantic,
                unused_qualifications,
                reason = "the generator decides how this looks"
            )]
            include!("gen/run.rs");
        }
    }
}

/// Our own `pko.agent.v1.RunService`.
pub use pko::agent::v1 as run;

/// Pulumi's own `pulumirpc.Events`, to which the CLI sends the events of an operation.
pub mod events {
    #![expect(
        clippy::allow_attributes,
        clippy::allow_attributes_without_reason,
        clippy::pedantic,
        unused_qualifications,
        reason = "the generator decides how this looks"
    )]
    include!("gen/events.rs");
}

/// The largest message that either side sends: a stack's outputs, or a large configuration.
pub const MAX_MESSAGE_BYTES: usize = 400 * 1024 * 1024;

/// A failed call has the CLI's output in its trailers, so headers must be allowed to be large.
pub const MAX_HEADER_BYTES: u32 = 16 * 1024 * 1024;

//! Kinds of failures. A program that reads an Update can decide by them whether to retry.

use crate::text::text_enum;

text_enum! {
    /// The kind of a failure, in `status.failureClass` of an Update.
    FailureClass {
        /// A retry may succeed.
        Transient = "transient",
        /// Another update has locked the stack.
        Conflict = "conflict",
        /// The backend rejects the credentials.
        Authentication = "authentication",
        /// The program or one of its resources failed.
        Program = "program",
        /// The stack, its config or the Update is invalid.
        Configuration = "configuration",
        /// The run was canceled, by request or at its deadline.
        Canceled = "canceled",
        /// The pod or process of the run ended before the run did.
        Interrupted = "interrupted",
    }
}

//! What kinds of failures there are: a program that reads an Update knows by it whether to try again.

use crate::text::text_enum;

text_enum! {
    /// The kind of a failure, in `status.failureClass` of an Update.
    FailureClass {
        /// It may work the next time.
        Transient = "transient",
        /// Somebody else is updating the stack.
        Conflict = "conflict",
        /// The backend does not accept the credentials.
        Authentication = "authentication",
        /// The program or a resource of it failed.
        Program = "program",
        /// The stack, its configuration or the Update is wrong.
        Configuration = "configuration",
        /// It was stopped: somebody wanted that, or its time was over.
        Canceled = "canceled",
        /// What it ran in went away under it.
        Interrupted = "interrupted",
    }
}

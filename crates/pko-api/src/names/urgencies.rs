//! Urgencies of runs.

use crate::text::text_enum;

text_enum! {
    /// The urgency of a run, in an annotation of its Update, from the least to the most urgent.
    Urgency {
        /// The resync period has passed.
        Resync = "resync",
        /// The request annotation has changed.
        Request = "request",
        /// The spec, the revision or a referenced object has changed.
        Change = "change",
        /// The Stack is being deleted.
        Destroy = "destroy",
    }
}

//! How urgent runs are.

use crate::text::text_enum;

text_enum! {
    /// How urgent a run is, in an Update's annotation; the later, the more so.
    Urgency {
        /// It is time again.
        Resync = "resync",
        /// Somebody asked for it.
        Request = "request",
        /// Something has changed: the spec, or the commit.
        Change = "change",
        /// Something is to be gone, and somebody waits for that.
        Destroy = "destroy",
    }
}

//! Condition types and the three values of their status.

use crate::text::text_enum;

text_enum! {
    /// The type of a condition. A Stack has the first three, a Workspace `Ready` and `Stalled`, an
    /// Update the last three.
    ConditionType {
        /// The object is what its spec asks for.
        Ready = "Ready",
        /// Work is under way or will be tried again.
        Reconciling = "Reconciling",
        /// Nothing more happens until somebody changes something.
        Stalled = "Stalled",
        /// The Update's operation runs.
        Progressing = "Progressing",
        /// The Update's operation did not succeed.
        Failed = "Failed",
        /// The Update is over.
        Complete = "Complete",
    }
}

text_enum! {
    /// The status of a condition.
    ConditionStatus {
        /// It holds.
        True = "True",
        /// It does not hold.
        False = "False",
        /// Nobody can tell.
        Unknown = "Unknown",
    }
}

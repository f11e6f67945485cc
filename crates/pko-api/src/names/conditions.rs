//! Types of conditions, and the three values of their status.

use crate::text::text_enum;

text_enum! {
    /// The type of a condition. A Stack has the first three, a Workspace has `Ready` and `Stalled`,
    /// an Update has the last three.
    ConditionType {
        /// The object matches its spec.
        Ready = "Ready",
        /// The operator is working on the object, or will retry.
        Reconciling = "Reconciling",
        /// The user has to act.
        Stalled = "Stalled",
        /// The operation of the Update is running.
        Progressing = "Progressing",
        /// The operation of the Update did not succeed.
        Failed = "Failed",
        /// The Update has ended.
        Complete = "Complete",
    }
}

text_enum! {
    /// The status of a condition.
    ConditionStatus {
        True = "True",
        False = "False",
        Unknown = "Unknown",
    }
}

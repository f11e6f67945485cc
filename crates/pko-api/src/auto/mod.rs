//! The group `auto.pulumi.com`: where Pulumi runs, and what it runs.

pub mod v1alpha1;

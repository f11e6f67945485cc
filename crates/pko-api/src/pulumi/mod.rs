//! The group `pulumi.com`: what users write.

pub mod v1;
pub mod v1alpha1;

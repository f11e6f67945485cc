//! Evaluates a program: expressions to values, resources to goals.
//!
//! The language itself is in [`pulumi_yaml`]. Files come through [`files::Files`], the rest through
//! [`evaluate::Host`].

mod archive;
mod config_default;
pub mod evaluate;
pub mod files;
mod function_call;
mod goal;
mod value;

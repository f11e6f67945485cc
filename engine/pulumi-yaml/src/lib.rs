//! The Pulumi YAML language, without I/O: from a text to a checked program.
//!
//! ```text
//! text ──syntax::parse──▶ Node ──parse::parse──▶ Program ──order::order──▶ parts ──check::check──▶ errors
//! ```
//!
//! The tables of the language are in [`function`] (`fn::…`) and [`keys`] (fields and options of
//! resources). `pulumi-engine` evaluates programs; the operator checks those of `Program` objects.

#![expect(missing_docs, reason = "only this workspace links it")]

pub mod access;
pub mod check;
pub mod config;
mod declarations;
mod diagnostic;
pub mod expression;
pub mod function;
mod invoke;
pub mod keys;
mod options;
pub mod order;
pub mod parse;
mod schema;
pub mod syntax;
pub mod text;
pub mod types;
pub mod version_range;

pub use declarations::{Get, Inputs, Program, ResourceDeclaration, ResourceOptions, Variable};
pub use diagnostic::{Diagnostic, Severity};
pub use invoke::{Invoke, InvokeOptions};
pub use schema::ResourceType;

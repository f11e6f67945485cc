//! Stack configuration: the file `Pulumi.<stack>.yaml` and what a program sees of it.

pub mod document;
pub mod key;
pub mod resolve;
pub mod stack_file;
pub mod value;

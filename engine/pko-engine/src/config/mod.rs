//! Stack configuration: the file `Pulumi.<stack>.yaml` and what a program sees of it.

pub(crate) mod document;
pub(crate) mod key;
pub(crate) mod resolve;
pub(crate) mod stack_file;
pub(crate) mod value;

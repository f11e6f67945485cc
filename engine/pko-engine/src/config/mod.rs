//! Stack config: the file `Pulumi.<stack>.yaml`, and the values for the program.

pub(crate) mod document;
pub(crate) mod key;
pub(crate) mod resolve;
pub(crate) mod stack_file;
pub(crate) mod value;

//! Facts that several rules share. A fact follows from the observed state; if something for it is
//! still unread, the fact is the read.

pub(super) mod current_update;
pub(super) mod existing_workspace;
pub(super) mod inputs;
pub(super) mod need;
pub(super) mod source;

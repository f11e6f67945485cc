//! Who may call: everybody; who has a token for this workspace and the right to use it (`kube`); who has a token that our
//! manager signed (`manager`); or who has either.

mod cache;
mod clock;
mod flights;
mod gate;
mod hint;
mod kubernetes;
mod manager;
mod retry;
mod reviews;
mod settings;

pub(crate) use settings::gate;

//! The laws of the machines, over lives of a Stack in a simulated cluster and over worlds of all sorts.

mod cluster;
mod happenings;
mod laws;
mod life;
mod model;
mod namespace;
mod once;
mod wedges;
mod worlds;

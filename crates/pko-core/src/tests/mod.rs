//! The laws of the machines, over lives of a Stack in a simulated cluster and over worlds of all sorts.

mod cluster;
mod laws;
mod life;
mod once;
mod worlds;

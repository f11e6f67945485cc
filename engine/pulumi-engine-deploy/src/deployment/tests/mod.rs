//! Steps, their order and the saved states of programs with providers in memory.

mod builtin;
mod interruption;
mod outside;
mod stage;

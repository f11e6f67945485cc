//! Programs against states and providers: which steps, in which order, and what is left at any moment.

mod builtin;
mod interruption;
mod outside;
mod stage;

//! Invariants of the state machines, over the life cycle of Stacks in a simulated cluster and over
//! generated states.

mod invariants;
mod random_events;
mod random_objects;
mod random_walks;
mod simulated_cluster;
mod simulated_namespace;
mod single_run;
mod stack_lifecycle;
mod stored_objects;
mod stuck_states;

pub(crate) use invariants::stack_writes_are_bounded;

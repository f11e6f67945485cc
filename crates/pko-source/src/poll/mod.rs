//! The shared poller: one question to a server, however many Stacks want the answer.

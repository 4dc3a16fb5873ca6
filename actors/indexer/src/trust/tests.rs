//! Tests of the trust evaluator: its decisions, then the actor with a store in memory.

mod actor;
mod core;
mod patience;

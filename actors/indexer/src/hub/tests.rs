//! Tests of the hub: its decisions, then the actor with a fake source of blocks.

mod actor;
mod core;

//! Execution: the ante checks of a transaction, its messages, and the begin and end of a block.

pub mod ante;
pub mod block;
pub mod tx;

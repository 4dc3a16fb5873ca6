//! The DIDs that blocks trigger for evaluation, and the registry changes of a block by DID.

pub mod block_triggers;
pub mod round_triggers;

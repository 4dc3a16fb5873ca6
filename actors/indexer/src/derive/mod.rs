//! What the indexer derives from the chain's entities: states, actions, figures, prices. Pure.

pub mod decimal;
pub mod measures;
pub mod state;

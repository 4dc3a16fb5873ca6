//! Values that the indexer derives from the chain's entities: states, actions, measures, prices, forms of DIDs. Pure.

pub mod decimal;
pub mod did_forms;
pub mod participant;
pub mod stats;

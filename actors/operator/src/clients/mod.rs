//! HTTP clients of the operator's upstreams.

pub mod graph;
pub mod indexer;

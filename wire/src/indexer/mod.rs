//! The indexer: its reads, its two streams, the state of a participant.

pub mod block_subscription;
pub mod event_stream;
pub mod index_identity;
pub mod indexer_reads;
pub mod participant_state;
mod trust_channels;
pub mod trust_stream;

//! A write from the encoded message to the decided outcome: its values. The task that carries it through is in `write_task.rs`.
//!
//! `EncodedMessage → QueuedWrite (inside the signer) → InFlightTx → WriteOutcome`; callers watch one `WriteStatus`.

pub mod daily_fees;
pub mod error;
pub mod fee;
pub mod in_flight;
pub mod intent;
pub mod message;
pub mod outcome;
pub mod policy;
pub mod retry;
pub mod status;
pub mod submission;

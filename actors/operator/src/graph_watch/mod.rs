//! The graph's progress: how far it has taken the chain in. Informational, and what reads with a minimum height wait for; it has
//! no part in the barrier of a write.

mod actor;

pub use actor::{Args, GraphWatch};

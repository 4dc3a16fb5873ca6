//! Writes, from the call to the block, and the faults between.

pub(in crate::e2e) mod actor_crashes;
pub(in crate::e2e) mod concurrent_writes;
pub(in crate::e2e) mod embedded_pipeline;
mod late_answers;
pub(in crate::e2e) mod upstream_faults;
pub(in crate::e2e) mod write_and_read;

//! Tables that the evaluation of trust fills. Verdicts themselves are entities.

pub mod changes;
mod evidence;
mod triggers;
pub mod write;

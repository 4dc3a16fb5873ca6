//! Tables that the evaluation of trust fills. Verdicts themselves are entities.

pub mod changes;
mod evidence;
pub mod open;
pub mod triggers;
pub mod write;

//! The evaluation of one DID, and the rows of a round of verdicts.

pub mod did_evaluator;
pub mod round_result;
pub mod verdict_record;

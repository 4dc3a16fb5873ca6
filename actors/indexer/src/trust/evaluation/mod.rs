//! The evaluation of one DID, and the rows of a round of verdicts.

pub mod did_evaluator;
pub mod evidence_gathering;
mod finish;
pub mod round_result;
mod shared_answers;
pub mod verdict_record;

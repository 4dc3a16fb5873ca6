//! The end of a transaction, and the meaning of a result in a block. Pure.

use svc_wire::{
    chain_error::{ChainError, ChainErrorKind},
    comet_rpc::ExecTxResult,
};

/// The final outcome of a transaction.
#[derive(Debug, Clone)]
pub enum WriteOutcome {
    /// A block contains it.
    Included {
        /// Height of the block.
        height: u64,
        /// Its result there.
        result: Box<ExecTxResult>,
    },
    /// Its timeout height has passed and no block contains it: it can never execute.
    Expired {
        /// The timeout height.
        timeout_height: u64,
    },
    /// Another transaction has used its sequence: it can never execute.
    Displaced {
        /// Height at which the sequence was found used.
        height: u64,
    },
}

impl WriteOutcome {
    /// Whether the transaction has used its sequence. A transaction that fails in the ante handler is in a block and uses no
    /// sequence: the chain reverts the ante handler's changes and drops its events.
    pub fn uses_sequence(&self, sequence: u64) -> bool {
        match self {
            Self::Included { result, .. } => result.code == 0 || has_passed_ante(result, sequence),
            Self::Expired { .. } | Self::Displaced { .. } => false,
        }
    }

    /// Bounded label: `included`, `failed`, `expired`, `displaced`.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Included { result, .. } if result.code == 0 => "included",
            Self::Included { .. } => "failed",
            Self::Expired { .. } => "expired",
            Self::Displaced { .. } => "displaced",
        }
    }
}

/// Whether a transaction passed the ante handler: only then do its events hold `tx.acc_seq`.
fn has_passed_ante(result: &ExecTxResult, sequence: u64) -> bool {
    let attributes = result.events.iter().filter(|event| event.event_type == "tx").flat_map(|event| &event.attributes);
    let is_own = |value: &str| value.rsplit_once('/').is_some_and(|(_, used)| used == sequence.to_string());
    attributes.into_iter().any(|attribute| attribute.key == "acc_seq" && is_own(&attribute.value))
}

/// The outcome that a result in a block implies for a transaction. `None` when the result decides nothing: the sequence was not yet
/// due, and the same bytes may still execute.
pub fn outcome_in_block(
    height: u64,
    result: Box<ExecTxResult>,
    sequence: u64,
    timeout_height: u64,
) -> Option<WriteOutcome> {
    let outcome = WriteOutcome::Included { height, result };
    let WriteOutcome::Included { result, .. } = &outcome else { return None };
    if outcome.uses_sequence(sequence) {
        return Some(outcome);
    }
    let error = ChainError { codespace: result.codespace.clone(), code: result.code, raw_log: result.log.clone() };
    match error.classify() {
        ChainErrorKind::WrongSequence { .. } => None,
        ChainErrorKind::TimeoutHeightPassed => Some(WriteOutcome::Expired { timeout_height }),
        _ => Some(outcome),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_before_the_messages_uses_no_sequence_and_a_wrong_sequence_decides_nothing() {
        use svc_wire::comet_rpc::{AbciEvent, EventAttribute};
        let acc_seq = |text: &str| AbciEvent {
            event_type: "tx".to_owned(),
            attributes: vec![EventAttribute { key: "acc_seq".to_owned(), value: text.to_owned(), index: true }],
        };
        let result =
            |code, events| ExecTxResult { code, codespace: "sdk".to_owned(), events, ..ExecTxResult::default() };
        for (given, word, uses) in [
            (result(0, vec![]), Some("included"), true),
            (result(5, vec![acc_seq("a/7")]), Some("failed"), true),
            (result(5, vec![acc_seq("a/17"), acc_seq("a/6")]), Some("failed"), false),
            (result(38, vec![]), Some("failed"), false),
            (result(32, vec![]), None, false),
            (result(30, vec![]), Some("expired"), false),
        ] {
            let shown = format!("{given:?}");
            let outcome = outcome_in_block(9, Box::new(given), 7, 20);
            assert_eq!(outcome.as_ref().map(WriteOutcome::label), word, "{shown}");
            assert_eq!(outcome.is_some_and(|outcome| outcome.uses_sequence(7)), uses, "{shown}");
        }
    }
}

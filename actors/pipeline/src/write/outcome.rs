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

/// The refusal of a signed transaction. The signer never sends it again and its sequence is free for other writes. A node that has
/// passed the bytes on may still bring them into a block until the timeout height has passed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TxRefusal {
    /// The chain's reason.
    pub error: ChainError,
    /// Block in which the ante handler refused it; `None` when CheckTx did.
    pub block_height: Option<u64>,
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

/// The meaning of a transaction's result in a block.
#[derive(Debug, Clone)]
pub enum BlockVerdict {
    /// The outcome is decided.
    Decided(WriteOutcome),
    /// Nothing is decided: the sequence was not yet due, or the timeout height has passed according to this result.
    Undecided,
    /// The ante handler refused it, and no sequence was used. A peer that lags may bring the same bytes back until the timeout
    /// height has passed.
    AnteFailure(TxRefusal),
}

/// The meaning of a result in a block for a transaction.
pub fn judge_result(height: u64, result: &ExecTxResult, sequence: u64) -> BlockVerdict {
    let outcome = WriteOutcome::Included { height, result: Box::new(result.clone()) };
    if outcome.uses_sequence(sequence) {
        return BlockVerdict::Decided(outcome);
    }
    let error = ChainError { codespace: result.codespace.clone(), code: result.code, raw_log: result.log.clone() };
    match error.classify() {
        // The timeout height is that of the block, which proves itself: every block up to it is read.
        ChainErrorKind::WrongSequence { .. } | ChainErrorKind::TimeoutHeightPassed => BlockVerdict::Undecided,
        _ => BlockVerdict::AnteFailure(TxRefusal { error, block_height: Some(height) }),
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
        for (given, word) in [
            (result(0, vec![]), "included"),
            (result(5, vec![acc_seq("a/7")]), "failed"),
            (result(5, vec![acc_seq("a/17"), acc_seq("a/6")]), "ante failure"),
            (result(38, vec![]), "ante failure"),
            (result(32, vec![]), "undecided"),
            (result(30, vec![]), "undecided"),
        ] {
            let found = match judge_result(9, &given, 7) {
                BlockVerdict::Decided(outcome) => outcome.label(),
                BlockVerdict::Undecided => "undecided",
                BlockVerdict::AnteFailure(refusal) => {
                    assert_eq!(refusal.block_height, Some(9));
                    "ante failure"
                }
            };
            assert_eq!(found, word, "{given:?}");
        }
    }
}

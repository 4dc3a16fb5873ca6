//! Decides whether a write is signed again, waits, or has ended. Pure.
//!
//! A write may have several transactions, and only one may ever execute. While one of them may still execute, the write is signed
//! again only at the same sequence, which a block can contain once; at another sequence only when all of them are decided.

use svc_wire::chain_error::{ChainError, ChainErrorKind};

use super::{in_flight::InFlightTx, outcome::WriteOutcome, submission::SubmissionId};

/// Signatures after transactions that never executed.
const MAX_REPETITIONS: u32 = 12;

/// The next step of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteStep {
    /// Wait for news of the undecided transactions.
    Wait,
    /// Sign the write again, at the required sequence if there is one.
    SignAgain {
        /// The sequence of the refused transaction that may still execute.
        required_sequence: Option<u64>,
    },
    /// The transaction with this hash was refused, and the write is not signed again. The caller is answered.
    Refused(String),
    /// The write has ended with the outcome of the transaction with this hash.
    Ended(String),
}

/// Earlier attempts of a write.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct RetryState {
    /// Least gas limit, after a transaction that ran out of gas in a block.
    pub min_gas_limit: u64,
    has_raised_gas: bool,
    /// Whether the account pays its own fee, since the allowance has ended.
    pub pays_itself: bool,
    /// Whether the sequence that the write required has gone to another transaction.
    pub has_sequence_moved: bool,
    repetitions: u32,
    decided_through: DecidedThrough,
}

/// The newest submission whose transactions were decided before the write was signed again; none at first. A position in the list of
/// transactions would not do, since the table forgets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct DecidedThrough(Option<SubmissionId>);

impl DecidedThrough {
    /// The transactions that the write still depends on, in the order of their signatures.
    pub fn later<'a>(self, transactions: &[&'a InFlightTx]) -> Vec<&'a InFlightTx> {
        let is_later = |tx: &&&InFlightTx| self.0.is_none_or(|decided| tx.submission_id > decided);
        transactions.iter().filter(is_later).copied().collect()
    }
}

impl RetryState {
    /// The submissions that the write no longer depends on: it was signed again after their transactions were decided.
    pub fn decided_through(&self) -> DecidedThrough {
        self.decided_through
    }

    /// The next step. `transactions` are those of the write so far, in the order of their signatures.
    pub fn next_step(&mut self, transactions: &[&InFlightTx]) -> WriteStep {
        let step = self.step_after(&self.decided_through.later(transactions));
        if let (WriteStep::SignAgain { required_sequence: None }, Some(newest)) = (&step, transactions.last()) {
            self.decided_through = DecidedThrough(Some(newest.submission_id));
        }
        step
    }

    /// The transaction that has executed since the write was last signed again after a decision.
    pub fn executed<'a>(&self, transactions: &[&'a InFlightTx]) -> Option<&'a InFlightTx> {
        self.decided_through.later(transactions).into_iter().find(|tx| tx.has_executed())
    }

    fn step_after(&mut self, transactions: &[&InFlightTx]) -> WriteStep {
        if let Some(executed) = transactions.iter().find(|tx| tx.has_executed()) {
            return self.after_execution(executed);
        }
        let Some(newest) = transactions.last() else { return WriteStep::Wait };
        if transactions.iter().all(|tx| tx.outcome.is_some()) {
            return self.after_no_execution(newest);
        }
        let Some(refusal) = newest.refusal.as_ref().filter(|_| newest.outcome.is_none()) else {
            return WriteStep::Wait;
        };
        match refusal.error.classify() {
            // The blocks will show soon that it never executes.
            ChainErrorKind::TimeoutHeightPassed => WriteStep::Wait,
            ChainErrorKind::FeeAllowanceUnusable if newest.has_granter && !self.pays_itself => {
                self.pays_itself = true;
                tracing::warn!(tx_hash = newest.hash, "the fee allowance has ended, signed again without it");
                WriteStep::SignAgain { required_sequence: Some(newest.sequence) }
            }
            _ if self.has_sequence_moved => WriteStep::Wait,
            _ => WriteStep::Refused(newest.hash.clone()),
        }
    }

    /// A transaction has used its sequence. Others of the write had the same one, so none of them can execute any more.
    fn after_execution(&mut self, tx: &InFlightTx) -> WriteStep {
        match &tx.outcome {
            Some(outcome) if !self.has_raised_gas && fails_with(outcome, ChainErrorKind::OutOfGas) => {
                self.has_raised_gas = true;
                if let WriteOutcome::Included { result, .. } = outcome {
                    self.min_gas_limit = result.gas_wanted.saturating_mul(2);
                }
                tracing::warn!(tx_hash = tx.hash, gas = self.min_gas_limit, "out of gas, signed again with more");
                WriteStep::SignAgain { required_sequence: None }
            }
            _ => WriteStep::Ended(tx.hash.clone()),
        }
    }

    /// None of the transactions will ever execute.
    fn after_no_execution(&mut self, newest: &InFlightTx) -> WriteStep {
        let Some(outcome) = &newest.outcome else { return WriteStep::Wait };
        let was_too_late =
            newest.refusal.as_ref().is_some_and(|one| one.error.classify() == ChainErrorKind::TimeoutHeightPassed);
        let is_repeated = match outcome {
            WriteOutcome::Displaced { .. } => true,
            WriteOutcome::Expired { .. } => was_too_late || self.has_sequence_moved,
            WriteOutcome::Included { .. } => {
                let has_no_allowance = newest.has_granter && fails_with(outcome, ChainErrorKind::FeeAllowanceUnusable);
                self.pays_itself |= has_no_allowance;
                has_no_allowance
            }
        };
        if !is_repeated || self.repetitions >= MAX_REPETITIONS {
            return WriteStep::Ended(newest.hash.clone());
        }
        self.repetitions += 1;
        self.has_sequence_moved = false;
        tracing::warn!(tx_hash = newest.hash, outcome = outcome.label(), "signed again: it never executes");
        WriteStep::SignAgain { required_sequence: None }
    }
}

/// The transaction whose outcome is that of a write which is not signed again: one that has had its effect, or once all are decided one
/// that executed, or the last. `None` while that is open: after one without effect another may still have it.
pub fn followed_outcome<'a>(transactions: &[&'a InFlightTx]) -> Option<&'a InFlightTx> {
    let has_effect = |tx: &&&InFlightTx| tx.outcome.as_ref().is_some_and(|outcome| outcome.label() == "included");
    let is_decided = transactions.iter().all(|tx| tx.outcome.is_some());
    let executed = || transactions.iter().rfind(|tx| tx.has_executed()).or(transactions.last()).filter(|_| is_decided);
    transactions.iter().find(has_effect).or_else(executed).copied()
}

fn fails_with(outcome: &WriteOutcome, kind: ChainErrorKind) -> bool {
    let WriteOutcome::Included { result, .. } = outcome else { return false };
    let error = ChainError { codespace: result.codespace.clone(), code: result.code, raw_log: String::new() };
    result.code != 0 && error.classify() == kind
}

#[cfg(test)]
mod tests {
    use svc_wire::comet_rpc::{AbciEvent, EventAttribute, ExecTxResult};

    use super::*;
    use crate::write::{outcome::TxRefusal, submission::SubmissionId};

    fn tx(has_granter: bool, outcome: Option<WriteOutcome>) -> InFlightTx {
        InFlightTx { has_granter, outcome, ..InFlightTx::sample("A", SubmissionId(1), 7) }
    }

    /// The same transaction, signed for a later submission.
    fn later(number: u64, tx: &InFlightTx) -> InFlightTx {
        InFlightTx { hash: format!("later {number}"), submission_id: SubmissionId(number), ..tx.clone() }
    }

    fn ended(hash: &str) -> WriteStep {
        WriteStep::Ended(hash.to_owned())
    }

    fn refused(code: u32, has_granter: bool) -> InFlightTx {
        let error = ChainError { codespace: "sdk".to_owned(), code, raw_log: String::new() };
        InFlightTx { refusal: Some(TxRefusal { error, block_height: None }), ..tx(has_granter, None) }
    }

    fn included(code: u32, uses_sequence: bool) -> Option<WriteOutcome> {
        let attribute = EventAttribute { key: "acc_seq".to_owned(), value: "a/7".to_owned(), index: true };
        let event = AbciEvent { event_type: "tx".to_owned(), attributes: vec![attribute] };
        let result = ExecTxResult {
            code,
            codespace: "sdk".to_owned(),
            gas_wanted: 100,
            events: if uses_sequence { vec![event] } else { Vec::new() },
            ..ExecTxResult::default()
        };
        Some(WriteOutcome::Included { height: 9, result: Box::new(result) })
    }

    const DISPLACED: Option<WriteOutcome> = Some(WriteOutcome::Displaced { height: 9 });
    const EXPIRED: Option<WriteOutcome> = Some(WriteOutcome::Expired { timeout_height: 20 });
    const ANYWHERE: WriteStep = WriteStep::SignAgain { required_sequence: None };

    #[test]
    fn a_write_is_signed_again_once_after_it_ran_out_of_gas() {
        let mut retry = RetryState::default();
        let failed = tx(false, included(11, true));
        assert_eq!((retry.next_step(&[&failed]), retry.min_gas_limit), (ANYWHERE, 200));
        let waiting = later(2, &tx(false, None));
        assert_eq!(retry.next_step(&[&failed, &waiting]), WriteStep::Wait);
        assert_eq!(retry.next_step(&[&failed, &later(2, &failed)]), ended("later 2"), "the second time");
        let included = later(2, &tx(false, included(0, true)));
        assert_eq!(retry.next_step(&[&failed, &included]), ended("later 2"));
        // The table has forgotten the first one.
        assert_eq!(retry.next_step(&[&included]), ended("later 2"));
        assert_eq!(retry.executed(&[&included]).map(|tx| tx.hash.as_str()), Some("later 2"));
        assert_eq!(retry.executed(&[&failed]).map(|tx| tx.hash.as_str()), None);
    }

    #[test]
    fn a_displaced_write_is_signed_again_and_an_expired_or_executed_one_never() {
        let mut retry = RetryState::default();
        let displaced: Vec<_> =
            (1..).take(MAX_REPETITIONS as usize + 1).map(|id| later(id, &tx(false, DISPLACED))).collect();
        let transactions: Vec<_> = displaced.iter().collect();
        for signed in 1..=MAX_REPETITIONS as usize {
            assert_eq!(retry.next_step(&transactions[..signed]), ANYWHERE);
        }
        assert_eq!(retry.next_step(&transactions), ended(&format!("later {}", MAX_REPETITIONS + 1)));
        for outcome in [EXPIRED, included(0, true), included(5, true), included(5, false)] {
            assert_eq!(RetryState::default().next_step(&[&tx(false, outcome)]), ended("A"));
        }
    }

    #[test]
    fn a_refused_write_is_answered_and_one_of_several_transactions_decides_it() {
        let refusal = refused(13, false);
        assert_eq!(RetryState::default().next_step(&[&refusal]), WriteStep::Refused("A".to_owned()));
        let executed = InFlightTx { outcome: included(0, true), ..refused(13, true) };
        assert_eq!(RetryState::default().next_step(&[&executed, &tx(false, None)]), ended("A"));
        let never = InFlightTx { outcome: DISPLACED, ..refused(38, true) };
        assert_eq!(RetryState::default().next_step(&[&never, &tx(false, None)]), WriteStep::Wait);
        assert_eq!(RetryState::default().next_step(&[&never, &tx(false, DISPLACED)]), ANYWHERE);
    }

    #[test]
    fn without_its_allowance_a_write_is_signed_at_the_same_sequence_or_after_the_decision() {
        let mut retry = RetryState::default();
        let refusal = refused(38, true);
        assert_eq!(retry.next_step(&[&refusal]), WriteStep::SignAgain { required_sequence: Some(7) });
        assert!(retry.pays_itself);
        retry.has_sequence_moved = true;
        assert_eq!(retry.next_step(&[&refusal]), WriteStep::Wait);
        let decided = InFlightTx { outcome: EXPIRED, ..refused(38, true) };
        assert_eq!(retry.next_step(&[&decided]), ANYWHERE);
        let failed_in_block = tx(true, included(38, false));
        assert_eq!(RetryState::default().next_step(&[&failed_in_block]), ANYWHERE);
    }

    #[test]
    fn a_failure_ends_a_write_only_when_no_other_transaction_can_execute() {
        let (failed, open, executed) = (tx(false, included(11, true)), tx(false, None), tx(false, included(0, true)));
        let (displaced, expired) = (tx(false, DISPLACED), tx(false, EXPIRED));
        let label = |transactions: &[&InFlightTx]| followed_outcome(transactions).and_then(InFlightTx::outcome_label);
        assert_eq!((label(&[]), label(&[&failed, &open])), (None, None));
        assert_eq!((label(&[&failed, &executed, &open]), label(&[&executed])), (Some("included"), Some("included")));
        assert_eq!((label(&[&failed, &expired]), label(&[&displaced, &expired])), (Some("failed"), Some("expired")));
    }

    #[test]
    fn a_timeout_height_that_passed_before_the_broadcast_is_waited_for_and_tried_again() {
        let mut retry = RetryState::default();
        assert_eq!(retry.next_step(&[&refused(30, false)]), WriteStep::Wait);
        assert_eq!(retry.next_step(&[&InFlightTx { outcome: EXPIRED, ..refused(30, false) }]), ANYWHERE);
    }
}

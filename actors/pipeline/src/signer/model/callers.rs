//! The callers of the model: each makes one call, hears one answer, and may repeat the call as its idempotency key allows.

use crate::write::{
    in_flight::{InFlightTable, InFlightTx},
    retry::{DecidedThrough, RetryState, WriteStep, followed_outcome},
    submission::SubmissionId,
};

/// The answer that a caller has heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallerAnswer {
    /// Refused; with a transaction that may still execute, its hash and timeout height are in the answer.
    Refused,
    Included,
    /// A block has it, without effect.
    Failed,
    NotExecuted,
}

impl CallerAnswer {
    /// The answer of a decided transaction.
    fn of(tx: Option<&InFlightTx>) -> Self {
        match tx.and_then(|tx| tx.outcome.as_ref().map(|outcome| (tx.has_executed(), outcome.label()))) {
            Some((true, "included")) => Self::Included,
            Some((true, _)) => Self::Failed,
            _ => Self::NotExecuted,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallerPhase {
    /// The signer has the write, or has lost it with an incarnation.
    Submitting,
    /// The task decides on the next step.
    Following,
    /// The process that made the call has died; the next one follows its transactions and signs no more.
    Resumed,
    /// Nothing is signed any more; the transactions are followed until none can execute.
    Refused,
    /// All transactions are decided.
    Ended,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ModelCaller {
    pub phase: CallerPhase,
    pub answer: Option<CallerAnswer>,
    pub retry: RetryState,
    pub required_sequence: Option<u64>,
    /// As `WriteTask::decided_through`.
    decided_through: DecidedThrough,
    /// Submissions of the call since it was made, or repeated.
    pub submissions: Vec<SubmissionId>,
    /// Submissions of all times.
    pub submission_count: usize,
    /// Submissions that never execute, according to an answer.
    pub disclaimed: Vec<SubmissionId>,
    /// The caller was answered with the hash of its transaction before it was decided, and looks for that one.
    pub has_timed_out: bool,
    is_executed: bool,
}

/// The caller needs the signer.
pub enum CallerRequest {
    Submit,
    None,
}

impl ModelCaller {
    pub fn new() -> Self {
        Self {
            phase: CallerPhase::Submitting,
            answer: None,
            retry: RetryState::default(),
            required_sequence: None,
            decided_through: DecidedThrough::default(),
            submissions: Vec::new(),
            submission_count: 0,
            disclaimed: Vec::new(),
            has_timed_out: false,
            is_executed: false,
        }
    }

    fn transactions<'a>(&self, table: &'a InFlightTable) -> Vec<&'a InFlightTx> {
        self.submissions.iter().flat_map(|id| table.transactions_of(*id)).collect()
    }

    /// The signer has answered the submission.
    pub fn on_signed(&mut self) {
        self.phase = CallerPhase::Following;
    }

    /// Nothing was signed for the submission.
    pub fn on_not_signed(&mut self, has_sequence_moved: bool, table: &InFlightTable) {
        if has_sequence_moved {
            self.retry.has_sequence_moved = true;
            self.phase = CallerPhase::Following;
            return;
        }
        // As `WriteTask::executed`: a transaction that has executed meanwhile is the outcome.
        let executed = self.retry.executed(&self.transactions(table)).map(|tx| CallerAnswer::of(Some(tx)));
        self.tell(executed.unwrap_or(CallerAnswer::Refused));
        self.phase = CallerPhase::Refused;
        self.end_if_decided(table);
    }

    fn tell(&mut self, answer: CallerAnswer) {
        assert_eq!(self.answer, None, "a caller is answered once");
        self.answer = Some(answer);
    }

    /// As `WriteTask::follow`.
    fn followed<'a>(&self, table: &'a InFlightTable) -> Option<&'a InFlightTx> {
        followed_outcome(&self.decided_through.later(&self.transactions(table)))
    }

    fn end_if_decided(&mut self, table: &InFlightTable) {
        let followed = self.followed(table);
        if followed.is_some() || self.transactions(table).iter().all(|tx| tx.outcome.is_some()) {
            self.is_executed = CallerAnswer::of(followed) == CallerAnswer::Included;
            self.phase = CallerPhase::Ended;
            if !self.is_executed {
                self.disclaimed.append(&mut self.submissions.clone());
            }
        }
    }

    /// Goes on as far as the transactions allow.
    pub fn advance(&mut self, table: &InFlightTable) -> CallerRequest {
        match self.phase {
            CallerPhase::Submitting | CallerPhase::Ended => {}
            CallerPhase::Refused => self.end_if_decided(table),
            CallerPhase::Resumed => {
                if let Some(tx) = self.followed(table) {
                    self.tell(CallerAnswer::of(Some(tx)));
                    self.end_if_decided(table);
                }
            }
            CallerPhase::Following => match self.retry.next_step(&self.transactions(table)) {
                WriteStep::Wait => {}
                // As `WriteReporter::requeue`: the caller repeats the call by the outcome of its transaction.
                WriteStep::SignAgain { .. } if self.has_timed_out => {
                    self.phase = CallerPhase::Resumed;
                    return self.advance(table);
                }
                WriteStep::SignAgain { required_sequence } => {
                    (self.required_sequence, self.decided_through) = (required_sequence, self.retry.decided_through());
                    return CallerRequest::Submit;
                }
                WriteStep::Refused(_) => {
                    self.tell(CallerAnswer::Refused);
                    self.phase = CallerPhase::Refused;
                }
                WriteStep::Ended(hash) => {
                    self.tell(CallerAnswer::of(table.get(&hash)));
                    self.end_if_decided(table);
                }
            },
        }
        CallerRequest::None
    }

    /// Whether the call may be made a second time: it was answered and its key is free, or a new key is due.
    pub fn may_repeat(&self) -> bool {
        // The answer under the key of a refused call follows the outcome.
        self.phase == CallerPhase::Ended && !self.is_executed && self.answer.is_some()
    }

    /// Makes the call a second time.
    pub fn repeat(&mut self) {
        let Self { submission_count, disclaimed, .. } = std::mem::replace(self, Self::new());
        (self.submission_count, self.disclaimed) = (submission_count, disclaimed);
    }

    /// The process has died. A caller without an answer repeats its call under its key at the next process.
    pub fn on_process_death(&mut self, table: &InFlightTable) {
        if self.answer.is_some() || self.phase == CallerPhase::Resumed {
            return;
        }
        let transactions = self.transactions(table);
        // As `JournalStore::find_by_key`: refused transactions that never execute leave the key free.
        if transactions.iter().all(|tx| tx.outcome_label() == Some("refused")) {
            self.disclaimed.append(&mut self.submissions.clone());
            self.repeat();
        } else {
            (self.phase, self.decided_through) = (CallerPhase::Resumed, DecidedThrough::default());
        }
    }
}

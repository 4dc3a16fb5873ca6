//! The progress of a write, as its callers see it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

/// The progress of a write. `A` is the type of its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteStatus<A> {
    /// The write waits in the queue of the signer, is simulated or is signed.
    Queued,
    /// The node has the transaction, or may have it.
    InFlight {
        /// Upper-case hex.
        hash: String,
        /// Past this height it can never execute.
        timeout_height: u64,
    },
    /// A block contains the transaction; the answer follows.
    Included {
        /// Upper-case hex.
        hash: String,
        /// Its timeout height.
        timeout_height: u64,
        /// Height of the block.
        height: u64,
    },
    /// The write has ended.
    Ended(A),
}

/// The pipeline stopped before the write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the pipeline stopped before the write ended")]
pub struct WriteStopped;

/// A write that is active, for its callers. Clones watch the same write; the write goes on when all of them are dropped.
#[derive(Clone)]
pub struct WriteHandle<A> {
    status: watch::Receiver<WriteStatus<A>>,
    caller_timeout: Arc<CallerTimeout>,
}

/// Whether a caller was answered before the write was decided.
#[derive(Default)]
struct CallerTimeout {
    is_reported: Mutex<bool>,
    notify: Notify,
}

impl CallerTimeout {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_reported.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: Clone> WriteHandle<A> {
    /// The status now.
    pub fn status(&self) -> WriteStatus<A> {
        self.status.borrow().clone()
    }

    /// Waits for the next status. Statuses that pass in between are skipped.
    pub async fn changed(&mut self) -> Result<WriteStatus<A>, WriteStopped> {
        self.status.changed().await.map_err(|_| WriteStopped)?;
        Ok(self.status.borrow_and_update().clone())
    }

    /// Waits for the answer.
    pub async fn answer(mut self) -> Result<A, WriteStopped> {
        let ended = self.status.wait_for(|status| matches!(status, WriteStatus::Ended(_))).await;
        match ended.map_err(|_| WriteStopped)?.clone() {
            WriteStatus::Ended(answer) => Ok(answer),
            WriteStatus::Queued | WriteStatus::InFlight { .. } | WriteStatus::Included { .. } => Err(WriteStopped),
        }
    }

    /// Records that a caller is answered while the transaction `hash` is in flight: the write is not signed again from then on, since
    /// the caller looks for this transaction. False when the write has another status meanwhile. The rest of the write has a trace of
    /// its own.
    pub fn report_timeout(&self, hash: &str) -> bool {
        let mut is_reported = self.caller_timeout.lock();
        let is_in_flight =
            matches!(&*self.status.borrow(), WriteStatus::InFlight { hash: current, .. } if current == hash);
        if is_in_flight && !std::mem::replace(&mut *is_reported, true) {
            self.caller_timeout.notify.notify_one();
        }
        is_in_flight
    }
}

/// The side of the status that the task of the write owns.
pub struct WriteReporter<A> {
    status: watch::Sender<WriteStatus<A>>,
    caller_timeout: Arc<CallerTimeout>,
}

impl<A> WriteReporter<A> {
    /// A reporter, and the handle that watches it.
    pub fn new() -> (Self, WriteHandle<A>) {
        let (sender, receiver) = watch::channel(WriteStatus::Queued);
        let caller_timeout = Arc::<CallerTimeout>::default();
        let handle = WriteHandle { status: receiver, caller_timeout: Arc::clone(&caller_timeout) };
        (Self { status: sender, caller_timeout }, handle)
    }

    /// Publishes a status.
    pub fn report(&self, status: WriteStatus<A>) {
        self.status.send_replace(status);
    }

    /// Publishes that a transaction is in flight, once.
    pub fn report_in_flight(&self, hash: String, timeout_height: u64) {
        self.status.send_if_modified(|status| {
            let is_known = matches!(status, WriteStatus::InFlight { hash: known, .. } if *known == hash);
            if !is_known {
                *status = WriteStatus::InFlight { hash, timeout_height };
            }
            !is_known
        });
    }

    /// Publishes that the write waits for its signature again; false when a caller was answered with its transaction, so that it must
    /// not be signed again.
    pub fn requeue(&self) -> bool {
        let is_reported = self.caller_timeout.lock();
        if !*is_reported {
            self.report(WriteStatus::Queued);
        }
        !*is_reported
    }

    /// Whether a caller was answered before the write was decided.
    pub fn has_caller_timed_out(&self) -> bool {
        *self.caller_timeout.lock()
    }

    /// Waits until a caller is answered before the write is decided.
    pub async fn caller_timed_out(&self) {
        self.caller_timeout.notify.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_caller_sees_the_newest_status_and_the_answer() {
        let (reporter, mut handle) = WriteReporter::<u8>::new();
        assert_eq!(handle.status(), WriteStatus::Queued);
        reporter.report_in_flight("A".to_owned(), 9);
        let in_flight = WriteStatus::InFlight { hash: "A".to_owned(), timeout_height: 9 };
        assert_eq!(handle.changed().await, Ok(in_flight));
        reporter.report_in_flight("A".to_owned(), 9);
        assert!(!handle.status.has_changed().expect("open"), "once");
        reporter.report(WriteStatus::Ended(7));
        assert_eq!(handle.clone().answer().await, Ok(7));
        drop(reporter);
        assert_eq!(handle.answer().await, Ok(7), "an answer stays");
    }

    #[tokio::test]
    async fn a_task_that_ends_without_an_answer_has_stopped() {
        let (reporter, mut handle) = WriteReporter::<u8>::new();
        drop(reporter);
        assert_eq!(handle.changed().await, Err(WriteStopped));
        assert_eq!(handle.answer().await, Err(WriteStopped));
    }

    #[tokio::test]
    async fn the_first_timeout_of_a_caller_wakes_the_task_once() {
        let (reporter, handle) = WriteReporter::<u8>::new();
        assert!(!reporter.has_caller_timed_out());
        assert!(!handle.report_timeout("A"), "nothing is in flight");
        reporter.report(WriteStatus::InFlight { hash: "A".to_owned(), timeout_height: 9 });
        assert!(!handle.report_timeout("B") && reporter.requeue(), "another transaction was in flight");
        reporter.report(WriteStatus::InFlight { hash: "A".to_owned(), timeout_height: 9 });
        assert!(handle.report_timeout("A") && handle.clone().report_timeout("A"));
        assert!(!reporter.requeue() && matches!(handle.status(), WriteStatus::InFlight { .. }));
        reporter.caller_timed_out().await;
        assert!(reporter.has_caller_timed_out());
        let again = tokio::time::timeout(std::time::Duration::ZERO, reporter.caller_timed_out()).await;
        assert!(again.is_err());
    }
}

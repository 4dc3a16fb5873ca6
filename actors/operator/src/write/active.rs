//! An active write, as one caller waits for it.

use svc_otel::metrics;
use svc_pipeline::{WriteHandle, WriteStatus};
use svc_wire::error_envelope::ErrorEnvelope;
use tokio::time::{Instant, sleep_until};

use super::{context::WriteContext, execution::undecided_error, receipt::WriteAnswer};
use crate::error::server_stopped;

/// A write that is active, for one caller. The write goes on when the caller drops it.
pub struct ActiveWrite {
    handle: WriteHandle<WriteAnswer>,
    context: WriteContext,
    /// Status that the caller has seen last.
    seen: WriteStatus<WriteAnswer>,
    is_first: bool,
    /// End of the wait for inclusion.
    deadline: Option<Instant>,
}

impl ActiveWrite {
    /// A write that `handle` watches.
    pub(crate) fn new(handle: WriteHandle<WriteAnswer>, context: WriteContext) -> Self {
        Self { handle, context, seen: WriteStatus::Queued, is_first: true, deadline: None }
    }

    /// Waits for the next status. A status that passes meanwhile is skipped. A transaction that is not decided within the wait limit
    /// ends the wait, not the write: the status is then `Ended` with the error BCAST_TIMEOUT. Cancel safe.
    pub async fn next_status(&mut self) -> WriteStatus<WriteAnswer> {
        if std::mem::take(&mut self.is_first) {
            let status = self.handle.status();
            if !matches!(status, WriteStatus::Queued) {
                return self.see(status);
            }
        }
        let next = match (&self.seen, self.deadline) {
            (WriteStatus::InFlight { hash, timeout_height }, Some(deadline)) => tokio::select! {
                next = self.handle.changed() => next,
                () = sleep_until(deadline) => match self.stop_waiting(hash, *timeout_height) {
                    Some(error) => return WriteStatus::Ended(Err(error)),
                    None => self.handle.changed().await,
                },
            },
            _ => self.handle.changed().await,
        };
        let next = next.unwrap_or_else(|_| WriteStatus::Ended(Err(server_stopped())));
        self.see(next)
    }

    /// Waits for the answer, at most as long as a caller waits.
    pub async fn answer(mut self) -> WriteAnswer {
        loop {
            if let WriteStatus::Ended(answer) = self.next_status().await {
                return answer;
            }
        }
    }

    fn see(&mut self, status: WriteStatus<WriteAnswer>) -> WriteStatus<WriteAnswer> {
        // The wait limit counts from the broadcast to the block; the indexer has a limit of its own.
        self.deadline = match &status {
            WriteStatus::InFlight { .. } => {
                Some(self.deadline.unwrap_or_else(|| Instant::now() + self.context.pipeline.tx_timeout()))
            }
            WriteStatus::Queued | WriteStatus::Included { .. } | WriteStatus::Ended(_) => None,
        };
        self.seen = status.clone();
        status
    }

    /// The error of a caller that waits no longer; `None` when the write has another status meanwhile.
    fn stop_waiting(&self, hash: &str, timeout_height: u64) -> Option<ErrorEnvelope> {
        if !self.handle.report_timeout(hash) {
            return None;
        }
        self.context.pipeline.journal().record_timeout(hash);
        metrics::record_tx_timeout();
        Some(undecided_error(&self.context, hash, timeout_height))
    }
}

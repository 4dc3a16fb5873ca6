//! A write whose transactions are signed: news of them, until the chain has decided.

use svc_otel::{
    metrics,
    trace::{self, WriteStage},
};
use tokio::time::Instant;
use tracing::{Instrument, Span};

use super::{WriteActors, WriteTask};
use crate::{
    confirmer::TxNews,
    decided_write::{DecidedWrite, WriteTimes},
    write::{
        error::WriteFailure, in_flight::InFlightTx, outcome::WriteOutcome, retry::followed_outcome,
        status::WriteStatus, submission::SubmittedTx,
    },
};

impl<A> WriteTask<A> {
    /// Follows the transactions of a refused write until the chain has decided all of them. Yields the one that executed, or the
    /// last one; `None` when the confirmer has stopped for good.
    pub async fn follow(&mut self, actors: &WriteActors) -> Option<DecidedWrite> {
        let now = Instant::now();
        loop {
            let ended = self.with_transactions(actors, |transactions| {
                followed_outcome(&self.decided_through.later(transactions)).cloned()
            });
            if let Some(tx) = ended {
                // A caller that repeats the refused write from now on waits for the answer of the block.
                self.report_inclusion(&tx);
                return DecidedWrite::new(&tx, WriteTimes { requested: now, sent: now, decided: Instant::now() });
            }
            if !self.await_news(actors, false).await {
                return None;
            }
        }
    }

    /// Follows the transactions of a write of an earlier process to their outcome. The write is not signed again, because its callers
    /// are gone.
    pub async fn resume<R>(
        &mut self,
        actors: &WriteActors,
        transactions: &[InFlightTx],
    ) -> Result<DecidedWrite, WriteFailure<R>> {
        self.begin_reconciliation();
        self.submissions = transactions.iter().map(|tx| tx.submission_id).collect();
        self.submissions.dedup();
        let was_open = transactions.iter().any(|tx| tx.outcome.is_none());
        let Some(decided) = self.follow(actors).await else {
            let error = self.undecided(actors);
            return Err(self.failure(actors, error));
        };
        if was_open {
            actors.recovery.with(|summary| summary.count_outcome(&decided.outcome));
            metrics::record_tx_recovered(decided.outcome.label());
        }
        Ok(decided)
    }

    /// Publishes that a block contains the transaction, if one does: the callers' wait for a block is over.
    pub(super) fn report_inclusion(&self, tx: &InFlightTx) {
        if let Some(WriteOutcome::Included { height, .. }) = tx.outcome {
            let (hash, timeout_height) = (tx.hash.clone(), tx.timeout_height);
            self.reporter.report(WriteStatus::Included { hash, timeout_height, height });
        }
    }

    /// Waits for news of the undecided transactions, as long as it takes; false when the confirmer has stopped for good.
    pub(super) async fn await_news(&mut self, actors: &WriteActors, includes_refusal: bool) -> bool {
        let undecided: Vec<(SubmittedTx, bool)> = self.with_transactions(actors, |transactions| {
            let open = transactions.iter().filter(|tx| tx.outcome.is_none());
            open.map(|tx| (SubmittedTx::from(*tx), includes_refusal && tx.refusal.is_none())).collect()
        });
        let Some((SubmittedTx { hash, timeout_height, .. }, _)) = undecided.last().cloned() else {
            // The last one was decided just now, unless there never was one.
            return self.with_transactions(actors, |transactions| !transactions.is_empty());
        };
        if !self.is_answered {
            self.reporter.report_in_flight(hash.clone(), timeout_height);
        }
        let mut span = self.inclusion_span(&hash);
        let news = loop {
            let questions = undecided.iter().map(|(tx, is_refusal_news)| {
                let question = actors.confirmer.await_news(&tx.hash, *is_refusal_news);
                Box::pin(question.instrument(span.clone()))
            });
            tokio::select! {
                (news, ..) = futures::future::select_all(questions) => break news,
                () = self.reporter.caller_timed_out() => {}
            }
            self.begin_reconciliation();
            span = self.inclusion_span(&hash);
        };
        if let Some(TxNews::Decided(WriteOutcome::Included { height, .. })) = news {
            trace::record_height(&span, height);
            if !self.is_answered {
                self.reporter.report(WriteStatus::Included { hash, timeout_height, height });
            }
        }
        news.is_some()
    }

    fn inclusion_span(&self, hash: &str) -> Span {
        let span = trace::stage_span(WriteStage::AwaitInclusion, &self.span);
        trace::record_tx(&span, hash);
        span
    }
}

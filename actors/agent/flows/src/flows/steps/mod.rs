//! The steps that this agent takes in flows by itself. Each looks first for the traces of an earlier attempt, and
//! stores its outcome.

mod accept;
mod anchor;
mod issue;
mod look_again;
mod open;
mod outcome;
mod silence;
mod validate;

use std::time::{Duration, Instant};

use svc_agent_core::{
    flows::{BLOCKED_PAUSE, ContentKind, pause_of},
    grant::{pause_before_look, time_to_refill},
};
use svc_agent_store::FlowAtTime;
use svc_didcomm::flow::{FlowRecord, FlowState, FlowWork, Progress, next_work};
use svc_otel::{metrics, trace};
use tracing::Instrument;

pub(super) use self::{
    accept::is_issuer, issue::order_refused, open::Opening, outcome::StepStop, validate::failure_of,
};
use self::{
    outcome::{Done, RETRY_PAUSE},
    silence::silence_text,
};
use svc_kit::wall_clock::now_millis;

use super::service::{FlowChange, FlowService, time_behind};
use crate::flow_session::StepEnd;

/// The pause, and the wait in shorter ones, from which on a flow that waits is not due.
const HELD_PAUSE: Duration = Duration::from_secs(1);
const HELD_WAIT: Duration = Duration::from_secs(2);
/// Time behind its pause at which a session that has died is noticed.
const HOLD: Duration = Duration::from_secs(10);

/// The name of a step in traces and metrics.
fn name_of(work: FlowWork) -> &'static str {
    match work {
        FlowWork::Open => "open",
        FlowWork::JudgeOffer => "judge_offer",
        FlowWork::CheckCredential => "check_credential",
        FlowWork::SendValidation => "send_validation",
        FlowWork::Offer => "offer",
        FlowWork::Sign => "sign",
        FlowWork::Anchor => "anchor",
        FlowWork::Deliver => "deliver",
        FlowWork::LookAgain => "look_again",
    }
}

impl FlowService {
    /// Takes the next step of a flow.
    pub(super) async fn take_step(&self, flow_id: &str, waited: Duration) -> StepEnd {
        let seen = match self.0.store.flow_with_time(flow_id).await {
            Ok(Some(seen)) => seen,
            Ok(None) => return StepEnd::AtRest,
            Err(error) => {
                tracing::warn!(%error, "a flow cannot be read");
                return StepEnd::After(RETRY_PAUSE);
            }
        };
        let end = match next_work(&seen.record) {
            None => self.look(&seen).await,
            Some(work) => {
                let (name, started) = (name_of(work), Instant::now());
                let span = trace::flow_step_span(flow_id, name, seen.record.traceparent.as_deref());
                let taken = self.take_work(&seen.record, work, waited).instrument(span).await;
                let (outcome, end) = match taken {
                    Ok(Done::Changed) => ("done", StepEnd::Again),
                    Ok(Done::Later(pause)) => ("waits", StepEnd::After(pause)),
                    Err(stop) => self.stop(&seen, work, stop).await,
                };
                metrics::record_flow_step(name, outcome, started.elapsed());
                end
            }
        };
        match end {
            // Most flows wait for one block: that is worth no write.
            StepEnd::After(pause) if pause >= HELD_PAUSE || waited >= HELD_WAIT => self.hold(&seen, pause).await,
            end => end,
        }
    }

    /// A session waits for a pause. Its flow is not due meanwhile: flows that wait would take the places of those behind them.
    async fn hold(&self, seen: &FlowAtTime, pause: Duration) -> StepEnd {
        if seen.due_at.is_some_and(|at| at > time_behind(pause)) {
            return StepEnd::After(pause);
        }
        match self.0.store.postpone_flow(seen, Some(time_behind(pause + HOLD))).await {
            Ok(true) => StepEnd::After(pause),
            Ok(false) => StepEnd::Again,
            Err(error) => {
                tracing::debug!(%error, flow = seen.record.id, "the pause of a flow cannot be stored");
                StepEnd::After(pause)
            }
        }
    }

    async fn take_work(&self, record: &FlowRecord, work: FlowWork, waited: Duration) -> Result<Done, StepStop> {
        match work {
            FlowWork::Open => self.open_flow(record).await,
            FlowWork::JudgeOffer => self.judge_offer(record).await,
            FlowWork::CheckCredential => self.check_credential(record, waited).await,
            FlowWork::SendValidation => self.send_validation(record).await,
            FlowWork::Offer => self.offer(record).await,
            FlowWork::Sign => self.sign(record).await,
            FlowWork::Anchor => self.anchor(record, waited).await,
            FlowWork::Deliver => self.deliver(record).await,
            FlowWork::LookAgain => self.look_again(record, waited).await,
        }
    }

    /// A flow that was due has no step: its participant is read.
    async fn look(&self, seen: &FlowAtTime) -> StepEnd {
        let record = &seen.record;
        let participant = record.applicant_participant_id.or(record.validator_participant_id);
        if record.state == FlowState::CredRevoked
            && let Err(stop) = self.drop_revoked(record).await
        {
            tracing::warn!(flow = record.id, reason = stop.into_notice().1, "a revoked credential is not gone yet");
            return StepEnd::After(RETRY_PAUSE);
        }
        if record.state.is_terminal() {
            return self.rest(seen, None).await;
        }
        let now = now_millis();
        if record.silent_from().is_some_and(|from| from <= now) {
            return self.note_silence(record).await;
        }
        let silent_in = record.silent_from().map(|from| Duration::from_millis(from.saturating_sub(now).unsigned_abs()));
        let held_up = record.blocked.as_ref().filter(|_| !record.is_blocked_by_silence());
        // The flow rests before the read: a change or another time that the read leaves behind counts.
        let end = self.rest(seen, held_up.map(|_| pause_of(record, now)).or(silent_in)).await;
        if end == StepEnd::AtRest
            && let Some(id) = participant
            && let Err(reason) = self.read_participant(id, 0).await
        {
            tracing::debug!(participant = id, reason, "a participant cannot be read");
            if let Err(error) = self.look_within(&record.id, BLOCKED_PAUSE).await {
                tracing::warn!(%error, flow = record.id, "a flow cannot be noted for another look");
            }
        }
        end
    }

    /// The peer has owed an answer for long: people have to see it.
    async fn note_silence(&self, record: &FlowRecord) -> StepEnd {
        let Some(awaited) = record.awaited_answer() else { return StepEnd::Again };
        let offered =
            self.0.store.flow_content(self.key(), &record.id, ContentKind::Offered, record.round.number).await;
        let format = offered.ok().flatten().map(|content| content.format).unwrap_or_default();
        let text = silence_text(awaited, &format);
        let change = |found: &FlowRecord, now: i64| {
            let mut progress = Progress::of(found.clone());
            progress.note_silence(&text, now).then(|| FlowChange::of(found, progress))
        };
        match self.change_in_session(&record.id, change).await {
            Ok(_) => StepEnd::AtRest,
            Err(_) => StepEnd::After(RETRY_PAUSE),
        }
    }

    /// The flow has no step now, and is looked at again behind a pause, if any.
    async fn rest(&self, seen: &FlowAtTime, pause: Option<Duration>) -> StepEnd {
        match self.0.store.postpone_flow(seen, pause.map(time_behind)).await {
            Ok(true) => StepEnd::AtRest,
            Ok(false) => StepEnd::Again,
            Err(_) => StepEnd::After(RETRY_PAUSE),
        }
    }

    /// Ends a step that was not taken: people have to act, or a later attempt may succeed.
    async fn stop(&self, seen: &FlowAtTime, work: FlowWork, stop: StepStop) -> (&'static str, StepEnd) {
        let record = &seen.record;
        let (code, text, refills_at) = match stop {
            StepStop::Blocked(code, text, refills_at) => (code, text, refills_at),
            StepStop::Outdated => return ("outdated", StepEnd::Again),
            StepStop::Failed(reason) => {
                tracing::warn!(flow = record.id, step = name_of(work), reason, "a step of a flow is taken again later");
                return ("failed", StepEnd::After(RETRY_PAUSE));
            }
        };
        let mut is_same = false;
        let change = |found: &FlowRecord, now: i64| {
            // A step that has changed since is judged by itself.
            is_same = next_work(found) == Some(work);
            let mut progress = Progress::of(found.clone());
            progress.wait_for(&code, &text, now);
            (is_same && progress.record != *found).then(|| FlowChange::of(found, progress))
        };
        match self.change_in_session(&record.id, change).await {
            // The change has the time of the next attempt.
            Ok(Some(_)) => ("blocked", StepEnd::AtRest),
            Ok(None) if is_same => {
                let refills_in =
                    refills_at.and_then(|at| Some(time_to_refill(&at, &self.account().ok()?.chain_time())));
                let pause = pause_before_look(pause_of(record, now_millis()), refills_in);
                ("blocked", self.rest(seen, Some(pause)).await)
            }
            Ok(None) => ("outdated", StepEnd::Again),
            Err(_) => ("failed", StepEnd::After(RETRY_PAUSE)),
        }
    }

    /// Stores the outcome of a step, unless the flow has changed meanwhile.
    async fn finish(&self, before: &FlowRecord, change: FlowChange) -> Result<Done, StepStop> {
        let is_same = |record: &FlowRecord, _| (record == before).then_some(change);
        let changed = self.change_in_session(&before.id, is_same).await?;
        if changed.is_some() { Ok(Done::Changed) } else { Err(StepStop::Outdated) }
    }
}

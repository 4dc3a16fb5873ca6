//! The work of the sessions.

use std::{fmt::Display, sync::Arc, time::Instant};

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use svc_agent_core::{
    flows::{HeardFacts, PeerStanding},
    peer_tag::peer_tag,
    peers::Verdict,
};
use svc_agent_store::{
    AgentStoreError, ArrivalError, ArrivedMessage, FlowPart, QueuedMessage, SentMessage, TakenMessage,
};
use svc_didcomm::{
    Message,
    delivery::Repetition,
    from_prior::FromPrior,
    protocol::{Content, ContentError},
};
use svc_kit::wall_clock::{self, now_millis};
use svc_net::didcomm::{PeerSocket, Receipt};
use svc_otel::metrics;
use uuid::Uuid;

use super::{
    applicant::is_opening,
    arrival_outcome::{ArrivalOutcome, JudgedMessage},
    flow_facts::UnknownFacts,
    service::{PeerService, known_protocol},
    settings::PeerAdmission,
};
use crate::peer_session::{PeerWork, PreparedMessage, ProvenMessage, SendEnd, TakenReceipt};

impl PeerWork for PeerService {
    fn take(&self, proven: ProvenMessage) -> BoxFuture<'_, TakenReceipt> {
        self.take_message(proven).boxed()
    }

    fn end_connection<'a>(&'a self, recipient: &'a str, prior: &'a FromPrior) -> BoxFuture<'a, Receipt> {
        self.take_end(recipient, prior).boxed()
    }

    fn next_message<'a>(
        &'a self,
        connection_id: &'a str,
        is_first: bool,
        sent: Option<SentMessage>,
    ) -> BoxFuture<'a, Result<Option<QueuedMessage>, AgentStoreError>> {
        self.settle_and_read(connection_id, is_first, sent).boxed()
    }

    fn send<'a>(
        &'a self,
        queued: &'a QueuedMessage,
        prepared: Option<PreparedMessage>,
        socket: Option<(String, PeerSocket)>,
    ) -> BoxFuture<'a, (SendEnd, Option<PreparedMessage>)> {
        self.send_and_prepare(queued, prepared, socket).boxed()
    }

    fn send_unstored(&self, message: Message) -> BoxFuture<'_, ()> {
        self.send_unstored(message).boxed()
    }

    fn arrived(&self, envelope: Bytes) -> BoxFuture<'_, ()> {
        self.receive_envelope(envelope).map(|_| ()).boxed()
    }

    fn nothing_due(&self) {
        // The directory knows the time at which the next message is due.
        self.outbox_changed();
    }

    fn is_idle(&self, peer: &Arc<str>) {
        self.0.parts.directory.session_is_idle(peer);
    }

    fn idle(&self) -> std::time::Duration {
        self.0.parts.settings.idle
    }

    fn outbox_age(&self) -> i64 {
        i64::try_from(self.0.parts.settings.outbox_age.as_secs()).unwrap_or(i64::MAX)
    }
}

impl PeerService {
    /// Judges and stores a message, and makes the answer of which nothing is stored.
    async fn take_message(&self, proven: ProvenMessage) -> TakenReceipt {
        let protocol = known_protocol(proven.message.protocol());
        let content = self.read_content(&proven.message);
        let judged = self.judge_and_store(&proven, &content).await.unwrap_or_else(JudgedMessage::from);
        let JudgedMessage { receipt, queued_for, outcome } = judged;
        outcome.record(protocol);
        let answer = match outcome {
            ArrivalOutcome::Untrusted => self.answer_to_untrusted(&proven, &content),
            ArrivalOutcome::StoreFailed | ArrivalOutcome::UnknownVerdict => self.denial_for_now(&proven, &content),
            _ => None,
        };
        TakenReceipt { receipt, queued_for, answer }
    }

    /// Judges a message, and stores it with everything that follows from it. Fails with the outcome of a message that is not stored.
    async fn judge_and_store(
        &self,
        proven: &ProvenMessage,
        content: &Result<Content, ContentError>,
    ) -> Result<JudgedMessage, ArrivalOutcome> {
        let (verdict, standing) = self.judge_sender(proven, content).await?;
        self.require_admission(proven, content, standing).await?;
        // A place among the new peers is for an admitted one.
        self.admit_new_peer(proven)?;
        let flows = self.flow_part(proven, content, standing).await;
        let flows = flows.map_err(|error| self.refuse(ArrivalOutcome::UnknownFlow, "flow_unknown", &error))?;
        let access = self.access_part(proven, content, standing.is_trusted).await;
        let arrived = ArrivedMessage {
            message: &proven.message,
            content,
            sender: &proven.sender,
            recipient: &proven.recipient,
            invitation: proven.invitation.as_ref(),
            prior: proven.prior.as_ref(),
            verdict,
            flows,
            access: access.as_ref(),
            now: now_millis(),
        };
        let taken = self.store_arrival(&arrived).await?;
        self.follow_up(proven, content, taken)
    }

    /// The verdict about the peer of a message, and whether the message is one by which an applicant becomes trusted. Peers of any
    /// standing need no verdict where they are admitted, except to open a flow.
    async fn judge_sender(
        &self,
        proven: &ProvenMessage,
        content: &Result<Content, ContentError>,
    ) -> Result<(Option<Verdict>, PeerStanding), ArrivalOutcome> {
        let parts = &self.0.parts;
        let unknown = |reason: &dyn Display| self.refuse(ArrivalOutcome::UnknownVerdict, "verdict_unknown", reason);
        let verdict = match parts.gate.verdict(&proven.public_did).await {
            Ok(verdict) => Some(verdict),
            Err(_) if parts.settings.admission == PeerAdmission::Any => None,
            Err(error) => return Err(unknown(&error)),
        };
        if verdict.is_none() && content.as_ref().is_ok_and(is_opening) {
            return Err(unknown(&"a flow begins with a verdict"));
        }
        let is_trusted = verdict.is_some_and(|verdict| verdict.is_trusted);
        let is_exempt = if is_trusted { Ok(false) } else { self.is_exempt(proven, content).await };
        let is_exempt = is_exempt.map_err(|error| unknown(&error))?;
        Ok((verdict, PeerStanding { is_trusted, is_exempt }))
    }

    /// Requires that a message of a peer of this standing may be handled.
    async fn require_admission(
        &self,
        proven: &ProvenMessage,
        content: &Result<Content, ContentError>,
        standing: PeerStanding,
    ) -> Result<(), ArrivalOutcome> {
        let parts = &self.0.parts;
        // A peer that is not trusted opens no flow, also where peers of any standing are admitted.
        let is_any = parts.settings.admission == PeerAdmission::Any && !content.as_ref().is_ok_and(is_opening);
        // An applicant that was asked for its protocols may answer before it is trusted.
        let is_answer =
            matches!(content, Ok(Content::Disclosures(_))) && self.0.questions.is_open(proven.message.thread());
        if is_any || standing.is_trusted || standing.is_exempt || is_answer {
            return Ok(());
        }
        if let Ok(content) = content {
            // An applicant becomes trusted by the flow that it has begun.
            match parts.flows.is_of_live_flow(&proven.public_did, &proven.message, content).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => return Err(self.refuse(ArrivalOutcome::StoreFailed, "store", &error)),
            }
        }
        Err(self.refuse(ArrivalOutcome::Untrusted, "untrusted", &"a peer that is no verifiable service"))
    }

    /// Takes a place among the new peers for a stranger.
    fn admit_new_peer(&self, proven: &ProvenMessage) -> Result<(), ArrivalOutcome> {
        if !proven.is_stranger {
            return Ok(());
        }
        self.admit_stranger().map_err(|retry_after| {
            self.refuse(ArrivalOutcome::Busy { retry_after }, "strangers", &"too many peers begin to talk")
        })
    }

    /// Stores a message, and tells the parts that have to know that it was, or was not.
    async fn store_arrival(&self, arrived: &ArrivedMessage<'_>) -> Result<TakenMessage, ArrivalOutcome> {
        let inner = &self.0;
        let taken = inner.parts.store.take_message(arrived, &inner.limits).await;
        // It may have moved the connection to another DID, or joined two.
        if arrived.prior.is_some() {
            inner.known_peers.note_change();
        }
        inner.parts.guard.note_result(&taken);
        taken.map_err(|error| self.not_stored(error))
    }

    /// Counts a message, or the end of a connection, of which nothing is stored; returns its outcome.
    fn not_stored(&self, error: ArrivalError) -> ArrivalOutcome {
        match error {
            ArrivalError::Refused(refusal) => {
                self.note_refusal(refusal);
                ArrivalOutcome::Refused
            }
            ArrivalError::Store(error) => self.refuse(ArrivalOutcome::StoreFailed, "store", &error),
        }
    }

    /// Tells sessions, flows, callers and the backend of a message that was stored.
    fn follow_up(
        &self,
        proven: &ProvenMessage,
        content: &Result<Content, ContentError>,
        taken: TakenMessage,
    ) -> Result<JudgedMessage, ArrivalOutcome> {
        let (outcome, queued_for) = match taken {
            TakenMessage::MemoryFull => {
                let reason = "the memory against repetition is full, mostly of this peer";
                let outcome = self.refuse(ArrivalOutcome::MemoryFull, "replay_memory", &reason);
                tracing::debug!(peer = peer_tag(&proven.public_did), "most remembered messages are of this peer");
                return Err(outcome);
            }
            TakenMessage::FlowsFull => {
                let reason = "too many flows of a peer have not ended, or too much waits for it";
                return Err(self.refuse(ArrivalOutcome::FlowsFull, "flows_full", &reason));
            }
            TakenMessage::Repeated { connection_id, has_answer } => {
                (ArrivalOutcome::Repeated, has_answer.then_some(connection_id))
            }
            TakenMessage::New { connection_id, has_answer, has_event, has_record, flows, access } => {
                self.0.parts.flows.changed(flows);
                if let Some(outcome) = access {
                    metrics::record_access_answer(outcome.label());
                }
                self.hear_access(proven, content);
                if let Ok(Content::Disclosures(disclosures)) = content {
                    self.0.questions.answer(proven.message.thread(), &connection_id, disclosures);
                }
                if has_event {
                    self.notify_courier();
                }
                if has_record {
                    self.note_record();
                }
                (ArrivalOutcome::Stored, has_answer.then_some(connection_id))
            }
        };
        Ok(JudgedMessage { queued_for, ..outcome.into() })
    }

    /// Reads the facts of a message about a flow, before its transaction.
    async fn flow_part(
        &self,
        proven: &ProvenMessage,
        content: &Result<Content, ContentError>,
        standing: PeerStanding,
    ) -> Result<FlowPart<'_>, UnknownFacts> {
        let (flows, mut heard, mut answers_unknown) = (&self.0.parts.flows, HeardFacts::default(), false);
        if let Ok(content) = content {
            heard = flows.read(&proven.public_did, &proven.message, content, standing).await?;
            let is_step = matches!(content, Content::VtFlow(_)) && !is_opening(content);
            answers_unknown = is_step
                && !flows.has_flow(&proven.public_did, &proven.message).await?
                && self.0.unknown_flow_answers.take(&peer_tag(&proven.public_did), Instant::now()).is_ok();
        }
        let (key, max_per_peer) = (flows.key(), flows.max_per_peer());
        Ok(FlowPart { key, heard, max_per_peer, answers_unknown })
    }

    /// Ends the connection whose peer gives up its DID.
    async fn take_end(&self, recipient: &str, prior: &FromPrior) -> Receipt {
        let inner = &self.0;
        let ended = inner.parts.store.end_connection(recipient, prior, now_millis(), &inner.limits).await;
        inner.known_peers.note_change();
        inner.parts.guard.note_result(&ended);
        let outcome = match ended {
            Ok(has_event) => {
                if has_event {
                    self.notify_courier();
                }
                ArrivalOutcome::Stored
            }
            Err(error) => self.not_stored(error),
        };
        outcome.receipt()
    }

    async fn settle_and_read(
        &self,
        connection_id: &str,
        is_first: bool,
        sent: Option<SentMessage>,
    ) -> Result<Option<QueuedMessage>, AgentStoreError> {
        let (now, store) = (wall_clock::now().seconds, &self.0.parts.store);
        if is_first && sent.is_none() {
            store.settle_interrupted(Some(connection_id), now, self.outbox_age()).await?;
        }
        let taken = store.take_next_message(connection_id, sent, now).await?;
        Ok(taken.map(|mut queued| {
            // A question that is repeated to be answered has an id of its own: the receiver handles each once.
            if queued.waiting.unknowns > 0 && queued.waiting.repetition == Repetition::Opening {
                queued.message.id = Uuid::new_v4().to_string();
            }
            queued
        }))
    }
}

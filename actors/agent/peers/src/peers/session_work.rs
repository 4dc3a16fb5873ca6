//! The work of the sessions.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use svc_agent_core::{
    flows::{HeardFacts, PeerStanding},
    peer_tag::peer_tag,
};
use svc_agent_store::{AgentStoreError, ArrivedMessage, FlowPart, QueuedMessage, SentMessage, TakenMessage};
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
    flow_facts::UnknownFacts,
    service::{PeerService, RETRY_SECONDS, known_protocol},
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
    /// Judges and stores a message.
    async fn take_message(&self, proven: ProvenMessage) -> TakenReceipt {
        let protocol = proven.message.protocol().to_owned();
        let content = self.read_content(&proven.message);
        let (receipt, queued_for, outcome) = self.judge_and_store(&proven, &content).await;
        metrics::record_peer_message("in", known_protocol(&protocol), outcome);
        let answer = match outcome {
            "untrusted" => self.answer_to_untrusted(&proven, &content),
            "store_failed" | "unknown_verdict" => self.denial_for_now(&proven, &content),
            _ => None,
        };
        TakenReceipt { receipt, queued_for, answer }
    }

    async fn judge_and_store(
        &self,
        proven: &ProvenMessage,
        content: &Result<Content, ContentError>,
    ) -> (Receipt, Option<String>, &'static str) {
        let inner = &self.0;
        let unavailable = Receipt::Unavailable { retry_after: RETRY_SECONDS };
        let verdict = match inner.parts.gate.verdict(&proven.public_did).await {
            Ok(verdict) => Some(verdict),
            Err(_) if inner.parts.settings.admission == PeerAdmission::Any => None,
            Err(error) => {
                inner.refusals.note("verdict_unknown", &error);
                return (unavailable, None, "unknown_verdict");
            }
        };
        let opens = content.as_ref().is_ok_and(is_opening);
        if opens && verdict.is_none() {
            inner.refusals.note("verdict_unknown", &"a flow begins with a verdict");
            return (unavailable, None, "unknown_verdict");
        }
        let is_trusted = verdict.is_some_and(|verdict| verdict.is_trusted);
        let standing = if is_trusted { Ok(false) } else { self.is_exempt(proven, content).await };
        let standing = match standing {
            Ok(is_exempt) => PeerStanding { is_trusted, is_exempt },
            Err(error) => {
                inner.refusals.note("verdict_unknown", &error);
                return (unavailable, None, "unknown_verdict");
            }
        };
        // Those that are not trusted begin no flows, also where they are heard.
        let is_any = inner.parts.settings.admission == PeerAdmission::Any && !opens;
        let mut is_admitted = is_any || standing.is_trusted || standing.is_exempt;
        // An applicant that was asked for its protocols is heard, although it is not trusted yet.
        is_admitted |=
            matches!(content, Ok(Content::Disclosures(_))) && inner.questions.is_open(proven.message.thread());
        if let (false, Ok(content)) = (is_admitted, content) {
            // An applicant becomes trusted by the flow that it has begun.
            match inner.parts.flows.is_of_live_flow(&proven.public_did, &proven.message, content).await {
                Ok(is_of_flow) => is_admitted = is_of_flow,
                Err(error) => {
                    inner.refusals.note("store", &error);
                    return (unavailable, None, "store_failed");
                }
            }
        }
        if !is_admitted {
            inner.refusals.note("untrusted", &"a peer that is no verifiable service");
            return (Receipt::Taken, None, "untrusted");
        }
        // A place among the new ones is for those that are heard.
        if proven.is_stranger
            && let Err(retry_after) = self.admit_stranger()
        {
            inner.refusals.note("strangers", &"too many peers begin to talk");
            return (Receipt::Busy { retry_after }, None, "busy");
        }
        let flows = match self.flow_part(proven, content, standing).await {
            Ok(flows) => flows,
            Err(error) => {
                inner.refusals.note("flow_unknown", &error);
                return (unavailable, None, "unknown_flow");
            }
        };
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
        let taken = inner.parts.store.take_message(&arrived, &inner.limits).await;
        // It may have moved the connection to another DID, or joined two.
        if proven.prior.is_some() {
            inner.known_peers.note_change();
        }
        inner.parts.guard.note_write(taken.is_ok());
        match taken {
            Err(error) => {
                inner.refusals.note("store", &error);
                (unavailable, None, "store_failed")
            }
            Ok(Err(refusal)) => {
                self.note_refusal(refusal);
                (Receipt::Refused, None, "refused")
            }
            Ok(Ok(TakenMessage::MemoryFull)) => {
                inner.refusals.note("replay_memory", &"the memory against repetition is full, mostly of this peer");
                tracing::debug!(peer = peer_tag(&proven.public_did), "most remembered messages are of this peer");
                (Receipt::Busy { retry_after: 60 }, None, "memory_full")
            }
            Ok(Ok(TakenMessage::FlowsFull)) => {
                inner.refusals.note("flows_full", &"too many flows of a peer have not ended, or too much waits for it");
                (Receipt::Busy { retry_after: 60 }, None, "flows_full")
            }
            Ok(Ok(TakenMessage::Repeated { connection_id, has_answer })) => {
                (Receipt::Taken, has_answer.then_some(connection_id), "repeated")
            }
            Ok(Ok(TakenMessage::New { connection_id, has_answer, has_event, has_record, flows, access })) => {
                inner.parts.flows.changed(flows);
                if let Some(outcome) = access {
                    metrics::record_access_answer(outcome);
                }
                self.hear_access(proven, content);
                if let Ok(Content::Disclosures(disclosures)) = content {
                    inner.questions.answer(proven.message.thread(), &connection_id, disclosures);
                }
                if has_event {
                    self.notify_courier();
                }
                if has_record {
                    self.note_record();
                }
                (Receipt::Taken, has_answer.then_some(connection_id), "stored")
            }
        }
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
        inner.parts.guard.note_write(ended.is_ok());
        match ended {
            Ok(Ok(has_event)) => {
                if has_event {
                    self.notify_courier();
                }
                Receipt::Taken
            }
            Ok(Err(refusal)) => {
                self.note_refusal(refusal);
                Receipt::Refused
            }
            Err(error) => {
                inner.refusals.note("store", &error);
                Receipt::Unavailable { retry_after: RETRY_SECONDS }
            }
        }
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

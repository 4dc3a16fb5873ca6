//! The shared parts of everything that has to do with peers, and the work that sessions do with them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use svc_didcomm::{
    Refusal as MessageRefusal, delivery::Repetition, from_prior::FromPrior, message::Message, protocol::Content,
};
use svc_kit::wall_clock;
use svc_net::didcomm::{OutboundClient, Receipt};
use svc_otel::metrics;
use tokio::sync::watch;
use uuid::Uuid;

use super::{
    admission::Rates,
    gate::TrustGate,
    refusal_log::RefusalLog,
    resolver::PeerResolver,
    settings::{PeerAdmission, PeerSettings},
};
use crate::{
    courier::CourierHandle,
    keeper::KeeperHandle,
    peer_directory::{PeerDirectory, SessionError, SessionLease},
    peer_session::TakenReceipt,
    store::{
        AgentStore, AgentStoreError, ArrivedMessage, OwnPeerDid, PeerLimits, QueuedMessage, SentMessage, TakenMessage,
    },
    store_guard::StoreGuardHandle,
};

/// Seconds after which a sender may come back when the store or a verdict is missing.
pub(super) const RETRY_SECONDS: u64 = 5;
/// Fresh resolutions of one DID: a stranger's message must not make this agent ask somebody's server again and again.
const FRESH_PER_SECOND: f64 = 0.1;

/// A message of a peer whose sender and recipient are proven.
#[derive(Debug)]
pub(crate) struct ProvenMessage {
    /// The message.
    pub message: Message,
    /// DID of the key that encrypted it.
    pub sender: String,
    /// Our DID that it was encrypted for.
    pub recipient: String,
    /// The invitation of that DID.
    pub invitation: Option<OwnPeerDid>,
    /// Its `from_prior`, whose signature was verified.
    pub prior: Option<FromPrior>,
    /// The DID by which the peer is known, which the gate is asked about.
    pub public_did: String,
}

/// Talks to peers. Clones share everything.
#[derive(Clone)]
pub struct PeerService(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub settings: PeerSettings,
    pub store: AgentStore,
    pub guard: StoreGuardHandle,
    pub keeper: KeeperHandle,
    pub resolver: PeerResolver,
    pub gate: TrustGate,
    pub directory: PeerDirectory,
    pub courier: Option<CourierHandle>,
    pub client: OutboundClient,
    pub limits: PeerLimits,
    pub rates: Rates,
    pub strangers: Rates,
    pub fresh: Rates,
    pub refusals: RefusalLog,
    /// Grows with each basic message that is stored: callers wait for it.
    pub records: watch::Sender<u64>,
}

/// The parts that the boot of an agent has.
pub(crate) struct PeerParts {
    pub settings: PeerSettings,
    pub store: AgentStore,
    pub guard: StoreGuardHandle,
    pub keeper: KeeperHandle,
    pub resolver: PeerResolver,
    pub gate: TrustGate,
    pub directory: PeerDirectory,
    pub courier: Option<CourierHandle>,
    pub client: OutboundClient,
    /// Events that are stored for the receiver; `None` without one.
    pub max_events: Option<u64>,
}

impl PeerService {
    pub(crate) fn new(parts: PeerParts) -> Self {
        let PeerParts { settings, store, guard, keeper, resolver, gate, directory, courier, client, max_events } =
            parts;
        let per_peer = f64::from(settings.rate_per_peer);
        let strangers = f64::from(settings.new_peers_per_minute);
        Self(Arc::new(Inner {
            limits: settings.limits(max_events),
            rates: Rates::new(per_peer, per_peer * 10.0),
            strangers: Rates::new(strangers / 60.0, strangers),
            fresh: Rates::new(FRESH_PER_SECOND, 1.0),
            refusals: RefusalLog::default(),
            records: watch::Sender::new(0),
            settings,
            store,
            guard,
            keeper,
            resolver,
            gate,
            directory,
            courier,
            client,
        }))
    }

    /// Returns the settings.
    pub fn settings(&self) -> &PeerSettings {
        &self.0.settings
    }

    pub(crate) fn idle(&self) -> Duration {
        self.0.settings.idle
    }

    pub(crate) fn outbox_age(&self) -> i64 {
        i64::try_from(self.0.settings.outbox_age.as_secs()).unwrap_or(i64::MAX)
    }

    pub(crate) fn outbox_changed(&self) {
        self.0.directory.outbox_changed();
    }

    pub(crate) fn session_is_idle(&self, peer: &Arc<str>) {
        self.0.directory.session_is_idle(peer);
    }

    /// Sessions that run.
    pub fn session_count(&self) -> usize {
        self.0.directory.session_count()
    }

    pub(crate) async fn end_idle_session(&self, peer: &str) {
        self.0.directory.end_idle(peer).await;
    }

    pub(super) async fn session(&self, peer: &str) -> Result<SessionLease, SessionError> {
        self.0.directory.session(svc_didcomm::peer_did::comparable(peer), self).await
    }

    /// Wakes the sessions whose messages are due; returns the time at which the next one is.
    pub(crate) async fn wake_due_sessions(&self, now: i64, limit: usize) -> Result<Option<i64>, AgentStoreError> {
        for (connection_id, peer) in self.0.store.due_connections(now, limit).await? {
            match self.session(&peer).await {
                Ok(session) => session.message_due(&connection_id),
                Err(error) => tracing::warn!(%error, "a session with a peer cannot be started"),
            }
        }
        metrics::record_peer_outbox(self.0.store.queued_messages().await?);
        self.0.store.next_due().await
    }

    /// Forgets what is too old.
    pub(crate) async fn clean(&self) {
        let now = wall_clock::now().seconds;
        let age = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        let settings = &self.0.settings;
        let cleaned = async {
            while self.0.store.forget_seen(now - age(settings.replay_age)).await? {}
            self.0.store.forget_unanswered(now - age(settings.outbox_age)).await
        };
        if let Err(error) = cleaned.await {
            tracing::warn!(%error, "old messages of peers cannot be removed");
        }
    }

    /// Judges and stores a message.
    pub(crate) async fn take(&self, peer: &str, proven: ProvenMessage) -> TakenReceipt {
        let protocol = proven.message.protocol().to_owned();
        let (receipt, queued_for, outcome) = self.judge_and_store(peer, &proven).await;
        metrics::record_peer_message("in", known_protocol(&protocol), outcome);
        TakenReceipt { receipt, queued_for }
    }

    async fn judge_and_store(&self, peer: &str, proven: &ProvenMessage) -> (Receipt, Option<String>, &'static str) {
        let inner = &self.0;
        let unavailable = Receipt::Unavailable { retry_after: RETRY_SECONDS };
        let verdict = match inner.gate.verdict(&proven.public_did).await {
            Ok(verdict) => Some(verdict),
            Err(_) if inner.settings.admission == PeerAdmission::Any => None,
            Err(error) => {
                inner.refusals.note("verdict_unknown", &error);
                return (unavailable, None, "unknown_verdict");
            }
        };
        let is_admitted =
            inner.settings.admission == PeerAdmission::Any || verdict.is_some_and(|verdict| verdict.is_trusted);
        if !is_admitted {
            inner.refusals.note("untrusted", &"a peer that is no verifiable service");
            return (Receipt::Taken, None, "untrusted");
        }
        let content = Content::read(&proven.message);
        let arrived = ArrivedMessage {
            message: &proven.message,
            content: &content,
            sender: &proven.sender,
            recipient: &proven.recipient,
            invitation: proven.invitation.as_ref(),
            prior: proven.prior.as_ref(),
            verdict,
            now: now_millis(),
        };
        let taken = inner.store.take_message(&arrived, &inner.limits).await;
        inner.guard.note_write(taken.is_ok());
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
                tracing::debug!(
                    peer = crate::peer_directory::peer_tag(peer),
                    "most remembered messages are of this peer"
                );
                (Receipt::Busy { retry_after: 60 }, None, "memory_full")
            }
            Ok(Ok(TakenMessage::Repeated { connection_id, has_answer })) => {
                (Receipt::Taken, has_answer.then_some(connection_id), "repeated")
            }
            Ok(Ok(TakenMessage::New { connection_id, has_answer, has_event, has_record })) => {
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

    /// Ends the connection whose peer gives up its DID.
    pub(crate) async fn end_connection(&self, recipient: &str, prior: &FromPrior) -> Receipt {
        let inner = &self.0;
        let ended = inner.store.end_connection(recipient, prior, now_millis(), &inner.limits).await;
        inner.guard.note_write(ended.is_ok());
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

    /// Settles the message that was sent before, and reads the next one that is due. The first time, what an earlier session was sending
    /// is settled as of unknown result.
    pub(crate) async fn next_message(
        &self,
        connection_id: &str,
        is_first: bool,
        sent: Option<SentMessage>,
    ) -> Result<Option<QueuedMessage>, AgentStoreError> {
        let (now, store) = (wall_clock::now().seconds, &self.0.store);
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

    pub(super) fn note_refusal(&self, refusal: MessageRefusal) {
        self.0.refusals.note(refusal.code(), &refusal);
    }

    pub(super) fn notify_courier(&self) {
        if let Some(courier) = &self.0.courier {
            courier.events_stored();
        }
    }

    pub(super) fn note_record(&self) {
        self.0.records.send_modify(|count| *count += 1);
    }

    /// Whether a peer may send a message now; else the seconds after which it may.
    pub(super) fn admit(&self, peer: &str, is_stranger: bool) -> Result<(), u64> {
        let now = Instant::now();
        self.0.rates.take(svc_didcomm::peer_did::comparable(peer), now)?;
        if is_stranger { self.0.strangers.take("strangers", now) } else { Ok(()) }
    }
}

/// The time in milliseconds since the epoch.
pub(crate) fn now_millis() -> i64 {
    let now = wall_clock::now();
    now.seconds * 1000 + i64::from(now.nanos) / 1_000_000
}

/// The name of a protocol for metrics; strangers must not make new ones.
pub(crate) fn known_protocol(protocol: &str) -> &'static str {
    const KNOWN: [(&str, &str); 8] = [
        ("https://didcomm.org/basicmessage/2.0", "basicmessage"),
        ("https://didcomm.org/discover-features/2.0", "discover-features"),
        ("https://didcomm.org/empty/1.0", "empty"),
        ("https://didcomm.org/issue-credential/2.0", "issue-credential"),
        ("https://didcomm.org/notification/1.0", "notification"),
        ("https://didcomm.org/out-of-band/2.0", "out-of-band"),
        ("https://didcomm.org/report-problem/2.0", "report-problem"),
        ("https://didcomm.org/vt-flow/1.0", "vt-flow"),
    ];
    KNOWN.into_iter().find(|(uri, _)| *uri == protocol).map_or("other", |(_, name)| name)
}

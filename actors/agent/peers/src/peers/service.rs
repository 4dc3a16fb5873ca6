//! The shared parts of everything that has to do with peers, and the work that sessions do with them.

use std::{
    fmt::Display,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::BoxFuture;
use serde_json::Value;
use svc_agent_core::{peer_tag::peer_tag, peers::PeerLimits};
use svc_agent_identity::keeper::KeeperHandle;
use svc_agent_store::{AgentStore, AgentStoreError, guard::StoreGuardHandle};
use svc_didcomm::Refusal as MessageRefusal;
use svc_kit::{SessionError, wall_clock};
use svc_net::{didcomm::OutboundClient, fetch::BoundedFetcher};
use svc_otel::metrics;
use tokio::sync::watch;

use super::{
    admission::Rates,
    arrival_outcome::ArrivalOutcome,
    flow_facts::FlowFacts,
    known_peers::KnownPeers,
    open_questions::OpenQuestions,
    refusal_log::RefusalLog,
    resolver::{DocumentUse, PeerDocumentError, PeerResolver},
    settings::PeerSettings,
};
use crate::{
    access_asker::AccessAskerHandle,
    access_granter::AccessGranterHandle,
    courier::CourierHandle,
    gate::TrustGate,
    peer_directory::{DirectoryWork, PeerDirectory, SessionLease},
    peer_session,
};

/// Bytes of a message for which a way to another thread costs as much as its encryption.
const SMALL_MESSAGE: usize = 16 * 1024;
/// Seconds after which a sender may come back when the store or a verdict is missing.
pub(super) const RETRY_SECONDS: u64 = 5;
/// Fresh resolutions of one DID: the messages of a stranger must not make this agent ask another server again and again.
const FRESH_PER_SECOND: f64 = 0.1;
/// Answers to one peer that is not trusted, and those to one that names an unknown flow.
const UNTRUSTED_ANSWERS_PER_SECOND: f64 = 1.0 / 60.0;

/// Denials to one peer that are not stored, because nothing can be.
const DENIALS_PER_SECOND: f64 = 0.1;

/// Talks to peers. Clones share everything.
#[derive(Clone)]
pub struct PeerService(pub(super) Arc<Inner>);

/// The parts, and the memory of this process.
pub(super) struct Inner {
    pub parts: PeerParts,
    pub limits: PeerLimits,
    pub rates: Rates,
    pub strangers: Rates,
    pub fresh: Rates,
    pub untrusted_answers: Rates,
    pub unknown_flow_answers: Rates,
    pub denials: Rates,
    pub refusals: RefusalLog,
    pub known_peers: KnownPeers,
    pub questions: OpenQuestions,
    /// Grows with each basic message that is stored: callers wait for it.
    pub records: watch::Sender<u64>,
}

/// The parts that the boot of an agent has.
pub struct PeerParts {
    /// The settings of the channel.
    pub settings: PeerSettings,
    /// Has the rows of peers.
    pub store: AgentStore,
    /// Knows whether the store can be written.
    pub guard: StoreGuardHandle,
    /// Has the document and the keys of messages.
    pub keeper: KeeperHandle,
    /// Resolves the documents of peers.
    pub resolver: PeerResolver,
    /// Fetches the public files of peers.
    pub fetcher: BoundedFetcher,
    /// Decides about peers.
    pub gate: TrustGate,
    /// Starts and ends the sessions.
    pub directory: PeerDirectory,
    /// Delivers events to the backend; `None` without a receiver.
    pub courier: Option<CourierHandle>,
    /// Sends messages to the endpoints of peers.
    pub client: OutboundClient,
    /// The facts that a message of a flow needs.
    pub flows: Arc<dyn FlowFacts>,
    /// Decides about requests for access.
    pub access: AccessGranterHandle,
    /// Has the requests of this agent for access.
    pub asker: AccessAskerHandle,
    /// Events that are stored for the receiver; `None` without one.
    pub max_events: Option<u64>,
}

impl PeerService {
    /// The service of these parts.
    pub fn new(parts: PeerParts) -> Self {
        let per_peer = f64::from(parts.settings.rate_per_peer);
        let strangers = f64::from(parts.settings.new_peers_per_minute);
        Self(Arc::new(Inner {
            limits: parts.settings.limits(parts.max_events),
            rates: Rates::new(per_peer, per_peer * 10.0),
            strangers: Rates::new(strangers / 60.0, strangers),
            fresh: Rates::new(FRESH_PER_SECOND, 1.0),
            untrusted_answers: Rates::new(UNTRUSTED_ANSWERS_PER_SECOND, 1.0),
            unknown_flow_answers: Rates::new(UNTRUSTED_ANSWERS_PER_SECOND, 1.0),
            denials: Rates::new(DENIALS_PER_SECOND, 1.0),
            refusals: RefusalLog::default(),
            known_peers: KnownPeers::default(),
            questions: OpenQuestions::default(),
            records: watch::Sender::new(0),
            parts,
        }))
    }

    /// Returns the settings.
    pub fn settings(&self) -> &PeerSettings {
        &self.0.parts.settings
    }

    /// The bounds of the rows that peers make.
    pub fn limits(&self) -> &PeerLimits {
        &self.0.limits
    }

    pub(crate) fn outbox_changed(&self) {
        self.0.parts.directory.outbox_changed();
    }

    /// Sessions that run.
    pub fn session_count(&self) -> usize {
        self.0.parts.directory.session_count()
    }

    /// The grants of access to endpoints of this agent.
    pub fn access(&self) -> &AccessGranterHandle {
        &self.0.parts.access
    }

    /// The document of a peer, as it was last resolved or as its server has it.
    pub async fn document_of(&self, did: &str) -> Result<Arc<Value>, PeerDocumentError> {
        self.0.parts.resolver.resolve(did, false, DocumentUse::Outbound).await
    }

    pub(super) async fn session(&self, peer: &str) -> Result<SessionLease, SessionError> {
        let work = Arc::new(self.clone());
        let child_spec =
            |session: &peer_session::PeerSessionHandle, peer| session.child_spec(peer_session::Args { peer, work });
        self.0.parts.directory.session(svc_didcomm::peer_did::comparable(peer), child_spec).await
    }

    pub(super) fn note_refusal(&self, refusal: MessageRefusal) {
        self.0.refusals.note(refusal.code(), &refusal);
    }

    /// Counts a message that is not stored; returns its outcome.
    pub(super) fn refuse(&self, outcome: ArrivalOutcome, kind: &'static str, reason: &dyn Display) -> ArrivalOutcome {
        self.0.refusals.note(kind, reason);
        outcome
    }

    /// Tells the courier of new events.
    pub fn notify_courier(&self) {
        if let Some(courier) = &self.0.parts.courier {
            courier.events_stored();
        }
    }

    pub(super) fn note_record(&self) {
        self.0.records.send_modify(|count| *count += 1);
    }

    /// Whether a peer may send a message now, by the DID that it is known by; else the seconds after which it may.
    pub(super) fn admit(&self, public_did: &str) -> Result<(), u64> {
        self.0.rates.take(&peer_tag(svc_didcomm::peer_did::comparable(public_did)), Instant::now())
    }

    /// Whether another connection may begin now; else the seconds after which it may.
    pub(super) fn admit_stranger(&self) -> Result<(), u64> {
        self.0.strangers.take("strangers", Instant::now())
    }
}

impl DirectoryWork for PeerService {
    fn wake_due_sessions(&self, now: i64, limit: usize) -> BoxFuture<'_, Result<Option<i64>, AgentStoreError>> {
        Box::pin(async move {
            for (connection_id, peer) in self.0.parts.store.due_connections(now, limit).await? {
                match self.session(&peer).await {
                    Ok(session) => session.message_due(&connection_id),
                    Err(error) => tracing::warn!(%error, "a session with a peer cannot be started"),
                }
            }
            metrics::record_peer_outbox(self.0.parts.store.queued_messages().await?);
            self.0.parts.store.next_due().await
        })
    }

    fn clean(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let now = wall_clock::now().seconds;
            let age = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
            let settings = &self.0.parts.settings;
            let cleaned = async {
                while self.0.parts.store.forget_seen(now - age(settings.replay_age)).await? {}
                self.0.parts.store.forget_unanswered(now - age(settings.outbox_age)).await
            };
            if let Err(error) = cleaned.await {
                tracing::warn!(%error, "old messages of peers cannot be removed");
            }
        })
    }
}

/// Whether a message of a size is encrypted and decrypted at once. A larger one takes milliseconds, and goes to a thread that may block.
pub(super) fn is_small(bytes: usize) -> bool {
    bytes <= SMALL_MESSAGE
}

/// Protocols whose messages are read, with their names for metrics.
const KNOWN_PROTOCOLS: [(&str, &str); 8] = [
    ("https://didcomm.org/basicmessage/2.0", "basicmessage"),
    ("https://didcomm.org/discover-features/2.0", "discover-features"),
    ("https://didcomm.org/empty/1.0", "empty"),
    ("https://didcomm.org/issue-credential/2.0", "issue-credential"),
    ("https://didcomm.org/notification/1.0", "notification"),
    ("https://didcomm.org/out-of-band/2.0", "out-of-band"),
    ("https://didcomm.org/report-problem/2.0", "report-problem"),
    ("https://didcomm.org/vt-flow/1.0", "vt-flow"),
];

/// The name of a protocol for metrics; strangers must not make new ones.
pub(crate) fn known_protocol(protocol: &str) -> &'static str {
    KNOWN_PROTOCOLS.into_iter().find(|(uri, _)| *uri == protocol).map_or("other", |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use svc_didcomm::protocol::PROTOCOLS;

    use super::*;

    #[test]
    fn each_protocol_that_is_read_is_told_to_peers() {
        // Problem reports of this name are read and never sent.
        let is_told = |protocol: &&str| *protocol != "https://didcomm.org/report-problem/2.0";
        let known: Vec<_> = KNOWN_PROTOCOLS.into_iter().map(|(protocol, _)| protocol).filter(is_told).collect();
        let mut told: Vec<_> = PROTOCOLS.iter().flat_map(|(_, protocols)| *protocols).copied().collect();
        told.sort_unstable();
        assert_eq!(told, known);
    }
}

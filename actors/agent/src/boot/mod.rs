//! A running agent: its configuration, its tree and its end.
//!
//! ```text
//! agent (one-for-one)
//! ├── store_guard       shows that the store can be written and is this process's own
//! ├── document_keeper   the DID Document and its presentations, one version at a time
//! ├── token_issuer      logins to the admin API; only where external callers are served
//! ├── courier           events to a backend, one at a time; only with a receiver
//! ├── credential_keeper  credentials: issued, imported, renewed, anchored, withdrawn; the steps to a trusted DID
//! ├── key_rotator       the steps of a rotation of the document's keys
//! ├── resolution_trigger  has the document resolved again after a change
//! ├── trust_watch       ends the decision about a peer when its verdict changes
//! ├── access_granter    decides about requests of peers for access, and takes grants back
//! ├── access_asker      this agent's requests for access, and the grants that it holds
//! ├── peer_sessions
//! │   └── peer_session/<hash>   one peer with work: its messages, and the outbox to it
//! ├── peer_directory    starts and ends sessions with peers
//! ├── flow_sessions
//! │   └── flow_session/<id>   one flow with work: its steps, one after the other
//! ├── flow_directory    starts and ends the sessions of flows, and has participants read that events name
//! ├── chain_link        finds the chain, and then starts the rest
//! ├── journal, signer, confirmer, node_link   the write pipeline of the agent's account
//! └── registry_watcher  registry events, each stored once and in order
//! ```

mod older_log;

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use svc_agent_core::{
    error::{AgentPart, Refusal, RefusalCode},
    notification::NotificationMaker,
};
use svc_agent_flows::{ClaimSources, FlowDirectory, FlowHearing, FlowParts, FlowService, FlowSettings, HearingParts};
use svc_agent_identity::{
    DidMethod, PublicLocation,
    chain_link::{ChainAccess, ChainConfig, ChainError, ChainLinkHandle, ChainLinkState, ChainUsers, OwnWrites},
    credential_settings::CredentialSettings,
    credentials::{CredentialHandle, CredentialKeeperArgs, IssuerParts},
    document::{AccessEntries, ManagedEntries},
    keeper::{DocumentError, KeeperArgs, KeeperHandle},
    resolution::ResolutionHandle,
    rotation::{RotationHandle, RotationPauses},
    token::{LoginRules, TokenIssuerHandle},
};
use svc_agent_peers::{
    AccessAskerHandle, AccessGranterHandle, AccessOwner, AccessSettings, CourierConfig, CourierHandle, Delivery,
    DeliveryHandle, GranterParts, PeerDirectory, PeerParts, PeerResolver, PeerService, PeerSettings, TermsFileError,
    TrustGate, trust_watch,
};
use svc_agent_store::{
    AgentStore, AgentStoreError, HeadFile, PublishedHead, ResolutionProgress, StoreSettings,
    guard::{StoreGuardHandle, StoreState},
};
use svc_kit::{
    supervision::{ChildSpec, Supervisor, SupervisorError, SupervisorSpec},
    wall_clock,
};
use svc_net::{
    did::DidResolver,
    didcomm::OutboundClient,
    fetch::{BoundedFetcher, FetchLimits, HttpClientError},
    host_policy::HostPolicy,
    upstream::{UpstreamEndpoints, UpstreamError, UpstreamKind, UpstreamOrigins},
};
use svc_wire::{block_subscription::SubscriptionScope, endpoint_access::AccessDocument};
use tokio::sync::Mutex;

pub use self::older_log::OtherPublicLog;
use self::older_log::check_public_log;
use crate::watcher::{HandledEvents, WatcherArgs, WatcherHandle};

/// Time that the actors get to finish when the last handle is dropped.
const DROP_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest wait for the store to give its lease back.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time that the start waits for the node. A chain that is not the configured one stops the start.
const FIRST_SEARCH: Duration = Duration::from_secs(5);

/// The configuration of an agent.
pub struct AgentConfig {
    /// The store.
    pub store: StoreSettings,
    /// File of the last published version; `None` for a store that ends with the process.
    pub head: Option<PathBuf>,
    /// Method of a DID that is still to be made.
    pub method: DidMethod,
    /// Public URL.
    pub location: PublicLocation,
    /// Whether each entry of the log names the hash of the key that signs the next one.
    pub pre_rotation: bool,
    /// Hosts that documents may name.
    pub hosts: HostPolicy,
    /// Origin of the admin API, in the document; `None` while no external caller is served.
    pub admin_api: Option<String>,
    /// Logins of external callers; `None` while none is served.
    pub logins: Option<LoginRules>,
    /// The chain.
    pub chain: ChainConfig,
    /// The credentials of the DID.
    pub credentials: CredentialSettings,
    /// Pauses between the steps of a rotation of the document's keys.
    pub rotation_pauses: RotationPauses,
    /// Registry events.
    pub events: EventsConfig,
    /// Peers that talk DIDComm.
    pub peers: PeerSettings,
    /// Flows with them.
    pub flows: FlowSettings,
    /// Access of peers to endpoints, and to those of peers.
    pub access: AccessSettings,
}

/// The registry events of an agent, and their receiver.
pub struct EventsConfig {
    /// The indexers, one of which is in use.
    pub indexer: UpstreamOrigins,
    /// Whether the events of the whole corporation are taken, and not those of the agent's DID alone.
    pub covers_corporation: bool,
    /// The event types that the agent acts on.
    pub handled: HandledEvents,
    /// First height whose events are taken, while the store is empty; the next block when absent.
    pub start_height: Option<u64>,
    /// Silence that ends a connection; derived from the announced interval when absent.
    pub silence: Option<Duration>,
    /// The receiver; without one nothing is stored.
    pub receiver: Option<CourierConfig>,
    /// Most events that are stored.
    pub max_stored: u64,
}

/// An agent that did not start.
#[derive(Debug, thiserror::Error)]
pub enum AgentBootError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] AgentStoreError),
    /// The document cannot be loaded or made.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// The store is older than the version that was published last: a restored backup would publish a second history.
    #[error(
        "the store is older than the head file: it ends with version {stored}, and {published} was published. Use the newest copy of \
         the store, or continue the published log with `svc agent recover`"
    )]
    OlderStore {
        /// Newest version of the store.
        stored: String,
        /// Version that was published last.
        published: String,
    },
    /// The log at the public URL is not the store's.
    #[error(transparent)]
    PublicLog(#[from] OtherPublicLog),
    /// The chain cannot be used.
    #[error(transparent)]
    Chain(Arc<ChainError>),
    /// The file of the conditions of access cannot be used.
    #[error("ENDPOINT_ACCESS_FILE: {0}")]
    AccessFile(#[from] TermsFileError),
    /// The origins of the indexer cannot be used.
    #[error(transparent)]
    Indexer(#[from] UpstreamError),
    /// The client for documents of others cannot be made.
    #[error(transparent)]
    Fetcher(#[from] HttpClientError),
    /// The actors did not start.
    #[error(transparent)]
    Supervisor(#[from] SupervisorError),
}

/// A running agent. Clones share it; the drop of the last one stops it.
#[derive(Clone)]
pub struct Agent(Arc<AgentTree>);

struct AgentTree {
    supervisor: Supervisor,
    store: AgentStore,
    guard: StoreGuardHandle,
    keeper: KeeperHandle,
    tokens: Option<TokenIssuerHandle>,
    watcher: WatcherHandle,
    delivery: DeliveryHandle,
    resolution: ResolutionHandle,
    credentials: CredentialHandle,
    rotation: RotationHandle,
    chain: ChainLinkHandle,
    peers: PeerService,
    flows: FlowService,
}

impl Agent {
    /// Opens the store, loads or makes the DID, and starts the actors. A node that does not answer within a few seconds is asked again
    /// later; the rest works meanwhile.
    pub async fn launch(config: AgentConfig) -> Result<Self, AgentBootError> {
        let store = AgentStore::open(config.store).await?;
        let head = match &config.head {
            None => None,
            Some(path) => {
                let (head, published) = HeadFile::open(path)?;
                if let Some(published) = published {
                    check_head(&store, &published).await?;
                }
                Some(head)
            }
        };
        let (guard, guard_child) = StoreGuardHandle::child_spec(store.clone());
        let (resolution, credentials) = (ResolutionHandle::default(), CredentialHandle::default());
        let fetcher = BoundedFetcher::new(config.hosts, FetchLimits::default())?;
        let base_url = config.location.base_url().to_owned();
        let args = KeeperArgs {
            store: store.clone(),
            guard: guard.clone(),
            resolution: resolution.clone(),
            method: config.method,
            location: config.location,
            managed: ManagedEntries {
                admin_api: config.admin_api,
                messaging: config.peers.endpoint_uris(&base_url),
                // The keys are those of the store.
                access: config
                    .access
                    .is_published()
                    .then(|| AccessEntries { url: AccessDocument::url(&base_url), keys: Vec::new() }),
            },
            pre_rotation: config.pre_rotation,
            hosts: config.hosts,
            head,
        };
        let (keeper, keeper_child) = KeeperHandle::prepare(args).await?;
        check_public_log(&keeper.published()).await?;
        let owner = AccessOwner::open(config.access, &base_url, store.clone(), keeper.clone())?;
        let did = keeper.published().document.did().to_owned();
        let credential_settings = config.credentials.with_did(&did);
        let mut children = vec![guard_child, keeper_child];
        let tokens = config.logins.map(|rules| {
            let (tokens, child) = TokenIssuerHandle::child_spec(rules);
            children.push(child);
            tokens
        });
        let mut events = config.events;
        let courier = events.receiver.take().map(|receiver| {
            let (courier, child) = CourierHandle::child_spec(receiver, store.clone(), guard.clone());
            children.push(child);
            courier
        });
        let corporation_id = config.chain.corporation_id;
        let scope = if events.covers_corporation {
            SubscriptionScope::Corporation(corporation_id)
        } else {
            SubscriptionScope::Did(did.clone())
        };
        let own_parts = ((store.clone(), keeper.clone()), (did.clone(), corporation_id));
        let issuer = IssuerParts::new(own_parts.0, own_parts.1, &credential_settings, fetcher.clone());
        children.push(credentials.child_spec(CredentialKeeperArgs {
            issuer: issuer.clone(),
            base_url,
            settings: credential_settings.clone(),
            handles_events: events.handled.withdraws_credentials(),
        }));
        let (rotation, rotation_child) =
            RotationHandle::child_spec(store.clone(), keeper.clone(), credentials.clone(), config.rotation_pauses);
        children.push(rotation_child);
        let (own, is_on) = ((store.clone(), did), config.chain.resolves_changes);
        children.push(resolution.child_spec(own.clone(), corporation_id, is_on));
        let max_events = courier.is_some().then_some(events.max_stored);
        let (chain, watcher) = (ChainLinkHandle::default(), WatcherHandle::new());
        let indexer = UpstreamEndpoints::new(UpstreamKind::Indexer, &events.indexer)?;
        let (notifications, max_stored) = (Arc::new(OnceLock::new()), events.max_stored);
        store.settle_interrupted(None, wall_clock::now().seconds, age(config.peers.outbox_age)).await?;
        let directory = PeerDirectory::default();
        let (ttl, resolve_timeout) = (config.peers.trust_ttl, config.peers.resolve_timeout);
        let essential_schemas =
            (credential_settings.essential_schemas.clone(), credential_settings.own_essential_schemas());
        let gate = TrustGate::new(
            indexer.clone(),
            chain.clone(),
            store.clone(),
            (own.1.clone(), corporation_id),
            essential_schemas,
            ttl,
        );
        children.push(trust_watch::child_spec(trust_watch::Args { indexer: indexer.clone(), gate: gate.clone() }));
        let flow_directory = FlowDirectory::new(config.flows.actors);
        let hearing = FlowHearing::new(HearingParts {
            chain: chain.clone(),
            store: store.clone(),
            own: (own.1.clone(), corporation_id),
            key: store.content_key(&own.1).await?,
            max_per_peer: config.flows.per_peer,
            directory: flow_directory.clone(),
        });
        let (access, access_child) = AccessGranterHandle::child_spec(GranterParts {
            owner,
            keeper: keeper.clone(),
            store: store.clone(),
            guard: guard.clone(),
            gate: gate.clone(),
            outbox_changed: {
                let directory = directory.clone();
                Arc::new(move || directory.outbox_changed())
            },
            courier: courier.clone(),
            limits: config.peers.limits(max_events),
        });
        let (asker, asker_child) = AccessAskerHandle::child_spec();
        children.extend([access_child, asker_child]);
        let peers = PeerService::new(PeerParts {
            settings: config.peers,
            store: store.clone(),
            guard: guard.clone(),
            keeper: keeper.clone(),
            resolver: PeerResolver::new(DidResolver::with_fetcher(fetcher.clone()), resolve_timeout),
            fetcher,
            gate: gate.clone(),
            directory: directory.clone(),
            courier: courier.clone(),
            client: OutboundClient::new(config.hosts)?,
            flows: Arc::new(hearing.clone()),
            access,
            asker,
            max_events,
        });
        children.extend(directory.child_specs(Arc::new(peers.clone())));
        let claims =
            ClaimSources { directory: config.flows.claims_directory.clone(), essential: config.flows.claims.clone() };
        let flows = FlowService::new(FlowParts {
            settings: config.flows,
            claims,
            credentials: credential_settings,
            store: store.clone(),
            guard: guard.clone(),
            peers: peers.clone(),
            gate,
            hearing,
            directory: flow_directory.clone(),
            issuer,
        });
        children.extend(flow_directory.child_specs(flows.to_work()));
        let users = EventUsers {
            config: events,
            scope: scope.clone(),
            indexer: indexer.clone(),
            store: store.clone(),
            guard: guard.clone(),
            courier: courier.clone(),
            resolution: resolution.clone(),
            credentials: credentials.clone(),
            flows: flow_directory,
            chain: chain.clone(),
            watcher: watcher.clone(),
            notifications: Arc::clone(&notifications),
        };
        let supervisor = Supervisor::new("agent");
        children.push(chain.child_spec(config.chain, own, supervisor.clone(), Box::new(users)));
        let (refill, outbox) = (Mutex::new(()), store.clone());
        let delivery = Delivery { store: outbox, courier, indexer, scope, notifications, max_stored, refill };
        let delivery = DeliveryHandle::new(delivery);
        supervisor.start(SupervisorSpec::one_for_one(children)).await?;
        let tree = AgentTree {
            supervisor,
            store,
            guard,
            keeper,
            tokens,
            watcher,
            delivery,
            resolution,
            credentials,
            rotation,
            chain: chain.clone(),
            peers,
            flows,
        };
        let agent = Self(Arc::new(tree));
        let searched = tokio::time::timeout(FIRST_SEARCH, chain.first_attempt()).await;
        if let Ok(ChainLinkState::Refused(error)) = searched {
            agent.shutdown(DROP_TIMEOUT).await;
            return Err(AgentBootError::Chain(error));
        }
        Ok(agent)
    }

    /// The document keeper.
    pub fn keeper(&self) -> &KeeperHandle {
        &self.0.keeper
    }

    /// The token issuer; `None` while no external caller is served.
    pub fn tokens(&self) -> Option<&TokenIssuerHandle> {
        self.0.tokens.as_ref()
    }

    /// The state of the registry watcher.
    pub fn watcher(&self) -> &WatcherHandle {
        &self.0.watcher
    }

    /// The events that are to be delivered.
    pub fn delivery(&self) -> &DeliveryHandle {
        &self.0.delivery
    }

    /// The resolution of the document.
    pub fn resolution(&self) -> &ResolutionHandle {
        &self.0.resolution
    }

    /// The credentials of the DID.
    pub fn credentials(&self) -> &CredentialHandle {
        &self.0.credentials
    }

    /// The rotation of keys.
    pub fn rotation(&self) -> &RotationHandle {
        &self.0.rotation
    }

    /// The peers.
    pub fn peers(&self) -> &PeerService {
        &self.0.peers
    }

    /// The grants of access to endpoints of the agent.
    pub fn access(&self) -> &AccessGranterHandle {
        self.0.peers.access()
    }

    /// The flows.
    pub fn flows(&self) -> &FlowService {
        &self.0.flows
    }

    /// The credentials in the store.
    pub fn store(&self) -> &AgentStore {
        &self.0.store
    }

    /// Returns the versions that were resolved, and those that were not.
    pub async fn resolution_progress(&self) -> Result<ResolutionProgress, AgentStoreError> {
        self.0.store.resolution_progress().await
    }

    /// The chain.
    pub fn chain(&self) -> &ChainLinkHandle {
        &self.0.chain
    }

    /// The supervisor, for embedding and for tests that crash actors.
    pub fn supervisor(&self) -> &Supervisor {
        &self.0.supervisor
    }

    /// Whether every part works; otherwise the refusal names those that do not.
    pub fn check_ready(&self) -> Result<(), Refusal> {
        let mut waiting = Vec::new();
        if self.0.guard.state() != StoreState::Writable {
            waiting.push(AgentPart::Store);
        }
        if !self.0.keeper.is_up() {
            waiting.push(AgentPart::Document);
        }
        let is_connected = |access: ChainAccess| access.pipeline.clock().is_connected;
        if !self.0.chain.access().is_some_and(is_connected) {
            waiting.push(AgentPart::Node);
        }
        let watcher = self.0.watcher.state();
        if !watcher.is_connected {
            waiting.push(AgentPart::Indexer);
        } else if !watcher.is_live {
            waiting.push(AgentPart::CatchUp);
        }
        if waiting.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = waiting.iter().map(|part| part.as_str()).collect();
        let message = format!("these parts do not work now: {}", names.join(", "));
        Err(Refusal { waiting, retry_after: Some(5), ..Refusal::new(RefusalCode::NotReady, message) })
    }

    /// Waits until the agent must end, and returns the reason: another process has taken the store over, the store is older than the
    /// account's transactions, or the supervisor has given up.
    pub async fn wait_until_ended(&self) -> String {
        tokio::select! {
            () = self.0.guard.wait_until_lost() => AgentStoreError::Lost.to_string(),
            error = self.0.chain.wait_until_refused() => error.to_string(),
            reason = self.0.supervisor.wait_until_ended() => reason,
        }
    }

    /// Settles the last deliveries, stops the actors, then closes the store.
    pub async fn shutdown(&self, wait_limit: Duration) {
        let begun = tokio::time::Instant::now();
        let writes = async {
            if let Some(access) = self.0.chain.access() {
                access.pipeline.shutdown(wait_limit).await;
            }
        };
        tokio::join!(self.0.delivery.finish(wait_limit), writes);
        self.0.supervisor.shutdown(wait_limit.saturating_sub(begun.elapsed()).max(DROP_TIMEOUT)).await;
        // A database that does not answer keeps the lease until it ends by itself.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.0.store.close()).await;
    }
}

impl Drop for AgentTree {
    fn drop(&mut self) {
        // Without a runtime there is no actor: their tasks ended with it.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (supervisor, store) = (self.supervisor.clone(), self.store.clone());
        runtime.spawn(async move {
            supervisor.shutdown(DROP_TIMEOUT).await;
            store.close().await;
        });
    }
}

/// The parts that begin once the chain is known: the watcher, and the webhooks whose ids name the chain.
struct EventUsers {
    config: EventsConfig,
    scope: SubscriptionScope,
    indexer: UpstreamEndpoints,
    store: AgentStore,
    guard: StoreGuardHandle,
    courier: Option<CourierHandle>,
    resolution: ResolutionHandle,
    credentials: CredentialHandle,
    flows: FlowDirectory,
    chain: ChainLinkHandle,
    watcher: WatcherHandle,
    notifications: Arc<OnceLock<NotificationMaker>>,
}

impl ChainUsers for EventUsers {
    fn describe(&self, access: &ChainAccess, own_writes: OwnWrites) -> Vec<ChildSpec> {
        let notifications = *self.notifications.get_or_init(|| NotificationMaker::new(&access.chain.params.chain_id));
        vec![self.watcher.child_spec(WatcherArgs {
            indexer: self.indexer.clone(),
            scope: self.scope.clone(),
            start_height: self.config.start_height,
            silence: self.config.silence,
            store: self.store.clone(),
            guard: self.guard.clone(),
            courier: self.courier.clone(),
            notifications,
            max_stored: self.config.max_stored,
            handled: self.config.handled.clone(),
            resolution: self.resolution.clone(),
            credentials: self.credentials.clone(),
            flows: self.flows.clone(),
            own_writes,
            chain: self.chain.clone(),
            pipeline: access.pipeline.clone(),
        })]
    }

    fn started(&self, access: &ChainAccess) {
        self.resolution.chain_found(access.clone());
        self.credentials.chain_found(access.clone());
        self.flows.read_all();
    }
}

/// A time in seconds.
fn age(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

/// Refuses a store that lacks the version which was published last.
async fn check_head(store: &AgentStore, published: &PublishedHead) -> Result<(), AgentBootError> {
    let versions = store.versions().await?;
    let describe = |did: &str, version_id: &str| format!("{version_id} of {did}");
    let has_version =
        versions.iter().any(|version| version.number == published.number && version.version_id == published.version_id);
    let did = store.identity().await?.map(|identity| identity.did).unwrap_or_else(|| "no DID".to_owned());
    if has_version && did == published.did {
        return Ok(());
    }
    let stored = versions.last().map_or("none", |version| &version.version_id);
    let (stored, published) = (describe(&did, stored), describe(&published.did, &published.version_id));
    Err(AgentBootError::OlderStore { stored, published })
}

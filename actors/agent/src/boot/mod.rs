//! A running agent: its configuration, its tree and its end.
//!
//! ```text
//! agent (one-for-one)
//! ├── store_guard       shows that the store can be written and is this process's own
//! ├── document_keeper   the DID Document, one version at a time
//! ├── token_issuer      logins to the admin API; only where external callers are served
//! ├── courier           events to a backend; only with a receiver
//! └── registry_watcher  registry events, each stored once and in order
//! ```

use std::{path::PathBuf, sync::Arc, time::Duration};

use svc_kit::supervision::{ChildSpec, Supervisor, SupervisorError, SupervisorSpec};
use svc_net::{
    host_policy::HostPolicy,
    upstream::{UpstreamEndpoints, UpstreamError, UpstreamKind, UpstreamOrigins},
};
use svc_wire::block_subscription::SubscriptionScope;
use tokio::sync::Mutex;

use crate::{
    courier::{CourierConfig, CourierHandle},
    delivery::{Delivery, DeliveryHandle},
    error::{AgentPart, Refusal, RefusalCode},
    identity::{DidMethod, PublicLocation},
    keeper::{DocumentError, KeeperArgs, KeeperHandle},
    notification::NotificationMaker,
    store::{AgentStore, AgentStoreError, HeadFile, PublishedHead, StoreSettings},
    store_guard::{StoreGuardHandle, StoreState},
    token::{LoginRules, TokenIssuerHandle},
    watcher::{WatcherArgs, WatcherHandle},
};

/// Time that the actors get to finish when the last handle is dropped.
const DROP_TIMEOUT: Duration = Duration::from_secs(3);

/// The configuration of an agent.
pub struct AgentConfig {
    /// The store.
    pub store: StoreSettings,
    /// File of the last published version.
    pub head: PathBuf,
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
    /// Registry events.
    pub events: EventsConfig,
}

/// The registry events of an agent, and their receiver.
pub struct EventsConfig {
    /// Chain id, which the ids of the events contain.
    pub chain_id: String,
    /// The indexers, one of which is in use.
    pub indexer: UpstreamOrigins,
    /// The corporation whose events are taken; those of the agent's DID when absent.
    pub corporation_id: Option<u64>,
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
         the store"
    )]
    OlderStore {
        /// Newest version of the store.
        stored: String,
        /// Version that was published last.
        published: String,
    },
    /// The origins of the indexer cannot be used.
    #[error(transparent)]
    Indexer(#[from] UpstreamError),
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
}

impl Agent {
    /// Opens the store, loads or makes the DID, and starts the actors.
    pub async fn launch(config: AgentConfig) -> Result<Self, AgentBootError> {
        let store = AgentStore::open(config.store).await?;
        let (head, published) = HeadFile::open(&config.head)?;
        if let Some(published) = published {
            check_head(&store, &published).await?;
        }
        let (guard, guard_child) = StoreGuardHandle::child_spec(store.clone());
        let args = KeeperArgs {
            store: store.clone(),
            guard: guard.clone(),
            method: config.method,
            location: config.location,
            admin_api: config.admin_api,
            pre_rotation: config.pre_rotation,
            hosts: config.hosts,
            head,
        };
        let (keeper, keeper_child) = KeeperHandle::prepare(args).await?;
        let mut children = vec![guard_child, keeper_child];
        let tokens = config.logins.map(|rules| {
            let (tokens, child) = TokenIssuerHandle::child_spec(rules);
            children.push(child);
            tokens
        });
        let (watcher, delivery) = prepare_events(config.events, (&store, &guard, &keeper), &mut children)?;
        let supervisor = Supervisor::new("agent");
        supervisor.start(SupervisorSpec::one_for_one(children)).await?;
        Ok(Self(Arc::new(AgentTree { supervisor, store, guard, keeper, tokens, watcher, delivery })))
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

    /// Waits until another process has taken the store over, after which this one must end.
    pub async fn wait_until_lost(&self) {
        self.0.guard.wait_until_lost().await;
    }

    /// Stops the actors, then closes the store.
    pub async fn shutdown(&self, wait_limit: Duration) {
        self.0.supervisor.shutdown(wait_limit).await;
        self.0.store.close().await;
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

/// Prepares the watcher, and the courier where there is a receiver.
fn prepare_events(
    config: EventsConfig,
    (store, guard, keeper): (&AgentStore, &StoreGuardHandle, &KeeperHandle),
    children: &mut Vec<ChildSpec>,
) -> Result<(WatcherHandle, DeliveryHandle), UpstreamError> {
    let courier = config.receiver.map(|receiver| {
        let (courier, child) = CourierHandle::child_spec(receiver, store.clone(), guard.clone());
        children.push(child);
        courier
    });
    let scope = match config.corporation_id {
        Some(id) => SubscriptionScope::Corporation(id),
        None => SubscriptionScope::Did(keeper.published().document.did().to_owned()),
    };
    let indexer = UpstreamEndpoints::new(UpstreamKind::Indexer, &config.indexer)?;
    let notifications = NotificationMaker::new(&config.chain_id);
    let (watcher, child) = WatcherHandle::child_spec(WatcherArgs {
        indexer: indexer.clone(),
        scope: scope.clone(),
        start_height: config.start_height,
        silence: config.silence,
        store: store.clone(),
        guard: guard.clone(),
        courier: courier.clone(),
        notifications,
        max_stored: config.max_stored,
    });
    children.push(child);
    let (store, refill) = (store.clone(), Mutex::new(()));
    let max_stored = config.max_stored;
    let delivery = Delivery { store, courier, indexer, scope, notifications, max_stored, refill };
    Ok((watcher, DeliveryHandle::new(delivery)))
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

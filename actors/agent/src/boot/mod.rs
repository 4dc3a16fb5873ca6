//! A running agent: its configuration, its tree and its end.
//!
//! ```text
//! agent (one-for-one)
//! ├── store_guard       shows that the store can be written and is this process's own
//! ├── document_keeper   the DID Document, one version at a time
//! └── token_issuer      logins to the admin API; only where external callers are served
//! ```

use std::{path::PathBuf, sync::Arc, time::Duration};

use svc_kit::supervision::{Supervisor, SupervisorError, SupervisorSpec};
use svc_net::host_policy::HostPolicy;

use crate::{
    error::{AgentPart, Refusal, RefusalCode},
    identity::{DidMethod, PublicLocation},
    keeper::{DocumentError, KeeperArgs, KeeperHandle},
    store::{AgentStore, AgentStoreError, HeadFile, PublishedHead, StoreSettings},
    store_guard::{StoreGuardHandle, StoreState},
    token::{LoginRules, TokenIssuerHandle},
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
        let supervisor = Supervisor::new("agent");
        supervisor.start(SupervisorSpec::one_for_one(children)).await?;
        Ok(Self(Arc::new(AgentTree { supervisor, store, guard, keeper, tokens })))
    }

    /// The document keeper.
    pub fn keeper(&self) -> &KeeperHandle {
        &self.0.keeper
    }

    /// The token issuer; `None` while no external caller is served.
    pub fn tokens(&self) -> Option<&TokenIssuerHandle> {
        self.0.tokens.as_ref()
    }

    /// The supervisor, for embedding and for tests that crash actors.
    pub fn supervisor(&self) -> &Supervisor {
        &self.0.supervisor
    }

    /// Whether every part works; otherwise the refusal names those that do not.
    pub fn check_ready(&self) -> Result<(), Refusal> {
        match self.0.guard.state() {
            StoreState::Writable => Ok(()),
            StoreState::Failed(_) => Err(Refusal::not_ready(AgentPart::Store, "the store cannot be written", 5)),
            StoreState::Lost => Err(Refusal {
                waiting: vec![AgentPart::Store],
                ..Refusal::new(RefusalCode::NotReady, "another process has taken the store over")
            }),
        }
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

//! The parts that open before the first actor starts: the store with its head file, the document, and the conditions of access.

use std::path::{Path, PathBuf};

use svc_agent_identity::{
    DidMethod, PublicLocation,
    document::{AccessEntries, ManagedEntries},
    keeper::{KeeperArgs, KeeperHandle},
    resolution::ResolutionHandle,
};
use svc_agent_peers::{AccessOwner, AccessSettings};
use svc_agent_store::{AgentStore, HeadFile, PublishedHead, StoreSettings, guard::StoreGuardHandle};
use svc_kit::supervision::ChildSpec;
use svc_net::{
    fetch::{BoundedFetcher, FetchLimits},
    host_policy::HostPolicy,
};
use svc_wire::endpoint_access::AccessDocument;

use super::{error::AgentBootError, older_log::check_public_log};

/// The settings of the store, the document and the conditions of access.
pub(super) struct OpeningSettings {
    pub(super) store: StoreSettings,
    pub(super) head: Option<PathBuf>,
    pub(super) method: DidMethod,
    pub(super) location: PublicLocation,
    pub(super) pre_rotation: bool,
    pub(super) hosts: HostPolicy,
    pub(super) admin_api: Option<String>,
    /// Endpoints of messages, in the document.
    pub(super) messaging: Vec<String>,
    pub(super) access: AccessSettings,
    pub(super) corporation_id: u64,
}

/// The open parts, which actors of every subject get.
pub(super) struct OpenParts {
    pub(super) store: AgentStore,
    pub(super) guard: StoreGuardHandle,
    pub(super) keeper: KeeperHandle,
    pub(super) resolution: ResolutionHandle,
    pub(super) fetcher: BoundedFetcher,
    pub(super) hosts: HostPolicy,
    pub(super) did: String,
    pub(super) corporation_id: u64,
    pub(super) base_url: String,
}

impl OpenParts {
    /// The own DID and the id of its corporation.
    pub(super) fn own(&self) -> (String, u64) {
        (self.did.clone(), self.corporation_id)
    }
}

/// The open parts, the conditions of access, and the actors of the store and the document.
pub(super) struct Opening {
    pub(super) parts: OpenParts,
    pub(super) access: AccessOwner,
    pub(super) children: [ChildSpec; 2],
}

/// Opens the store, and loads or makes the document. Fails when either is older than a published version.
pub(super) async fn open(settings: OpeningSettings) -> Result<Opening, AgentBootError> {
    let store = AgentStore::open(settings.store).await?;
    let head = match &settings.head {
        None => None,
        Some(path) => Some(open_head(path, &store).await?),
    };
    let (guard, guard_child) = StoreGuardHandle::child_spec(store.clone());
    let resolution = ResolutionHandle::default();
    let fetcher = BoundedFetcher::new(settings.hosts, FetchLimits::default())?;
    let base_url = settings.location.base_url().to_owned();
    let args = KeeperArgs {
        store: store.clone(),
        guard: guard.clone(),
        resolution: resolution.clone(),
        method: settings.method,
        location: settings.location,
        managed: ManagedEntries {
            admin_api: settings.admin_api,
            messaging: settings.messaging,
            // The keys are those of the store.
            access: settings
                .access
                .is_published()
                .then(|| AccessEntries { url: AccessDocument::url(&base_url), keys: Vec::new() }),
        },
        pre_rotation: settings.pre_rotation,
        hosts: settings.hosts,
        head,
    };
    let (keeper, keeper_child) = KeeperHandle::prepare(args).await?;
    check_public_log(&keeper.published()).await?;
    let access = AccessOwner::open(settings.access, &base_url, store.clone(), keeper.clone())?;
    let did = keeper.published().document.did().to_owned();
    let (hosts, corporation_id) = (settings.hosts, settings.corporation_id);
    let parts = OpenParts { store, guard, keeper, resolution, fetcher, hosts, did, corporation_id, base_url };
    Ok(Opening { parts, access, children: [guard_child, keeper_child] })
}

/// Opens the head file, and compares the store with it.
async fn open_head(path: &Path, store: &AgentStore) -> Result<HeadFile, AgentBootError> {
    let (head, published) = HeadFile::open(path)?;
    if let Some(published) = published {
        check_head(store, &published).await?;
    }
    Ok(head)
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

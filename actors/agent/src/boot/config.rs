//! The configuration of an agent.

use std::{path::PathBuf, time::Duration};

use svc_agent_flows::FlowSettings;
use svc_agent_identity::{
    DidMethod, PublicLocation, chain_link::ChainConfig, credential_settings::CredentialSettings,
    rotation::RotationPauses, token::LoginRules,
};
use svc_agent_peers::{AccessSettings, CourierConfig, PeerSettings};
use svc_agent_store::StoreSettings;
use svc_net::{host_policy::HostPolicy, upstream::UpstreamOrigins};

use crate::watcher::HandledEvents;

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

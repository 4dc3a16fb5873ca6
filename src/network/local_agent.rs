//! The agent of a local network: served on loopback, in mode corporation, and admitted to the registry as the scenario says.

use std::{collections::BTreeSet, net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::Context;
use svc_agent::{
    AgentConfig, ChainConfig, CourierConfig, DidMethod, EventsConfig, HandledEvents, LoginRules, PublicLocation,
    StoreKey, StoreKeys, StoreSettings, WebhookSecrets,
};
use svc_devnet::{Devnet, scenario::GAS_PRICE_MICROS};
use svc_net::{host_policy::HostPolicy, upstream::UpstreamOrigins, webhook::WebhookClient};
use svc_pipeline::{ChainExpectation, FeePolicy, JournalPlace};
use svc_wire::{account_key::AccountKey, secret::SecretString};
use url::Url;

use crate::admin::{AdminConfig, AgentListeners, AgentServer, AgentServerConfig};

/// The agent of a local network.
#[derive(Debug, Clone, Default)]
pub struct LocalAgentConfig {
    /// Address of its admin API.
    pub admin_listen: Option<SocketAddr>,
    /// Address of its public files.
    pub public_listen: Option<SocketAddr>,
    /// Directory that keeps it between runs; in memory when absent.
    pub home: Option<PathBuf>,
    /// Time between the blocks; `None` on order only.
    pub block_time: Option<Duration>,
    /// Receiver of its events.
    pub receiver: Option<ReceiverConfig>,
}

/// The receiver of an agent's events.
#[derive(Debug, Clone)]
pub struct ReceiverConfig {
    /// URL.
    pub url: Url,
    /// Keys of the signatures, `whsec_…`.
    pub secret: Option<String>,
}

/// The store key of a devnet's agent. Nothing in a devnet is worth anything.
const STORE_KEY: [u8; 32] = [7; 32];
/// Events that a devnet's agent stores at most.
const MAX_STORED: u64 = 100_000;

/// Starts the agent, and makes its DID a participant.
pub(super) async fn launch(
    config: LocalAgentConfig,
    devnet: &Devnet,
    (rpc, indexers): (UpstreamOrigins, UpstreamOrigins),
) -> anyhow::Result<AgentServer> {
    let slot = devnet.agent_slot.as_ref().context("the scenario has no agent")?;
    let seat = devnet.operator_slot.as_ref().context("an agent needs a scenario with a seat")?;
    let account = devnet.accounts.get(&slot.account_name).context("the agent has no account")?;
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut server = AgentServerConfig {
        admin: AdminConfig {
            bind: config.admin_listen.unwrap_or(any_port),
            trusted_networks: Vec::new(),
            allowed_hosts: BTreeSet::new(),
            public_host: None,
        },
        public: config.public_listen.unwrap_or(any_port),
        socket: config.home.as_deref().map(|home| home.join("agent.sock")),
    };
    let listeners = AgentListeners::bind(&server)?;
    let (admin, public) = listeners.addresses()?;
    let origin = format!("http://{admin}");
    server.admin.public_host = Some(admin.to_string());
    // A DID is a name, and did:webvh takes no address.
    let location = PublicLocation::parse(&format!("http://localhost:{}", public.port()))?;
    let expected = ChainExpectation {
        chain_id: None,
        denom: None,
        gas_price_denom: None,
        fees: FeePolicy::at_price(GAS_PRICE_MICROS),
        uses_live_descriptors: false,
    };
    let file = |name: &str| config.home.as_deref().map(|home| home.join(name));
    let text = |path: PathBuf| path.to_str().map(str::to_owned).context("the home is no text");
    let journal = file("agent.journal").map(text).transpose()?;
    let database = match file("agent.db") {
        Some(path) => format!("sqlite://{}?mode=rwc", path.display()),
        None => "sqlite::memory:".to_owned(),
    };
    let keys = StoreKeys { current: StoreKey::from_bytes(STORE_KEY), previous: None };
    let receiver = config.receiver.map(courier).transpose()?;
    // A chain that makes blocks on order only is silent in between. Two runs of it are equal to the byte: the DID has no random key
    // in it, and every transaction is one of the scenario.
    let is_timed = config.block_time.is_some();
    let method = if is_timed { DidMethod::WebVh } else { DidMethod::Web };
    let silence = (!is_timed).then_some(Duration::from_secs(86_400));
    let agent = AgentConfig {
        store: StoreSettings { url: database, keys },
        head: file("agent.head"),
        method,
        location,
        pre_rotation: false,
        hosts: HostPolicy::AllowPrivate,
        admin_api: Some(origin.clone()),
        logins: Some(LoginRules {
            audience: Some(origin),
            prefix: devnet.namespace.as_str().to_owned(),
            allowed_accounts: BTreeSet::from([seat.operator_address.clone()]),
        }),
        chain: ChainConfig {
            corporation_id: seat.corporation_id,
            rpc,
            allows_plaintext_node: false,
            expected,
            key: AccountKey::from_mnemonic(&account.mnemonic)?,
            journal: JournalPlace { file: journal, min_free_space: 0 },
            tx_timeout: Duration::from_secs(30),
            gas_adjustment: 150,
            resolves_changes: is_timed,
        },
        events: EventsConfig {
            indexer: indexers,
            covers_corporation: true,
            handled: HandledEvents::All,
            start_height: None,
            silence,
            receiver,
            max_stored: MAX_STORED,
        },
    };
    let server = AgentServer::start(agent, server, listeners).await?;
    devnet.admit_agent(&server.did()).await?;
    Ok(server)
}

fn courier(receiver: ReceiverConfig) -> anyhow::Result<CourierConfig> {
    let client = WebhookClient::new(receiver.url, Duration::from_secs(10))?;
    let secrets = receiver.secret.map(|secret| WebhookSecrets::parse(&SecretString::new(secret))).transpose()?;
    Ok(CourierConfig { client, api_key: None, secrets, min_backoff: Duration::from_millis(100) })
}

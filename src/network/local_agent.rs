//! The agent of a local network: served on loopback, in mode corporation, and admitted to the registry as the scenario says.

use std::{collections::BTreeSet, net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::Context;
use serde_json::{Map, Value, json};
use svc_agent::{
    AccessSettings, Agent, AgentConfig, AnchorForm, ChainConfig, ClaimSettings, ConfiguredClaims, CourierConfig,
    CredentialKind, CredentialMode, CredentialSettings, CredentialState, DidMethod, EventsConfig, FlowSettings,
    HandledEvents, LoginRules, PeerSettings, PublicLocation, PublishedProofs, PublishedSchemas, Refusal,
    RotationPauses, StoreKey, StoreKeys, StoreSettings, WebhookSecrets,
};
use svc_devnet::{
    Devnet,
    scenario::{AgentSpec, GAS_PRICE_MICROS},
};
use svc_net::{host_policy::HostPolicy, upstream::UpstreamOrigins, webhook::WebhookClient};
use svc_pipeline::{ChainExpectation, FeePolicy, JournalPlace};
use svc_trust::EssentialCredential;
use svc_wire::{account_key::AccountKey, secret::SecretString};
use url::Url;

use super::chain_and_indexer::essential_schemas;
use crate::{
    admin::{AdminConfig, AgentListeners, AgentServer, AgentServerConfig},
    listener::ListenerConfig,
};

/// The agents of a local network.
#[derive(Debug, Clone, Default)]
pub struct LocalAgentConfig {
    /// Address of the admin API of each agent, and of its public files; free ports where there is none.
    pub listens: Vec<(SocketAddr, SocketAddr)>,
    /// Whether no agent is started.
    pub is_off: bool,
    /// Whether the agents wait for a person to make their DIDs participants.
    pub waits_for_setup: bool,
    /// Directory that keeps them between runs; in memory when absent.
    pub home: Option<PathBuf>,
    /// Time between the blocks; `None` on order only.
    pub block_time: Option<Duration>,
    /// Pauses between the steps of a rotation of their keys.
    pub rotation_pauses: RotationPauses,
    /// Longest wait for a block with a transaction; 30 seconds when absent.
    pub tx_timeout: Option<Duration>,
    /// Receiver of the first one's events.
    pub receiver: Option<ReceiverConfig>,
    /// Their peers.
    pub peers: PeerSettings,
    /// Their flows, but for the claims that they ask for.
    pub flows: FlowSettings,
    /// Proofs of the credentials that they issue outside of flows; those of the newer suite when absent.
    pub proofs: Option<PublishedProofs>,
    /// Their access, by their places; that of the default for the others.
    pub access: Vec<AccessSettings>,
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
/// Shortest silence of the indexer that ends a connection to it.
const LEAST_SILENCE: Duration = Duration::from_secs(10);
/// Usual longest wait for a block with a transaction of an agent.
const TX_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest wait for the credential of an agent.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(60);
/// Events that a devnet's agent stores at most.
const MAX_STORED: u64 = 100_000;

/// A running agent of a devnet.
pub struct LocalAgent {
    /// Its name in the scenario.
    pub name: String,
    /// Its listeners.
    pub server: AgentServer,
}

/// Starts the agents of the scenario, makes their DIDs participants, and gives them their credentials.
pub(super) async fn launch(
    config: &LocalAgentConfig,
    devnet: &Devnet,
    upstreams: (UpstreamOrigins, UpstreamOrigins),
) -> anyhow::Result<Vec<LocalAgent>> {
    let mut agents: Vec<LocalAgent> = Vec::new();
    for (place, spec) in devnet.agents.iter().enumerate().filter(|_| !config.is_off) {
        let parent = spec.parent.as_ref().and_then(|parent| agents.iter().find(|one| one.name == *parent));
        let parent = parent.map(|parent| parent.server.did());
        let server = start(config, devnet, (place, spec), parent, upstreams.clone()).await?;
        agents.push(LocalAgent { name: spec.name.clone(), server });
    }
    if !config.waits_for_setup {
        let dids: Vec<_> = agents.iter().map(|agent| (agent.name.clone(), agent.server.did())).collect();
        devnet.admit_agents(&dids).await?;
        // A chain that makes blocks on order only has no block for their transactions.
        if config.block_time.is_some() {
            if let Some(first) = agents.first() {
                anchor_schemas(devnet, &first.server.agent).await?;
            }
            for (agent, spec) in agents.iter().zip(&devnet.agents) {
                receive_credentials(devnet, &agents, agent, spec).await?;
            }
        }
    }
    Ok(agents)
}

/// Imports the credentials that services and other agents issue to an agent, unless it has them.
async fn receive_credentials(
    devnet: &Devnet,
    agents: &[LocalAgent],
    agent: &LocalAgent,
    spec: &AgentSpec,
) -> anyhow::Result<()> {
    let (own, did) = (&agent.server.agent, agent.server.did());
    if own.store().held_credentials().await?.iter().any(|one| one.kind == CredentialKind::Received) {
        return Ok(());
    }
    for received in &spec.receives {
        if agents.iter().any(|one| one.name == received.by) {
            // The agents do it themselves, by a flow.
            await_credential(devnet, own).await?;
            continue;
        }
        let mut subject = Map::new();
        subject.insert("id".to_owned(), did.as_str().into());
        subject.extend(received_claims(devnet, &received.schema));
        let credential = devnet.issue_credential(&received.by, &received.schema, Value::Object(subject)).await?;
        let import = async || own.credentials().import(credential.clone()).await;
        retry(devnet, import).await?;
    }
    Ok(())
}

/// Anchors the credentials of the schemas that the ecosystem of an agent has, as an operator of its corporation does.
async fn anchor_schemas(devnet: &Devnet, agent: &Agent) -> anyhow::Result<()> {
    let wanted = devnet.schemas_of_agents();
    let mut heights = devnet.node.watch_heights();
    let signed = async {
        loop {
            let held = agent.store().held_credentials().await?;
            let of_schemas: Vec<_> = held.into_iter().filter(|one| one.kind == CredentialKind::Schema).collect();
            if of_schemas.len() >= wanted {
                return Ok::<_, anyhow::Error>(of_schemas);
            }
            heights.changed().await?;
        }
    };
    let signed = tokio::time::timeout(RECEIVE_TIMEOUT, signed).await;
    for one in signed.context("the credentials of schemas were not made in time")?? {
        if one.state == CredentialState::Signed {
            let digest = json!({"authority": "$registry", "operator": "$operator", "digest": one.digest});
            let steps = serde_json::from_value(json!({
                "description": "the digest of a schema's credential",
                "step": [{"name": "anchor", "signer": "operator", "granter": "registry",
                    "messages": [{"type": "di.MsgStoreDigest", "value": digest}]}],
            }))?;
            devnet.run_steps(&steps).await?;
        }
    }
    Ok(())
}

/// Waits until an agent holds a credential of another.
pub(crate) async fn await_credential(devnet: &Devnet, agent: &Agent) -> anyhow::Result<()> {
    let mut heights = devnet.node.watch_heights();
    let held = async {
        loop {
            let held = agent.store().held_credentials().await?;
            if held.iter().any(|one| one.kind == CredentialKind::Received) {
                return Ok(());
            }
            heights.changed().await?;
        }
    };
    tokio::time::timeout(RECEIVE_TIMEOUT, held).await.context("an agent did not get its credential in time")?
}

/// Asks again with each block until the agent does it: it has to find the chain first.
async fn retry<T>(devnet: &Devnet, ask: impl AsyncFn() -> Result<T, Refusal>) -> anyhow::Result<T> {
    let mut heights = devnet.node.watch_heights();
    let attempts = async {
        loop {
            match ask().await {
                Ok(answer) => return Ok(answer),
                Err(refusal) if refusal.retry_after.is_none() => return Err(anyhow::Error::from(refusal)),
                Err(_) => heights.changed().await?,
            }
        }
    };
    tokio::time::timeout(RECEIVE_TIMEOUT, attempts).await.context("an agent did not get its credential in time")?
}

/// The claims that others make about an agent; none in a network without services, which serve the documents that they name.
pub fn received_claims(devnet: &Devnet, schema: &str) -> Map<String, Value> {
    match schema {
        "organization" => essential_claims(devnet, EssentialCredential::Organization, "Registry", ""),
        _ => essential_claims(
            devnet,
            EssentialCredential::Service,
            "Devnet branch",
            "A service of the same corporation.",
        ),
    }
}

fn essential_claims(devnet: &Devnet, kind: EssentialCredential, name: &str, description: &str) -> Map<String, Value> {
    let services = devnet.services.as_ref();
    services.map(|services| services.essential_claims(kind, name, description)).unwrap_or_default()
}

/// The settings of the claims of a service.
fn service_settings(members: Map<String, Value>) -> ClaimSettings {
    ClaimSettings::from([(EssentialCredential::Service, ConfiguredClaims { members, ..ConfiguredClaims::default() })])
}

/// Starts one agent.
async fn start(
    config: &LocalAgentConfig,
    devnet: &Devnet,
    (place, spec): (usize, &AgentSpec),
    parent: Option<String>,
    (rpc, indexers): (UpstreamOrigins, UpstreamOrigins),
) -> anyhow::Result<AgentServer> {
    let seat = devnet.operator_slot.as_ref().context("an agent needs a scenario with a seat")?;
    let account = devnet.accounts.get(&spec.account).context("the agent has no account")?;
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let (admin_listen, public_listen) = config.listens.get(place).copied().unwrap_or((any_port, any_port));
    let mut server = AgentServerConfig {
        admin: AdminConfig {
            bind: admin_listen,
            trusted_networks: Vec::new(),
            allowed_hosts: BTreeSet::new(),
            public_host: None,
        },
        public: public_listen,
        socket: config.home.as_deref().map(|home| home.join(format!("{}.sock", spec.name))),
        listener: ListenerConfig::for_local_network(),
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
        set_price: None,
        fees: FeePolicy::at_price(GAS_PRICE_MICROS),
        uses_live_descriptors: false,
    };
    let file = |extension: &str| config.home.as_deref().map(|home| home.join(format!("{}.{extension}", spec.name)));
    let text = |path: PathBuf| path.to_str().map(str::to_owned).context("the home is no text");
    let journal = file("journal").map(text).transpose()?;
    let database = match file("db") {
        Some(path) => format!("sqlite://{}?mode=rwc", path.display()),
        None => "sqlite::memory:".to_owned(),
    };
    let keys = StoreKeys { current: StoreKey::from_bytes(STORE_KEY), previous: None };
    let receiver = config.receiver.clone().filter(|_| place == 0).map(courier).transpose()?;
    // A chain that makes blocks on order only is silent in between. Two runs of it are equal to the byte: the DID has no random key
    // in it, and every transaction is one of the scenario.
    let is_timed = config.block_time.is_some();
    let method = if is_timed { DidMethod::WebVh } else { DidMethod::Web };
    // The blocks of a busy machine come late, and its indexer is in the same process: only a long silence is one.
    let silence = config.block_time.map_or(Duration::from_secs(86_400), |time| (time * 20).max(LEAST_SILENCE));
    let claims =
        if parent.is_some() { service_settings(received_claims(devnet, "service")) } else { ClaimSettings::new() };
    let agent = AgentConfig {
        store: StoreSettings { url: database, keys },
        head: file("head"),
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
            journal: JournalPlace { file: journal, min_free_space: 0.into() },
            tx_timeout: config.tx_timeout.unwrap_or(TX_TIMEOUT),
            gas_adjustment: 150,
            resolves_changes: is_timed,
            anchors: AnchorForm::default(),
        },
        credentials: if is_timed { credential_settings(config, devnet, parent) } else { without_credentials(devnet) },
        rotation_pauses: config.rotation_pauses,
        events: EventsConfig {
            indexer: indexers,
            covers_corporation: true,
            handled: HandledEvents::All,
            start_height: None,
            silence: Some(silence),
            receiver,
            max_stored: MAX_STORED,
        },
        peers: config.peers.clone(),
        flows: FlowSettings { claims, published_schemas: presented_schemas(config), ..config.flows.clone() },
        access: config.access.get(place).cloned().unwrap_or_default(),
    };
    AgentServer::start(agent, server, listeners).await
}

/// The schemas whose credentials an agent presents: those that are configured, or all.
fn presented_schemas(config: &LocalAgentConfig) -> PublishedSchemas {
    let configured = &config.flows.published_schemas;
    if *configured == PublishedSchemas::default() { PublishedSchemas::All } else { configured.clone() }
}

/// The settings of an agent that issues nothing to itself, and knows the essential schemas of its network.
fn without_credentials(devnet: &Devnet) -> CredentialSettings {
    CredentialSettings { essential_schemas: essential_schemas(devnet), ..CredentialSettings::off() }
}

/// The settings of an agent's credentials: its own claims, or the DID of its parent.
fn credential_settings(config: &LocalAgentConfig, devnet: &Devnet, parent: Option<String>) -> CredentialSettings {
    let description = "Stands for the corporation of the devnet.";
    let members = essential_claims(devnet, EssentialCredential::Service, "Devnet agent", description);
    let mode = match parent {
        Some(parent) => CredentialMode::Delegated { parent, claims: ConfiguredClaims::default() },
        None => CredentialMode::Standalone { claims: service_settings(members) },
    };
    let trusted_ecosystems = devnet.ecosystem_did().map(str::to_owned).into_iter().collect();
    let known = without_credentials(devnet);
    CredentialSettings { mode, trusted_ecosystems, proofs: config.proofs.unwrap_or(known.proofs), ..known }
}

fn courier(receiver: ReceiverConfig) -> anyhow::Result<CourierConfig> {
    let client = WebhookClient::new(receiver.url, Duration::from_secs(10))?;
    let secrets = receiver.secret.map(|secret| WebhookSecrets::parse(&SecretString::new(secret))).transpose()?;
    Ok(CourierConfig { client, api_key: None, secrets, min_backoff: Duration::from_millis(100) })
}

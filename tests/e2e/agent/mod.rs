//! The agent's admin API and the public files of its DID, over real sockets.

mod credentials;
pub(super) mod document;
mod endpoints;
mod messages;
mod processes;
mod validation;

use std::{collections::BTreeSet, net::SocketAddr, path::Path, sync::LazyLock, time::Duration};

use serde_json::Value;
use svc::{
    admin::{AdminApi, CallerRules, PublicApi, bind_socket, public_router, serve_address, serve_socket},
    listener::bind_listener,
    listener::{self, ListenerConfig},
};
use svc_agent::{
    AccessSettings, Agent, AgentBootError, AgentConfig, AnchorForm, ChainConfig, CredentialSettings, DidMethod,
    EventsConfig, FlowSettings, HandledEvents, LoginRules, PeerSettings, PublicLocation, RotationPauses, StoreKey,
    StoreKeys, StoreSettings,
};
use svc_net::host_policy::HostPolicy;
use svc_pipeline::{ChainExpectation, FeePolicy, JournalPlace};
use svc_test_support::ports::free_port;
use svc_wire::account_key::AccountKey;

/// The callers of an agent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Loopback is trusted, others are refused.
    Internal,
    /// Everyone logs in.
    Corporation,
}

/// A running agent with its listeners.
pub struct AgentServer {
    pub agent: Agent,
    pub admin: String,
    pub public: String,
    api: AdminApi,
}

/// An answer: status, headers, and the body as JSON.
pub struct AdminAnswer {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub body: Value,
}

impl AdminAnswer {
    /// Status and code of an error.
    pub fn error(&self) -> (u16, &str) {
        (self.status, self.body["error"]["code"].as_str().unwrap_or_default())
    }
}

pub fn sqlite_url(directory: &Path) -> String {
    format!("sqlite://{}?mode=rwc", directory.join("agent.db").display())
}

pub fn take_port(port: u16) -> (std::net::TcpListener, SocketAddr) {
    let listener = bind_listener(([127, 0, 0, 1], port).into()).expect("a port");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

/// Events of an indexer that is not there.
pub fn no_events() -> EventsConfig {
    EventsConfig {
        indexer: "http://127.0.0.1:1".into(),
        covers_corporation: false,
        handled: HandledEvents::All,
        start_height: None,
        silence: None,
        receiver: None,
        max_stored: 1_000,
    }
}

/// The chain of a node, and an account there.
pub fn chain_config(rpc: &str, corporation_id: u64, directory: &Path, key: AccountKey) -> ChainConfig {
    let journal = directory.join("agent.journal").to_str().map(str::to_owned);
    ChainConfig {
        corporation_id,
        rpc: rpc.to_owned().into(),
        allows_plaintext_node: false,
        expected: ChainExpectation {
            chain_id: None,
            denom: None,
            set_price: None,
            fees: FeePolicy::at_price(25_000),
            uses_live_descriptors: false,
        },
        key,
        journal: JournalPlace { file: journal, min_free_space: 0.into() },
        tx_timeout: Duration::from_secs(30),
        gas_adjustment: 150,
        resolves_changes: true,
        anchors: AnchorForm::default(),
    }
}

impl AgentServer {
    pub async fn start(directory: &Path, store_url: &str, method: DidMethod, mode: Mode) -> Self {
        let chain = chain_config("http://127.0.0.1:1", 1, directory, document::login::key(9));
        Self::start_with(directory, store_url, (method, mode), (no_events(), chain)).await
    }

    pub async fn start_with(
        directory: &Path,
        store_url: &str,
        (method, mode): (DidMethod, Mode),
        (events, chain): (EventsConfig, ChainConfig),
    ) -> Self {
        Self::try_start(directory, store_url, (method, mode), (events, chain)).await.expect("an agent")
    }

    pub async fn try_start(
        directory: &Path,
        store_url: &str,
        (method, mode): (DidMethod, Mode),
        (events, chain): (EventsConfig, ChainConfig),
    ) -> Result<Self, AgentBootError> {
        let peers = (HostPolicy::PublicOnly, PeerSettings::default());
        Self::try_start_with_peers(directory, store_url, (method, mode), (events, chain), peers).await
    }

    /// Starts an agent without chain and indexer, which peers on this machine reach.
    pub async fn start_for_peers(directory: &Path, store_url: &str, peers: PeerSettings, events: EventsConfig) -> Self {
        let chain = chain_config("http://127.0.0.1:1", 1, directory, document::login::key(9));
        let kind = (DidMethod::WebVh, Mode::Internal);
        let peers = (HostPolicy::AllowPrivate, peers);
        Self::try_start_with_peers(directory, store_url, kind, (events, chain), peers).await.expect("an agent")
    }

    /// Starts an agent for peers, on a chain.
    pub async fn start_on_chain(
        directory: &Path,
        store_url: &str,
        peers: PeerSettings,
        (events, chain): (EventsConfig, ChainConfig),
    ) -> Self {
        let kind = (DidMethod::WebVh, Mode::Internal);
        let peers = (HostPolicy::AllowPrivate, peers);
        Self::try_start_with_peers(directory, store_url, kind, (events, chain), peers).await.expect("an agent")
    }

    async fn try_start_with_peers(
        directory: &Path,
        store_url: &str,
        (method, mode): (DidMethod, Mode),
        (events, chain): (EventsConfig, ChainConfig),
        (hosts, peers): (HostPolicy, PeerSettings),
    ) -> Result<Self, AgentBootError> {
        // A DID names its port, which a restart therefore keeps.
        let kept = directory.join("public-address");
        let port = std::fs::read_to_string(&kept).ok().and_then(|text| text.parse().ok()).unwrap_or_else(free_port);
        let ((public_listener, public_address), (admin_listener, admin_address)) = (take_port(port), take_port(0));
        std::fs::write(&kept, public_address.port().to_string()).expect("written");
        // did:webvh takes names only.
        let public = format!("http://localhost:{}", public_address.port());
        let admin = format!("http://{admin_address}");
        let is_corporation = mode == Mode::Corporation;
        let allowed_accounts = BTreeSet::from([document::login::account(1)]);
        let location = PublicLocation::parse(&public).expect("a location");
        let config = AgentConfig {
            store: StoreSettings {
                url: store_url.to_owned(),
                keys: StoreKeys { current: StoreKey::from_bytes([1; 32]), previous: None },
            },
            head: Some(directory.join("agent.head")),
            method,
            location: location.clone(),
            pre_rotation: false,
            hosts,
            admin_api: is_corporation.then(|| admin.clone()),
            logins: is_corporation.then(|| LoginRules {
                audience: Some(admin.clone()),
                prefix: "svc".to_owned(),
                allowed_accounts,
            }),
            chain,
            credentials: CredentialSettings::off(),
            rotation_pauses: RotationPauses::default(),
            events,
            peers,
            flows: FlowSettings::default(),
            access: AccessSettings::default(),
        };
        let agent = Agent::launch(config).await?;
        let trusted = if is_corporation { Vec::new() } else { vec!["127.0.0.0/8".parse().expect("a network")] };
        let rules = CallerRules {
            trusted_networks: trusted,
            allowed_hosts: BTreeSet::new(),
            public_host: is_corporation.then(|| admin_address.to_string()),
            bound: admin_address,
        };
        let api = AdminApi::new(agent.clone(), rules);
        tokio::spawn(serve_address(admin_listener, api.clone(), ListenerConfig::for_local_network()));
        let socket = bind_socket(&directory.join("agent.sock")).expect("a socket");
        tokio::spawn(serve_socket(socket, api.clone()));
        let files = public_router(PublicApi {
            keeper: agent.keeper().clone(),
            location,
            peers: agent.peers().clone(),
            access: agent.access().clone(),
        });
        let front = ListenerConfig::for_local_network();
        listener::serve("public", public_listener, files, &front, api.shutdown_token()).expect("served");
        Ok(Self { agent, admin, public, api })
    }

    pub async fn stop(self) {
        self.api.shutdown_token().cancel();
        self.agent.shutdown(Duration::from_secs(5)).await;
    }

    pub async fn send(&self, method: &str, path: &str, body: Option<&str>) -> AdminAnswer {
        let request = request(method, &format!("{}{path}", self.admin));
        let request = match body {
            Some(body) => request.header("content-type", "application/json").body(body.to_owned()),
            None => request,
        };
        answer(request).await
    }
}

pub fn request(method: &str, url: &str) -> reqwest::RequestBuilder {
    // To make a client takes tens of milliseconds, and hundreds of requests begin at once. Connections are not kept: each test has its own
    // runtime, and its connections end with it.
    static CLIENT: LazyLock<reqwest::Client> =
        LazyLock::new(|| reqwest::Client::builder().pool_max_idle_per_host(0).build().expect("a client"));
    CLIENT.request(method.parse().expect("a method"), url).header("connection", "close")
}

pub async fn answer(request: reqwest::RequestBuilder) -> AdminAnswer {
    let response = request.send().await.expect("answered");
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = response.text().await.expect("a text");
    AdminAnswer { status, headers, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) }
}

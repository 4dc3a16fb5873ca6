//! Access of peers to endpoints: the tool calls that their tokens open, the verification of tokens, and the whole flow beside its round trips.

use std::{
    hint::black_box,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    time::{Duration, Instant},
};

use ed25519_dalek::{Signer, SigningKey};
use futures::future;
use serde_json::{Map, Value, json};
use svc::{
    mcp_client::McpClient,
    network::{LocalAgentConfig, LocalNetwork, LocalNetworkConfig},
};
use svc_agent::{
    AccessSettings, Agent, BasicMessageFilter, GrantedMaterial, MessageRole, PeerAccessRequest, PeerGrant,
    PeerSettings,
    document::{ServiceChange, ServiceIdPath},
    log::encode_multikey,
};
use svc_devnet::DevnetConfig;
use svc_net::{did::DidResolver, host_policy::HostPolicy, upstream::NodeClient};
use svc_peer::{AgentAddress, AgentApi, PeerClient};
use svc_trust::access::{AccessClaims, AccessRules, AccessToken, sign_access_token};
use svc_wire::endpoint_access::RevocationList;
use tempfile::TempDir;

use crate::{BenchRow, median};

const CALLS: usize = 300;
const ROUNDS: usize = 7;
const TOKENS: usize = 2_000;
const FLOWS: usize = 40;
const LONGEST: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);
const CONDITIONS: &str = "[[endpoint]]\nid = \"mcp\"\nmaterial = \"bearer\"\nscopes = [\"mcp:read\"]\n\
                          default_scopes = [\"mcp:read\"]\nallow = \"*\"\n";

/// Two agents that trust each other, and a tool server behind an entry of the first.
struct AccessBench {
    network: LocalNetwork,
    home: TempDir,
}

impl AccessBench {
    async fn start() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let file = home.path().join("access.toml");
        let mut options = std::fs::OpenOptions::new();
        let opened = options.write(true).create_new(true).mode(0o600).open(&file);
        opened.expect("made").write_all(CONDITIONS.as_bytes()).expect("written");
        let devnet = DevnetConfig {
            block_time: Some(Duration::from_millis(500)),
            scenario: "peers".into(),
            ..DevnetConfig::default()
        };
        let access = AccessSettings { terms_file: Some(file), rate_per_peer: 100_000, ..AccessSettings::default() };
        let agent = LocalAgentConfig {
            home: Some(home.path().to_owned()),
            access: vec![access],
            peers: PeerSettings { rate_per_peer: 10_000, outbox_per_peer: 100_000, ..PeerSettings::default() },
            ..LocalAgentConfig::default()
        };
        let network = LocalNetwork::launch(LocalNetworkConfig { devnet, agent, ..LocalNetworkConfig::default() }).await;
        let bench = Self { network: network.expect("starts"), home };
        let endpoint = json!(bench.network.mcp_url());
        let add = ServiceChange::Add { id: Some(ServiceIdPath::new("mcp")), kind: "MCP".to_owned(), endpoint };
        bench.agent(0).keeper().change(add).await.expect("added");
        let begun = Instant::now();
        while bench.ask().await.is_none() {
            assert!(begun.elapsed() < LONGEST, "no grant within {LONGEST:?}");
            tokio::time::sleep(LOOK).await;
        }
        bench
    }

    fn agent(&self, place: usize) -> &Agent {
        &self.network.agents[place].server.agent
    }

    fn did(&self, place: usize) -> String {
        self.network.agents[place].server.did()
    }

    fn endpoint(&self) -> String {
        format!("{}#mcp", self.did(0))
    }

    async fn ask(&self) -> Option<Box<PeerGrant>> {
        let request = PeerAccessRequest { endpoint: self.endpoint(), ..PeerAccessRequest::default() };
        self.agent(1).peers().request_access(request).await.ok()
    }

    fn client(&self) -> PeerClient {
        let socket = self.home.path().join(format!("{}.sock", self.network.agents[1].name));
        let agent = AgentApi::new(AgentAddress::Socket(socket), "in this bench").expect("a client");
        PeerClient::new(agent, HostPolicy::AllowPrivate).expect("a client")
    }
}

/// The rows.
pub async fn rows() -> Vec<BenchRow> {
    let bench = AccessBench::start().await;
    vec![calls(&bench).await, verifications(), flow(&bench).await]
}

fn token_of(grant: &PeerGrant) -> &str {
    match &grant.material {
        GrantedMaterial::Bearer { token } => token.expose_secret(),
        other => panic!("{other:?}"),
    }
}

fn arguments() -> Map<String, Value> {
    Map::from_iter([("id".to_owned(), json!("1"))])
}

/// Seconds of one call, on average over a round.
async fn measure_calls(client: &McpClient) -> f64 {
    let begun = Instant::now();
    for _ in 0..CALLS {
        let answer = client.call_tool("svc.idx.co.getCorporation", arguments()).await.expect("an answer");
        assert_ne!(answer.is_error, Some(true), "{answer:?}");
    }
    begun.elapsed().as_secs_f64() / CALLS as f64
}

/// Tool calls by the token of a peer beside the same calls by the static token, in turns.
async fn calls(bench: &AccessBench) -> BenchRow {
    let grant = bench.ask().await.expect("granted");
    let url = bench.network.mcp_url();
    let peer = McpClient::connect(&url, token_of(&grant)).await.expect("connects");
    let operator = McpClient::connect(&url, &bench.network.bearer_token).await.expect("connects");
    let (mut by_peer, mut by_operator) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        by_operator.push(1.0 / measure_calls(&operator).await);
        by_peer.push(1.0 / measure_calls(&peer).await);
    }
    let (by_peer, by_operator) = (median(by_peer), median(by_operator));
    BenchRow::new(
        "tool calls a second by the token of a peer",
        format!("{by_peer:.0}"),
        format!("{by_operator:.0}, by the static token"),
        by_peer / by_operator,
    )
}

/// Verified tokens beside bare verifications of the same signatures, in turns.
fn verifications() -> BenchRow {
    const ISSUER: &str = "did:web:a.example";
    let key = SigningKey::from_bytes(&[7; 32]);
    let id = format!("{ISSUER}#key");
    let public = encode_multikey(&key);
    let method = json!({"id": id, "type": "Multikey", "controller": ISSUER, "publicKeyMultibase": public});
    let document = json!({"id": ISSUER, "verificationMethod": [method], "capabilityDelegation": [id]});
    let claims = AccessClaims {
        issuer: ISSUER.into(),
        subject: "did:webvh:QmYh4JWbD2X9Vg1VHcbWmYWtu1PSXffgjwr2vPLnkxeWHx:b.example".into(),
        audience: "https://a.example/mcp".into(),
        endpoint: format!("{ISSUER}#mcp"),
        scopes: vec!["mcp:read".into()],
        issued_at: 1_800_000_000,
        expires_at: 1_800_000_600,
        id: "01a21632-266d-757d-9775-6df194daf8d9".into(),
    };
    let token = sign_access_token(&claims, &id, &key);
    let (signed, _) = token.rsplit_once('.').expect("a token");
    let signature = key.sign(signed.as_bytes());
    let revoked = RevocationList::new(ISSUER, 0, 0, []);
    let rules = AccessRules { issuer: ISSUER, audience: &claims.audience, knows_scope: &|scope| scope == "mcp:read" };
    let per_second = |verify: &dyn Fn()| {
        let begun = Instant::now();
        (0..TOKENS).for_each(|_| verify());
        TOKENS as f64 / begun.elapsed().as_secs_f64()
    };
    let (mut tokens, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(per_second(&|| {
            black_box(key.verifying_key().verify_strict(black_box(signed.as_bytes()), &signature)).expect("valid");
        }));
        tokens.push(per_second(&|| {
            let token = AccessToken::read(black_box(&token)).expect("readable");
            black_box(token.verify(&rules, &document, &revoked, 1_800_000_100)).expect("valid");
        }));
    }
    let (tokens, bare) = (median(tokens), median(bare));
    BenchRow::new(
        "tokens of peers that one core verifies in a second",
        format!("{tokens:.0}"),
        format!("{bare:.0} bare Ed25519 verifications"),
        tokens / bare,
    )
}

/// Seconds of an action, on the median.
async fn time_of<T>(action: impl AsyncFn() -> T) -> f64 {
    let mut took = Vec::new();
    for _ in 0..FLOWS {
        let begun = Instant::now();
        action().await;
        took.push(begun.elapsed().as_secs_f64());
    }
    median(took)
}

/// The flow from the DID to the answer of a tool, beside the round trips that it consists of: two questions each to the index and the node,
/// three fetches of the document and one of the requirements, a message and its answer, two requests to the own agent, and the call.
async fn flow(bench: &AccessBench) -> BenchRow {
    let (client, endpoint, url) = (bench.client(), bench.endpoint(), bench.network.mcp_url());
    let tool_call = async |token: &str| {
        let client = McpClient::connect(&url, token).await.expect("connects");
        client.call_tool("svc.idx.co.getCorporation", arguments()).await.expect("an answer");
        client.close().await;
    };
    let mut flows = Vec::new();
    let mut before = bench.ask().await.expect("granted").id;
    for _ in 0..FLOWS {
        let begun = Instant::now();
        client.find_endpoint(&endpoint).await.expect("found");
        let replaces = Some(before.clone());
        let request = PeerAccessRequest { endpoint: endpoint.clone(), replaces, ..PeerAccessRequest::default() };
        let grant = bench.agent(1).peers().request_access(request).await.expect("granted");
        tool_call(token_of(&grant)).await;
        flows.push(begun.elapsed().as_secs_f64());
        before.clone_from(&grant.id);
        // Five valid grants for one endpoint are the most.
        let granted = bench.agent(0).access();
        for active in granted.grants(&svc_agent::AccessGrantFilter::default(), None, 500).await.expect("read") {
            let _ = granted.revoke(&active.id, "of the bench").await;
        }
    }
    let flow = median(flows);

    let http = reqwest::Client::new();
    let (index, owner) = (format!("{}/v4/verifiable-trust/resolve", bench.network.indexer_origin()), bench.did(0));
    let body = json!({"did": owner, "ecsCredentials": true});
    let resolve = time_of(async || http.post(&index).json(&body).send().await.expect("sent").bytes().await).await;
    let node = NodeClient::new(bench.network.devnet.node.origin()).expect("a client");
    let query = time_of(async || node.status().await.expect("an answer")).await;
    let resolver = DidResolver::new(HostPolicy::AllowPrivate).expect("a resolver");
    let document = time_of(async || resolver.resolve_fresh(&owner).await.expect("a document")).await;
    let public = bench.network.agents[0].server.public.port();
    let requirements = format!("http://localhost:{public}/endpoint-access.json");
    let file = time_of(async || http.get(&requirements).send().await.expect("sent").bytes().await).await;
    let message = message_time(bench).await;
    let own = time_of(async || client.agent().get("/v2/agent/info").await.expect("an answer")).await;
    let token = bench.network.bearer_token.clone();
    let call = time_of(async || tool_call(&token).await).await;
    let trips = 2.0 * (resolve + query + message + own) + 3.0 * document + file + call;
    BenchRow::new(
        "the flow of a peer, from the DID to the answer of a tool",
        format!("{:.1} ms", flow * 1e3),
        format!("{:.1} ms, its round trips alone", trips * 1e3),
        flow / trips,
    )
}

/// Seconds from a text for a peer to its record at the peer, on the median.
async fn message_time(bench: &AccessBench) -> f64 {
    let (sender, receiver) = (bench.agent(1).peers(), bench.agent(0).peers());
    let connection = sender.open_connection(&bench.did(0)).await.expect("open").connection.id;
    let filter = BasicMessageFilter { role: Some(MessageRole::Receiver), ..BasicMessageFilter::default() };
    let mut took = Vec::new();
    let mut last: Option<String> = None;
    for number in 0..FLOWS {
        let begun = Instant::now();
        let heard = receiver.basic_messages(&filter, last.as_deref(), 10, Duration::from_secs(10));
        let sent = sender.send_basic_message(&connection, "hello");
        let (heard, sent) = future::join(heard, sent).await;
        let (heard, _) = (heard.expect("read"), sent.expect("stored"));
        took.push(begun.elapsed().as_secs_f64());
        last = heard.last().map(|one| one.id.clone()).or(last);
        assert!(last.is_some(), "message {number} has not come");
    }
    median(took)
}

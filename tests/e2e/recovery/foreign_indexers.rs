//! Indexers that follow another chain, or another history of this one: they are left out and named.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::to_bytes,
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use svc::network::{ChainAndIndexer, LocalNetworkConfig};
use svc_devnet::DevnetConfig;
use svc_net::{upstream::UpstreamOrigins, websocket::server as websocket_server};
use svc_operator::{
    BootPatience, BootSubject, FeeLimits, Operator, OperatorConfig, WriteOrigin, WriteReceipt, WriteRequest, preflight,
};
use svc_wire::account_key::AccountKey;
use tokio::sync::watch;
use tokio_tungstenite::tungstenite::Message;

use super::super::{
    fakes::forward_websocket_until,
    harness::{OPERATOR_MNEMONIC, TestNetwork, ecosystem_arguments, network_config, poll_until, start_network},
};

/// The statements that a proxy changes on the way from an index.
#[derive(Clone, Default)]
pub(in crate::e2e) struct Disguise {
    /// The chain id of the version.
    pub(in crate::e2e) chain_id: Option<String>,
    /// Whether the version has no blocks, as that of an indexer of another make.
    pub(in crate::e2e) hides_blocks: bool,
    /// Blocks that `ready` and `subscribed` are ahead of the index.
    pub(in crate::e2e) lead: u64,
}

/// The blocks of a stream that a proxy passes on.
#[derive(Clone, Copy, Default)]
pub(in crate::e2e) enum Passage {
    /// All.
    #[default]
    All,
    /// None: the socket lives.
    None,
    /// Each block waits until there are so many. Until then the height is that of the last block that was passed on.
    Bursts(usize),
}

/// A proxy before an index, which can be replaced.
#[derive(Clone)]
pub(in crate::e2e) struct IndexProxy {
    upstream: Arc<Mutex<String>>,
    disguise: Disguise,
    cuts: watch::Sender<u64>,
    passage: Arc<Mutex<Passage>>,
    /// The last block that was passed on.
    passed: Arc<AtomicU64>,
    connections: Arc<AtomicUsize>,
    height_reads: Arc<AtomicUsize>,
}

impl IndexProxy {
    pub(in crate::e2e) async fn start(upstream: String, disguise: Disguise) -> (Self, String) {
        let proxy = Self {
            upstream: Arc::new(Mutex::new(upstream)),
            disguise,
            cuts: watch::Sender::new(0),
            passage: Arc::default(),
            passed: Arc::default(),
            connections: Arc::default(),
            height_reads: Arc::default(),
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let origin = format!("http://{}", listener.local_addr().expect("an address"));
        let router = Router::new().fallback(forward).with_state(proxy.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (proxy, origin)
    }

    /// Ends all connections; the next ones lead to this index.
    pub(in crate::e2e) fn lead_to(&self, upstream: String) {
        *self.upstream.lock().expect("not poisoned") = upstream;
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    pub(in crate::e2e) fn set_passage(&self, passage: Passage) {
        *self.passage.lock().expect("not poisoned") = passage;
    }

    /// Reads of the height so far.
    pub(in crate::e2e) fn height_reads(&self) -> usize {
        self.height_reads.load(Ordering::SeqCst)
    }

    /// Streams that were opened so far.
    pub(in crate::e2e) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// The messages that a client hears in the place of one of the index; `held` are blocks that wait.
    fn retell(&self, message: Message, held: &Mutex<Vec<Message>>) -> Vec<Message> {
        let Message::Text(text) = &message else { return vec![message] };
        let mut body: Value = serde_json::from_str(text).expect("JSON");
        let height = body["block"].as_u64().unwrap_or(0);
        if body["type"] != "block" {
            body["block"] = (height + self.disguise.lead).into();
            return vec![Message::text(body.to_string())];
        }
        let mut held = held.lock().expect("not poisoned");
        held.push(message);
        let passed = match *self.passage.lock().expect("not poisoned") {
            Passage::All => std::mem::take(&mut *held),
            Passage::Bursts(count) if held.len() >= count => std::mem::take(&mut *held),
            Passage::Bursts(_) => Vec::new(),
            Passage::None => {
                held.clear();
                Vec::new()
            }
        };
        if !passed.is_empty() {
            self.passed.store(height, Ordering::SeqCst);
        }
        passed
    }
}

async fn forward(State(proxy): State<IndexProxy>, mut request: Request) -> Response {
    let upstream = proxy.upstream.lock().expect("not poisoned").clone();
    let path = request.uri().path_and_query().map_or_else(String::new, ToString::to_string);
    if websocket_server::is_upgrade(request.headers()) {
        let (url, mut cuts) = (format!("{}{path}", upstream.replacen("http", "ws", 1)), proxy.cuts.subscribe());
        let cut = async move {
            let _ = cuts.changed().await;
        };
        proxy.connections.fetch_add(1, Ordering::SeqCst);
        let held = Mutex::default();
        return forward_websocket_until(&mut request, url, move |message| proxy.retell(message, &held), cut);
    }
    if path.starts_with("/v4/indexer/block-height") {
        proxy.height_reads.fetch_add(1, Ordering::SeqCst);
    }
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.expect("a body");
    let onward = reqwest::Client::new().request(parts.method, format!("{upstream}{path}")).headers(parts.headers);
    let Ok(response) = onward.body(body).send().await else { return StatusCode::BAD_GATEWAY.into_response() };
    let status = StatusCode::from_u16(response.status().as_u16()).expect("a status");
    let mut bytes = response.bytes().await.expect("a body").to_vec();
    let has_bursts = matches!(*proxy.passage.lock().expect("not poisoned"), Passage::Bursts(_));
    let passed = proxy.passed.load(Ordering::SeqCst);
    if path.starts_with("/v4/indexer/block-height") && has_bursts && passed > 0 {
        let mut height: Value = serde_json::from_slice(&bytes).expect("JSON");
        height["height"] = passed.into();
        bytes = height.to_string().into_bytes();
    }
    if path.starts_with("/v4/indexer/version") && status.is_success() {
        let mut version: Value = serde_json::from_slice(&bytes).expect("JSON");
        if let Some(chain_id) = &proxy.disguise.chain_id {
            version["environment"]["network"]["chain_id"] = chain_id.as_str().into();
        }
        if proxy.disguise.hides_blocks {
            let members = version.as_object_mut().expect("an object");
            members.retain(|name, _| !name.contains("block"));
        }
        bytes = version.to_string().into_bytes();
    }
    (status, [("content-type", "application/json")], bytes).into_response()
}

/// A chain of its own with an indexer that has reached a height.
pub(in crate::e2e) async fn other_chain(chain_id: &str, height: u64) -> ChainAndIndexer {
    let config = LocalNetworkConfig {
        devnet: DevnetConfig { chain_id: chain_id.to_owned(), block_time: None, ..DevnetConfig::default() },
        ..LocalNetworkConfig::default()
    };
    let chain = ChainAndIndexer::launch(&config).await.expect("starts");
    while *chain.devnet.node.watch_heights().borrow() < height {
        chain.devnet.node.produce_block().expect("a block");
    }
    let origin = chain.indexer_origin();
    poll_until("the blocks are indexed", async || {
        let answer = reqwest::get(format!("{origin}/v4/indexer/block-height")).await.expect("answered");
        answer.json::<Value>().await.expect("JSON")["height"].as_u64().is_some_and(|reached| reached >= height)
    })
    .await;
    chain
}

fn origins(all: &[&str]) -> UpstreamOrigins {
    let mut list = UpstreamOrigins::from(all[0]);
    for origin in &all[1..] {
        list = list.with_origin(*origin);
    }
    list
}

pub(in crate::e2e) fn operator_config(world: &TestNetwork, indexers: &[&str]) -> OperatorConfig {
    OperatorConfig::new(1, world.network.devnet.node.origin(), origins(indexers))
}

pub(in crate::e2e) fn operator_key() -> AccountKey {
    AccountKey::from_mnemonic(OPERATOR_MNEMONIC).expect("a key")
}

pub(in crate::e2e) async fn write(operator: &Operator, name: &str) -> WriteReceipt {
    let mut arguments = ecosystem_arguments(name);
    arguments["corporation"] = operator.snapshot().policy_address().into();
    arguments["operator"] = operator.identity().address.to_string().into();
    let call = WriteRequest {
        msg_type: "/svc.ec.v1.MsgCreateEcosystem".to_owned(),
        arguments,
        accounts: Vec::new(),
        needs_grant: true,
    };
    let message = operator.encode_message(&call).expect("encoded");
    let write = operator.execute(message, WriteOrigin::embedder("test"), None, FeeLimits::default()).expect("admitted");
    *write.answer().await.expect("written")
}

/// The standing of an indexer and its reason.
async fn standing(operator: &Operator, origin: &str) -> (String, String) {
    let status = operator.status().await;
    let all = status["endpoints"]["indexer"]["standings"].as_array().cloned().expect("a list");
    let one = all.iter().find(|one| one["origin"] == origin).unwrap_or_else(|| panic!("{origin} in {all:?}"));
    let text = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
    (text("standing"), text("reason"))
}

async fn shows_ecosystem(operator: &Operator, name: &str) -> bool {
    let query = [("limit".to_owned(), "1024".to_owned())];
    let list = operator.indexer_get("ecosystems", "/v4/ecosystem/list", &query, None).await.expect("read");
    list.text.contains(&format!("did:web:{name}.example"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_indexer_of_another_chain_is_left_out_in_every_place_and_disguise() {
    let world = start_network(network_config(100)).await;
    let own = world.network.indexer_origin();
    let policy = world.call_ok("svc.wallet.getCorporation", json!({})).await["policy_address"].clone();
    let foreign = other_chain("svc-other-1", 20).await;
    // A dead fork with the same chain id, longer than the live chain.
    let dead = other_chain("svc-devnet-1", world.height() + 400).await;
    let lies = Disguise { chain_id: Some("svc-devnet-1".to_owned()), ..Disguise::default() };
    let other_make = Disguise { hides_blocks: true, ..Disguise::default() };
    let (_liar, liar) = IndexProxy::start(foreign.indexer_origin(), lies.clone()).await;
    let lies = Disguise { hides_blocks: true, ..lies };
    let (_liar, liar_of_other_make) = IndexProxy::start(foreign.indexer_origin(), lies).await;
    let (_other, own_of_other_make) = IndexProxy::start(own.clone(), other_make).await;
    let (foreign, dead) = (foreign.indexer_origin(), dead.indexer_origin());
    for (index, (list, left_out, reason)) in [
        (vec![&foreign, &own], Some(&foreign), "it indexes svc-other-1, and the node runs svc-devnet-1"),
        (vec![&own, &foreign], Some(&foreign), "it indexes svc-other-1, and the node runs svc-devnet-1"),
        (vec![&dead, &own], Some(&dead), "and the node's of"),
        (vec![&own, &dead], Some(&dead), "and the node's of"),
        (vec![&liar, &own], Some(&liar), "and the node's of"),
        (vec![&liar_of_other_make, &own], Some(&liar_of_other_make), "and the node's of"),
        (vec![&own_of_other_make], None, ""),
    ]
    .into_iter()
    .enumerate()
    {
        let names: Vec<&str> = list.iter().map(|origin| origin.as_str()).collect();
        let operator = Operator::boot(operator_config(&world, &names), operator_key()).await.expect("boots");
        if let Some(left_out) = left_out {
            let (found, why) = standing(&operator, left_out).await;
            assert!(found == "left_out" && why.contains(reason), "{names:?}: {found} {why}");
        }
        let used = left_out.map_or(&own_of_other_make, |_| &own);
        assert_eq!(standing(&operator, used).await, ("followed".to_owned(), String::new()), "{names:?}");
        assert_eq!(operator.snapshot().policy_address(), policy, "{names:?}");
        let name = format!("known-{index}");
        let receipt = write(&operator, &name).await;
        assert!(receipt.indexer_synced, "{names:?}: {receipt:?}");
        assert!(shows_ecosystem(&operator, &name).await, "{names:?}");
        operator.shutdown(Duration::from_secs(5)).await;
    }
    // Alone it is no start, and the check names it.
    let config = OperatorConfig {
        patience: BootPatience::limited(Some(Duration::from_secs(1))),
        ..operator_config(&world, &[&foreign])
    };
    let error = Operator::boot(config.clone(), operator_key()).await.err().expect("does not start").to_string();
    assert!(error.contains("it is left out: it indexes svc-other-1"), "{error}");
    let findings = preflight(&config, &operator_key()).await;
    let finding = findings.iter().find(|one| one.subject == BootSubject::Indexer).expect("a finding");
    assert!(!finding.has_passed && finding.detail.contains("it indexes svc-other-1"), "{finding:?}");
    let findings = preflight(&operator_config(&world, &[&own, &foreign]), &operator_key()).await;
    let finding = findings.iter().find(|one| one.subject == BootSubject::Indexer).expect("a finding");
    assert!(finding.has_passed && finding.is_warning, "{finding:?}");
    assert!(finding.detail.contains(&format!("{foreign} is left out: it indexes svc-other-1")), "{finding:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_indexer_that_becomes_one_of_another_chain_is_never_believed() {
    let world = start_network(network_config(100)).await;
    let foreign = other_chain("svc-devnet-1", world.height() + 400).await;
    let own = world.network.indexer_origin();
    let (proxy, origin) = IndexProxy::start(own.clone(), Disguise::default()).await;
    let operator = Operator::boot(operator_config(&world, &[&origin]), operator_key()).await.expect("boots");
    assert!(write(&operator, "before").await.indexer_synced);

    proxy.lead_to(foreign.indexer_origin());
    poll_until("it is left out", async || standing(&operator, &origin).await.0 == "left_out").await;
    let error = operator.indexer_get("version", "/v4/indexer/version", &[], None).await.expect_err("left out");
    assert_eq!(error.code.as_str(), "UPSTREAM_UNREACHABLE");
    assert!(error.message.contains("it is left out: its block"), "{error:?}");
    let receipt = write(&operator, "meanwhile").await;
    assert!(!receipt.indexer_synced && receipt.indexer_height < receipt.block_height, "{receipt:?}");
    // Nothing is waited for.
    assert!(receipt.timings_ms["index"].as_u64().is_some_and(|waited| waited < 5_000), "{receipt:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_indexer_that_cannot_be_compared_serves_reads_with_a_note() {
    let world = start_network(network_config(100)).await;
    let (proxy, origin) = IndexProxy::start(world.network.indexer_origin(), Disguise::default()).await;
    let operator = Operator::boot(operator_config(&world, &[&origin]), operator_key()).await.expect("boots");
    write(&operator, "kept").await;
    assert_eq!(operator.doubt_about_indexer(), None);
    let node = &world.network.devnet.node;
    node.stop();
    proxy.lead_to(world.network.indexer_origin());
    poll_until("it is doubted", async || operator.doubt_about_indexer().is_some()).await;
    let doubt = operator.doubt_about_indexer().expect("a reason");
    assert!(doubt.contains("the node does not answer"), "{doubt}");
    assert!(shows_ecosystem(&operator, "kept").await);
    node.start().expect("starts again");
    poll_until("it is compared", async || operator.doubt_about_indexer().is_none()).await;
    assert!(write(&operator, "after").await.indexer_synced);
}

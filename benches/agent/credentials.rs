//! Credentials: issuances beside bare writes of the same pipeline, the start of an agent that has issued many beside one that has issued
//! none, and an import beside the indexer's evaluation of the DID that presents the credential.

use std::{
    collections::HashMap,
    convert::Infallible,
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures::{SinkExt, StreamExt};
use prost::Message as _;
use serde_json::{Value, json};
use svc::network::{LocalAgentConfig, LocalNetwork, LocalNetworkConfig, received_claims};
use svc_agent::{
    Agent, AgentAccount, AgentStore, ChainAccess, CredentialKind, CredentialState, CredentialTerms, IssueRequest,
    StoredCredential, WantedGrant, read_grant,
};
use svc_devnet::DevnetConfig;
use svc_pipeline::{EncodedMessage, FeeGranter, SigningPolicy, WriteIntent, WriteOrigin, WriteOutcome, WriteTask};
use svc_wire::proto::svc::pp::v1::MsgCreateOrUpdateParticipantSession;
use tempfile::TempDir;
use tokio_tungstenite::{connect_async, tungstenite::Message};
use tracing::Span;

use super::{launch, settings};
use crate::{BenchRow, median, subscription::servers};

/// Quick blocks, and so many writes at once, that neither issuances nor bare writes are bound by the blocks.
const BLOCK_TIME: Duration = Duration::from_millis(100);
const AT_ONCE: usize = 128;
const ISSUED: usize = 512;
/// Issued credentials of the store of a large agent.
const STORED: usize = 10_000;
const ROUNDS: usize = 3;
const BOOTS: usize = 9;
const IMPORTS: usize = 5;
/// The log of a DID takes one entry a second: an import comes after a second without one.
const QUIET_TIME: Duration = Duration::from_millis(2_100);

/// The corporation's allowance pays the fee of each bare write, as it does of each issuance.
struct Payer(Option<FeeGranter>);

impl SigningPolicy for Payer {
    type Refusal = Infallible;

    fn authorize(&self, _: &WriteIntent, _: u32) -> Result<Option<FeeGranter>, Infallible> {
        Ok(self.0.clone())
    }
}

/// A network whose first agent issues credentials to the second one. Their stores and journals are files.
struct CredentialBench {
    network: LocalNetwork,
    schema_id: u64,
    _home: TempDir,
}

impl CredentialBench {
    async fn start() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let devnet =
            DevnetConfig { block_time: Some(BLOCK_TIME), scenario: "marketplace".into(), ..DevnetConfig::default() };
        let agent = LocalAgentConfig { home: Some(home.path().to_owned()), ..LocalAgentConfig::default() };
        let config = LocalNetworkConfig { devnet, agent, ..LocalNetworkConfig::default() };
        let network = LocalNetwork::launch(config).await.expect("starts");
        let schema_id = network.devnet.address("service.schema").parse().expect("a number");
        let bench = Self { network, schema_id, _home: home };
        for place in [0, 1] {
            bench.await_verdict(place, true).await;
        }
        bench
    }

    fn agent(&self, place: usize) -> &Agent {
        &self.network.agents[place].server.agent
    }

    fn did(&self, place: usize) -> String {
        self.network.agents[place].server.did()
    }

    async fn await_verdict(&self, place: usize, is_trusted: bool) {
        let url = format!("{}/v4/verifiable-trust/resolve", self.network.indexer_origin());
        let (client, question) = (reqwest::Client::new(), json!({"did": self.did(place)}));
        let mut heights = self.network.devnet.node.watch_heights();
        let reached = async {
            loop {
                let answer = client.post(&url).json(&question).send().await.expect("an answer");
                if answer.json::<Value>().await.expect("JSON")["trusted"] == is_trusted {
                    return;
                }
                heights.changed().await.expect("blocks");
            }
        };
        tokio::time::timeout(Duration::from_secs(60), reached).await.expect("a verdict in time");
    }

    /// A credential of the first agent for the second one.
    async fn issue(&self, name: String) -> StoredCredential {
        let mut claims = received_claims(&self.network.devnet, "service");
        claims.insert("name".to_owned(), name.into());
        let terms = CredentialTerms::default();
        let request = IssueRequest { did: self.did(1), schema_id: self.schema_id, claims, valid_until: None, terms };
        let row = self.agent(0).credentials().issue(request).await.expect("issued");
        assert_eq!(row.state, CredentialState::Anchored);
        row
    }

    /// Credentials issued a second.
    async fn measure_issuances(&self, round: usize) -> f64 {
        let begun = Instant::now();
        let issued = (0..ISSUED).map(|number| self.issue(format!("Branch {round}-{number}")));
        futures::stream::iter(issued).buffer_unordered(AT_ONCE).for_each(async |row| drop(row)).await;
        ISSUED as f64 / begun.elapsed().as_secs_f64()
    }

    /// Milliseconds of an import up to the served document, and those from the node's event of the block that has the document resolved
    /// to the changed verdict on the stream. Medians.
    async fn measure_imports(&self) -> (f64, f64) {
        let (agent, did) = (self.agent(1), self.did(1));
        let held = agent.store().held_credentials().await.expect("read");
        let received = held.iter().find(|one| one.kind == CredentialKind::Received).expect("a received one");
        let credential: Value = serde_json::from_str(&received.body).expect("JSON");
        let blocks = self.watch_blocks().await;
        let url = self.network.indexer_origin().replace("http", "ws") + "/v4/verifiable-trust/subscribe";
        let (mut verdicts, _) = connect_async(url).await.expect("connects");
        let control = json!({"action": "subscribe", "channels": {"trust": true}, "dids": [did]});
        verdicts.send(Message::text(control.to_string())).await.expect("sent");
        let mut next_change = async || loop {
            let message = verdicts.next().await.expect("goes on").expect("a message");
            let Message::Text(text) = message else { continue };
            let message: Value = serde_json::from_str(&text).expect("JSON");
            if message["changes"].as_array().is_some_and(|changes| !changes.is_empty()) {
                return (message["block"].as_u64().expect("a height"), Instant::now());
            }
        };
        let (mut imports, mut evaluations) = (Vec::new(), Vec::new());
        for _ in 0..IMPORTS {
            tokio::time::sleep(QUIET_TIME).await;
            agent.credentials().remove(received.id.clone()).await.expect("removed");
            next_change().await;
            self.await_verdict(1, false).await;
            tokio::time::sleep(QUIET_TIME).await;
            let begun = Instant::now();
            agent.credentials().import(credential.clone()).await.expect("imported");
            imports.push(begun.elapsed().as_secs_f64() * 1e3);
            let (height, changed) = next_change().await;
            self.await_verdict(1, true).await;
            let made = blocks.lock().expect("not poisoned")[&height];
            evaluations.push(changed.saturating_duration_since(made).as_secs_f64() * 1e3);
        }
        (median(imports), median(evaluations))
    }

    /// The instants at which a subscriber of the node hears of blocks.
    async fn watch_blocks(&self) -> Arc<Mutex<HashMap<u64, Instant>>> {
        let node = self.network.devnet.node.origin().replace("http", "ws") + "/websocket";
        let mut heights = servers::subscribe_heights(node, Some(servers::NODE_SUBSCRIBE)).await;
        let blocks: Arc<Mutex<HashMap<u64, Instant>>> = Arc::default();
        let known = Arc::clone(&blocks);
        tokio::spawn(async move {
            while let Some((height, at)) = heights.recv().await {
                known.lock().expect("not poisoned").insert(height, at);
            }
        });
        blocks
    }
}

/// Sessions a second that the account of a network's first agent sends without credentials: the message, the payer and the pipeline are
/// those of issuances.
pub(super) async fn measure_bare_writes(
    network: &LocalNetwork,
    (schema_id, issuer_participant): (u64, u64),
    (count, at_once): (usize, usize),
) -> f64 {
    let agent = &network.agents[0].server;
    let access = agent.agent.chain().access().expect("a chain");
    let ChainAccess { chain, pipeline, .. } = &access;
    let now = pipeline.clock().time(tokio::time::Instant::now()).expect("a block");
    let account = AgentAccount {
        did: agent.did(),
        corporation_id: network.operator_slot.corporation_id,
        address: pipeline.identity().address.to_string(),
    };
    let wanted = WantedGrant::to_issue(schema_id, Some(issuer_participant));
    let grant = read_grant(pipeline.node(), (chain, &chain.release), &account, &wanted, &now).await.expect("a grant");
    let granter = grant.granter();
    assert!(granter.is_some(), "the corporation pays");
    let type_url = chain.registry.namespace().type_url("pp", "MsgCreateOrUpdateParticipantSession");
    let write = async || {
        let id = uuid::Uuid::new_v4();
        let session = MsgCreateOrUpdateParticipantSession {
            corporation: grant.corporation.clone(),
            operator: account.address.clone(),
            id: id.to_string(),
            issuer_participant_id: issuer_participant,
            digest: digest(),
            ..MsgCreateOrUpdateParticipantSession::default()
        };
        let value = session.encode_to_vec();
        let message = prost_types::Any { type_url: type_url.clone(), value };
        let message = EncodedMessage { message, needs_grant: true };
        let origin = WriteOrigin::embedder("bench");
        let intent = WriteIntent::new(message, origin, Some(id.to_string()), &Span::none());
        let (mut task, _) = WriteTask::<()>::new(Arc::new(intent), Span::none());
        let written = task.run(pipeline.actors(), &Payer(granter.clone())).await.expect("written");
        assert!(matches!(&written.outcome, WriteOutcome::Included { result, .. } if result.code == 0));
        task.finish(pipeline.actors(), ());
    };
    let begun = Instant::now();
    futures::stream::iter((0..count).map(|_| write())).buffer_unordered(at_once).collect::<()>().await;
    count as f64 / begun.elapsed().as_secs_f64()
}

/// A digest that no credential has.
fn digest() -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let mut bytes = [0; 48];
    bytes.iter_mut().for_each(|byte| *byte = fastrand::u8(..));
    format!("sha384-{}", STANDARD.encode(bytes))
}

/// Milliseconds until an agent has started and knows the credentials that it presents.
async fn boot(directory: &Path) -> f64 {
    let begun = Instant::now();
    let agent = launch(directory, None).await;
    assert_eq!(agent.store().held_credentials().await.expect("read"), []);
    let took = begun.elapsed().as_secs_f64() * 1e3;
    agent.shutdown(Duration::from_secs(5)).await;
    took
}

/// Milliseconds of the start of an agent with many issued credentials, and of one without any. Both have their DID already. Medians.
async fn measure_boots(sample: &StoredCredential) -> (f64, f64) {
    let [large, empty] = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    for directory in [&large, &empty] {
        boot(directory.path()).await;
    }
    let store = AgentStore::open(settings(large.path())).await.expect("opens");
    let did = store.identity().await.expect("read").expect("a DID").did;
    for _ in 0..STORED {
        let id = format!("{did}#{}", uuid::Uuid::new_v4());
        let body = sample.body.replace(&sample.id, &id).replace(&sample.issuer, &did);
        let proof_method = sample.proof_method.replace(&sample.issuer, &did);
        let (claims_digest, digest, issuer) = (digest(), digest(), did.clone());
        let row = StoredCredential { id, body, proof_method, claims_digest, digest, issuer, ..sample.clone() };
        store.write_credential(&row).await.expect("written");
    }
    store.close().await;
    drop(store);
    let (mut with_many, mut without) = (Vec::new(), Vec::new());
    for _ in 0..BOOTS {
        with_many.push(boot(large.path()).await);
        without.push(boot(empty.path()).await);
    }
    (median(with_many), median(without))
}

pub async fn rows() -> Vec<BenchRow> {
    let bench = CredentialBench::start().await;
    let sample = bench.issue("Branch".to_owned()).await;
    let (mut issued, mut bare) = (Vec::new(), Vec::new());
    // In alternation, so that a busy moment of the machine meets both.
    for round in 0..ROUNDS {
        issued.push(bench.measure_issuances(round).await);
        let places = (bench.schema_id, sample.issuer_participant);
        bare.push(measure_bare_writes(&bench.network, places, (ISSUED, AT_ONCE)).await);
    }
    let (issued, bare) = (median(issued), median(bare));
    let (import, evaluation) = bench.measure_imports().await;
    bench.network.shutdown(Duration::from_secs(1)).await;
    let (with_many, without) = measure_boots(&sample).await;
    let row = BenchRow::new;
    vec![
        row(
            format!("credentials issued, {AT_ONCE} at once, {} ms blocks", BLOCK_TIME.as_millis()),
            format!("{issued:.0}/s"),
            format!("{bare:.0}/s, bare writes of their message by the same pipeline"),
            issued / bare,
        ),
        row(
            format!("boot of an agent with {STORED} issued credentials"),
            format!("{with_many:.1} ms"),
            format!("{without:.1} ms, with none"),
            with_many / without,
        ),
        row(
            "import of a credential, to the served document".to_owned(),
            format!("{import:.1} ms"),
            format!("{evaluation:.1} ms, the indexer's verdict on the DID with it, behind its block"),
            import / evaluation,
        ),
    ]
}

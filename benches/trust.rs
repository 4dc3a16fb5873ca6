//! Trust: verdicts from the store beside another read of it, evaluations beside their signatures alone, and the way from a
//! block that asks for new material to the change on the stream beside the way of the block itself.

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use ed25519_dalek::{Signer, SigningKey};
use serde_json::{Value, json};
use svc::indexer;
use svc_devnet::{Devnet, DevnetConfig, services::DevnetServices};
use svc_indexer::{Indexer, IndexerConfig, TrustConfig};
use svc_net::{
    fetch::{BoundedFetcher, FetchError, FetchLimits},
    host_policy::HostPolicy,
};
use svc_trust::{
    EvaluationRules, Evidence, EvidenceRequest, RegistryParticipant, RegistrySchema, VerificationCache, evaluate_did,
};
use svc_wire::{participant_state::ParticipantState, timestamp};

use crate::{BenchRow, median, resident_bytes, subscription::servers};

const WORKERS: usize = 16;
const READS: usize = 4_000;
const ROUNDS: usize = 5;
const EVALUATIONS: usize = 200;
const TRIGGERS: usize = 50;

struct TrustBench {
    devnet: Devnet,
    origin: String,
    client: reqwest::Client,
    _indexer: Indexer,
}

impl TrustBench {
    async fn launch() -> Self {
        let config = DevnetConfig { block_time: None, scenario: "marketplace".into(), ..DevnetConfig::default() };
        let devnet = Devnet::launch(config).await.expect("a devnet");
        let patience = Some(Duration::from_secs(60));
        let trust = TrustConfig {
            hosts: HostPolicy::AllowPrivate,
            essential_schemas: svc::network::essential_schemas(&devnet),
            wait_limit: patience,
            patience: None,
        };
        let config = IndexerConfig { trust, ..IndexerConfig::new(devnet.node.origin(), "sqlite::memory:") };
        let indexer = Indexer::launch(config).await.expect("an indexer");
        let listener = svc::listener::bind_listener(([127, 0, 0, 1], 0).into()).expect("a port");
        let origin = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(indexer::serve(
            listener,
            indexer::IndexerApi::new(&indexer),
            svc::listener::ListenerConfig::for_local_network(),
        ));
        let bench = Self { devnet, origin, client: reqwest::Client::new(), _indexer: indexer };
        let height = *bench.devnet.node.watch_heights().borrow();
        while bench.get("/v4/indexer/status").await["trust"]["block_height"] != height {
            tokio::task::yield_now().await;
        }
        bench
    }

    fn services(&self) -> &DevnetServices {
        self.devnet.services.as_ref().expect("the marketplace has services")
    }

    fn did(&self, name: &str) -> String {
        self.services().get(name).expect("a service").identity.did.clone()
    }

    async fn get(&self, path: &str) -> Value {
        let answer = self.client.get(format!("{}{path}", self.origin)).send().await.expect("an answer");
        answer.json().await.expect("JSON")
    }

    /// Requests a second.
    async fn rate(&self, request: impl Fn() -> reqwest::RequestBuilder) -> f64 {
        let begun = Instant::now();
        let workers = (0..WORKERS).map(|_| async {
            for _ in 0..READS / WORKERS {
                let answer = request().send().await.expect("an answer");
                assert!(answer.status().is_success(), "{}", answer.status());
                answer.bytes().await.expect("a body");
            }
        });
        futures::future::join_all(workers).await;
        READS as f64 / begun.elapsed().as_secs_f64()
    }

    async fn stored_verdicts(&self, rows: &mut Vec<BenchRow>) {
        let dids: Vec<String> = self.services().all().values().map(|service| service.identity.did.clone()).collect();
        let next = std::sync::atomic::AtomicUsize::new(0);
        let resolve = || {
            let did = &dids[next.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % dids.len()];
            let url = format!("{}/v4/verifiable-trust/resolve", self.origin);
            self.client.post(url).json(&json!({"did": did}))
        };
        let entity = || self.client.get(format!("{}/v4/participant/get/1", self.origin));
        let (mut ours, mut floor) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(self.rate(resolve).await);
            floor.push(self.rate(entity).await);
        }
        let (ours, floor) = (median(ours), median(floor));
        rows.push(BenchRow {
            measure: format!("verdicts a second from the store, {} DIDs, {WORKERS} clients", dids.len()),
            value: format!("{ours:.0}/s"),
            baseline: format!("{floor:.0}/s, one participant by its id"),
            ratio: ours / floor,
        });
    }

    /// Everything an evaluation wants to know, from where the indexer has it.
    async fn supply_evidence(&self, need: &EvidenceRequest, known: &mut Evidence) {
        match need {
            EvidenceRequest::Document(did) => {
                let name = self.services().all().iter().find(|(_, service)| service.identity.did == *did);
                let document = self.services().document(name.expect("a service").0).expect("a document");
                known.documents.insert(did.clone(), Ok(document.into()));
            }
            EvidenceRequest::Resource(url) => {
                let path = url.strip_prefix(&self.services().origin()).expect("served here");
                let page = self.services().page(path).expect("a page");
                known.resources.insert(url.clone(), Ok(page.body.into()));
            }
            EvidenceRequest::Participants(did) => {
                let path = format!("/v4/participant/list?limit=1024&did={}", did.replace('%', "%25"));
                let rows = self.get(&path).await["participants"].take();
                let found = rows.as_array().expect("rows").iter().map(participant).collect::<Vec<_>>();
                known.participants.insert(did.clone(), found.into());
            }
            EvidenceRequest::Schema(id) => {
                let schema = self.get(&format!("/v4/credential-schema/get/{id}")).await["schema"].take();
                let ecosystem = self.get(&format!("/v4/ecosystem/get/{}", schema["ecosystem_id"])).await;
                let text = |value: &Value| value.as_str().expect("a text").to_owned();
                let schema = RegistrySchema {
                    id: *id,
                    ecosystem_id: schema["ecosystem_id"].as_u64().expect("an id"),
                    ecosystem_did: text(&ecosystem["ecosystem"]["did"]),
                    json_schema: text(&schema["json_schema"]),
                    digest_algorithm: text(&schema["digest_algorithm"]),
                    is_open_to_holders: schema["holder_onboarding_mode"] == "PERMISSIONLESS",
                };
                known.schemas.insert(*id, Some(schema.into()));
            }
            EvidenceRequest::Digest(digest) => {
                let query: String =
                    percent_encoding::utf8_percent_encode(digest, percent_encoding::NON_ALPHANUMERIC).to_string();
                let found = self.get(&format!("/v4/di/get/{query}")).await;
                known.digest_anchors.insert(digest.clone(), time(&found["digest"]["created"]));
            }
        }
    }

    async fn evaluations(&self, name: &str, what: &str, rows: &mut Vec<BenchRow>) {
        let did = self.did(name);
        let status = self.get("/v4/indexer/block-height").await;
        let rules = EvaluationRules {
            schema_prefix: format!("vpr:svc:{}:cs:", DevnetConfig::default().chain_id),
            essential_schemas: svc::network::essential_schemas(&self.devnet),
            now: time(&status["timestamp"]).expect("a time"),
        };
        let mut known = Evidence::default();
        while let Err(needs) = evaluate_did(&did, &known, &rules) {
            for need in needs {
                self.supply_evidence(&need, &mut known).await;
            }
        }
        let proofs: usize = known.resources.values().flatten().map(|text| text.matches("proofValue").count()).sum();
        let key = SigningKey::from_bytes(&[7; 32]);
        let (digest, verifying) = ([9; 64], key.verifying_key());
        let signature = key.sign(&digest);
        let (mut ours, mut floor) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            for _ in 0..EVALUATIONS {
                // Nothing is known of the signatures yet.
                known.verifications = VerificationCache::default();
                assert!(evaluate_did(&did, &known, &rules).is_ok_and(|verdict| verdict.is_trusted()), "{name}");
            }
            ours.push(EVALUATIONS as f64 / begun.elapsed().as_secs_f64());
            let begun = Instant::now();
            for _ in 0..EVALUATIONS * proofs {
                std::hint::black_box(verifying.verify_strict(&digest, std::hint::black_box(&signature)))
                    .expect("valid");
            }
            floor.push(EVALUATIONS as f64 / begun.elapsed().as_secs_f64());
        }
        let (ours, floor) = (median(ours), median(floor));
        rows.push(BenchRow {
            measure: format!("evaluations a second from fetched material, one core, {what}"),
            value: format!("{ours:.0}/s"),
            baseline: format!("{floor:.0}/s, verifying its {proofs} signatures alone"),
            ratio: ours / floor,
        });
    }

    async fn block_to_change(&self, rows: &mut Vec<BenchRow>) {
        let ws = self.origin.replace("http", "ws");
        let node = self.devnet.node.origin().replace("http", "ws") + "/websocket";
        let streams = [
            servers::subscribe_heights(node, Some(servers::NODE_SUBSCRIBE)).await,
            servers::subscribe_heights(format!("{ws}/v4/indexer/subscribe"), Some(r#"{"action":"subscribe"}"#)).await,
            servers::subscribe_heights(
                format!("{ws}/v4/verifiable-trust/subscribe"),
                Some(r#"{"action":"subscribe","channels":{"trust":true}}"#),
            )
            .await,
        ];
        let id = "$harbor.organization.holder";
        let value = json!({"corporation": "$chamber.corporation", "operator": "$clerk", "id": id});
        let mut triggers = BTreeSet::new();
        for _ in 0..TRIGGERS {
            self.devnet.send_messages("clerk", &[("pp.MsgTriggerResolver", value.clone())]).await.expect("done");
            let height = *self.devnet.node.watch_heights().borrow();
            while self.get("/v4/indexer/status").await["trust"]["block_height"] != height {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            triggers.insert(height);
        }
        let [node, blocks, verdicts] = servers::collect_heights(streams, TRIGGERS).await;
        let after = |stream: &HashMap<u64, Instant>| {
            let of = |height: &u64| stream[height].saturating_duration_since(node[height]).as_secs_f64() * 1_000.0;
            median(triggers.iter().map(of).collect())
        };
        let (ours, floor) = (after(&verdicts), after(&blocks));
        rows.push(BenchRow {
            measure: "node's event of a TriggerResolver block to the change on the stream, median".to_owned(),
            value: format!("{ours:.1} ms"),
            baseline: format!("{floor:.1} ms, to the block subscription's message of it"),
            ratio: ours / floor,
        });
    }
}

fn time(value: &Value) -> Option<i128> {
    value.as_str().and_then(timestamp::parse_rfc3339).as_ref().map(timestamp::unix_nanos)
}

fn participant(row: &Value) -> RegistryParticipant {
    let number = |key: &str| row[key].as_u64().expect("a number");
    RegistryParticipant {
        id: number("id"),
        role: row["role"].as_str().expect("a role").to_owned(),
        schema_id: number("schema_id"),
        effective_from: time(&row["effective_from"]),
        effective_until: time(&row["effective_until"]),
        state: if row["participant_state"] == "ACTIVE" { ParticipantState::Active } else { ParticipantState::Inactive },
    }
}

/// The bodies that hostile servers send.
const HOSTILE_BODIES: [(&str, &str, &str); 3] = [
    ("bodies without an end", "/endless", "too_long"),
    ("JSON of nothing but small objects", "/objects", "too_heavy"),
    ("the largest JSON that is taken", "/largest", ""),
];
/// As many as the indexer fetches at once.
const PARALLEL_FETCHES: usize = 128;

async fn serve_hostile_body(request: axum::extract::Request) -> axum::body::Body {
    let text = |item: &str, count: usize| format!("[{}0]", item.repeat(count)).into();
    match request.uri().path() {
        "/objects" => text(r#"{"":0},"#, 140_000),
        "/largest" => text(r#"{"":0},"#, 22_000),
        _ => {
            let chunks =
                futures::stream::repeat_with(|| Ok::<_, std::io::Error>(bytes::Bytes::from_static(&[b'x'; 16_384])));
            axum::body::Body::from_stream(chunks)
        }
    }
}

/// Resident memory of a client that fetches from hostile servers and parses the bodies that it accepts.
async fn hostile_hosts(rows: &mut Vec<BenchRow>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let origin = format!("http://localhost:{}", listener.local_addr().expect("an address").port());
    tokio::spawn(async move { axum::serve(listener, axum::Router::new().fallback(serve_hostile_body)).await });
    let fetcher = BoundedFetcher::new(HostPolicy::AllowPrivate, FetchLimits::default()).expect("a client");
    for (what, path, code) in HOSTILE_BODIES {
        let before = resident_bytes("self");
        let peak = std::sync::atomic::AtomicU64::new(before);
        let url = format!("{origin}{path}");
        let fetches = (0..PARALLEL_FETCHES).map(|_| async {
            let outcome = fetcher.get(&url).await;
            assert_eq!(outcome.as_ref().err().map_or("", FetchError::code), code);
            let read = outcome.ok().map(|fetched| serde_json::from_slice::<Value>(&fetched.body).expect("JSON"));
            peak.fetch_max(resident_bytes("self"), std::sync::atomic::Ordering::Relaxed);
            read.is_some()
        });
        futures::future::join_all(fetches).await;
        let cost = (peak.into_inner() - before) as f64 / 1_048_576.0;
        rows.push(BenchRow {
            measure: format!(
                "memory of {PARALLEL_FETCHES} fetches at once from hostile servers, {what}, theirs included"
            ),
            value: format!("{cost:.0} MiB"),
            baseline: format!("{PARALLEL_FETCHES} MiB, a body of 1 MiB each"),
            ratio: cost / PARALLEL_FETCHES as f64,
        });
    }
}

pub async fn rows() -> Vec<BenchRow> {
    let bench = TrustBench::launch().await;
    let mut rows = Vec::new();
    hostile_hosts(&mut rows).await;
    bench.stored_verdicts(&mut rows).await;
    bench.evaluations("harbor", "a service that vouches for itself", &mut rows).await;
    bench.evaluations("ferry", "a service with a parent", &mut rows).await;
    bench.block_to_change(&mut rows).await;
    rows
}

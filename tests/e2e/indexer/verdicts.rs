//! Verdicts on the marketplace's services: their reasons, their changes, the trust stream, and reads at past heights.

use std::{sync::Arc, time::Duration};

use futures::SinkExt;
use serde_json::{Value, json};
use svc::network::ChainAndIndexer;
use svc_devnet::services::{DevnetServices, ExpectedVerdict, presentation_path};
use svc_indexer::{IndexerConfig, TrustConfig};
use svc_net::host_policy::HostPolicy;
use tokio::{io::AsyncWriteExt, net::TcpListener, sync::Notify};
use tokio_tungstenite::{connect_async, tungstenite::Message};

use super::{
    IndexerReplica, ReadResponse, SubscriptionSocket, next_message, post_at, read_at, read_ok, read_ok_at,
    start_chain_and_indexer,
};

pub fn services(grounds: &ChainAndIndexer) -> &DevnetServices {
    grounds.devnet.services.as_ref().expect("the marketplace has services")
}

pub fn did(grounds: &ChainAndIndexer, name: &str) -> String {
    services(grounds).get(name).expect("a service").identity.did.clone()
}

async fn resolve_at(origin: &str, did: &str, at: Option<u64>) -> ReadResponse {
    let wanted = json!({
        "did": did, "ecsCredentials": true, "services": true, "corporation": true, "ecosystems": {"credentialSchemas": true},
        "participations": {"states": ["ACTIVE", "REVOKED", "SLASHED", "EXPIRED"]},
        "presentations": {"unresolvableCredentialIds": true, "invalidCredentialIds": true},
    });
    post_at(origin, "/v4/verifiable-trust/resolve", &wanted, at).await
}

pub async fn resolve(origin: &str, did: &str) -> Value {
    let read = resolve_at(origin, did, None).await;
    assert_eq!(read.status, 200, "{did}: {}", read.body);
    read.body
}

/// Sends messages as the clerk, the operator of the corporations of all services.
async fn send_as_clerk(grounds: &ChainAndIndexer, messages: &[(&'static str, Value)]) -> u64 {
    grounds.devnet.send_messages("clerk", messages).await.expect("done");
    *grounds.devnet.node.watch_heights().borrow()
}

/// Requests fresh evidence for a service, as the validator of its participant.
fn trigger_message(name: &str) -> (&'static str, Value) {
    let id = format!("${name}.organization.holder");
    ("pp.MsgTriggerResolver", json!({"corporation": "$chamber.corporation", "operator": "$clerk", "id": id}))
}

pub async fn trigger(grounds: &ChainAndIndexer, name: &str) -> u64 {
    send_as_clerk(grounds, &[trigger_message(name)]).await
}

pub async fn subscribe(origin: &str, control: Value) -> SubscriptionSocket {
    let url = origin.replace("http", "ws") + "/v4/verifiable-trust/subscribe";
    let mut socket = connect_async(url).await.expect("connects").0;
    socket.send(Message::text(control.to_string())).await.expect("sent");
    let mut control = Vec::new();
    while control.len() < 2 {
        let message = next_message(&mut socket).await.expect("a message");
        if message["type"] != "block" {
            control.push(message["type"].as_str().expect("a type").to_owned());
        }
    }
    assert_eq!(control, ["ready", "subscribed"]);
    socket
}

/// Returns the trust block of a height.
pub async fn next_trust_block(socket: &mut SubscriptionSocket, height: u64) -> Value {
    loop {
        let message = next_message(socket).await.expect("a message");
        assert!(message["block"].as_u64() <= Some(height), "none is left out");
        if message["block"] == height {
            return message;
        }
    }
}

pub fn codes(verdict: &Value) -> Vec<&str> {
    let reasons = verdict["reasons"].as_array().expect("reasons");
    reasons.iter().map(|reason| reason["code"].as_str().expect("a code")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_service_has_its_intended_verdict() {
    let grounds = start_chain_and_indexer("marketplace").await;
    let origin = grounds.indexer_origin();
    let mut wrong = Vec::new();
    for (name, service) in services(&grounds).all() {
        let verdict = resolve(&origin, &service.identity.did).await;
        let codes = codes(&verdict);
        let is_right = match service.expect {
            ExpectedVerdict::Trusted => {
                let expires = verdict["expiresAtTime"].as_str().map(|text| text.replace(".000Z", "Z"));
                verdict["trusted"] == true && codes.is_empty() && expires == service.expires_at
            }
            ExpectedVerdict::Untrusted(code) => verdict["trusted"] == false && codes.contains(&code.as_str()),
        };
        if !is_right {
            wrong.push(format!("{name}: {:?}, found {codes:?} {}", service.expect, verdict["expiresAtTime"]));
        }
        assert_ne!(verdict["corporationId"], 0, "{name}: a DID that is indexed belongs to somebody");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // A DID without a host is evaluated too.
    let verdict = resolve(&origin, "did:web:registry.devnet.example").await;
    assert_eq!((&verdict["trusted"], codes(&verdict).len()), (&json!(false), 1), "{verdict}");
    let unknown = resolve_at(&origin, "did:web:nobody.example", None).await;
    assert_eq!((unknown.status, &unknown.body["error"]), (404, &json!("DID not found")));
    let early = resolve_at(&origin, &did(&grounds, "harbor"), Some(1)).await;
    assert_eq!(early.status, 404, "before anything was judged");
    let none = resolve_at(&origin, "harbor", None).await;
    assert_eq!(none.status, 400, "{}", none.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn evidence_is_fetched_again_only_when_the_registry_requests_it() {
    let grounds = start_chain_and_indexer("marketplace").await;
    let origin = grounds.indexer_origin();
    let (harbor, ferry) = (did(&grounds, "harbor"), did(&grounds, "ferry"));
    let channels = json!({"trust": true, "presentations": true, "ecsCredentials": true, "services": true});
    let mut stream =
        subscribe(&origin, json!({"action": "subscribe", "dids": [harbor, ferry], "channels": channels})).await;
    let before = *grounds.devnet.node.watch_heights().borrow();
    let path = presentation_path("harbor", "service");
    let page = services(&grounds).page(&path).expect("served");
    services(&grounds).unpublish(&path);

    // A block without a request does not fetch again.
    grounds.devnet.node.produce_block().expect("a block");
    assert_eq!(next_trust_block(&mut stream, before + 1).await["changes"], json!([]));
    assert_eq!(resolve(&origin, &harbor).await["trusted"], true);

    let lost = trigger(&grounds, "harbor").await;
    let block = next_trust_block(&mut stream, lost).await;
    let of = |block: &Value, did: &str| {
        let changes = block["changes"].as_array().expect("changes").clone();
        changes.into_iter().find(|change| change["did"] == did).unwrap_or_else(|| panic!("{did}: {block}"))
    };
    let change = of(&block, &harbor);
    assert_eq!((&change["trust"]["trusted"], &change["ecsCredentials"]), (&json!(false), &json!(true)), "{change}");
    assert_eq!(change["trust"]["evaluatedAtBlock"], lost);
    assert_eq!(of(&block, &ferry)["trust"]["trusted"], false, "whom it vouches for falls with it, in the same block");
    let verdict = resolve(&origin, &harbor).await;
    assert!(codes(&verdict).contains(&"not_fetched"), "{verdict}");
    assert!(codes(&resolve(&origin, &ferry).await).contains(&"parent_not_trusted"));
    let past = resolve_at(&origin, &harbor, Some(lost - 1)).await.body;
    assert_eq!((&past["trusted"], past["evaluatedAtBlock"] != json!(lost)), (&json!(true), true));
    assert!(past["ecsCredentials"].as_array().is_some_and(|held| held.len() == 2), "{past}");

    services(&grounds).publish(&path, &page.content_type, page.body);
    let back = trigger(&grounds, "harbor").await;
    assert_eq!(of(&next_trust_block(&mut stream, back).await, &ferry)["trust"]["trusted"], true);
    assert_eq!(resolve(&origin, &harbor).await["trusted"], true);

    // The read over REST returns the same change.
    let listed =
        read_ok(&origin, &format!("/v4/verifiable-trust/changes?fromBlock={}&dids={}", before + 1, encoded(&harbor)))
            .await;
    let blocks: Vec<_> = listed["blocks"].as_array().expect("blocks").iter().map(|block| &block["block"]).collect();
    assert_eq!(blocks, [&json!(lost), &json!(back)]);
    assert_eq!((&listed["currentBlock"], &listed["nextFromBlock"]), (&json!(back), &Value::Null));
    let first =
        read_ok(&origin, &format!("/v4/verifiable-trust/changes?fromBlock={}&limit=1&channels=trust", before + 1))
            .await;
    assert_eq!((first["blocks"].as_array().map(Vec::len), &first["nextFromBlock"]), (Some(1), &json!(back)));
}

#[tokio::test(flavor = "multi_thread")]
async fn evidence_that_did_not_change_is_not_sent_again() {
    let grounds = start_chain_and_indexer("marketplace").await;
    let origin = grounds.indexer_origin();
    super::await_verdicts(&origin, *grounds.devnet.node.watch_heights().borrow()).await;
    let before = services(&grounds).answers();
    let height = trigger(&grounds, "harbor").await;
    super::await_verdicts(&origin, height).await;
    let after = services(&grounds).answers();
    assert_eq!(after.sent, before.sent, "a page was sent again: {before:?} {after:?}");
    let asked = after.not_modified - before.not_modified;
    assert!(asked > 3, "the whole evidence was asked for: {before:?} {after:?}");

    // One page changed: it alone is sent.
    let path = presentation_path("harbor", "service");
    let page = services(&grounds).page(&path).expect("served");
    services(&grounds).publish(&path, &page.content_type, format!("{} ", page.body));
    let height = trigger(&grounds, "harbor").await;
    super::await_verdicts(&origin, height).await;
    let last = services(&grounds).answers();
    assert_eq!(last.sent - after.sent, 1, "{after:?} {last:?}");
    assert_eq!(resolve(&origin, &did(&grounds, "harbor")).await["trusted"], true);
}

fn encoded(did: &str) -> String {
    did.replace('%', "%25")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_changes_the_verdict_without_a_request() {
    let grounds = start_chain_and_indexer("marketplace").await;
    let origin = grounds.indexer_origin();
    let harbor = did(&grounds, "harbor");
    let corporation = read_ok(&origin, &format!("/v4/corporation/list?did={}", encoded(&harbor))).await;
    let corporation = corporation["corporations"][0]["id"].as_u64().expect("an id");
    let control = json!({"action": "subscribe", "corporationId": corporation, "channels": {"trust": true}});
    let mut stream = subscribe(&origin, control).await;
    let value =
        json!({"corporation": "$registrar.corporation", "operator": "$clerk", "id": "$chamber.organization.issuer"});
    let revoked = send_as_clerk(&grounds, &[("pp.MsgRevokeParticipant", value)]).await;
    let block = next_trust_block(&mut stream, revoked).await;
    assert_eq!(block["changes"][0]["trust"]["trusted"], false, "{block}");
    assert_eq!(block["changes"][0]["trust"]["corporationId"], corporation);
    let verdict = resolve(&origin, &harbor).await;
    assert!(codes(&verdict).contains(&"issuer_revoked"), "{verdict}");

    // All reads agree, also at past heights.
    for (height, trusted) in [(revoked - 1, true), (revoked, false)] {
        let participants = format!("/v4/participant/list?did={}&trust_data=full", encoded(&harbor));
        let listed = read_ok_at(&origin, &participants, Some(height)).await;
        let data = &listed["participants"][0]["trust_data"];
        assert_eq!((&data["trusted"], &data["did"]), (&json!(trusted), &json!(harbor)), "{data}");
        assert!(data["ecsCredentials"].is_array());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn evaluated_dids_are_listed_in_pages_of_one_height() {
    let grounds = start_chain_and_indexer("marketplace").await;
    let origin = grounds.indexer_origin();
    let all = read_ok(&origin, "/v4/verifiable-trust/dids").await;
    let all = all["dids"].as_array().expect("DIDs").clone();
    assert!(services(&grounds).all().values().all(|service| all.contains(&json!(service.identity.did))));
    let (mut paged, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = read_ok(&origin, &format!("/v4/verifiable-trust/dids?limit=7{cursor}")).await;
        paged.extend(page["dids"].as_array().expect("DIDs").clone());
        grounds.devnet.node.produce_block().expect("a block between two pages");
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(paged, all);
    let harbor = resolve(&origin, &did(&grounds, "harbor")).await;
    let own = read_ok(&origin, &format!("/v4/verifiable-trust/dids?corporation_id={}", harbor["corporationId"])).await;
    assert_eq!(own["dids"], json!([harbor["did"]]));
    let above = read_at(&origin, "/v4/verifiable-trust/dids", Some(9_999)).await;
    assert_eq!(above.status, 400, "{}", above.body);
    for (path, expected) in [
        ("/v4/verifiable-trust/changes", "fromBlock: is required"),
        (
            "/v4/verifiable-trust/changes?fromBlock=1&channels=trust,weather",
            "channels: \"weather\" is not one of trust",
        ),
        ("/v4/verifiable-trust/changes?fromBlock=1&dids=foo,did:web:a", "dids: \"foo\" is not a DID"),
        ("/v4/verifiable-trust/dids?limit=0", "limit"),
        ("/v4/verifiable-trust/dids?cursor=1.18446744073709551615", "cursor"),
        ("/v4/verifiable-trust/dids?cursor=x", "cursor"),
    ] {
        let read = read_at(&origin, path, None).await;
        let error = read.body["error"].as_str().unwrap_or_default();
        assert!(read.status == 400 && error.starts_with(expected), "{path}: {}", read.body);
    }
}

/// Starts a web server that accepts a request and answers it only after a notification.
async fn silent_server(page: String) -> (String, Arc<Notify>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/vp.json", listener.local_addr().expect("an address"));
    let speak = Arc::new(Notify::new());
    let told = Arc::clone(&speak);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (told, page) = (Arc::clone(&told), page.clone());
            tokio::spawn(async move {
                told.notified().await;
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", page.len());
                stream.write_all(head.as_bytes()).await.expect("written");
                stream.write_all(page.as_bytes()).await.expect("written");
            });
        }
    });
    (url, speak)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_web_server_delays_only_its_own_did() {
    let grounds = start_chain_and_indexer("marketplace").await;
    let wait_limit = Some(Duration::from_secs(3));
    let essential_schemas = svc::network::essential_schemas(&grounds.devnet);
    let trust = TrustConfig { hosts: HostPolicy::AllowPrivate, essential_schemas, wait_limit, patience: None };
    let config = IndexerConfig { trust, ..IndexerConfig::new(grounds.devnet.node.origin(), "sqlite::memory:") };
    let replica = IndexerReplica::launch(config).await;
    let (harbor, mill) = (did(&grounds, "harbor"), did(&grounds, "mill"));
    let control = json!({"action": "subscribe", "dids": [harbor, mill], "channels": {"trust": true}});
    let mut stream = subscribe(&replica.origin, control).await;
    // Blocks are produced until all DIDs are evaluated.
    loop {
        grounds.devnet.node.produce_block().expect("a block");
        next_trust_block(&mut stream, *grounds.devnet.node.watch_heights().borrow()).await;
        let status = read_ok(&replica.origin, "/v4/indexer/status").await;
        if status["trust"]["dids_to_judge"] == 0 {
            break;
        }
    }
    assert_eq!(resolve(&replica.origin, &harbor).await["trusted"], true);

    // Harbor's presentation moves to the silent server; the same block requests an evaluation of mill.
    let path = presentation_path("harbor", "service");
    let page = services(&grounds).page(&path).expect("served");
    let (url, speak) = silent_server(page.body).await;
    let mut document = services(&grounds).document("harbor").expect("a document");
    let linked = document["service"].as_array_mut().expect("services").iter_mut();
    for service in linked.filter(|service| service["serviceEndpoint"].as_str().is_some_and(|at| at.ends_with(&path))) {
        service["serviceEndpoint"] = url.as_str().into();
    }
    services(&grounds).set_document("harbor", &document).await.expect("published");
    let asked = send_as_clerk(&grounds, &[trigger_message("harbor"), trigger_message("mill")]).await;
    let block = next_trust_block(&mut stream, asked).await;
    let dids: Vec<_> = block["changes"].as_array().expect("changes").iter().map(|change| &change["did"]).collect();
    assert_eq!(dids, [&json!(mill)], "the height is not held up by the silent one");
    grounds.devnet.node.produce_block().expect("a block");
    assert_eq!(next_trust_block(&mut stream, asked + 1).await["changes"], json!([]), "nor are those after it");

    speak.notify_waiters();
    speak.notify_one();
    let mut height = asked + 1;
    loop {
        grounds.devnet.node.produce_block().expect("a block");
        height += 1;
        let block = next_trust_block(&mut stream, height).await;
        if let Some(change) = block["changes"].as_array().and_then(|changes| changes.first()) {
            assert_eq!((&change["did"], &change["trust"]["trusted"]), (&json!(harbor), &json!(true)), "{block}");
            assert_eq!(change["trust"]["evaluatedAtBlock"], asked, "nothing happened since it was begun");
            break;
        }
    }
}

//! The chain halts at a planned upgrade while tool server, agent and indexer run. All three go on with the later release, without a restart, and
//! each write that was sent before, while and after is in one block.

use std::time::Duration;

use futures::SinkExt;
use serde_json::{Value, json};
use svc::mcp_client::McpClient;
use svc_devnet::DevnetConfig;
use svc_net::upstream::NodeClient;
use svc_wire::{
    proto::cosmos::upgrade::v1beta1::{
        QueryAppliedPlanRequest, QueryAppliedPlanResponse, QueryCurrentPlanRequest, QueryCurrentPlanResponse,
    },
    proto_registry::NodeGeneration,
};
use tokio_tungstenite::tungstenite::Message;

use crate::e2e::{
    agent::{
        credentials::identity_process::{ask_until_ok, did_of, import_organisation, issue_body, standalone},
        processes::agent_process::AgentProcess,
    },
    callers::secrets::{ServerChild, spawn_server},
    harness::{
        CREATE_ECOSYSTEM, TEST_TIMEOUT, TestNetwork, call_tool, network_config, pause, poll_until, start_network,
    },
    indexer::{SubscriptionSocket, connect, next_message, read_ok, read_ok_at},
};

const STORE_DIGEST: &str = "svc.ledger.di.storeDigest";
const ISSUED: &str = "/v2/vt/issued-credentials";
const PARAMS: &str = "/v4/trust-deposit/params";
/// Subject of the agent's credentials. It is a participant, and no agent.
const BRANCH: &str = "did:web:branch.example";

/// A digest that no other write of the test stores.
fn digest(letter: char) -> String {
    format!("sha384-{}", letter.to_string().repeat(64))
}

/// Stores a digest under an idempotency key; repeats the call while its failure says that it may be repeated. Returns the hash.
async fn store(client: &McpClient, letter: char) -> Value {
    let arguments = json!({"digest": digest(letter), "idempotency_key": format!("the key of {letter}")});
    let stored = async {
        loop {
            let answer = call_tool(client, STORE_DIGEST, arguments.clone()).await;
            if !answer.is_error {
                return answer.content["tx_hash"].clone();
            }
            assert_eq!(answer.content["retryable"], true, "{:#}", answer.content);
            pause().await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, stored).await.expect("stored in time")
}

/// Number of executed transactions with a digest.
fn executions(world: &TestNetwork, letter: char) -> usize {
    let wanted = digest(letter);
    let has_digest = |bytes: &[u8]| bytes.windows(wanted.len()).any(|part| part == wanted.as_bytes());
    world.network.devnet.node.read_core(|core| {
        let executed = core.blocks().iter().flat_map(|block| block.txs.iter().zip(&block.tx_outcomes));
        executed.filter(|(bytes, outcome)| outcome.code == 0 && has_digest(bytes)).count()
    })
}

/// Has the agent issue a credential; returns the id of its session.
async fn issue(world: &TestNetwork, agent: &AgentProcess, round: usize) -> String {
    let answer = ask_until_ok(world, agent, ISSUED, &issue_body(world, BRANCH, round)).await;
    let id = answer["credential"]["id"].as_str().unwrap_or_else(|| panic!("a credential in {answer}"));
    id.rsplit_once('#').expect("a fragment").1.to_owned()
}

async fn await_halt(world: &TestNetwork, is_halted: bool) {
    let mut halts = world.network.devnet.node.watch_halts();
    let waited = tokio::time::timeout(TEST_TIMEOUT, halts.wait_for(|halt| halt.is_some() == is_halted)).await;
    waited.expect("in time").expect("the node is there");
}

/// Whether the completion of grantable types has those of schema authorization policies.
async fn knows_policies(client: &McpClient) -> bool {
    let found = client.complete_argument("svc.ledger.de.grantOperatorAuthorization", "msg_types", "Policy").await;
    found.is_ok_and(|found| !found.is_empty())
}

async fn lists(client: &McpClient, name: &str) -> bool {
    client.list_tools().await.expect("listed").iter().any(|tool| tool.name == name)
}

/// Asserts that the blocks of a subscription follow each other, up to a height.
async fn assert_gapless(mut blocks: SubscriptionSocket, last: u64) {
    let mut next = None;
    loop {
        let message = next_message(&mut blocks).await.expect("the subscription stays open");
        let height = message["block"].as_u64().expect("a height");
        match message["type"].as_str() {
            Some("subscribed") => next = Some(height),
            Some("block") => {
                assert_eq!(Some(height), next, "{message}");
                next = Some(height + 1);
                if height >= last {
                    return;
                }
            }
            _ => {}
        }
    }
}

/// Starts `svc serve` as a process of its own beside the network.
async fn serve(world: &TestNetwork, directory: &std::path::Path) -> (ServerChild, McpClient) {
    let (rpc, indexer) = (world.network.devnet.node.origin(), world.network.indexer_origin());
    let corporation = world.network.operator_slot.corporation_id.to_string();
    let path = |name: &str| directory.join(name).to_str().expect("a text").to_owned();
    let (journal, audit) = (path("journal.db"), path("audit.jsonl"));
    let server = tokio::task::spawn_blocking(move || {
        let settings = [("SVC_CORPORATION", &*corporation), ("SVC_JOURNAL", &*journal), ("SVC_AUDIT", &*audit)];
        spawn_server(&rpc, &indexer, &settings)
    });
    let server = server.await.expect("joins");
    let client = McpClient::connect(&server.url, server.token()).await.expect("connects");
    (server, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_halts_at_an_upgrade_is_followed_by_server_agent_and_indexer_without_a_restart() {
    let mut config = network_config(200);
    config.devnet =
        DevnetConfig { scenario: "marketplace".to_owned(), upgrade_pause: Duration::from_secs(3), ..config.devnet };
    config.agent.is_off = true;
    let world = start_network(config).await;
    let (node, indexer) = (&world.network.devnet.node, world.network.indexer_origin());
    let directory = tempfile::tempdir().expect("a directory");
    let (server, client) = serve(&world, directory.path()).await;
    let home = standalone(&world);
    let agent = home.start();
    let did = did_of(&agent).await;
    let dids = [("agent".to_owned(), did.clone()), ("branch".to_owned(), BRANCH.to_owned())];
    world.network.devnet.admit_agents(&dids).await.expect("admitted");
    import_organisation(&world, &agent, &did).await;
    world.await_verdict_on(&did, |verdict| verdict["trusted"] == true).await;
    let mut blocks = connect(&indexer).await;
    blocks.send(Message::text(r#"{"action":"subscribe"}"#)).await.expect("sent");

    // Before: the rules and the descriptors of the first generation.
    let first = store(&client, 'A').await;
    let mut sessions = vec![issue(&world, &agent, 1).await];
    assert!(knows_policies(&client).await && lists(&client, CREATE_ECOSYSTEM).await);
    let old_params = read_ok(&indexer, PARAMS).await["params"].clone();
    assert!(old_params.get("trust_deposit_reclaim_burn_rate").is_some(), "{old_params}");

    // A write waits in the mempool of the process that ends, and others begin while nothing answers.
    node.update_faults(|faults| faults.hold_inclusion = true);
    let halted = async {
        poll_until("the write waits", async || node.read_core(|core| core.mempool_txs().len()) > 0).await;
        let height = world.height() + 3;
        node.plan_upgrade(NodeGeneration::N3, height).expect("planned");
        let chain = NodeClient::new(node.origin()).expect("a client");
        let path = "/cosmos.upgrade.v1beta1.Query/CurrentPlan";
        let plan: QueryCurrentPlanResponse = chain.query(path, &QueryCurrentPlanRequest {}, 0).await.expect("a plan");
        let plan = plan.plan.expect("a plan");
        assert_eq!((plan.name.as_str(), plan.height), ("n3", height.cast_signed()));
        await_halt(&world, true).await;
        node.update_faults(|faults| {
            faults.hold_inclusion = false;
            // The later release describes one message otherwise.
            faults.lies.swapped_fields = true;
        });
        let (during, session) = tokio::join!(store(&client, 'C'), issue(&world, &agent, 2));
        (height, during, session)
    };
    let (held, (height, during, session)) = tokio::join!(store(&client, 'B'), halted);
    sessions.push(session);

    // After: all three have found the later release.
    await_halt(&world, false).await;
    let chain = NodeClient::new(node.origin()).expect("a client");
    let request = QueryAppliedPlanRequest { name: "n3".to_owned() };
    let path = "/cosmos.upgrade.v1beta1.Query/AppliedPlan";
    let applied: QueryAppliedPlanResponse = chain.query(path, &request, 0).await.expect("an answer");
    assert_eq!(applied.height, height.cast_signed());
    poll_until("the list of tools follows", async || {
        !lists(&client, CREATE_ECOSYSTEM).await && !knows_policies(&client).await
    })
    .await;
    let last = store(&client, 'D').await;
    sessions.push(issue(&world, &agent, 3).await);
    poll_until("the indexer reads the parameters of the later release", async || {
        read_ok(&indexer, PARAMS).await["params"].get("trust_deposit_reclaim_burn_rate").is_none()
    })
    .await;
    let params = read_ok(&indexer, PARAMS).await["params"].clone();
    assert_eq!(params["trust_deposit_rate"], 0.2, "the chain keeps its value: {params}");
    assert_eq!(read_ok_at(&indexer, PARAMS, Some(height - 1)).await["params"], old_params);
    assert_gapless(blocks, world.height()).await;

    // The keys have their receipts, and the chain has each write once.
    for (letter, hash) in [('A', &first), ('B', &held), ('C', &during), ('D', &last)] {
        assert_eq!(store(&client, letter).await, *hash);
        assert_eq!(executions(&world, letter), 1, "{letter}");
    }
    let anchored = async || {
        let found = world.sessions().await;
        assert!(found.iter().all(|(_, records)| *records == 1), "{found:?}");
        sessions.iter().all(|session| found.iter().any(|(id, _)| id == session))
    };
    world.wait_until("each credential is paid for", anchored).await;
    let (is_ok, log) = agent.terminate();
    assert!(is_ok && log.contains("the node runs another release"), "{log}");
    let (code, log) = server.terminate();
    assert!(code == Some(0) && log.contains("the node runs another release"), "{log}");
}

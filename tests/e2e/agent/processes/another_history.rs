//! An agent whose chain goes back and makes other blocks: nothing is signed until a person has rebased the stopped agent.

use std::io::{BufRead, BufReader};

use serde_json::{Value, json};
use svc::network::ChainAndIndexer;
use svc_devnet::node::Node;
use svc_indexer::IndexerConfig;
use svc_net::upstream::NodeClient;
use svc_pipeline::query_account;

use crate::e2e::{
    agent::{
        credentials::identity_process::{did_of, import_organisation, standalone, start_without_agents},
        document::resolution::{registry_id, send_coins, start_registry},
        processes::{
            agent_process::{AgentHome, AgentProcess, own_account},
            process::{HeardEvents, admit_account, start_consumer},
        },
    },
    harness::poll_until,
    indexer::{IndexerReplica, await_indexed, read_ok},
};

fn newest(node: &Node) -> u64 {
    *node.watch_heights().borrow()
}

/// Transactions that the account of the agent has in blocks.
async fn sent(node: &Node) -> u64 {
    let node = NodeClient::new(node.origin()).expect("a client");
    query_account(&node, &own_account()).await.expect("answered").map_or(0, |account| account.sequence)
}

async fn await_change(agent: &AgentProcess) -> String {
    poll_until("the agent says that the chain has changed", async || {
        agent.info().await["chain"]["code"] == "CHAIN_CHANGED"
    })
    .await;
    agent.info().await["chain"]["text"].as_str().expect("words").to_owned()
}

/// The events of the corporation above a height, as an indexer lists them.
async fn listed_above(origin: &str, id: u64, height: u64) -> Vec<(u64, String, String)> {
    let path = format!("/v4/indexer/events?corporation_id={id}&after_block_height={height}&limit=500");
    let page = read_ok(origin, &path).await;
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let listed = page["events"].as_array().expect("events").iter().map(|event| {
        (event["block_height"].as_u64().expect("a height"), text(&event["tx_hash"]), text(&event["event_type"]))
    });
    listed.collect()
}

fn json_of(shown: &str) -> Value {
    // The progress stands on the other output.
    let end = shown.rfind('}').expect("an object");
    serde_json::from_str(&shown[..=end]).expect("JSON")
}

/// An agent with a webhook, whose newest document is resolved.
struct Grounds {
    network: ChainAndIndexer,
    home: AgentHome,
    heard: HeardEvents,
}

impl Grounds {
    async fn new() -> (Self, AgentProcess) {
        let network = start_registry().await;
        let mut home = AgentHome::new(&network);
        let (url, heard) = start_consumer().await;
        home.webhook = Some(url);
        let agent = home.start();
        poll_until("it is ready", async || agent.send("GET", "/v2/agent/health/ready", None).await.status == 200).await;
        send_coins(&network.devnet, &own_account(), 10_000_000).await;
        admit_account(&network, &did_of(&agent).await).await;
        agent.await_idle(&network).await;
        (Self { network, home, heard }, agent)
    }

    fn node(&self) -> &Node {
        &self.network.devnet.node
    }

    /// Adds a version that is resolved by a transaction above a height, and takes the chain back to that height. Returns it with the newest
    /// height of before, and the transactions of the account up to it.
    async fn lose_a_resolution(&self, agent: &AgentProcess, back: u64) -> (u64, u64, u64) {
        let (kept, before) = (newest(self.node()), sent(self.node()).await);
        assert_eq!(agent.add("lost").await.status, 200);
        poll_until("it is sent", async || sent(self.node()).await > before).await;
        agent.await_idle(&self.network).await;
        let has_heard = async || {
            let heard = self.heard.lock().expect("not poisoned").clone();
            heard.values().any(|(height, _, kind)| *height > kept && kind == "TriggerResolver")
        };
        poll_until("its event is heard", has_heard).await;
        poll_until("the blocks are there", async || newest(self.node()) >= kept + back).await;
        let top = newest(self.node());
        self.node().go_back(kept).expect("goes back");
        poll_until("other blocks are made", async || newest(self.node()) > top).await;
        (kept, top, before)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_signed_on_another_history_until_a_rebase_and_then_everything_lost_is_done_once_more() {
    for back in [1, 50] {
        let (mut grounds, agent) = Grounds::new().await;
        let (kept, top, before) = grounds.lose_a_resolution(&agent, back).await;
        let words = await_change(&agent).await;
        assert!(words.contains("another history") && words.contains("svc agent rebase --to"), "{words}");
        let height = agent.info().await["chain"]["height"].as_u64().expect("a height");
        assert!(height <= kept, "{height} is above {kept}");
        // It publishes and signs no transaction.
        assert_eq!(agent.add("meanwhile").await.status, 200);
        poll_until("the resolution says why it waits", async || {
            agent.info().await["resolution"]["reason"] == "CHAIN_CHANGED"
        })
        .await;
        let (is_ok, shown) = grounds.home.run(&["check"]).await;
        let line = shown.lines().find(|line| line.contains("CHAIN_CHANGED")).expect("a finding");
        assert!(!is_ok && line.contains("FAIL") && line.contains("rebase"), "{shown}");
        let (is_ok, refused) = grounds.home.run(&["rebase", "--to", &kept.to_string()]).await;
        assert!(!is_ok && refused.contains("in use by process"), "{refused}");
        assert!(agent.terminate().0);

        // The next process finds it too.
        let agent = grounds.home.start();
        await_change(&agent).await;
        assert_eq!(sent(grounds.node()).await, before, "nothing was sent");
        assert!(agent.terminate().0);
        let (is_ok, refused) = grounds.home.run(&["rebase", "--to", &top.to_string()]).await;
        assert!(!is_ok && refused.contains("--to"), "{refused}");

        let (is_ok, shown) = grounds.home.run(&["rebase", "--json", "--to", &kept.to_string()]).await;
        assert!(is_ok, "{shown}");
        let done = json_of(&shown);
        assert_eq!(
            (&done["height"], &done["is_changed"], &done["resolves"]),
            (&kept.into(), &true.into(), &true.into())
        );
        assert_eq!(done["events"]["from_height"], kept + 1, "{done}");
        let (is_ok, shown) = grounds.home.run(&["rebase", "--json", "--to", &kept.to_string()]).await;
        assert!(is_ok && json_of(&shown)["is_changed"] == false, "{shown}");

        let fresh = IndexerReplica::launch(IndexerConfig::new(grounds.node().origin(), "sqlite::memory:")).await;
        grounds.home.indexer = fresh.origin.clone();
        let agent = grounds.home.start();
        poll_until("the newest version is resolved", async || sent(grounds.node()).await > before).await;
        agent.await_idle(&grounds.network).await;
        assert_eq!(agent.info().await["chain"]["code"], Value::Null);
        let gaps = agent.send("GET", "/v2/events/gaps", None).await.body;
        assert_eq!(
            (&gaps["items"][0]["fromHeight"], gaps["items"].as_array().map(Vec::len)),
            (&(kept + 1).into(), Some(1))
        );
        let newest = newest(grounds.node());
        await_indexed(&fresh.origin, newest).await;
        let listed = listed_above(&fresh.origin, registry_id(&grounds.network.devnet), kept).await;
        assert!(listed.iter().any(|(_, _, kind)| kind == "TriggerResolver"), "{listed:?}");
        poll_until("the events of the new blocks are heard", async || {
            let heard = grounds.heard.lock().expect("not poisoned").clone();
            listed.iter().all(|event| heard.values().any(|known| known == event))
        })
        .await;
        assert!(agent.terminate().0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebase_that_is_killed_between_its_steps_goes_on() {
    let (grounds, agent) = Grounds::new().await;
    let (kept, _, before) = grounds.lose_a_resolution(&agent, 5).await;
    agent.kill();
    let mut command = grounds.home.command(&["rebase", "--json", "--to", &kept.to_string()]);
    let mut running = command.spawn().expect("runs");
    let mut lines = BufReader::new(running.stderr.take().expect("piped")).lines();
    let first = lines.find_map(|line| line.ok().filter(|line| line.contains("goes on from block")));
    running.kill().expect("killed");
    running.wait().expect("ended");
    assert_eq!(first.expect("a step"), format!("the store goes on from block {kept}"));
    let (is_ok, shown) = grounds.home.run(&["rebase", "--json", "--to", &kept.to_string()]).await;
    assert!(is_ok, "{shown}");
    let (_, shown) = grounds.home.run(&["rebase", "--json", "--to", &kept.to_string()]).await;
    assert_eq!(json_of(&shown)["is_changed"], false, "{shown}");
    let agent = grounds.home.start();
    poll_until("the newest version is resolved", async || sent(grounds.node()).await > before).await;
    assert_eq!(agent.info().await["chain"]["code"], Value::Null);
    let gaps = agent.send("GET", "/v2/events/gaps", None).await.body;
    assert_eq!(gaps["items"].as_array().map(Vec::len), Some(1), "{gaps}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_whose_anchor_is_lost_is_anchored_and_paid_once_on_the_new_history() {
    let world = start_without_agents().await;
    let mut home = standalone(&world);
    // The agent anchors again only after the timeout height of the lost transaction.
    home.settings.insert("SVC_TX_TIMEOUT_MS", "3000".to_owned());
    let agent = home.start();
    let did = did_of(&agent).await;
    let node = &world.network.devnet.node;
    world.network.devnet.admit_agents(&[("agent".to_owned(), did.clone())]).await.expect("admitted");
    import_organisation(&world, &agent, &did).await;
    world.await_verdict_on(&did, |verdict| verdict["trusted"] == true).await;
    let own = async |agent: &AgentProcess| {
        let issued = agent.send("GET", "/v2/vt/issued-credentials", None).await.body;
        issued["items"].as_array().expect("items").iter().find(|one| one["kind"] == "own").cloned().expect("an own one")
    };
    let credential = own(&agent).await;
    let hash = credential["txHash"].as_str().expect("a hash").to_owned();
    let height = node.read_core(|core| {
        let mut blocks = core.blocks().iter();
        let found = blocks.find(|block| block.txs.iter().any(|tx| svc_wire::tx::tx_hash(tx) == hash));
        found.map(|block| block.height).expect("a block")
    });
    node.go_back(height - 1).expect("goes back");
    await_change(&agent).await;
    assert_eq!(world.sessions().await, []);
    assert!(agent.terminate().0);
    let (is_ok, shown) = home.run(&["rebase", "--json", "--to", &(height - 1).to_string()]).await;
    assert!(is_ok && json_of(&shown)["credentials"] == 1, "{shown}");
    let agent = home.start();
    poll_until("the credential is anchored again", async || {
        let found = own(&agent).await;
        found["state"] == "anchored" && found["reason"].is_null()
    })
    .await;
    let found = own(&agent).await;
    assert_eq!((&found["id"], found["txHash"] != json!(hash)), (&credential["id"], true));
    let sessions = world.sessions().await;
    assert_eq!(sessions.iter().map(|(_, records)| *records).collect::<Vec<_>>(), [1]);
}

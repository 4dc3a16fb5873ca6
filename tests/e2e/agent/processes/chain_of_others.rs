//! An agent whose first indexer follows another chain, and one whose node becomes dearer.

use serde_json::Value;

use crate::e2e::{
    agent::{
        credentials::identity_process::did_of,
        document::resolution::{send_coins, start_registry, triggers_of},
        processes::{
            agent_process::{AgentHome, own_account},
            process::{admit_account, listed_since, start_consumer},
        },
    },
    harness::poll_until,
    recovery::foreign_indexers::other_chain,
};

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_leaves_out_an_indexer_of_another_chain_and_hears_the_events_of_its_own() {
    let network = start_registry().await;
    let own = network.indexer_origin();
    // It is ahead of the own one for as long as the test runs.
    let other = other_chain("svc-other-1", *network.devnet.node.watch_heights().borrow() + 2_000).await;
    let foreign = other.indexer_origin();
    let mut home = AgentHome::at(&network.devnet, format!("{foreign},{own}"));
    let (url, heard) = start_consumer().await;
    home.webhook = Some(url);
    let agent = home.start();
    poll_until("it is ready", async || agent.send("GET", "/v2/agent/health/ready", None).await.status == 200).await;
    let first_height = *network.devnet.node.watch_heights().borrow();
    let did = did_of(&agent).await;
    send_coins(&network.devnet, &own_account(), 1_000_000).await;
    admit_account(&network, &did).await;
    assert_eq!(agent.add("page").await.status, 200);
    agent.await_idle(&network).await;
    let expected = listed_since(&network, first_height).await;
    assert!(!expected.is_empty());
    poll_until("the events of the own chain are heard", async || {
        let heard = heard.lock().expect("not poisoned").clone();
        expected.iter().all(|event| heard.values().any(|known| known == event))
    })
    .await;

    let (_, shown) = home.run(&["check"]).await;
    let line = shown.lines().find(|line| line.contains("SVC_INDEXER_BASE_URL")).expect("a line");
    for part in ["WARN", &own, &foreign, "svc-other-1"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    // With the foreign one alone there is no indexer.
    drop(agent);
    home.indexer = foreign.clone();
    let (_, shown) = home.run(&["check"]).await;
    let line = shown.lines().find(|line| line.contains("SVC_INDEXER_BASE_URL")).expect("a line");
    assert!(line.contains("FAIL") && line.contains("svc-other-1"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_pays_the_price_of_a_node_that_has_become_dearer() {
    let network = start_registry().await;
    let home = AgentHome::new(&network);
    let agent = home.start();
    let did = did_of(&agent).await;
    send_coins(&network.devnet, &own_account(), 10_000_000).await;
    admit_account(&network, &did).await;
    let first = agent.await_idle(&network).await;
    let fee_of = async |info: &Value| {
        let hash = info["resolution"]["txHash"].as_str().expect("a hash").to_owned();
        network.devnet.node.read_core(|core| {
            let outcomes = core.blocks().iter().flat_map(|block| block.txs.iter().zip(&block.tx_outcomes));
            let of_hash = outcomes.filter(|(tx, _)| svc_wire::tx::tx_hash(tx) == hash).map(|(_, outcome)| outcome);
            let events = of_hash.flat_map(|outcome| &outcome.events).filter(|event| event.kind == "tx");
            let fees = events.flat_map(|event| &event.attributes).filter(|(name, _)| name == "fee");
            let fee = fees.map(|(_, fee)| fee.clone()).next().expect("a fee");
            fee.trim_end_matches(|letter: char| !letter.is_ascii_digit()).parse::<u64>().expect("an amount")
        })
    };
    let usual = fee_of(&first).await;
    network.devnet.node.update_faults(|faults| faults.gas_price_micros = Some(250_000));
    assert_eq!(agent.add("dearer").await.status, 200);
    poll_until("it is sent at the new price", async || {
        let info = agent.info().await;
        info["resolution"]["state"] == "idle" && info["resolution"]["txHash"] != first["resolution"]["txHash"]
    })
    .await;
    let dearer = fee_of(&agent.info().await).await;
    assert!(dearer > 5 * usual, "{dearer} after {usual}");
    assert_eq!(triggers_of(&network, &own_account()).await.len(), 2, "each version is resolved once");
}

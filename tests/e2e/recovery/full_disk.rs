//! The journal's disk is full, or the journal vanishes: nothing that was acknowledged is lost, and nothing is executed twice.

use std::path::Path;

use serde_json::{Value, json};
use svc::mcp_client::McpClient;
use svc_test_support::small_disk::{SIZE, SmallDisk, fill};

use crate::e2e::{
    callers::secrets::{SERVER_PROGRAM, ServerChild},
    harness::{
        CREATE_ECOSYSTEM, CallResult, TestNetwork, call_tool, ecosystem_arguments, network_config, start_network,
    },
    recovery::process_kill::{keyed_arguments, kill, start_by},
};

async fn start(world: &TestNetwork, disk: &SmallDisk, min_free_disk: &str) -> (ServerChild, McpClient) {
    let settings = vec![
        ("SVC_JOURNAL", disk.path("journal.db")),
        ("SVC_MIN_FREE_DISK", min_free_disk.to_owned()),
        ("SVC_TX_TIMEOUT_MS", "5000".to_owned()),
    ];
    start_by(disk.command(SERVER_PROGRAM), world, settings).await
}

async fn health(served: &ServerChild) -> (u16, Value) {
    let answer = reqwest::get(served.url.replace("/mcp", "/healthz")).await.expect("answered");
    (answer.status().as_u16(), answer.json().await.expect("JSON"))
}

async fn journal_status(client: &McpClient) -> Value {
    call_tool(client, "svc.wallet.getStatus", json!({})).await.content["journal"].clone()
}

async fn write(client: &McpClient, name: &str) -> CallResult {
    call_tool(client, CREATE_ECOSYSTEM, keyed_arguments(name)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_writes_and_no_key_is_executed_twice_after_a_restart() {
    let Some(disk) = SmallDisk::mount(SIZE) else { return };
    let world = start_network(network_config(100)).await;
    let (served, client) = start(&world, &disk, "0").await;
    let names: Vec<String> = (0..30).map(|number| format!("full-{number}")).collect();
    let mut answers = Vec::new();
    for (round, names) in names.chunks(10).enumerate() {
        let filler = if round == 1 { Some(fill(&disk.outside())) } else { None };
        let writes = names.iter().map(|name| write(&client, name));
        answers.extend(futures::future::join_all(writes).await);
        if let Some(filler) = filler {
            let refused = write(&client, "refused").await;
            assert_eq!(refused.content["code"], "JOURNAL_UNAVAILABLE", "{:#}", refused.content);
            assert_eq!((&refused.content["stage"], &refused.content["retryable"]), (&json!("broadcast"), &json!(true)));
            assert_eq!(health(&served).await, (503, json!({"status": "degraded"})));
            let failure = journal_status(&client).await["failure"].clone();
            assert!(failure["since"].is_string() && failure["reason"].is_string(), "{failure}");
            std::fs::remove_file(filler).expect("removed");
            world.wait_until("there is space again", async || health(&served).await.0 == 200).await;
            assert!(journal_status(&client).await["failure"].is_null());
        }
    }
    let answered = |index: usize| answers[index].content["tx_hash"].clone();
    for index in (0..10).chain(20..30) {
        world.assert_included_once(&names[index], &answers[index]);
    }
    assert!(answers[10..20].iter().any(|answer| answer.is_error), "the disk was never full");
    kill(served);
    let (served, client) = start(&world, &disk, "0").await;
    assert!(journal_status(&client).await["loss"].is_null());
    for (index, name) in names.iter().enumerate() {
        let again = write(&client, name).await;
        world.assert_included_once(name, &again);
        if !answers[index].is_error {
            assert_eq!(again.content["tx_hash"], answered(index), "{name}");
        }
    }
    assert_eq!(world.operator_txs_in_blocks(), names.len());
    kill(served);
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_are_refused_before_the_disk_is_full() {
    let Some(disk) = SmallDisk::mount(SIZE) else { return };
    let world = start_network(network_config(100)).await;
    let (served, client) = start(&world, &disk, "1048576").await;
    world.assert_included_once("roomy", &write(&client, "roomy").await);
    let filler = disk.outside().join("filler");
    std::fs::write(&filler, vec![0; 1_200_000]).expect("written");
    let refused = write(&client, "narrow").await;
    let message = refused.content["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("SVC_MIN_FREE_DISK=1048576"), "{:#}", refused.content);
    assert_eq!((&refused.content["code"], health(&served).await.0), (&json!("JOURNAL_UNAVAILABLE"), 503));
    std::fs::remove_file(filler).expect("removed");
    world.assert_included_once("narrow", &write(&client, "narrow").await);
    assert_eq!(health(&served).await.0, 200);
    kill(served);
}

fn copy(path: &Path) {
    let copy = path.with_extension("copy");
    std::fs::copy(path, &copy).expect("copied");
    std::fs::rename(copy, path).expect("renamed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_vanishes_ends_all_writing_until_a_restart_which_reports_the_loss() {
    type Damage = fn(&Path);
    let damages: [Damage; 2] = [|path| std::fs::remove_file(path).expect("removed"), copy];
    let Some(disk) = SmallDisk::mount(SIZE) else { return };
    let world = start_network(network_config(100)).await;
    for (round, damage) in damages.into_iter().enumerate() {
        let (served, client) = start(&world, &disk, "0").await;
        let name = |word: &str| format!("{word}-{round}");
        let kept = write(&client, &name("kept")).await;
        world.assert_included_once(&name("kept"), &kept);
        damage(&disk.outside().join("journal.db"));
        for _ in 0..2 {
            let refused = write(&client, &name("vanished")).await;
            assert_eq!(refused.content["code"], "JOURNAL_UNAVAILABLE", "{:#}", refused.content);
        }
        assert_eq!((health(&served).await.0, world.times_on_chain(&name("vanished"))), (503, 0));
        kill(served);
        let (served, client) = start(&world, &disk, "0").await;
        let journal = journal_status(&client).await;
        if round == 1 {
            assert!(journal["loss"].is_null(), "the copy and its log are complete: {journal}");
        } else {
            let loss = &journal["loss"];
            assert!(loss["acknowledged"].as_i64() > loss["found"].as_i64(), "{round}: {journal}");
            let recovered = &journal["recovered"];
            assert!(recovered["restored"].as_u64() > Some(0) && recovered["unexplained"] == 0, "{journal}");
            // The key of the write is lost with its record, so that a repetition looks like another write.
            let again = call_tool(&client, CREATE_ECOSYSTEM, ecosystem_arguments(name("kept"))).await;
            assert_eq!(again.content["code"], "JOURNAL_UNAVAILABLE", "{:#}", again.content);
            assert_eq!(again.content["details"]["tx_hash"], kept.content["tx_hash"]);
            assert_eq!((&again.content["retryable"], world.times_on_chain(&name("kept"))), (&json!(false), 1));
        }
        world.assert_included_once(&name("vanished"), &write(&client, &name("vanished")).await);
        kill(served);
    }
}

//! After a write of a session, each tool and resource of its own state shows the write, or says the height that it shows.

use std::time::Duration;

use rmcp::model::{ReadResourceRequestParams, ResourceContents};
use serde_json::{Value, json};

use super::super::harness::{CREATE_ECOSYSTEM, TestNetwork, ecosystem_arguments, network_config, start_network};

fn names(corporation: &Value, name: &str) -> bool {
    let ecosystems = corporation["ecosystems"].as_array().expect("a list");
    ecosystems.iter().any(|one| one["did"] == format!("did:web:{name}.example"))
}

/// The `_meta` of a resource.
async fn meta_of(world: &TestNetwork, uri: &str) -> Value {
    let read = world.client.service().read_resource(ReadResourceRequestParams::new(uri)).await.expect("readable");
    match &read.contents[0] {
        ResourceContents::TextResourceContents { meta, .. } => serde_json::to_value(meta).expect("JSON"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_write_the_own_state_shows_it_at_once() {
    let world = start_network(network_config(100)).await;
    for index in 0..8 {
        let name = format!("own-{index}");
        let written = world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments(&name)).await;
        assert_eq!(written["indexer_synced"], true, "{written:#}");
        let shown = if index % 2 == 0 {
            world.call_ok("svc.wallet.getCorporation", json!({})).await
        } else {
            world.read_resource("svc://own/corporation").await
        };
        assert!(names(&shown, &name), "{name}: {shown:#}");
        assert_eq!(shown.get("as_of_height"), None, "{name}: {shown:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn own_state_from_before_a_write_says_its_height_every_time() {
    let mut settings = network_config(100);
    settings.indexer_timeout = Duration::from_millis(800);
    let mut world = start_network(settings).await;
    let before = world.call_ok("svc.wallet.getCorporation", json!({})).await;
    assert_eq!(before.get("as_of_height"), None);
    world.network.kill_indexer();
    let written = world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments("late")).await;
    let height = written["block_height"].as_u64().expect("a height");
    for _ in 0..2 {
        for tool in ["svc.wallet.getCorporation", "svc.wallet.listAuthorizations", "svc.wallet.listVSAgents"] {
            let shown = world.call_ok(tool, json!({})).await;
            assert!(shown["as_of_height"].as_u64().is_some_and(|shown| shown < height), "{tool}: {shown:#}");
        }
        for uri in ["corporation", "authorizations", "fee-grant", "vs-agents"] {
            let meta = meta_of(&world, &format!("svc://own/{uri}")).await;
            assert!(meta["as_of_height"].as_u64().is_some_and(|shown| shown < height), "{uri}: {meta}");
        }
    }
    // These say nothing of the registry.
    for uri in ["operator", "status", "transactions", "audit", "approvals"] {
        assert_eq!(meta_of(&world, &format!("svc://own/{uri}")).await, Value::Null, "{uri}");
    }
    world.network.restart_indexer().await.expect("starts again");
    world
        .wait_until("the write is shown", async || {
            let shown = world.call_ok("svc.wallet.getCorporation", json!({})).await;
            // Shown means shown.
            assert!(shown.get("as_of_height").is_some() || names(&shown, "late"), "{shown:#}");
            names(&shown, "late")
        })
        .await;
    assert_eq!(meta_of(&world, "svc://own/authorizations").await, Value::Null);
}

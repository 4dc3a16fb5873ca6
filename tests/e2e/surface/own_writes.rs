//! After a write of a session, each tool and resource of its own state shows the write, or says the height that it shows.

use std::time::Duration;

use rmcp::{
    ClientHandler, RoleClient,
    model::{CallToolRequestParams, ReadResourceRequestParams, ResourceContents},
    service::RunningService,
};
use serde_json::{Value, json};

use super::mcp_features::connect_recorder;
use crate::e2e::harness::{CREATE_ECOSYSTEM, ecosystem_arguments, into_arguments, network_config, start_network};

/// The structured answer of a tool in a session.
async fn ask<H: ClientHandler>(client: &RunningService<RoleClient, H>, tool: &'static str, given: Value) -> Value {
    let request = CallToolRequestParams::new(tool).with_arguments(into_arguments(given));
    let answer = client.call_tool(request).await.expect("an answer");
    assert_ne!(answer.is_error, Some(true), "{tool}: {answer:?}");
    answer.structured_content.expect("structured")
}

/// The content of a resource in a session, and its `_meta`.
async fn read<H: ClientHandler>(client: &RunningService<RoleClient, H>, uri: &str) -> (Value, Value) {
    let read = client.read_resource(ReadResourceRequestParams::new(uri)).await.expect("readable");
    match &read.contents[0] {
        ResourceContents::TextResourceContents { text, meta, .. } => {
            let content = serde_json::from_str(text).expect("JSON");
            (content, serde_json::to_value(meta).expect("JSON"))
        }
        other => panic!("{other:?}"),
    }
}

fn names(corporation: &Value, name: &str) -> bool {
    let ecosystems = corporation["ecosystems"].as_array().expect("a list");
    ecosystems.iter().any(|one| one["did"] == format!("did:web:{name}.example"))
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_write_the_own_state_shows_it_at_once() {
    let world = start_network(network_config(100)).await;
    let (client, _) = connect_recorder(&world).await;
    for index in 0..8 {
        let name = format!("own-{index}");
        let written = ask(&client, CREATE_ECOSYSTEM, ecosystem_arguments(&name)).await;
        assert_eq!(written["indexer_synced"], true, "{written:#}");
        let shown = if index % 2 == 0 {
            ask(&client, "svc.wallet.getCorporation", json!({})).await
        } else {
            read(&client, "svc://own/corporation").await.0
        };
        assert!(names(&shown, &name), "{name}: {shown:#}");
        assert_eq!(shown.get("as_of_height"), None, "{name}: {shown:#}");
    }
    let _ = client.cancel().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn own_state_from_before_a_write_says_its_height_every_time() {
    let mut settings = network_config(100);
    settings.indexer_timeout = Duration::from_millis(800);
    let mut world = start_network(settings).await;
    let (client, _) = connect_recorder(&world).await;
    let before = ask(&client, "svc.wallet.getCorporation", json!({})).await;
    assert_eq!(before.get("as_of_height"), None);
    world.network.kill_indexer();
    let written = ask(&client, CREATE_ECOSYSTEM, ecosystem_arguments("late")).await;
    let height = written["block_height"].as_u64().expect("a height");
    for _ in 0..2 {
        for tool in ["svc.wallet.getCorporation", "svc.wallet.listAuthorizations", "svc.wallet.listVSAgents"] {
            let shown = ask(&client, tool, json!({})).await;
            assert!(shown["as_of_height"].as_u64().is_some_and(|shown| shown < height), "{tool}: {shown:#}");
        }
        for uri in ["corporation", "authorizations", "fee-grant", "vs-agents"] {
            let (_, meta) = read(&client, &format!("svc://own/{uri}")).await;
            assert!(meta["as_of_height"].as_u64().is_some_and(|shown| shown < height), "{uri}: {meta}");
        }
    }
    // These say nothing of the registry.
    for uri in ["operator", "status", "transactions", "audit", "approvals"] {
        assert_eq!(read(&client, &format!("svc://own/{uri}")).await.1, Value::Null, "{uri}");
    }
    world.network.restart_indexer().await.expect("starts again");
    world
        .wait_until("the write is shown", async || {
            let shown = ask(&client, "svc.wallet.getCorporation", json!({})).await;
            // Shown means shown.
            assert!(shown.get("as_of_height").is_some() || names(&shown, "late"), "{shown:#}");
            names(&shown, "late")
        })
        .await;
    assert_eq!(read(&client, "svc://own/authorizations").await.1, Value::Null);
}

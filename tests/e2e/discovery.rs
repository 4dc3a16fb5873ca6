//! Nothing of the namespace is configured: another word, chain id and denom work unchanged.

use serde_json::json;
use svc_devnet::DevnetConfig;

use super::harness::{CREATE, config, ecosystem, world};

#[tokio::test(flavor = "multi_thread")]
async fn another_namespace_chain_id_and_denom_work_unchanged() {
    let base = config(100);
    let devnet = DevnetConfig {
        namespace: "acme".into(),
        chain_id: "acme-9".into(),
        denom: "uacme".into(),
        ..base.devnet.clone()
    };
    let world = world(svc::network::NetworkConfig { devnet, ..base }).await;
    let receipt = world.ok(CREATE, ecosystem("guild")).await;
    assert_eq!(receipt["indexer_synced"], true);
    let read = world.ok("svc.idx.es.getEcosystem", json!({"id": receipt["response"]["ecosystem_id"]})).await;
    assert_eq!(read["ecosystem"]["did"], "did:web:guild.example");
    let account = world.ok("svc.wallet.getAddress", json!({})).await;
    assert!(account["address"].as_str().is_some_and(|address| address.starts_with("acme1")));
    assert_eq!(account["chain_id"], "acme-9");
    let listed = world.ok("svc.wallet.listAuthorizations", json!({})).await;
    let types = listed["authorizations"][0]["msg_types"].as_array().expect("types").clone();
    assert!(types.contains(&json!("/acme.ec.v1.MsgCreateEcosystem")));
    assert!(!listed.to_string().contains("/svc."));
    assert!(world.tool_names().await.iter().all(|name| name.starts_with("svc.")), "tool names never change");
}

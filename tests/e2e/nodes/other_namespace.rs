//! The namespace is discovered, not configured: another namespace word, chain id and denom work.

use serde_json::json;
use svc_devnet::DevnetConfig;

use crate::e2e::harness::{CREATE_ECOSYSTEM, ecosystem_arguments, network_config, start_network};

#[tokio::test(flavor = "multi_thread")]
async fn another_namespace_chain_id_and_denom_work_without_configuration() {
    let base = network_config(100);
    let devnet = DevnetConfig {
        namespace: "acme".into(),
        chain_id: "acme-9".into(),
        denom: "uacme".into(),
        ..base.devnet.clone()
    };
    let world = start_network(svc::network::LocalNetworkConfig { devnet, ..base }).await;
    let receipt = world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments("guild")).await;
    assert_eq!(receipt["indexer_synced"], true);
    let read = world.call_ok("svc.idx.es.getEcosystem", json!({"id": receipt["response"]["ecosystem_id"]})).await;
    assert_eq!(read["ecosystem"]["did"], "did:web:guild.example");
    let account = world.call_ok("svc.wallet.getAddress", json!({})).await;
    assert!(account["address"].as_str().is_some_and(|address| address.starts_with("acme1")));
    assert_eq!(account["chain_id"], "acme-9");
    let listed = world.call_ok("svc.wallet.listAuthorizations", json!({})).await;
    let types = listed["authorizations"][0]["msg_types"].as_array().expect("types").clone();
    assert!(types.contains(&json!("/acme.ec.v1.MsgCreateEcosystem")));
    assert!(!listed.to_string().contains("/svc."));
    assert!(world.tool_names().await.iter().all(|name| name.starts_with("svc.")), "tool names never change");
}

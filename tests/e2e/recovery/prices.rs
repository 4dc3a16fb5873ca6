//! The denom of fees and the price of gas, as the node states them and as they are set.

use svc_operator::{BootSubject, OperatorConfig, preflight};
use svc_wire::account_key::AccountKey;

use super::{
    super::harness::{OPERATOR_MNEMONIC, start_quick_network},
    process_kill,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_denom_that_the_node_contradicts_is_refused_at_the_start_and_in_the_check() {
    let world = start_quick_network().await;
    let log = process_kill::refused_boot(&world, &[("SVC_DENOM", "nosuch".to_owned())]).await;
    for part in ["SVC_DENOM", "nosuch", "allowed: usvc"] {
        assert!(log.contains(part), "{part}: {log}");
    }
    let check = async |denom: Option<&str>| {
        let config = OperatorConfig {
            denom: denom.map(str::to_owned),
            ..OperatorConfig::new(1, world.network.devnet.node.origin(), world.network.indexer_origin())
        };
        let key = AccountKey::from_mnemonic(OPERATOR_MNEMONIC).expect("a key");
        let found = preflight(&config, &key).await;
        let found = found.into_iter().find(|one| one.subject == BootSubject::Denom).expect("a finding");
        (found.has_passed, found.is_warning, found.detail)
    };
    let (has_passed, _, reason) = check(Some("nosuch")).await;
    assert!(!has_passed && reason.contains("allowed: usvc"), "{reason}");
    for denom in [None, Some("usvc")] {
        assert_eq!(check(denom).await, (true, false, "fees are paid in usvc".to_owned()));
    }
}

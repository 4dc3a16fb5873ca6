//! The denom of fees and the price of gas, as the node states them and as they are set.

use serde_json::json;
use svc_operator::{BootSubject, OperatorConfig, preflight};
use svc_wire::account_key::AccountKey;

use super::{
    super::harness::{
        CREATE_ECOSYSTEM, OPERATOR_MNEMONIC, TestNetwork, call_tool, ecosystem_arguments, poll_until,
        start_quick_network,
    },
    process_kill,
};

/// The fee of a write, as its estimate has it.
async fn estimated_fee(world: &TestNetwork) -> u64 {
    let mut given = ecosystem_arguments("estimated");
    given["dry_run"] = true.into();
    let answer = world.call_ok(CREATE_ECOSYSTEM, given).await;
    answer["fee"]["amount"].as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{answer:#}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_price_that_is_not_set_follows_the_node() {
    let world = start_quick_network().await;
    let node = &world.network.devnet.node;
    let usual = estimated_fee(&world).await;
    // The gas of a message depends a little on the state.
    let is_about = |fee: u64, expected: u64| fee * 10 > expected * 9 && fee * 9 < expected * 10;
    node.update_faults(|faults| faults.gas_price_micros = Some(50_000));
    // The node refuses the first transaction for its fee.
    let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("dearer")).await;
    world.assert_included_once("dearer", &answer);
    assert_eq!(world.operator_txs_in_blocks(), 1);
    let doubled = estimated_fee(&world).await;
    assert!(is_about(doubled, 2 * usual), "{doubled} after {usual}");
    // A new connection asks again.
    node.update_faults(|faults| faults.gas_price_micros = None);
    node.cut_websockets();
    poll_until("the price falls", async || is_about(estimated_fee(&world).await, usual)).await;
    // The ceiling of a fee stays.
    node.update_faults(|faults| faults.gas_price_micros = Some(25_000_000));
    let error = world.call_error(CREATE_ECOSYSTEM, ecosystem_arguments("greedy"), "FEE_ABOVE_CEILING").await;
    assert!(error["details"]["tx_hash"].is_string(), "the refused transaction is named: {error:#}");
    assert_eq!(world.times_on_chain("greedy"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_the_fee_when_a_transaction_is_sent_again_has_the_price_asked() {
    let world = start_quick_network().await;
    let node = &world.network.devnet.node;
    let usual = estimated_fee(&world).await;
    node.update_faults(|faults| faults.hold_inclusion = true);
    let writing = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("lost"));
    let asked = async {
        world.await_mempool_size(1).await;
        // It is dropped once the price is higher, and not before.
        node.update_faults(|faults| (faults.gas_price_micros, faults.drop_on_recheck) = (Some(50_000), 1));
        poll_until("the price is known", async || estimated_fee(&world).await * 9 > usual * 17).await;
        // The transaction was signed for the lower price.
        node.update_faults(|faults| {
            (faults.gas_price_micros, faults.drop_on_recheck, faults.hold_inclusion) = (None, 0, false);
        });
    };
    let (answer, ()) = tokio::join!(writing, asked);
    assert!(world.times_on_chain("lost") <= 1, "{:#}", answer.content);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_price_that_is_set_is_named_beside_the_node_s() {
    let (world, files) = (start_quick_network().await, process_kill::new_files());
    let (served, client) = process_kill::start_with(&world, &files, &[("SVC_GAS_PRICE", "0.025")]).await;
    world.network.devnet.node.update_faults(|faults| faults.gas_price_micros = Some(250_000));
    let error = call_tool(&client, CREATE_ECOSYSTEM, ecosystem_arguments("cheap")).await.content;
    assert_eq!(error["code"], "INSUFFICIENT_FEES", "{error:#}");
    let message = error["message"].as_str().expect("a message");
    for part in ["the price of gas has to be 10.00 times as high", "below 0.25usvc per gas", "set to 0.025usvc"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(error["details"]["fee_required"].is_string(), "{error:#}");
    assert_eq!(error["retryable"], json!(false));
    process_kill::kill(served);
}

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

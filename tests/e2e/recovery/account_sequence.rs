//! Account sequences that another process, a node or a lost transaction has changed.

use serde_json::json;
use svc_devnet::node::{CheckTxRefusal, GarbleFault, GarbleKind};

use super::super::harness::{CREATE_ECOSYSTEM, ecosystem_arguments, start_quick_network};

#[tokio::test(flavor = "multi_thread")]
async fn a_sequence_that_another_process_has_used_is_skipped() {
    let world = start_quick_network().await;
    world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments("before")).await;
    let foreign = world.start_foreign_operator().await;
    world.write_as_foreign(&foreign, "foreign").await;
    let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("after")).await;
    world.assert_included_once("after", &answer);
    assert_eq!((world.times_on_chain("foreign"), world.operator_txs_in_blocks()), (1, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_lost_from_the_mempool_is_resent_without_a_new_call() {
    let world = start_quick_network().await;
    world.network.devnet.node.update_faults(|faults| faults.drop_after_check = 3);
    let names = ["lost-0", "lost-1", "lost-2"];
    let answers =
        futures::future::join_all(names.map(|name| world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments(name)))).await;
    for (name, answer) in names.iter().zip(&answers) {
        world.assert_included_once(name, answer);
    }
    assert_eq!(world.operator_txs_in_blocks(), 3);
    let states = world.transaction_states().await;
    assert_eq!(states.iter().filter(|state| *state == "included").count(), 3, "{states:?}");
    assert!(states.iter().all(|state| state == "included" || state == "refused"), "{states:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_transactions_after_a_lost_one_execute_after_it() {
    let world = start_quick_network().await;
    let node = &world.network.devnet.node;
    // The mempool has three transactions, and the block lacks the first: the others fail there with a wrong sequence.
    node.update_faults(|faults| (faults.hold_inclusion, faults.drop_after_check) = (true, 1));
    let names = ["first", "second", "third"];
    let release = async {
        world.await_mempool_size(2).await;
        node.update_faults(|faults| faults.hold_inclusion = false);
    };
    let (answers, ()) = tokio::join!(
        futures::future::join_all(names.map(|name| world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments(name)))),
        release
    );
    for (name, answer) in names.iter().zip(&answers) {
        world.assert_included_once(name, answer);
    }
    assert_eq!(world.operator_txs_in_blocks(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_with_a_taken_sequence_is_signed_again_once_it_cannot_execute() {
    let world = start_quick_network().await;
    let foreign = world.start_foreign_operator().await;
    world.network.devnet.node.update_faults(|faults| faults.drop_after_check = 1);
    let write = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("displaced"));
    let other = async {
        while world.network.devnet.node.update_faults(|faults| faults.drop_after_check) > 0 {
            tokio::task::yield_now().await;
        }
        world.write_as_foreign(&foreign, "quicker").await;
    };
    let (answer, ()) = tokio::join!(write, other);
    world.assert_included_once("displaced", &answer);
    assert_eq!(world.times_on_chain("quicker"), 1);
    let rows = world.transactions().await;
    if rows.len() == 2 {
        assert_eq!((&rows[1]["state"], &rows[0]["state"]), (&json!("displaced"), &json!("included")));
        assert_eq!(rows[0]["write_id"], rows[1]["write_id"], "one write, signed twice");
    } else {
        // The resend came before the transaction of the other process.
        assert_eq!(world.transaction_states().await, ["included"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_with_one_key_lose_no_write() {
    let world = start_quick_network().await;
    let foreign = world.start_foreign_operator().await;
    let ours = (0..12).map(|index| world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments(format!("ours-{index}"))));
    let theirs = async {
        for index in 0..6 {
            world.write_as_foreign(&foreign, &format!("theirs-{index}")).await;
        }
    };
    let (answers, ()) = tokio::join!(futures::future::join_all(ours), theirs);
    for (index, answer) in answers.iter().enumerate() {
        world.assert_included_once(&format!("ours-{index}"), answer);
    }
    for index in 0..6 {
        assert_eq!(world.times_on_chain(&format!("theirs-{index}")), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_doubt_sends_nothing_again_that_the_node_has() {
    let world = start_quick_network().await;
    let node = &world.network.devnet.node;
    node.update_faults(|faults| faults.hold_inclusion = true);
    let writes = (0..12).map(|index| world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments(format!("kept-{index}"))));
    let look = async {
        world.await_mempool_size(12).await;
        // It counts the broadcasts.
        node.update_faults(|faults| faults.refuse = Some(CheckTxRefusal::sdk(1_000, 19, "tx already in mempool")));
        node.cut_websockets();
        let is_connected =
            async || world.call_ok("svc.wallet.getStatus", json!({})).await["rpc_ws"]["connected"] == true;
        world.wait_until("the link is down", async || !is_connected().await).await;
        world.wait_until("the link is up", is_connected).await;
        world.await_blocks(7).await;
        let left = node.update_faults(|faults| faults.refuse.take().map(|refusal| refusal.times));
        node.update_faults(|faults| faults.hold_inclusion = false);
        left
    };
    let (answers, left) = tokio::join!(futures::future::join_all(writes), look);
    assert_eq!(left, Some(1_000), "the check state of the node has all of them");
    for (index, answer) in answers.iter().enumerate() {
        world.assert_included_once(&format!("kept-{index}"), answer);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_cannot_be_read_for_a_moment_refuses_no_waiting_write() {
    let world = start_quick_network().await;
    // The first question of the signer is for the account, and it simulates nothing before it has the answer.
    let method = "abci_query".to_owned();
    let garble = Some(GarbleFault { times: 3, method, how: GarbleKind::Cut });
    world.network.devnet.node.update_faults(|faults| faults.garble = garble);
    let writes = (0..8).map(|index| world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments(format!("waiting-{index}"))));
    let answers = futures::future::join_all(writes).await;
    for (index, answer) in answers.iter().enumerate() {
        world.assert_included_once(&format!("waiting-{index}"), answer);
    }
}

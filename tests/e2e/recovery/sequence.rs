//! Sequences that are not what they were.

use serde_json::json;

use super::super::harness::{CREATE, ecosystem, quick};

#[tokio::test(flavor = "multi_thread")]
async fn a_sequence_that_another_process_has_used_is_skipped() {
    let world = quick().await;
    world.ok(CREATE, ecosystem("before")).await;
    let foreign = world.foreign().await;
    world.foreign_write(&foreign, "foreign").await;
    let answer = world.call(CREATE, ecosystem("after")).await;
    world.assert_happened("after", &answer);
    assert_eq!((world.times_on_chain("foreign"), world.operator_txs_in_blocks()), (1, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_forgets_after_it_was_accepted_is_sent_again_without_being_asked() {
    let world = quick().await;
    world.network.devnet.node.faults(|faults| faults.drop_after_check = 3);
    let names = ["lost-0", "lost-1", "lost-2"];
    let answers = futures::future::join_all(names.map(|name| world.call(CREATE, ecosystem(name)))).await;
    for (name, answer) in names.iter().zip(&answers) {
        world.assert_happened(name, answer);
    }
    assert_eq!(world.operator_txs_in_blocks(), 3);
    let states = world.states().await;
    assert_eq!(states.iter().filter(|state| *state == "included").count(), 3, "{states:?}");
    assert!(states.iter().all(|state| state == "included" || state == "refused"), "{states:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn those_behind_one_that_was_lost_have_their_turn_after_it() {
    let world = quick().await;
    let node = &world.network.devnet.node;
    // Three in one mempool, and the first of them is not in the block: the others stand there before their time.
    node.faults(|faults| (faults.hold_inclusion, faults.drop_after_check) = (true, 1));
    let names = ["first", "second", "third"];
    let release = async {
        world.until_waiting(2).await;
        node.faults(|faults| faults.hold_inclusion = false);
    };
    let (answers, ()) =
        tokio::join!(futures::future::join_all(names.map(|name| world.call(CREATE, ecosystem(name)))), release);
    for (name, answer) in names.iter().zip(&answers) {
        world.assert_happened(name, answer);
    }
    assert_eq!(world.operator_txs_in_blocks(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_whose_sequence_was_taken_is_signed_anew_once_it_can_never_execute() {
    let world = quick().await;
    let foreign = world.foreign().await;
    world.network.devnet.node.faults(|faults| faults.drop_after_check = 1);
    let write = world.call(CREATE, ecosystem("displaced"));
    let other = async {
        while world.network.devnet.node.faults(|faults| faults.drop_after_check) > 0 {
            tokio::task::yield_now().await;
        }
        world.foreign_write(&foreign, "quicker").await;
    };
    let (answer, ()) = tokio::join!(write, other);
    world.assert_happened("displaced", &answer);
    assert_eq!(world.times_on_chain("quicker"), 1);
    let rows = world.transactions().await;
    if rows.len() == 2 {
        assert_eq!((&rows[1]["state"], &rows[0]["state"]), (&json!("displaced"), &json!("included")));
        assert_eq!(rows[0]["write_id"], rows[1]["write_id"], "one write, signed twice");
    } else {
        // Ours was sent again before the other came.
        assert_eq!(world.states().await, ["included"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_with_one_key_get_in_each_other_s_way_and_lose_nothing() {
    let world = quick().await;
    let foreign = world.foreign().await;
    let ours = (0..12).map(|index| world.call(CREATE, ecosystem(format!("ours-{index}"))));
    let theirs = async {
        for index in 0..6 {
            world.foreign_write(&foreign, &format!("theirs-{index}")).await;
        }
    };
    let (answers, ()) = tokio::join!(futures::future::join_all(ours), theirs);
    for (index, answer) in answers.iter().enumerate() {
        world.assert_happened(&format!("ours-{index}"), answer);
    }
    for index in 0..6 {
        assert_eq!(world.times_on_chain(&format!("theirs-{index}")), 1);
    }
}

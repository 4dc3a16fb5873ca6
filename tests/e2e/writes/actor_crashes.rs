//! An actor is killed while a write is in flight: exactly one ecosystem is created, and the answer is correct.

use std::time::Duration;

use svc_kit::actor::ActorStatus;

use crate::e2e::harness::{
    CREATE_ECOSYSTEM, CallResult, TestNetwork, call_tool, ecosystem_arguments, pause, start_quick_network,
};

const ACTORS: [&str; 6] = ["signer", "confirmer", "node_link", "barrier", "refresher", "subscription/1"];

/// Starts a write, kills `actor` once `when` resolves, and then runs `after`.
async fn write_across_crash(
    world: &TestNetwork,
    actor: &str,
    name: &str,
    when: impl AsyncFn(&TestNetwork) -> bool,
    after: impl AsyncFn(&TestNetwork),
) -> CallResult {
    let write = call_tool(&world.client, CREATE_ECOSYSTEM, ecosystem_arguments(name));
    let kill = async {
        while !when(world).await {
            tokio::task::yield_now().await;
        }
        assert!(world.network.operator.supervisor().kill(actor).await, "{actor} is there to be killed");
        after(world).await;
    };
    let (answer, ()) = tokio::join!(write, kill);
    answer
}

async fn assert_included_once(world: &TestNetwork, actor: &str, name: &str, answer: &CallResult) {
    let did = format!("did:web:{name}.example");
    assert!(!answer.is_error, "{actor}: {:#}", answer.content);
    assert_eq!(answer.content["indexer_synced"], true, "{actor}");
    assert_eq!(world.ecosystems_on_chain().iter().filter(|known| **known == did).count(), 1, "{actor}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_survives_a_kill_of_any_actor_while_it_waits_for_a_block() {
    let world = start_quick_network().await;
    for (index, actor) in ACTORS.into_iter().enumerate() {
        let name = format!("waiting-{index}");
        // The transaction is in the mempool until two blocks after the kill.
        world.network.devnet.node.update_faults(|faults| faults.hold_inclusion = true);
        let in_mempool =
            async |world: &TestNetwork| world.network.devnet.node.read_core(|core| core.mempool_txs().len() == 1);
        let release = async |world: &TestNetwork| {
            let mut heights = world.network.devnet.node.watch_heights();
            for _ in 0..2 {
                heights.changed().await.expect("a block");
            }
            world.network.devnet.node.update_faults(|faults| faults.hold_inclusion = false);
        };
        let answer = write_across_crash(&world, actor, &name, in_mempool, release).await;
        assert_included_once(&world, actor, &name, &answer).await;
    }
    assert_eq!(world.ecosystems_on_chain().len(), ACTORS.len());
    assert_eq!(world.operator_txs_in_blocks(), ACTORS.len(), "nothing was sent twice under another sequence");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_survives_a_kill_of_any_actor_at_its_start() {
    let world = start_quick_network().await;
    for (index, actor) in ACTORS.into_iter().enumerate() {
        let name = format!("starting-{index}");
        let answer = write_across_crash(&world, actor, &name, async |_| true, async |_| ()).await;
        assert_included_once(&world, actor, &name, &answer).await;
    }
    assert_eq!(world.operator_txs_in_blocks(), ACTORS.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_survive_repeated_kills_of_the_signer() {
    let world = start_quick_network().await;
    let writes =
        (0..24).map(|index| call_tool(&world.client, CREATE_ECOSYSTEM, ecosystem_arguments(format!("load-{index}"))));
    let killer = async {
        for _ in 0..4 {
            let mut heights = world.network.devnet.node.watch_heights();
            world.network.operator.supervisor().kill("signer").await;
            heights.changed().await.expect("a block");
        }
    };
    let (answers, ()) = tokio::join!(futures::future::join_all(writes), killer);
    for answer in &answers {
        assert!(!answer.is_error, "{:#}", answer.content);
    }
    let mut dids = world.ecosystems_on_chain();
    dids.sort();
    dids.dedup();
    assert_eq!((dids.len(), world.ecosystems_on_chain().len()), (24, 24));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_actor_restarts_after_a_kill() {
    let world = start_quick_network().await;
    for actor in ACTORS {
        world.network.operator.supervisor().kill(actor).await;
    }
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        let report = world.network.operator.supervisor().report().await;
        let all = report.iter().flat_map(|one| std::iter::once(one).chain(&one.children));
        let is_up = all.clone().all(|one| one.status == ActorStatus::Up);
        if is_up && all.filter(|one| one.restarts == 1).count() == ACTORS.len() {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{report:#?}");
        pause().await;
    }
    assert_eq!(world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments("after")).await["indexer_synced"], true);
}

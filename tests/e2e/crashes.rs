//! An actor dies while a write is in flight: exactly one ecosystem, and a truthful answer.

use std::time::Duration;

use svc_kit::actor::Standing;

use super::harness::{Answer, CREATE, World, call, ecosystem, quick};

const ACTORS: [&str; 6] = ["signer", "confirmer", "node_link", "barrier", "refresher", "subscription/1"];

/// Starts a write, kills `actor` once the write is as far as `when` says, and then does `after`.
async fn crash(
    world: &World,
    actor: &str,
    name: &str,
    when: impl AsyncFn(&World) -> bool,
    after: impl AsyncFn(&World),
) -> Answer {
    let write = call(&world.client, CREATE, ecosystem(name));
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

async fn assert_one_truthful(world: &World, actor: &str, name: &str, answer: &Answer) {
    let did = format!("did:web:{name}.example");
    assert!(!answer.is_error, "{actor}: {:#}", answer.content);
    assert_eq!(answer.content["indexer_synced"], true, "{actor}");
    assert_eq!(world.ecosystems_on_chain().iter().filter(|known| **known == did).count(), 1, "{actor}");
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_any_actor_while_its_write_waits_for_a_block_changes_nothing() {
    let world = quick().await;
    for (index, actor) in ACTORS.into_iter().enumerate() {
        let name = format!("waiting-{index}");
        // In the mempool, and not in a block until two blocks after the kill.
        world.network.devnet.node.faults(|faults| faults.hold_inclusion = true);
        let in_mempool = async |world: &World| world.network.devnet.node.inspect(|core| core.waiting().len() == 1);
        let release = async |world: &World| {
            let mut heights = world.network.devnet.node.heights();
            for _ in 0..2 {
                heights.changed().await.expect("a block");
            }
            world.network.devnet.node.faults(|faults| faults.hold_inclusion = false);
        };
        let answer = crash(&world, actor, &name, in_mempool, release).await;
        assert_one_truthful(&world, actor, &name, &answer).await;
    }
    assert_eq!(world.ecosystems_on_chain().len(), ACTORS.len());
    assert_eq!(world.operator_txs_in_blocks(), ACTORS.len(), "nothing was sent twice under another sequence");
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_any_actor_at_the_very_start_of_a_write_changes_nothing() {
    let world = quick().await;
    for (index, actor) in ACTORS.into_iter().enumerate() {
        let name = format!("starting-{index}");
        let answer = crash(&world, actor, &name, async |_| true, async |_| ()).await;
        assert_one_truthful(&world, actor, &name, &answer).await;
    }
    assert_eq!(world.operator_txs_in_blocks(), ACTORS.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_signer_may_die_again_and_again_under_load() {
    let world = quick().await;
    let writes = (0..24).map(|index| call(&world.client, CREATE, ecosystem(format!("load-{index}"))));
    let killer = async {
        for _ in 0..4 {
            let mut heights = world.network.devnet.node.heights();
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
async fn every_actor_is_up_again_after_a_kill() {
    let world = quick().await;
    for actor in ACTORS {
        world.network.operator.supervisor().kill(actor).await;
    }
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        let report = world.network.operator.supervisor().report().await;
        let all = report.iter().flat_map(|one| std::iter::once(one).chain(&one.children));
        let is_up = all.clone().all(|one| one.standing == Standing::Up);
        if is_up && all.filter(|one| one.restarts == 1).count() == ACTORS.len() {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{report:#?}");
        tokio::task::yield_now().await;
    }
    assert_eq!(world.ok(CREATE, ecosystem("after")).await["indexer_synced"], true);
}

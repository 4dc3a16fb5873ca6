//! Blocks of one transaction leave the same rows in the store, and show the same while it is open, as blocks with a transaction each.

use proptest::{collection::vec, option, prelude::*};
use serde_json::{Value, json};

use super::RegistryCache;
use crate::{
    derive::stats::{StatsMetric, StatsScope},
    store::{BlockWrite, EntityActivity, EntityChange, EntityFilter, EntityKind, IndexStore, ScheduledChange},
};

/// Every row of the tables that blocks fill, as texts.
const ROWS: [&str; 7] = [
    "SELECT kind || ' ' || id || ' ' || from_height || ' ' || COALESCE(until_height, -1) || ' ' || COALESCE(corporation_id, -1) \
     || ' ' || COALESCE(parent_id, -1) || ' ' || COALESCE(name, '-') || ' ' || COALESCE(did, '-') || ' ' || body FROM entity",
    "SELECT kind || ' ' || attribute || ' ' || value || ' ' || id FROM entity_lookup",
    "SELECT due || ' ' || kind || ' ' || id FROM schedule",
    "SELECT id || ' ' || height || ' ' || time || ' ' || entity_type || ' ' || entity_key || ' ' || msg FROM activity",
    "SELECT scope || ' ' || scope_id || ' ' || height || ' ' || time || ' ' || body FROM measure",
    "SELECT id || ' ' || granularity || ' ' || opens || ' ' || scope || ' ' || scope_id || ' ' || from_height FROM bucket",
    "SELECT height || ' ' || time FROM block",
];

/// A change of an ecosystem or session by its id, or of an allowance by corporation and grantee.
fn changes() -> impl Strategy<Value = EntityChange> {
    let body = || {
        option::weighted(
            0.8,
            (0_u64..3).prop_map(|number| json!({"number": number, "text": "a\u{0}ü\"", "deep": {"z": [1], "a": -1}})),
        )
    };
    let kind = prop_oneof![Just(EntityKind::Ecosystem), Just(EntityKind::Session)];
    let by_id = (kind, 1_u64..4, option::of(1_u64..3), option::of("[ab]"), option::of("did:[ab]"), body()).prop_map(
        |(kind, id, corporation_id, name, did, body)| EntityChange {
            corporation_id,
            name,
            did,
            ..EntityChange::new(kind, Some(id), body)
        },
    );
    let by_name = (1_u64..3, "[abc]", body()).prop_map(|(corporation, grantee, body)| EntityChange {
        corporation_id: Some(corporation),
        name: Some(grantee),
        ..EntityChange::new(EntityKind::FeeGrant, None, body)
    });
    prop_oneof![by_id, by_name]
}

/// A block without its height; its time is 20 minutes after that of the block before.
fn blocks() -> impl Strategy<Value = BlockWrite> {
    let deltas = vec((0_u64..3, 1_i128..3), 0..3);
    (vec(changes(), 0..5), 0_usize..3, deltas, option::of(0_u64..5)).prop_map(|(changes, activity, deltas, due)| {
        let row = EntityActivity {
            entity_type: "Ecosystem",
            entity_key: "1".to_owned(),
            message: "A".to_owned(),
            account: None,
            changes: None,
        };
        let mut block = BlockWrite { changes, activity: vec![row; activity], ..BlockWrite::default() };
        for (id, change) in deltas {
            let scope = [StatsScope::Global, StatsScope::Schema(1), StatsScope::Corporation(2)][id as usize];
            block.deltas.add(scope, StatsMetric::Participants, change);
        }
        let schedule = due.map(|due| ScheduledChange { due: i128::from(due), kind: EntityKind::Participant, id: 1 });
        block.schedule.extend(schedule);
        block
    })
}

/// A question about the newest state.
#[derive(Debug, Clone)]
enum Question {
    Entity(EntityKind, u64),
    First(EntityKind, EntityFilter),
}

fn questions() -> impl Strategy<Value = Question> {
    let kind = || prop_oneof![Just(EntityKind::Ecosystem), Just(EntityKind::Session), Just(EntityKind::FeeGrant)];
    let filter = (option::of(1_u64..3), option::of("[abc]"), option::of("did:[ab]"))
        .prop_map(|(corporation_id, name, did)| EntityFilter { corporation_id, name, did, parent_id: None });
    prop_oneof![
        (kind(), 1_u64..5).prop_map(|(kind, id)| Question::Entity(kind, id)),
        (kind(), filter).prop_map(|(kind, filter)| Question::First(kind, filter)),
    ]
}

/// The answer of a store without anything that is known beforehand.
async fn ask(store: &IndexStore, question: &Question, height: u64) -> Option<(u64, Value)> {
    match question {
        Question::Entity(kind, id) => store.entity(*kind, *id, height).await.expect("reads").map(|body| (*id, body)),
        Question::First(kind, filter) => {
            let found = store.find_entity(*kind, filter, height).await.expect("reads");
            found.map(|found| (found.id, found.body))
        }
    }
}

async fn ask_cache(
    cache: &RegistryCache,
    store: &IndexStore,
    question: &Question,
    height: u64,
) -> Option<(u64, Value)> {
    match question.clone() {
        Question::Entity(kind, id) => {
            let body = cache.entity(store, (kind, id), height).await.expect("reads");
            body.map(|body| (id, (*body).clone()))
        }
        Question::First(kind, filter) => {
            let found = cache.find(store, kind, filter, height).await.expect("reads");
            found.map(|(id, body)| (id, (*body).clone()))
        }
    }
}

async fn compare(transactions: Vec<Vec<(BlockWrite, Vec<Question>)>>) {
    let alone = IndexStore::open("sqlite::memory:", "c").await.expect("opens");
    let together = IndexStore::open("sqlite::memory:", "c").await.expect("opens");
    let mut height = 0;
    for blocks in transactions {
        let mut batch = together.begin_blocks().await.expect("begins");
        let cache = RegistryCache::default();
        for (mut block, questions) in blocks {
            height += 1;
            (block.height, block.time) = (height, i128::from(height) * 1_200_000_000_000);
            alone.write_block(&block).await.expect("writes");
            batch.write(&block).await.expect("writes");
            cache.apply(&block.changes);
            for question in &questions {
                let expected = ask(&alone, question, height).await;
                let known = ask_cache(&cache, batch.store(), question, height + 1).await;
                assert_eq!(known, expected, "{question:?} after {height}");
                let known = ask(batch.store(), question, height + 1).await;
                assert_eq!(known, expected, "{question:?} in the transaction after {height}");
            }
        }
        batch.commit().await.expect("commits");
    }
    for statement in ROWS {
        let [alone, together] = [alone.texts(statement).await, together.texts(statement).await];
        assert_eq!(alone, together, "{statement}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn blocks_of_one_transaction_leave_and_show_the_same_as_blocks_with_one_each(
        transactions in vec(vec((blocks(), vec(questions(), 0..4)), 1..8), 1..5),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        runtime.block_on(compare(transactions));
    }
}

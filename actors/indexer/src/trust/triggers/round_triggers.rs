//! The triggers of the blocks of a round, read from the store.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use svc_wire::trust_stream::MeasureFlags;

use super::block_triggers::{BlockTriggers, RegistryChange, TrustTrigger};
use crate::{
    derive::stats::{StatsMetric, StatsScope},
    projection::changed_members,
    store::{EntityFilter, EntityKind, IdRange, IndexStore, IndexStoreError, TouchedEntity},
    trust::{evaluation::verdict_record::evidence_key, round::HeightRange},
};

/// The triggers of the blocks of a round.
#[derive(Debug, Default)]
pub struct RoundTriggers {
    /// Times of the heights, nanoseconds since the epoch.
    pub block_times: BTreeMap<u64, i128>,
    /// DIDs to evaluate, each with whether its evidence must be fetched again.
    pub dids: BTreeMap<String, bool>,
    /// Registry changes by height and DID.
    pub registry_changes: BTreeMap<u64, BTreeMap<String, RegistryChange>>,
}

impl RoundTriggers {
    /// Returns the time of a height, in nanoseconds since the epoch; 0 for a height outside the round.
    pub fn block_time(&self, height: u64) -> i128 {
        self.block_times.get(&height).copied().unwrap_or(0)
    }
}

/// Loads the triggers of the blocks of a round. Fails when the store fails or lacks one of the blocks.
pub async fn load_round_triggers(store: &IndexStore, heights: HeightRange) -> Result<RoundTriggers, IndexStoreError> {
    let mut round = RoundTriggers {
        block_times: store.list_block_times(heights.first, heights.last).await?,
        ..RoundTriggers::default()
    };
    if round.block_times.len() as u64 != heights.last + 1 - heights.first {
        return Err(IndexStoreError::CorruptRow(format!(
            "some of the blocks {} to {} are missing",
            heights.first, heights.last
        )));
    }
    let oldest = store.oldest_and_newest_block().await?.first().map(|(height, _)| *height);
    for height in store.list_changed_heights(heights.first, heights.last).await? {
        let triggered = load_block_triggers(store, height, oldest == Some(height)).await?;
        for (did, is_fresh) in triggered.dids {
            *round.dids.entry(did).or_default() |= is_fresh;
        }
        let keys: Vec<String> = triggered.evidence_requests.iter().map(evidence_key).collect();
        for did in store.list_dependents(&keys).await? {
            round.dids.entry(did).or_default();
        }
        round.registry_changes.insert(height, triggered.registry_changes);
    }
    Ok(round)
}

/// Kinds of entities that verdicts depend on.
const TRIGGERING: [EntityKind; 6] = [
    EntityKind::Corporation,
    EntityKind::Participant,
    EntityKind::Ecosystem,
    EntityKind::Schema,
    EntityKind::Digest,
    EntityKind::TrustDeposit,
];
/// Entities of the first state that are read at once: all of them may be more than the memory has.
const PAGE_SIZE: usize = 1_024;

async fn load_block_triggers(
    store: &IndexStore,
    height: u64,
    is_first: bool,
) -> Result<BlockTriggers, IndexStoreError> {
    let mut triggers = BlockTriggers::default();
    if is_first {
        for kind in TRIGGERING {
            add_first_state(store, kind, height, &mut triggers).await?;
        }
    } else {
        triggers.extend(entity_triggers(store, &store.list_touched_entities(height).await?, height).await?);
    }
    for id in store.list_refresh_requests(height).await? {
        let did = find_did(store, EntityKind::Participant, id, height).await?;
        triggers.extend(did.map(|did| TrustTrigger::RefreshRequest { did }));
    }
    for scope in store.list_changed_scopes(height).await? {
        triggers.extend(measures_trigger(store, scope, height).await?);
    }
    Ok(triggers)
}

/// Adds the triggers of all entities of a kind, each of which the first block of the store began.
async fn add_first_state(
    store: &IndexStore,
    kind: EntityKind,
    height: u64,
    triggers: &mut BlockTriggers,
) -> Result<(), IndexStoreError> {
    let mut range = IdRange::default();
    loop {
        let page = store.list_page(kind, height, &EntityFilter::default(), range, PAGE_SIZE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        range.min_id = Some(last.id + 1);
        let touched = page.into_iter().map(|stored| TouchedEntity { kind, body: stored.body, is_new: true });
        triggers.extend(entity_triggers(store, &touched.collect::<Vec<_>>(), height).await?);
    }
}

async fn entity_triggers(
    store: &IndexStore,
    touched: &[TouchedEntity],
    height: u64,
) -> Result<Vec<TrustTrigger>, IndexStoreError> {
    let mut triggers = Vec::new();
    let transitions = pair_versions(touched);
    for entity in touched {
        let is_structural =
            transitions.get(&deposit_key(entity)).is_none_or(|transition| !transition.is_deposit_alone());
        triggers.extend(entity_trigger(store, entity, is_structural, height).await?);
    }
    Ok(triggers)
}

async fn find_did(
    store: &IndexStore,
    kind: EntityKind,
    id: u64,
    height: u64,
) -> Result<Option<String>, IndexStoreError> {
    let found = store.entity(kind, id, height).await?;
    Ok(found.and_then(|body| body["did"].as_str().map(str::to_owned)))
}

/// The versions of an entity with a trust deposit, before a block and after it.
#[derive(Debug, Clone, Copy)]
struct DepositTransition<'a> {
    kind: EntityKind,
    before: Option<&'a Value>,
    after: Option<&'a Value>,
}

impl DepositTransition<'_> {
    /// Whether the block changed the deposit of the entity, and nothing else of it. A slash or its repayment is more than that.
    fn is_deposit_alone(&self) -> bool {
        let changed = match changed_members(self.before, self.after) {
            Some(Value::Object(changed)) => changed,
            _ => return false,
        };
        match self.kind {
            EntityKind::Participant => changed.keys().all(|member| matches!(member.as_str(), "deposit" | "modified")),
            // A corporation without an entry has a deposit of 0 and no slashes.
            _ => changed.iter().all(|(member, value)| match member.as_str() {
                "deposit" | "share" | "refunded" => true,
                _ => self.before.is_none() && (member == "corporation_id" || value.is_null() || *value == 0),
            }),
        }
    }
}

/// Returns the kind and the id of an entity with a trust deposit; `None` for another entity.
fn deposit_key(entity: &TouchedEntity) -> Option<(EntityKind, u64)> {
    let member = match entity.kind {
        EntityKind::Participant => "id",
        EntityKind::TrustDeposit => "corporation_id",
        _ => return None,
    };
    Some((entity.kind, entity.body[member].as_u64()?))
}

/// Returns the transitions of the touched entities with a trust deposit.
fn pair_versions(touched: &[TouchedEntity]) -> HashMap<Option<(EntityKind, u64)>, DepositTransition<'_>> {
    let mut transitions = HashMap::new();
    for entity in touched {
        let Some(key) = deposit_key(entity) else { continue };
        let transition =
            transitions.entry(Some(key)).or_insert(DepositTransition { kind: entity.kind, before: None, after: None });
        *(if entity.is_new { &mut transition.after } else { &mut transition.before }) = Some(&entity.body);
    }
    transitions
}

/// Returns the trigger for a version of an entity. `is_structural`: the block changed more of the entity than its deposit.
async fn entity_trigger(
    store: &IndexStore,
    entity: &TouchedEntity,
    is_structural: bool,
    height: u64,
) -> Result<Option<TrustTrigger>, IndexStoreError> {
    let TouchedEntity { kind, body, .. } = entity;
    let id = body["id"].as_u64().unwrap_or(0);
    let did = body["did"].as_str().unwrap_or_default().to_owned();
    Ok(match *kind {
        EntityKind::Corporation => Some(TrustTrigger::Corporation { did }),
        EntityKind::Participant => {
            let ecosystem = body["ecosystem_id"].as_u64().unwrap_or(0);
            let ecosystem_did = find_did(store, EntityKind::Ecosystem, ecosystem, height).await?;
            Some(TrustTrigger::Participant { did, ecosystem_did, is_structural })
        }
        EntityKind::Ecosystem => {
            let filter = EntityFilter { parent_id: Some(id), ..EntityFilter::default() };
            let schemas = store.list_all(EntityKind::Schema, height, &filter).await?;
            Some(TrustTrigger::Ecosystem { did, schemas: schemas.into_iter().map(|schema| schema.id).collect() })
        }
        EntityKind::Schema => {
            let ecosystem = body["ecosystem_id"].as_u64().unwrap_or(0);
            Some(TrustTrigger::Schema {
                id,
                ecosystem_did: find_did(store, EntityKind::Ecosystem, ecosystem, height).await?,
            })
        }
        EntityKind::Digest => body["digest"].as_str().map(|digest| TrustTrigger::Digest { digest: digest.to_owned() }),
        EntityKind::TrustDeposit => {
            let owner = body["corporation_id"].as_u64().unwrap_or(0);
            let corporation_did = find_did(store, EntityKind::Corporation, owner, height).await?;
            corporation_did.map(|corporation_did| TrustTrigger::TrustDeposit { corporation_did, is_structural })
        }
        _ => None,
    })
}

/// Returns the trigger for the measures of a scope that a block changed.
async fn measures_trigger(
    store: &IndexStore,
    scope: StatsScope,
    height: u64,
) -> Result<Option<TrustTrigger>, IndexStoreError> {
    let (kind, id) = match scope {
        StatsScope::Participant(id) => (EntityKind::Participant, id),
        StatsScope::Ecosystem(id) => (EntityKind::Ecosystem, id),
        StatsScope::Schema(id) => {
            let body = store.entity(EntityKind::Schema, id, height).await?.unwrap_or_default();
            (EntityKind::Ecosystem, body["ecosystem_id"].as_u64().unwrap_or(0))
        }
        StatsScope::Global | StatsScope::Corporation(_) => return Ok(None),
    };
    let Some(did) = find_did(store, kind, id, height).await? else { return Ok(None) };
    let (before, after) = (store.measures(scope, height - 1).await?, store.measures(scope, height).await?);
    let differs = |metric: &StatsMetric| before.get(*metric) != after.get(*metric);
    let measures = MeasureFlags {
        participants: StatsMetric::ALL.iter().filter(|metric| metric.name().starts_with("participants")).any(differs),
        issued_credentials: differs(&StatsMetric::Issued),
        verified_credentials: differs(&StatsMetric::Verified),
        weights: kind == EntityKind::Participant && differs(&StatsMetric::Weight),
        deposits: false,
    };
    Ok(match kind {
        _ if measures == MeasureFlags::default() => None,
        EntityKind::Participant => Some(TrustTrigger::ParticipantMeasures { did, measures }),
        _ => Some(TrustTrigger::EcosystemMeasures { did, measures }),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deposit_changes_alone_without_a_slash_a_repayment_or_another_member() {
        let deposit = |amount: u64, slashes: u64, repaid: u64| {
            json!({
                "corporation_id": 7, "share": amount, "_share": "1", "deposit": amount, "refunded": 0, "slash_count": slashes,
                "repaid_deposit": repaid, "last_slashed": null,
            })
        };
        let participant = |deposit: u64, until: Option<&str>| json!({"id": 7, "deposit": deposit, "modified": format!("{deposit}"), "effective_until": until});
        let entity = |kind, body: &Value, is_new| TouchedEntity { kind, body: body.clone(), is_new };
        let of = |kind, before: Option<&Value>, after: &Value| {
            let mut touched = vec![entity(kind, after, true)];
            touched.extend(before.map(|before| entity(kind, before, false)));
            let transitions = pair_versions(&touched);
            touched.iter().map(|entity| transitions[&deposit_key(entity)].is_deposit_alone()).collect::<Vec<_>>()
        };
        use EntityKind::{Participant, TrustDeposit};
        for (kind, before, after, is_alone) in [
            (TrustDeposit, Some(deposit(1, 0, 0)), deposit(2, 0, 0), true),
            (TrustDeposit, Some(deposit(2, 0, 0)), deposit(1, 1, 0), false),
            (TrustDeposit, Some(deposit(1, 1, 0)), deposit(2, 1, 1), false),
            (TrustDeposit, None, deposit(5, 0, 0), true),
            (TrustDeposit, None, deposit(5, 1, 0), false),
            (Participant, Some(participant(1, None)), participant(2, None), true),
            (Participant, Some(participant(1, None)), participant(2, Some("later")), false),
            (Participant, Some(participant(1, None)), participant(1, Some("later")), false),
            (Participant, None, participant(1, None), false),
        ] {
            let found = of(kind, before.as_ref(), &after);
            assert!(found.iter().all(|alone| *alone == is_alone), "{kind:?}: {before:?} to {after}");
        }
        assert_eq!(deposit_key(&entity(EntityKind::Ecosystem, &json!({"id": 1}), true)), None);
    }
}

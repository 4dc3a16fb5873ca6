//! The triggers of the blocks of a round, read from the store.

use std::collections::BTreeMap;

use serde_json::Value;
use svc_wire::trust_stream::CountFlags;

use super::block_triggers::{BlockTriggers, RegistryChange, TrustTrigger};
use crate::{
    derive::stats::{StatsMetric, StatsScope},
    store::{EntityFilter, EntityKind, IndexStore, IndexStoreError},
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
    for height in store.list_changed_heights(heights.first, heights.last).await? {
        let triggered = load_block_triggers(store, height).await?;
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

async fn load_block_triggers(store: &IndexStore, height: u64) -> Result<BlockTriggers, IndexStoreError> {
    let mut triggers = Vec::new();
    for touched in store.list_touched_entities(height).await? {
        triggers.extend(entity_trigger(store, touched.kind, &touched.body, height).await?);
    }
    for id in store.list_refresh_requests(height).await? {
        triggers.extend(
            find_did(store, EntityKind::Participant, id, height).await?.map(|did| TrustTrigger::RefreshRequest { did }),
        );
    }
    for scope in store.list_changed_scopes(height).await? {
        triggers.extend(measures_trigger(store, scope, height).await?);
    }
    Ok(BlockTriggers::from_triggers(triggers))
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

async fn entity_trigger(
    store: &IndexStore,
    kind: EntityKind,
    body: &Value,
    height: u64,
) -> Result<Option<TrustTrigger>, IndexStoreError> {
    let id = body["id"].as_u64().unwrap_or(0);
    let did = body["did"].as_str().unwrap_or_default().to_owned();
    Ok(match kind {
        EntityKind::Corporation => Some(TrustTrigger::Corporation { did }),
        EntityKind::Participant => {
            let ecosystem = body["ecosystem_id"].as_u64().unwrap_or(0);
            let ecosystem_did = find_did(store, EntityKind::Ecosystem, ecosystem, height).await?;
            Some(TrustTrigger::Participant { did, ecosystem_did })
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
            corporation_did.map(|corporation_did| TrustTrigger::TrustDeposit { corporation_did })
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
    let counts = CountFlags {
        participants: StatsMetric::ALL.iter().filter(|metric| metric.name().starts_with("participants")).any(differs),
        issued_credentials: differs(&StatsMetric::Issued),
        verified_credentials: differs(&StatsMetric::Verified),
    };
    Ok(match kind {
        _ if counts == CountFlags::default() => None,
        EntityKind::Participant => Some(TrustTrigger::ParticipantMeasures { did, counts }),
        _ => Some(TrustTrigger::EcosystemMeasures { did, counts }),
    })
}

//! What the blocks of a round did, read from the store.

use std::collections::BTreeMap;

use serde_json::Value;
use svc_wire::trust::Counts;

use super::{
    record::need_key,
    rounds::Heights,
    triggers::{RegistryChange, Touch, Triggered},
};
use crate::{
    derive::measures::{Metric, Scope},
    store::{Filter, Kind, Store, StoreError},
};

/// What the blocks of a round did.
#[derive(Debug, Default)]
pub struct Opening {
    /// Times of the heights, nanoseconds since the epoch.
    pub times: BTreeMap<u64, i128>,
    /// Whom to judge, and whether with new material.
    pub judge: BTreeMap<String, bool>,
    /// What each height changed in the registry.
    pub registry: BTreeMap<u64, BTreeMap<String, RegistryChange>>,
}

impl Opening {
    /// Time of a height, nanoseconds since the epoch.
    pub fn time(&self, height: u64) -> i128 {
        self.times.get(&height).copied().unwrap_or(0)
    }
}

/// What the blocks of some heights did.
pub async fn open(store: &Store, heights: Heights) -> Result<Opening, StoreError> {
    let mut opening = Opening { times: store.block_times(heights.first, heights.last).await?, ..Opening::default() };
    if opening.times.len() as u64 != heights.last + 1 - heights.first {
        return Err(StoreError::Corrupt(format!("blocks {} to {} are not all there", heights.first, heights.last)));
    }
    for height in store.eventful(heights.first, heights.last).await? {
        let triggered = triggered(store, height).await?;
        for (did, is_fresh) in triggered.judge {
            *opening.judge.entry(did).or_default() |= is_fresh;
        }
        let needs: Vec<String> = triggered.needs.iter().map(need_key).collect();
        for did in store.dependents(&needs).await? {
            opening.judge.entry(did).or_default();
        }
        opening.registry.insert(height, triggered.registry);
    }
    Ok(opening)
}

/// What a block triggers.
async fn triggered(store: &Store, height: u64) -> Result<Triggered, StoreError> {
    let mut touches = Vec::new();
    for touched in store.touched_at(height).await? {
        touches.extend(touch(store, touched.kind, &touched.body, height).await?);
    }
    for id in store.asked_at(height).await? {
        touches.extend(did_of(store, Kind::Participant, id, height).await?.map(|did| Touch::Asked { did }));
    }
    for scope in store.measured_at(height).await? {
        touches.extend(figures(store, scope, height).await?);
    }
    Ok(Triggered::by(touches))
}

async fn did_of(store: &Store, kind: Kind, id: u64, height: u64) -> Result<Option<String>, StoreError> {
    let found = store.entity(kind, id, height).await?;
    Ok(found.and_then(|body| body["did"].as_str().map(str::to_owned)))
}

async fn touch(store: &Store, kind: Kind, body: &Value, height: u64) -> Result<Option<Touch>, StoreError> {
    let id = body["id"].as_u64().unwrap_or(0);
    let did = body["did"].as_str().unwrap_or_default().to_owned();
    Ok(match kind {
        Kind::Corporation => Some(Touch::Corporation { did }),
        Kind::Participant => Some(Touch::Participant { did }),
        Kind::Ecosystem => {
            let filter = Filter { parent_id: Some(id), ..Filter::default() };
            let schemas = store.all(Kind::Schema, height, &filter).await?;
            Some(Touch::Ecosystem { did, schemas: schemas.into_iter().map(|schema| schema.id).collect() })
        }
        Kind::Schema => {
            let ecosystem = body["ecosystem_id"].as_u64().unwrap_or(0);
            Some(Touch::Schema { id, ecosystem: did_of(store, Kind::Ecosystem, ecosystem, height).await? })
        }
        Kind::Digest => body["digest"].as_str().map(|digest| Touch::Digest { digest: digest.to_owned() }),
        Kind::TrustDeposit => {
            let owner = body["corporation_id"].as_u64().unwrap_or(0);
            let corporation = did_of(store, Kind::Corporation, owner, height).await?;
            corporation.map(|corporation| Touch::Deposit { corporation })
        }
        _ => None,
    })
}

/// Which figures of a scope a block changed.
async fn figures(store: &Store, scope: Scope, height: u64) -> Result<Option<Touch>, StoreError> {
    let (kind, id) = match scope {
        Scope::Participant(id) => (Kind::Participant, id),
        Scope::Ecosystem(id) => (Kind::Ecosystem, id),
        Scope::Schema(id) => {
            let body = store.entity(Kind::Schema, id, height).await?.unwrap_or_default();
            (Kind::Ecosystem, body["ecosystem_id"].as_u64().unwrap_or(0))
        }
        Scope::Global | Scope::Corporation(_) => return Ok(None),
    };
    let Some(did) = did_of(store, kind, id, height).await? else { return Ok(None) };
    let (before, after) = (store.measures(scope, height - 1).await?, store.measures(scope, height).await?);
    let differs = |metric: &Metric| before.get(*metric) != after.get(*metric);
    let counts = Counts {
        participants: Metric::ALL.iter().filter(|metric| metric.name().starts_with("participants")).any(differs),
        issued_credentials: differs(&Metric::Issued),
        verified_credentials: differs(&Metric::Verified),
    };
    Ok(match kind {
        _ if counts == Counts::default() => None,
        Kind::Participant => Some(Touch::ParticipantFigures { did, counts }),
        _ => Some(Touch::EcosystemFigures { did, counts }),
    })
}

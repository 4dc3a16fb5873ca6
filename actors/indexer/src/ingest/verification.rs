//! Comparison of the store with the node at one height: every entity of both.

use std::collections::BTreeSet;

use futures::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use serde_json::Value;
use svc_net::upstream::NodeClientError;

use super::{
    bootstrap::{list_entities, walk_authorizations},
    error::IngestError,
    node_reader::{EntityReading, NodeReader},
    session_search::search_sessions,
};
use crate::{
    block::{EntityRef, PARAMETER_MODULES},
    projection::authorizations,
    store::{EntityFilter, EntityKind, IndexStore, IndexStoreError, StoredEntity},
};

/// Entities that are compared at once.
const CONCURRENCY: usize = 8;
/// Differences that a report has in full.
const MAX_DIFFERENCES: usize = 100;

/// The result of a comparison.
#[derive(Debug, Clone, Serialize)]
pub struct Verification {
    /// Height of both states.
    pub height: u64,
    /// Entities that were compared.
    pub entities: usize,
    /// Comparisons that were not made, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_compared: Vec<String>,
    /// Number of differences.
    pub difference_count: usize,
    /// The first of them.
    pub differences: Vec<IndexDifference>,
}

/// A value that store and node have differently.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IndexDifference {
    /// Kind and key of the entity.
    pub entity: String,
    /// Member of the entity; absent for an entity that only one of them has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// Value in the store; null for an entity that it lacks.
    pub stored: Value,
    /// Value at the node; null for an entity that it lacks.
    pub node: Value,
}

/// Compares every entity of the store and of the node at a height. The node cannot list digests, so that a digest which the store
/// lacks stays unseen.
pub async fn compare_with_node(
    source: NodeReader<'_>,
    store: &IndexStore,
    height: u64,
) -> Result<Verification, IngestError> {
    let mut entities: BTreeSet<EntityRef> = list_entities(source, height).await?.into_iter().collect();
    entities.extend(PARAMETER_MODULES.map(EntityRef::Params));
    // By another way than the index has found them.
    entities.extend(walk_authorizations(source, height).await?);
    let mut not_compared = Vec::new();
    match search_sessions(source, height).await {
        Ok(sessions) => entities.extend(sessions),
        Err(error @ NodeClientError::Rpc { .. }) => {
            not_compared.push(format!("participant sessions that the list of the node hides: {error}"));
        }
        Err(error) => return Err(error.into()),
    }
    entities.extend(list_stored(store, height).await?);
    let count = entities.len();
    let comparisons = entities.into_iter().map(|entity| async move {
        let reading = source.read_entity(&entity, height).await?;
        compare_entity(store, &entity, reading, height).await
    });
    let all: Vec<Vec<IndexDifference>> = stream::iter(comparisons).buffered(CONCURRENCY).try_collect().await?;
    let mut differences: Vec<IndexDifference> = all.into_iter().flatten().collect();
    let difference_count = differences.len();
    differences.truncate(MAX_DIFFERENCES);
    Ok(Verification { height, entities: count, not_compared, difference_count, differences })
}

/// The reference to an entity with an id.
type EntityById = fn(u64) -> EntityRef;

/// The entities of the store that the node can be asked for.
async fn list_stored(store: &IndexStore, height: u64) -> Result<Vec<EntityRef>, IndexStoreError> {
    let all = EntityFilter::default();
    let mut found = Vec::new();
    let by_id: [(EntityKind, EntityById); 9] = [
        (EntityKind::Corporation, EntityRef::Corporation),
        (EntityKind::Ecosystem, EntityRef::Ecosystem),
        (EntityKind::Schema, EntityRef::Schema),
        (EntityKind::Participant, EntityRef::Participant),
        (EntityKind::TrustDeposit, EntityRef::TrustDeposit),
        (EntityKind::ExchangeRate, EntityRef::ExchangeRate),
        (EntityKind::OperatorAuthorization, EntityRef::OperatorAuthorization),
        (EntityKind::VsOperatorAuthorization, EntityRef::VsOperatorAuthorization),
        (EntityKind::Proposal, EntityRef::Proposal),
    ];
    for (kind, entity) in by_id {
        found.extend(store.list_all(kind, height, &all).await?.into_iter().map(|stored| entity(stored.id)));
    }
    let text = |stored: &StoredEntity, key: &str| stored.body[key].as_str().unwrap_or_default().to_owned();
    for stored in store.list_all(EntityKind::Session, height, &all).await? {
        found.push(EntityRef::Session(text(&stored, "id")));
    }
    for stored in store.list_all(EntityKind::Digest, height, &all).await? {
        found.push(EntityRef::Digest(text(&stored, "digest")));
    }
    for stored in store.list_all(EntityKind::Group, height, &all).await? {
        let policy = stored.body["policy"]["address"].as_str().unwrap_or_default().to_owned();
        found.push(EntityRef::Group { corporation_id: stored.id, policy });
    }
    for stored in store.list_all(EntityKind::FeeGrant, height, &all).await? {
        let corporation = stored.body["grantor_corporation_id"].as_u64().unwrap_or(0);
        let Some(corporation) = store.entity(EntityKind::Corporation, corporation, height).await? else { continue };
        let granter = corporation["policy_address"].as_str().unwrap_or_default().to_owned();
        found.push(EntityRef::FeeAllowance { granter, grantee: text(&stored, "grantee") });
    }
    Ok(found)
}

async fn compare_entity(
    store: &IndexStore,
    entity: &EntityRef,
    reading: EntityReading,
    height: u64,
) -> Result<Vec<IndexDifference>, IngestError> {
    let name = describe(entity);
    let (kind, stored, node) = match reading {
        EntityReading::Change(change) => {
            let stored = match change.id {
                Some(id) => store.entity(change.kind, id, height).await?,
                None => {
                    let filter = EntityFilter::identity(&change);
                    store.find_entity(change.kind, &filter, height).await?.map(|stored| stored.body)
                }
            };
            (change.kind, stored, change.body)
        }
        EntityReading::Allowance { granter, grantee, allowance } => {
            let by_policy = EntityFilter { name: Some(granter), ..EntityFilter::default() };
            let Some(corporation) = store.find_entity(EntityKind::Corporation, &by_policy, height).await? else {
                return Ok(Vec::new());
            };
            let filter = EntityFilter {
                corporation_id: Some(corporation.id),
                name: Some(grantee.clone()),
                ..EntityFilter::default()
            };
            let stored = store.find_entity(EntityKind::FeeGrant, &filter, height).await?;
            // The members of a grant follow from its history, which the node does not have.
            let presence = |is_there: bool| is_there.then(|| Value::from(true));
            // Allowances that are not limited to messages are none of the registry's.
            let granted =
                allowance.and_then(|one| authorizations::fee_grant(corporation.id, &grantee, &one, None, true));
            (EntityKind::FeeGrant, presence(stored.is_some()), presence(granted.is_some()))
        }
    };
    Ok(compare_bodies(kind, &name, stored, node))
}

fn compare_bodies(kind: EntityKind, entity: &str, stored: Option<Value>, node: Option<Value>) -> Vec<IndexDifference> {
    let (stored, node) = match (stored, node) {
        (None, None) => return Vec::new(),
        // The chain forgets proposals that have ended.
        (Some(_), None) if kind == EntityKind::Proposal => return Vec::new(),
        (Some(stored), Some(node)) => (stored, node),
        (stored, node) => {
            let difference = IndexDifference {
                entity: entity.to_owned(),
                member: None,
                stored: stored.unwrap_or_default(),
                node: node.unwrap_or_default(),
            };
            return vec![difference];
        }
    };
    let members = node.as_object().into_iter().flatten();
    let differs = |(key, value): &(&String, &Value)| match (kind, key.as_str()) {
        // The store has these from elsewhere.
        (_, "id") | (EntityKind::Participant, "ecosystem_id") | (EntityKind::Proposal, "corporation_id") => false,
        // The chain has only a flag.
        (EntityKind::Ecosystem, "archived") => stored["archived"].is_null() != value.is_null(),
        (_, key) => stored[key] != **value,
    };
    let difference = |(key, value): (&String, &Value)| IndexDifference {
        entity: entity.to_owned(),
        member: Some(key.clone()),
        stored: stored[key].clone(),
        node: value.clone(),
    };
    members.filter(differs).map(difference).collect()
}

fn describe(entity: &EntityRef) -> String {
    match entity {
        EntityRef::Corporation(id) => format!("Corporation {id}"),
        EntityRef::Ecosystem(id) => format!("Ecosystem {id}"),
        EntityRef::Schema(id) => format!("CredentialSchema {id}"),
        EntityRef::Participant(id) => format!("Participant {id}"),
        EntityRef::Session(id) => format!("ParticipantSession {id}"),
        EntityRef::TrustDeposit(id) => format!("TrustDeposit {id}"),
        EntityRef::Digest(digest) => format!("DigitalIdentityDigest {digest}"),
        EntityRef::ExchangeRate(id) => format!("ExchangeRate {id}"),
        EntityRef::OperatorAuthorization(id) => format!("OperatorAuthorization {id}"),
        EntityRef::VsOperatorAuthorization(id) => format!("VSOperatorAuthorization {id}"),
        EntityRef::FeeAllowance { granter, grantee } => format!("FeeGrant of {granter} to {grantee}"),
        EntityRef::Group { corporation_id, .. } => format!("CorporationGroup {corporation_id}"),
        EntityRef::Proposal(id) => format!("GroupProposal {id}"),
        EntityRef::Params(module) => format!("GlobalVariables {module}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_are_compared_as_far_as_the_node_has_them() {
        let compare = |kind, stored: Option<Value>, node: Option<Value>| {
            let found = compare_bodies(kind, "E", stored, node);
            found.into_iter().map(|one| one.member.unwrap_or_else(|| "all".to_owned())).collect::<Vec<_>>()
        };
        let kind = EntityKind::Participant;
        let stored = || Some(json!({"id": 1, "a": 1, "b": 2, "_modified": "x", "ecosystem_id": 7}));
        assert_eq!(compare(kind, stored(), Some(json!({"id": 9, "a": 1, "b": 2, "ecosystem_id": null}))), [""; 0]);
        assert_eq!(compare(kind, stored(), Some(json!({"a": 3, "c": 1}))), ["a", "c"]);
        assert_eq!(compare(kind, stored(), None), ["all"]);
        assert_eq!(compare(kind, None, Some(json!({}))), ["all"]);
        assert_eq!(compare(EntityKind::Proposal, stored(), None), [""; 0]);
        let archived = |value: Value| Some(json!({"archived": value}));
        assert_eq!(compare(EntityKind::Ecosystem, archived(json!("then")), archived(json!("now"))), [""; 0]);
        assert_eq!(compare(EntityKind::Ecosystem, archived(json!(null)), archived(json!("now"))), ["archived"]);
    }
}

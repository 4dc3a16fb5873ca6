//! Events for subscribers, with the DIDs and corporations that they concern, from the state after the block.

use std::sync::Arc;

use serde_json::Value;
use svc_wire::{
    event_stream::{EventPayload, IndexerEvent, IndexerEventTag},
    timestamp,
};

use super::registry_view::RegistryView;
use crate::{
    block::{EventSubject, RawEvent},
    store::{EntityKind, IndexStoreError},
};

/// The relations by which filters find an event.
#[derive(Debug, Default)]
struct EventRelations {
    did: Option<String>,
    related_dids: Vec<String>,
    corporation_id: Option<u64>,
    related_corporation_ids: Vec<u64>,
    ecosystem_id: Option<u64>,
    schema_id: Option<u64>,
    participant_id: Option<u64>,
}

impl EventRelations {
    /// Sets the main DID, which is a related DID too.
    fn set_main_did(&mut self, did: Option<String>) {
        self.did.clone_from(&did);
        self.add_did(did);
    }

    fn add_did(&mut self, did: Option<String>) {
        self.related_dids.extend(did.filter(|did| !self.related_dids.contains(did)));
    }

    fn add_corporation(&mut self, id: Option<u64>) {
        let is_new =
            |id: &u64| *id > 0 && self.corporation_id != Some(*id) && !self.related_corporation_ids.contains(id);
        let found = id.filter(is_new);
        self.related_corporation_ids.extend(found);
    }
}

fn did_of(body: &Option<Arc<Value>>) -> Option<String> {
    body.as_ref().and_then(|body| body["did"].as_str()).map(str::to_owned)
}

/// Builds an event as subscribers receive it. `time` is the time of the block, in nanoseconds since the epoch.
pub async fn build_event(
    view: &RegistryView<'_>,
    raw: &RawEvent,
    height: u64,
    time: i128,
) -> Result<IndexerEvent, IndexStoreError> {
    let relations = find_relations(view, raw).await?;
    let event_type = &raw.event_type;
    let entity_id = match event_type.subject {
        EventSubject::Group => relations.corporation_id.map(|id| id.to_string()),
        _ => raw.text(event_type.entity_id_key).map(str::to_owned),
    };
    let text = |id: Option<u64>| id.map(|id| id.to_string());
    Ok(IndexerEvent {
        type_tag: IndexerEventTag::IndexerEvent,
        event_type: event_type.name.to_string(),
        did: relations.did,
        block_height: height,
        tx_hash: raw.position.tx_hash.clone(),
        timestamp: timestamp::iso_seconds(&timestamp::from_unix_nanos(time)),
        payload: EventPayload {
            module: event_type.module.to_string(),
            action: event_type.action(),
            message_type: event_type.message_type.to_string(),
            tx_index: raw.position.tx_index,
            message_index: raw.position.message_index,
            sender: raw.position.sender.clone(),
            related_dids: relations.related_dids,
            entity_type: event_type.entity_type.map(str::to_owned),
            entity_id,
            ecosystem_id: text(relations.ecosystem_id),
            schema_id: text(relations.schema_id),
            participant_id: text(relations.participant_id),
            corporation_id: relations.corporation_id,
            related_corporation_ids: relations.related_corporation_ids,
            grantee: raw.text("grantee").map(str::to_owned),
            vs_operator: raw.text("vs_operator").map(str::to_owned),
            with_feegrant: raw.text("with_feegrant").and_then(|text| text.parse().ok()),
        },
    })
}

async fn find_relations(view: &RegistryView<'_>, raw: &RawEvent) -> Result<EventRelations, IndexStoreError> {
    let mut relations = EventRelations::default();
    match raw.event_type.subject {
        EventSubject::Corporation | EventSubject::TrustDeposit => {
            relations.corporation_id = raw.id("corporation_id");
            let did = corporation_did(view, relations.corporation_id).await?;
            relations.set_main_did(did);
        }
        EventSubject::Ecosystem => relate_ecosystem(view, &mut relations, raw.id("ecosystem_id"), true).await?,
        // The event of an ecosystem's framework has the corporation as its main DID and the ecosystem's DID as a
        // related one.
        EventSubject::Framework => {
            relations.corporation_id = find_corporation(view, raw.text("corporation")).await?;
            let did = corporation_did(view, relations.corporation_id).await?;
            relations.set_main_did(did);
            relate_ecosystem(view, &mut relations, raw.id("ecosystem_id"), false).await?;
        }
        EventSubject::Schema => {
            let id = raw.id("credential_schema_id").or_else(|| raw.id("schema_id"));
            relations.schema_id = id;
            let body = entity_after(view, EntityKind::Schema, id).await?;
            let owner = body.and_then(|body| body["ecosystem_id"].as_u64());
            relate_ecosystem(view, &mut relations, owner, true).await?;
        }
        EventSubject::Participant => {
            let id = raw.id(raw.event_type.entity_id_key);
            set_participant(view, &mut relations, id).await?;
        }
        EventSubject::Session => {
            let [verifier, issuer] = ["verifier_participant_id", "issuer_participant_id"].map(|key| raw.id(key));
            set_participant(view, &mut relations, verifier.or(issuer)).await?;
            if verifier.is_some() {
                relate_participant(view, &mut relations, issuer).await?;
            }
        }
        EventSubject::Digest => {
            relations.corporation_id = find_corporation(view, raw.text("corporation")).await?;
            let did = corporation_did(view, relations.corporation_id).await?;
            relations.set_main_did(did);
        }
        EventSubject::Delegation => {
            let corporation_id = raw.id("corporation_id");
            relations.corporation_id = corporation_id;
            if let Some(body) = entity_after(view, EntityKind::Participant, raw.id("participant_id")).await? {
                relations.participant_id = raw.id("participant_id");
                relations.set_main_did(body["did"].as_str().map(str::to_owned));
                let owner = entity_after(view, EntityKind::Ecosystem, body["ecosystem_id"].as_u64()).await?;
                relations.add_did(did_of(&owner));
                relations.add_did(corporation_did(view, corporation_id).await?);
            } else {
                let did = corporation_did(view, corporation_id).await?;
                relations.set_main_did(did);
            }
            for account in ["grantee", "vs_operator"] {
                let other = find_corporation(view, raw.text(account)).await?;
                relations.add_corporation(other);
            }
        }
        EventSubject::Proposal => {
            let body = entity_after(view, EntityKind::Proposal, raw.id("proposal_id")).await?;
            relations.corporation_id = body.and_then(|body| body["corporation_id"].as_u64()).filter(|id| *id > 0);
            let did = corporation_did(view, relations.corporation_id).await?;
            relations.set_main_did(did);
        }
        EventSubject::Group => {
            relations.corporation_id = match raw.id("group_id") {
                Some(id) => view.find_group(id).await?.map(|(corporation, _)| corporation),
                None => find_corporation(view, raw.text("address")).await?,
            };
            let did = corporation_did(view, relations.corporation_id).await?;
            relations.set_main_did(did);
        }
        EventSubject::ExchangeRate | EventSubject::Unknown => {}
    }
    Ok(relations)
}

async fn entity_after(
    view: &RegistryView<'_>,
    kind: EntityKind,
    id: Option<u64>,
) -> Result<Option<Arc<Value>>, IndexStoreError> {
    match id {
        Some(id) => view.entity_after(kind, id).await,
        None => Ok(None),
    }
}

async fn corporation_did(view: &RegistryView<'_>, corporation: Option<u64>) -> Result<Option<String>, IndexStoreError> {
    Ok(did_of(&entity_after(view, EntityKind::Corporation, corporation).await?))
}

async fn find_corporation(view: &RegistryView<'_>, address: Option<&str>) -> Result<Option<u64>, IndexStoreError> {
    match address {
        Some(address) => view.find_corporation(address).await,
        None => Ok(None),
    }
}

async fn relate_ecosystem(
    view: &RegistryView<'_>,
    relations: &mut EventRelations,
    id: Option<u64>,
    is_main: bool,
) -> Result<(), IndexStoreError> {
    let Some(body) = entity_after(view, EntityKind::Ecosystem, id).await? else { return Ok(()) };
    relations.ecosystem_id = id;
    let did = body["did"].as_str().map(str::to_owned);
    if is_main {
        relations.corporation_id = body["corporation_id"].as_u64();
        relations.set_main_did(did);
    } else {
        relations.add_did(did);
    }
    Ok(())
}

/// Sets the relations of a participant: its DID and corporation, those of its validator, and the DID of its ecosystem.
async fn set_participant(
    view: &RegistryView<'_>,
    relations: &mut EventRelations,
    id: Option<u64>,
) -> Result<(), IndexStoreError> {
    let Some(body) = entity_after(view, EntityKind::Participant, id).await? else { return Ok(()) };
    relations.participant_id = id;
    relations.schema_id = body["schema_id"].as_u64();
    relations.ecosystem_id = body["ecosystem_id"].as_u64();
    relations.corporation_id = body["corporation_id"].as_u64().filter(|id| *id > 0);
    relations.set_main_did(body["did"].as_str().map(str::to_owned));
    relate_participant(view, relations, id).await
}

async fn relate_participant(
    view: &RegistryView<'_>,
    relations: &mut EventRelations,
    id: Option<u64>,
) -> Result<(), IndexStoreError> {
    let Some(body) = entity_after(view, EntityKind::Participant, id).await? else { return Ok(()) };
    relations.add_did(body["did"].as_str().map(str::to_owned));
    relations.add_corporation(body["corporation_id"].as_u64());
    if let Some(validator) =
        entity_after(view, EntityKind::Participant, body["validator_participant_id"].as_u64()).await?
    {
        relations.add_did(validator["did"].as_str().map(str::to_owned));
        relations.add_corporation(validator["corporation_id"].as_u64());
    }
    let owner = entity_after(view, EntityKind::Ecosystem, body["ecosystem_id"].as_u64()).await?;
    relations.add_did(did_of(&owner));
    Ok(())
}

//! Shaping events: the DIDs and corporations each concerns, from the state after the block.

use serde_json::Value;
use svc_wire::{
    event::{Event, EventKind, Payload},
    instant,
};

use super::view::View;
use crate::{
    block::{RawEvent, Subject},
    store::{Kind, StoreError},
};

/// What an event is found by.
#[derive(Debug, Default)]
struct Relations {
    did: Option<String>,
    related_dids: Vec<String>,
    corporation_id: Option<u64>,
    related_corporation_ids: Vec<u64>,
    ecosystem_id: Option<u64>,
    schema_id: Option<u64>,
    participant_id: Option<u64>,
}

impl Relations {
    /// The main DID, which is related too.
    fn main(&mut self, did: Option<String>) {
        self.did.clone_from(&did);
        self.relate(did);
    }

    fn relate(&mut self, did: Option<String>) {
        self.related_dids.extend(did.filter(|did| !self.related_dids.contains(did)));
    }

    fn relate_corporation(&mut self, id: Option<u64>) {
        let is_new =
            |id: &u64| *id > 0 && self.corporation_id != Some(*id) && !self.related_corporation_ids.contains(id);
        let found = id.filter(is_new);
        self.related_corporation_ids.extend(found);
    }
}

fn did_of(body: &Option<std::sync::Arc<Value>>) -> Option<String> {
    body.as_ref().and_then(|body| body["did"].as_str()).map(str::to_owned)
}

/// An event as subscribers get it.
pub async fn shape(view: &View<'_>, raw: &RawEvent, height: u64, time: i128) -> Result<Event, StoreError> {
    let relations = relations(view, raw).await?;
    let spelling = &raw.spelling;
    let entity_id = match spelling.subject {
        Subject::Group => relations.corporation_id.map(|id| id.to_string()),
        _ => raw.text(spelling.entity_id).map(str::to_owned),
    };
    let text = |id: Option<u64>| id.map(|id| id.to_string());
    Ok(Event {
        kind: EventKind::IndexerEvent,
        event_type: spelling.event_type.to_string(),
        did: relations.did,
        block_height: height,
        tx_hash: raw.at.tx_hash.clone(),
        timestamp: instant::iso_seconds(&instant::from_nanos(time)),
        payload: Payload {
            module: spelling.module.to_string(),
            action: spelling.action(),
            message_type: spelling.message_type.to_string(),
            tx_index: raw.at.tx_index,
            message_index: raw.at.message_index,
            sender: raw.at.sender.clone(),
            related_dids: relations.related_dids,
            entity_type: spelling.entity_type.map(str::to_owned),
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

async fn relations(view: &View<'_>, raw: &RawEvent) -> Result<Relations, StoreError> {
    let mut relations = Relations::default();
    match raw.spelling.subject {
        Subject::Corporation | Subject::TrustDeposit => {
            relations.corporation_id = raw.number("corporation_id");
            let did = own_did(view, relations.corporation_id).await?;
            relations.main(did);
        }
        Subject::Ecosystem => ecosystem(view, &mut relations, raw.number("ecosystem_id"), true).await?,
        // Labelled with its corporation, also when it is an ecosystem's; the ecosystem's own DID finds it too.
        Subject::Framework => {
            relations.corporation_id = corporation_at(view, raw.text("corporation")).await?;
            let did = own_did(view, relations.corporation_id).await?;
            relations.main(did);
            ecosystem(view, &mut relations, raw.number("ecosystem_id"), false).await?;
        }
        Subject::Schema => {
            let id = raw.number("credential_schema_id").or_else(|| raw.number("schema_id"));
            relations.schema_id = id;
            let body = after(view, Kind::Schema, id).await?;
            let owner = body.and_then(|body| body["ecosystem_id"].as_u64());
            ecosystem(view, &mut relations, owner, true).await?;
        }
        Subject::Participant => {
            let id = raw.number(raw.spelling.entity_id);
            participant(view, &mut relations, id).await?;
        }
        Subject::Session => {
            let [verifier, issuer] = ["verifier_participant_id", "issuer_participant_id"].map(|key| raw.number(key));
            participant(view, &mut relations, verifier.or(issuer)).await?;
            if verifier.is_some() {
                relate_participant(view, &mut relations, issuer).await?;
            }
        }
        Subject::Digest => {
            relations.corporation_id = corporation_at(view, raw.text("corporation")).await?;
            let did = own_did(view, relations.corporation_id).await?;
            relations.main(did);
        }
        Subject::Delegation => {
            let corporation_id = raw.number("corporation_id");
            relations.corporation_id = corporation_id;
            if let Some(body) = after(view, Kind::Participant, raw.number("participant_id")).await? {
                relations.participant_id = raw.number("participant_id");
                relations.main(body["did"].as_str().map(str::to_owned));
                let owner = after(view, Kind::Ecosystem, body["ecosystem_id"].as_u64()).await?;
                relations.relate(did_of(&owner));
            } else {
                let did = own_did(view, corporation_id).await?;
                relations.main(did);
            }
            for account in ["grantee", "vs_operator"] {
                let other = corporation_at(view, raw.text(account)).await?;
                relations.relate_corporation(other);
            }
        }
        Subject::Proposal => {
            let body = after(view, Kind::Proposal, raw.number("proposal_id")).await?;
            relations.corporation_id = body.and_then(|body| body["corporation_id"].as_u64()).filter(|id| *id > 0);
            let did = own_did(view, relations.corporation_id).await?;
            relations.main(did);
        }
        Subject::Group => {
            relations.corporation_id = match raw.number("group_id") {
                Some(id) => view.group(id).await?.map(|(corporation, _)| corporation),
                None => corporation_at(view, raw.text("address")).await?,
            };
            let did = own_did(view, relations.corporation_id).await?;
            relations.main(did);
        }
        Subject::ExchangeRate | Subject::Unknown => {}
    }
    Ok(relations)
}

async fn after(view: &View<'_>, kind: Kind, id: Option<u64>) -> Result<Option<std::sync::Arc<Value>>, StoreError> {
    match id {
        Some(id) => view.after(kind, id).await,
        None => Ok(None),
    }
}

async fn own_did(view: &View<'_>, corporation: Option<u64>) -> Result<Option<String>, StoreError> {
    Ok(did_of(&after(view, Kind::Corporation, corporation).await?))
}

async fn corporation_at(view: &View<'_>, address: Option<&str>) -> Result<Option<u64>, StoreError> {
    match address {
        Some(address) => view.corporation_at(address).await,
        None => Ok(None),
    }
}

async fn ecosystem(
    view: &View<'_>,
    relations: &mut Relations,
    id: Option<u64>,
    is_main: bool,
) -> Result<(), StoreError> {
    let Some(body) = after(view, Kind::Ecosystem, id).await? else { return Ok(()) };
    relations.ecosystem_id = id;
    let did = body["did"].as_str().map(str::to_owned);
    if is_main {
        relations.corporation_id = body["corporation_id"].as_u64();
        relations.main(did);
    } else {
        relations.relate(did);
    }
    Ok(())
}

/// A participant: its own DID and corporation, those of its validator one hop up, and its ecosystem's DID.
async fn participant(view: &View<'_>, relations: &mut Relations, id: Option<u64>) -> Result<(), StoreError> {
    let Some(body) = after(view, Kind::Participant, id).await? else { return Ok(()) };
    relations.participant_id = id;
    relations.schema_id = body["schema_id"].as_u64();
    relations.ecosystem_id = body["ecosystem_id"].as_u64();
    relations.corporation_id = body["corporation_id"].as_u64().filter(|id| *id > 0);
    relations.main(body["did"].as_str().map(str::to_owned));
    relate_participant(view, relations, id).await
}

async fn relate_participant(view: &View<'_>, relations: &mut Relations, id: Option<u64>) -> Result<(), StoreError> {
    let Some(body) = after(view, Kind::Participant, id).await? else { return Ok(()) };
    relations.relate(body["did"].as_str().map(str::to_owned));
    relations.relate_corporation(body["corporation_id"].as_u64());
    if let Some(validator) = after(view, Kind::Participant, body["validator_participant_id"].as_u64()).await? {
        relations.relate(validator["did"].as_str().map(str::to_owned));
        relations.relate_corporation(validator["corporation_id"].as_u64());
    }
    let owner = after(view, Kind::Ecosystem, body["ecosystem_id"].as_u64()).await?;
    relations.relate(did_of(&owner));
    Ok(())
}

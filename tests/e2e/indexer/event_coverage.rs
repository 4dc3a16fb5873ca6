//! Events: each event of the chain is published once, to the subscribers that it concerns.

use std::collections::{BTreeMap, BTreeSet};

use futures::SinkExt;
use serde_json::{Value, json};
use svc::network::ChainAndIndexer;
use tokio_tungstenite::tungstenite::Message;

use super::{
    MARKETPLACE_SCENARIO, connect, event_key, next_message, onboarding_reader::OnboardingReader, produce_blocks,
    read_ok, start_chain_and_indexer,
};

/// The chain's events that subscribers receive, each with the attribute of its entity.
const EXPECTED_EVENTS: [(&str, &str, &str); 36] = [
    ("create_corporation", "CreateNewCorporation", "corporation_id"),
    ("update_corporation", "UpdateCorporation", "corporation_id"),
    ("create_ecosystem", "CreateNewEcosystem", "ecosystem_id"),
    ("update_ecosystem", "UpdateEcosystem", "ecosystem_id"),
    ("archive_ecosystem", "ArchiveEcosystem", "ecosystem_id"),
    ("increase_active_gf_version", "IncreaseActiveGFVersion", "gfv_id"),
    ("create_credential_schema", "CreateNewCredentialSchema", "credential_schema_id"),
    ("update_credential_schema", "UpdateCredentialSchema", "credential_schema_id"),
    ("archive_credential_schema", "ArchiveCredentialSchema", "credential_schema_id"),
    ("start_participant_op", "StartParticipantOP", "participant_id"),
    ("create_root_participant", "CreateRootParticipant", "root_participant_id"),
    ("create_participant", "SelfCreateParticipant", "participant_id"),
    ("renew_participant_op", "RenewParticipantOP", "participant_id"),
    ("set_participant_op_to_validated", "SetParticipantOPToValidated", "participant_id"),
    ("set_participant_effective_until", "SetParticipantEffectiveUntil", "participant_id"),
    ("revoke_participant", "RevokeParticipant", "participant_id"),
    ("slash_participant_trust_deposit", "SlashParticipantTrustDeposit", "participant_id"),
    ("repay_participant_slashed_trust_deposit", "RepayParticipantSlashedTrustDeposit", "participant_id"),
    ("cancel_participant_op_last_request", "CancelParticipantOPLastRequest", "participant_id"),
    ("trigger_resolver", "TriggerResolver", "participant_id"),
    ("create_update_csps", "CreateOrUpdateParticipantSession", "session_id"),
    ("adjust_trust_deposit", "AdjustTrustDeposit", "corporation_id"),
    ("slash_trust_deposit", "SlashTrustDeposit", "corporation_id"),
    ("burn_ecosystem_slashed_trust_deposit", "BurnEcosystemSlashedTrustDeposit", "corporation_id"),
    ("reclaim_trust_deposit_yield", "ReclaimTrustDepositYield", "corporation_id"),
    ("repay_slashed_trust_deposit", "RepaySlashedTrustDeposit", "corporation_id"),
    ("store_digest", "StoreDigest", "digest"),
    ("create_exchange_rate", "CreateExchangeRate", "id"),
    ("update_exchange_rate", "UpdateExchangeRate", "id"),
    ("grant_operator_authorization", "GrantOperatorAuthorization", "authz_id"),
    ("revoke_operator_authorization", "RevokeOperatorAuthorization", "authz_id"),
    ("grant_vs_operator_authorization", "GrantVSOperatorAuthorization", "vsoa_id"),
    ("grant_fee_allowance", "GrantFeeAllowance", "grantee"),
    ("cosmos.group.v1.EventSubmitProposal", "SubmitProposal", "proposal_id"),
    ("cosmos.group.v1.EventVote", "Vote", "proposal_id"),
    ("cosmos.group.v1.EventExec", "Exec", "proposal_id"),
];

/// Reads every event, in pages that end inside blocks.
async fn read_all_pages(origin: &str, query: &str, limit: usize) -> Vec<Value> {
    let mut found = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = read_ok(origin, &format!("/v4/indexer/events?limit={limit}{query}{cursor}")).await;
        let events = page["events"].as_array().expect("events");
        assert_eq!(page["count"].as_u64(), Some(events.len() as u64));
        found.extend(events.iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}

fn module_of(event: &Value) -> &str {
    event["payload"]["module"].as_str().expect("a module")
}

fn type_of(event: &Value) -> &str {
    event["event_type"].as_str().expect("a type")
}

/// Counts the chain's own events by height, event type and entity, each once for a message.
fn on_chain(grounds: &ChainAndIndexer) -> BTreeMap<(u64, String, String), usize> {
    let mut found = BTreeSet::new();
    grounds.devnet.node.read_core(|core| {
        for block in core.blocks() {
            let of_txs = block
                .tx_outcomes
                .iter()
                .enumerate()
                .flat_map(|(tx, outcome)| outcome.events.iter().map(move |event| (tx, event)));
            let own = block.events.iter().enumerate().map(|(place, event)| (1_000 + place, event));
            for (place, event) in of_txs.chain(own) {
                let Some((_, event_type, id)) = EXPECTED_EVENTS.iter().find(|(kind, ..)| *kind == event.kind) else {
                    continue;
                };
                let get = |key: &str| {
                    event
                        .attributes
                        .iter()
                        .find(|(name, _)| name == key)
                        .map(|(_, value)| value.trim_matches('"').to_owned())
                };
                let entity = get(id).unwrap_or_default();
                found.insert((block.height, event_type.to_string(), entity, place, get("msg_index")));
            }
        }
    });
    let mut counted = BTreeMap::new();
    for (height, event_type, entity, ..) in found {
        *counted.entry((height, event_type, entity)).or_default() += 1;
    }
    counted
}

/// Counts the events of registry messages by height, event type and entity: of those that a proposal has run, too. Nothing but such a message
/// emits one of them.
fn own_events_on_chain(grounds: &ChainAndIndexer) -> BTreeMap<(u64, String, String), usize> {
    let of_messages =
        ["create_corporation", "create_ecosystem", "create_credential_schema", "grant_operator_authorization"];
    let mut counted = BTreeMap::new();
    grounds.devnet.node.read_core(|core| {
        for block in core.blocks() {
            for event in block.tx_outcomes.iter().flat_map(|outcome| &outcome.events) {
                let is_own = event.kind.contains("participant") || of_messages.contains(&event.kind.as_str());
                let row = EXPECTED_EVENTS.iter().find(|(kind, ..)| is_own && *kind == event.kind);
                let Some((_, event_type, id)) = row else { continue };
                let entity = event.attributes.iter().find(|(name, _)| name == id);
                let entity = entity.map(|(_, value)| value.trim_matches('"').to_owned()).unwrap_or_default();
                *counted.entry((block.height, event_type.to_string(), entity)).or_default() += 1;
            }
        }
    });
    assert!(counted.keys().any(|(_, event_type, _)| event_type == "GrantOperatorAuthorization"), "{counted:?}");
    counted
}

#[tokio::test(flavor = "multi_thread")]
async fn the_events_are_those_of_the_chain() {
    let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let origin = grounds.indexer_origin();
    let all = read_all_pages(&origin, "", 2).await;
    let types: BTreeSet<&str> = EXPECTED_EVENTS.iter().map(|(_, event_type, _)| *event_type).collect();
    let mut heard = BTreeMap::new();
    for event in all.iter().filter(|event| types.contains(type_of(event))) {
        let height = event["block_height"].as_u64().expect("a height");
        let entity = event["payload"]["entity_id"].as_str().unwrap_or_default().to_owned();
        *heard.entry((height, type_of(event).to_owned(), entity)).or_default() += 1;
    }
    assert_eq!(heard, on_chain(&grounds));

    let keys: BTreeSet<String> = all.iter().map(event_key).collect();
    assert_eq!(keys.len(), all.len(), "no two events share the key that tells them apart");
    let order: Vec<_> = all
        .iter()
        .map(|event| {
            (
                event["block_height"].as_u64(),
                event["payload"]["tx_index"].as_u64(),
                event["payload"]["message_index"].as_u64(),
            )
        })
        .collect();
    assert!(order.is_sorted());
    assert_eq!(read_all_pages(&origin, "", 500).await, all, "whatever the size of a page");

    // The events of the messages in a proposal are in its transaction, each with an index of its own.
    let granted =
        all.iter().find(|event| type_of(event) == "GrantOperatorAuthorization").expect("granted by a proposal");
    let exec =
        all.iter().find(|event| type_of(event) == "Exec" && event["tx_hash"] == granted["tx_hash"]).expect("run");
    let index = |event: &Value| event["payload"]["message_index"].as_u64();
    assert!(index(exec) < index(granted), "{exec} {granted}");
    let of_transaction = || all.iter().filter(|event| event["tx_hash"] == granted["tx_hash"]);
    assert_eq!(of_transaction().filter(|event| index(event) == index(granted)).count(), 1, "{granted}");
    assert_eq!(exec["did"], granted["did"], "both under the corporation");
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_find_the_events_of_a_did_or_a_corporation() {
    let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let origin = grounds.indexer_origin();
    let value = |name: &str| grounds.devnet.saved_values[name].clone();
    let (issuer, grantor) = (value("issuer_id"), value("grantor_id"));
    let of = async |query: &str| read_all_pages(&origin, query, 100).await;
    let about = |events: &[Value], participant: &str, event_type: &str| {
        let is_it = |event: &&Value| event["payload"]["participant_id"] == *participant && type_of(event) == event_type;
        events.iter().filter(is_it).count()
    };
    let participant = value("diploma_issuer");
    // Its own corporation, the corporation and the DID of the validator, and the DID of the ecosystem.
    for query in [
        format!("&corporation_id={issuer}"),
        format!("&corporation_id={grantor}"),
        "&dids=did:web:grantor.devnet.example".to_owned(),
        "&dids=did:web:education.devnet.example".to_owned(),
    ] {
        assert_eq!(about(&of(&query).await, &participant, "RenewParticipantOP"), 1, "{query}");
    }
    let stranger = of(&format!("&corporation_id={}&dids=did:web:grantor.devnet.example", value("verifier_id"))).await;
    assert_eq!(about(&stranger, &participant, "RenewParticipantOP"), 0, "both must hold");

    // Proposals and votes belong to the corporation. The event of a session has the session and the acting participant.
    let own = of(&format!("&corporation_id={issuer}")).await;
    for event_type in ["SubmitProposal", "Vote", "Exec", "StoreDigest", "AdjustTrustDeposit"] {
        assert!(own.iter().any(|event| type_of(event) == event_type), "{event_type}");
    }
    let session = own.iter().find(|event| type_of(event) == "CreateOrUpdateParticipantSession").expect("a session");
    let payload = &session["payload"];
    assert_eq!(payload["entity_id"], "6ba7b810-9dad-41d1-80b4-00c04fd430c8");
    assert_eq!(payload["participant_id"], participant);

    // Rates have no corporation: only subscribers without a filter receive their events.
    let rates: Vec<Value> = of("").await.into_iter().filter(|event| event["payload"]["module"] == "xr").collect();
    assert!(rates.len() >= 5, "{rates:?}");
    assert!(rates.iter().all(|event| event["did"].is_null() && event["payload"].get("corporation_id").is_none()));
    assert!(rates.iter().all(|event| event["tx_hash"].as_str().is_some_and(|hash| hash.len() == 64)));
}

#[tokio::test(flavor = "multi_thread")]
async fn ready_and_subscribed_name_the_checkpoint_and_every_block_follows() {
    let grounds = start_chain_and_indexer("corporation").await;
    let origin = grounds.indexer_origin();
    let height = produce_blocks(&grounds, 1).await;
    let mut socket = connect(&origin).await;
    // A subscription that is sent before `ready` is applied after it.
    socket
        .send(Message::binary(&br#"{"action":"subscribe","dids":["did:web:nobody.example"]}"#[..]))
        .await
        .expect("sent");
    let ready = next_message(&mut socket).await.expect("open");
    let subscribed = next_message(&mut socket).await.expect("open");
    let stamp = read_ok(&origin, "/v4/indexer/changes").await;
    assert_eq!((&ready["type"], ready["block"].as_u64()), (&json!("ready"), Some(height + 1)));
    assert_eq!((&subscribed["type"], &subscribed["block"]), (&json!("subscribed"), &ready["block"]));
    assert_eq!(subscribed["blockTime"], ready["blockTime"]);
    assert_eq!(stamp["block_height"], height);
    // Each block is received before the next one is produced.
    for expected in height + 1..height + 6 {
        grounds.devnet.node.produce_block().expect("a block");
        let block = next_message(&mut socket).await.expect("open");
        assert_eq!((block["block"].as_u64(), &block["events"]), (Some(expected), &json!([])));
        assert_eq!(block["blockTime"].as_str().map(str::len), Some(24));
        assert_eq!(read_ok(&origin, "/v4/indexer/block-height").await["height"], expected, "what is told can be read");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn authorizations_of_participants_reach_the_corporation_and_proposals_keep_their_versions() {
    let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let origin = grounds.indexer_origin();
    let events = read_ok(&origin, "/v4/indexer/events?limit=500").await["events"].clone();
    let mut seen = 0;
    for event in events.as_array().expect("events") {
        let payload = &event["payload"];
        if payload["entity_type"] != "VSOperatorAuthorization" || payload["participant_id"].is_null() {
            continue;
        }
        seen += 1;
        let corporation = read_ok(&origin, &format!("/v4/corporation/get/{}", payload["corporation_id"])).await;
        let did = &corporation["corporation"]["did"];
        let related = payload["related_dids"].as_array().expect("DIDs");
        assert!(event["did"] == *did || related.contains(did), "{did} is not in {event}");
    }
    assert!(seen > 0, "no authorization of a participant");
    let proposals = read_ok(&origin, "/v4/group/proposals?corporation_id=1").await["proposals"].clone();
    for proposal in proposals.as_array().expect("proposals") {
        for member in ["group_version", "group_policy_version", "voting_period_end"] {
            assert!(!proposal[member].is_null(), "{member}: {proposal}");
        }
    }
    assert!(!proposals.as_array().expect("proposals").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_without_a_cursor_lose_no_message_whatever_their_limit() {
    let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let origin = grounds.indexer_origin();
    let all = read_all_pages(&origin, "", 500).await;
    // The own event of each registry message, by the chain's blocks.
    let of_chain = own_events_on_chain(&grounds);
    // By cursor every event is read; the first one of each message is its own, and none is a movement of a deposit or a fee allowance.
    let mut known = BTreeSet::new();
    let mut expected = all.clone();
    let registry = expected.iter().filter(|event| ["pp", "cs", "ec", "co"].contains(&module_of(event)));
    let of_registry: BTreeSet<_> = registry.map(OnboardingReader::message_of).collect();
    expected.retain(|event| known.insert(OnboardingReader::message_of(event)));
    for event in &expected {
        let has_own = of_registry.contains(&OnboardingReader::message_of(event));
        assert!(!has_own || ["pp", "cs", "ec", "co"].contains(&module_of(event)), "{event:#}");
    }
    assert!(expected.len() > 50, "{}", expected.len());
    for limit in (1..=20).chain([37, 99, 100, 250, 500]) {
        let found = OnboardingReader::new(&origin, "", limit).read().await;
        assert_eq!(found, expected, "pages of {limit}");
        let mut counted = BTreeMap::new();
        for event in &found {
            let height = event["block_height"].as_u64().expect("a height");
            let entity = event["payload"]["entity_id"].as_str().unwrap_or_default().to_owned();
            *counted.entry((height, type_of(event).to_owned(), entity)).or_default() += 1;
        }
        for (own, times) in &of_chain {
            assert!(counted.get(own) >= Some(times), "{own:?} in pages of {limit}");
        }
    }
}

//! TRQP over HTTP: authorizations and recognitions in the present, the past and the future.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use svc::network::ChainAndIndexer;

use super::{MARKETPLACE_SCENARIO, ReadResponse, config, post_at, read_ok, read_ok_at, start_chain_and_indexer};

const AUTHORIZATION: &str = "/v4/trqp/v2/authorization";
const RECOGNITION: &str = "/v4/trqp/v2/recognition";
/// Two issuances by the issuer.
const SESSION: &str = "6ba7b810-9dad-41d1-80b4-00c04fd430c8";

fn did(name: &str) -> String {
    format!("did:web:{name}.devnet.example")
}

/// A marketplace, and TRQP queries about it.
struct TrqpMarket {
    grounds: ChainAndIndexer,
    origin: String,
}

impl TrqpMarket {
    async fn open() -> Self {
        let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
        let origin = grounds.indexer_origin();
        Self { grounds, origin }
    }

    fn id(&self, name: &str) -> &str {
        &self.grounds.devnet.saved_values[name]
    }

    fn resource(&self, schema: &str) -> String {
        format!("vpr:svc:svc-devnet-1:cs:{}", self.id(schema))
    }

    fn question(&self, authority: &str, entity: &str, action: &str, schema: &str, context: &Value) -> Value {
        json!({
            "authority_id": did(authority), "entity_id": did(entity), "action": action,
            "resource": self.resource(schema), "context": context,
        })
    }

    /// Asks whether a corporation may act under a schema of the ecosystem `education`.
    async fn authorization_decision(
        &self,
        entity: &str,
        action: &str,
        schema: &str,
        context: &Value,
        at: Option<u64>,
    ) -> Value {
        let question = self.question("education", entity, action, schema, context);
        self.request_decision(AUTHORIZATION, question, at).await
    }

    async fn recognition_decision(&self, corporation: &str, ecosystem: &str, schema: &str, at: Option<u64>) -> Value {
        self.request_decision(RECOGNITION, self.question(corporation, ecosystem, "govern", schema, &Value::Null), at)
            .await
    }

    async fn request_decision(&self, path: &str, question: Value, at: Option<u64>) -> Value {
        let ReadResponse { status, body, .. } = post_at(&self.origin, path, &question, at).await;
        assert_eq!(status, 200, "{question}: {body}");
        for key in ["authority_id", "entity_id", "action", "resource"] {
            assert_eq!(body[key], question[key], "the question is repeated");
        }
        body
    }

    async fn newest(&self) -> u64 {
        read_ok(&self.origin, "/v4/indexer/block-height").await["height"].as_u64().expect("a height")
    }

    /// Returns the time of a block, as answers show it.
    async fn time(&self, height: u64) -> String {
        let snapshot = read_ok_at(&self.origin, "/v4/stats/snapshot", Some(height)).await;
        snapshot["timestamp"].as_str().expect("a time").to_owned()
    }

    async fn participant(&self, name: &str, at: Option<u64>) -> Value {
        let path = format!("/v4/participant/get/{}", self.id(name));
        read_ok_at(&self.origin, &path, at).await["participant"].clone()
    }

    /// Returns the height of a message in a history.
    async fn height_of(&self, history: &str, msg: &str) -> u64 {
        let rows = read_ok(&self.origin, &format!("{history}?limit=1024&sort=id")).await;
        let found = rows["activity"].as_array().expect("rows").iter().find(|row| row["msg"] == msg);
        found.and_then(|row| row["block_height"].as_u64()).unwrap_or_else(|| panic!("no {msg} in {rows}"))
    }
}

fn at(time: &str) -> Value {
    json!({"time": time})
}

#[tokio::test(flavor = "multi_thread")]
async fn an_active_participant_may_take_the_actions_of_its_role() {
    let market = TrqpMarket::open().await;
    // Corporation, action, schema, participant, state.
    for (entity, action, schema, participant, state) in [
        ("issuer", "issue", "diploma", "diploma_issuer", "ACTIVE"),
        ("checks", "verify", "diploma", "diploma_verifier", "ACTIVE"),
        ("grantor", "grant_issue", "diploma", "issuer_grantor", "ACTIVE"),
        ("grantor", "grant_verify", "diploma", "verifier_grantor", "ACTIVE"),
        ("registry", "govern", "diploma", "diploma_root", "ACTIVE"),
        ("issuer", "issue", "badge", "badge_issuer", "ACTIVE"),
        ("grantor", "verify", "badge", "expired_verifier", "EXPIRED"),
        ("grantor", "verify", "certificate", "revoked_verifier", "REVOKED"),
        ("grantor", "issue", "certificate", "slashed_issuer", "SLASHED"),
        ("checks", "issue", "certificate", "repaid_issuer", "REPAID"),
        ("issuer", "issue", "certificate", "waiting_issuer", "INACTIVE"),
        ("checks", "verify", "certificate", "terminated_verifier", "INACTIVE"),
    ] {
        let answer = market.authorization_decision(entity, action, schema, &Value::Null, None).await;
        let own = market.participant(participant, None).await;
        let since = if own["effective_from"].is_null() { &own["created"] } else { &own["effective_from"] };
        let extension =
            json!({"participant_state": state, "since": since, "deposit": format!("{}usvc", own["deposit"])});
        assert_eq!(answer["svc"], extension, "{participant}");
        assert_eq!(answer["authorized"], state == "ACTIVE", "{participant}: {answer}");
        let refusal = format!("participant {} is {state}", market.id(participant));
        assert_eq!(answer.get("message"), (state != "ACTIVE").then_some(&Value::from(refusal)), "{participant}");
        assert_eq!(answer["time_requested"], answer["time_evaluated"]);
        assert_eq!(answer["block_height"], market.newest().await);
    }
    // Without a participant there is no extension, and the message names the missing entity.
    let unknown_schema = market.resource("diploma") + "99";
    let ask = |change: &dyn Fn(&mut Value)| {
        let mut question = market.question("education", "issuer", "issue", "diploma", &json!({"locator": "any"}));
        change(&mut question);
        question
    };
    for (question, message) in [
        (ask(&|q| q["action"] = "verify".into()), "the entity has no participant with role VERIFIER"),
        (ask(&|q| q["entity_id"] = did("nobody").into()), "entity_id: is the DID of no corporation"),
        (ask(&|q| q["entity_id"] = "me".into()), "entity_id: is the DID of no corporation"),
        (ask(&|q| q["authority_id"] = did("journeys").into()), "authority_id: is not the DID of the ecosystem"),
        (ask(&|q| q["authority_id"] = did("nobody").into()), "authority_id: is not the DID of the ecosystem"),
        (ask(&|q| q["resource"] = unknown_schema.clone().into()), "resource: there is no credential schema"),
        (
            ask(&|q| q["resource"] = "vpr:svc:other-1:cs:1".into()),
            "resource: is of vpr:svc:other-1, and this registry is vpr:svc:svc-devnet-1",
        ),
        (ask(&|q| q["resource"] = "vpr:other:svc-devnet-1:cs:1".into()), "resource: is of vpr:other:svc-devnet-1"),
    ] {
        let answer = market.request_decision(AUTHORIZATION, question, None).await;
        assert_eq!((&answer["authorized"], answer.get("svc")), (&json!(false), None), "{answer}");
        assert!(answer["message"].as_str().expect("a message").starts_with(message), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_in_the_past_is_answered_from_history() {
    let market = TrqpMarket::open().await;
    let history = format!("/v4/participant/history/{}", market.id("revoked_verifier"));
    let validated = market.height_of(&history, "SetParticipantOPToValidated").await;
    let revoked = market.height_of(&history, "RevokeParticipant").await;
    // By height and by time: pending, active, and revoked from the block of the revocation on.
    for (height, state) in
        [(validated - 1, "INACTIVE"), (validated, "ACTIVE"), (revoked - 1, "ACTIVE"), (revoked, "REVOKED")]
    {
        let time = market.time(height).await;
        let by_height =
            market.authorization_decision("grantor", "verify", "certificate", &Value::Null, Some(height)).await;
        let by_time = market.authorization_decision("grantor", "verify", "certificate", &at(&time), None).await;
        for answer in [&by_height, &by_time] {
            assert_eq!(answer["authorized"], state == "ACTIVE", "{state} {answer}");
            assert_eq!(answer["svc"]["participant_state"], state, "{answer}");
            assert_eq!((&answer["time_requested"], &answer["time_evaluated"]), (&json!(time), &json!(time)));
        }
        assert_eq!((&by_height["svc"], &by_height["block_height"]), (&by_time["svc"], &json!(height)));
    }
    // The deposit is that of the instant too: the revocation returns it.
    let before = market
        .authorization_decision("grantor", "verify", "certificate", &at(&market.time(revoked - 1).await), None)
        .await;
    assert_ne!(before["svc"]["deposit"], "0usvc", "{before}");

    // An instant between two blocks is decided on the earlier block, at the instant itself. Time alone activates and
    // ends the verifier of the badge.
    let own = market.participant("expired_verifier", None).await;
    let [from, until] = ["effective_from", "effective_until"].map(|key| own[key].as_str().expect("a time").to_owned());
    for (time, state) in [(&from, "ACTIVE"), (&until, "EXPIRED")] {
        let answer = market.authorization_decision("grantor", "verify", "badge", &at(time), None).await;
        assert_eq!(answer["svc"]["participant_state"], state, "{answer}");
    }
    let just_before = |time: &str| {
        let nanos =
            svc_wire::timestamp::unix_nanos(&svc_wire::timestamp::parse_rfc3339(time).expect("a time")) - 1_000_000;
        svc_wire::timestamp::iso_millis(&svc_wire::timestamp::from_unix_nanos(nanos))
    };
    for (time, state) in [(just_before(&from), "FUTURE"), (just_before(&until), "ACTIVE")] {
        let answer = market.authorization_decision("grantor", "verify", "badge", &at(&time), None).await;
        assert_eq!(answer["svc"]["participant_state"], state, "{time}: {answer}");
        assert_eq!(answer["time_evaluated"], time);
    }
    // The same instant with another offset.
    let shifted = from.replace('Z', "+00:00");
    let answer = market.authorization_decision("grantor", "verify", "badge", &at(&shifted), None).await;
    assert_eq!((&answer["authorized"], &answer["time_requested"]), (&json!(true), &json!(from)));

    // A corporation is found by the DID that it had at the instant.
    let moved = format!("/v4/corporation/history/{}", market.id("verifier_id"));
    let moved = market.height_of(&moved, "UpdateCorporation").await;
    for (height, name, is_known) in [
        (moved - 1, "verifier", true),
        (moved - 1, "checks", false),
        (moved, "checks", true),
        (moved, "verifier", false),
    ] {
        let mut question = market.question(name, "nobody", "issue", "diploma", &at(&market.time(height).await));
        question["resource"] = "vpr:svc:svc-devnet-1:cs:1".into();
        let answer = market.request_decision(RECOGNITION, question, None).await;
        let unknown = if is_known {
            "out of v4 recognition scope (corporation → ecosystem only): entity_id is the DID of no ecosystem"
        } else {
            "out of v4 recognition scope (corporation → ecosystem only): authority_id is the DID of no corporation"
        };
        assert_eq!(answer["message"], unknown, "{name} at {height}");
    }

    // The store has no state before the first block.
    for time in ["1990-01-01T00:00:00.000Z", "0001-01-01T00:00:00.000Z"] {
        let answer = market.authorization_decision("issuer", "issue", "diploma", &at(time), None).await;
        let message = answer["message"].as_str().expect("a message");
        assert!(
            message.starts_with("context.time: nothing is known of that time, the first block here is of"),
            "{answer}"
        );
        assert_eq!((&answer["authorized"], answer.get("svc")), (&json!(false), None));
        assert_eq!(answer["time_evaluated"], time);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_future_time_is_answered_from_scheduled_changes() {
    let market = TrqpMarket::open().await;
    let newest = market.newest().await;
    let own = market.participant("badge_issuer", None).await;
    let [from, until] = ["effective_from", "effective_until"].map(|key| own[key].as_str().expect("a time").to_owned());
    for (time, state) in [(until.as_str(), "EXPIRED"), ("2199-12-31T23:59:59Z", "EXPIRED")] {
        let answer = market.authorization_decision("issuer", "issue", "badge", &at(time), None).await;
        assert_eq!((&answer["authorized"], &answer["svc"]["participant_state"]), (&json!(false), &json!(state)));
        let message = answer["message"].as_str().expect("a message");
        assert!(message.contains(&format!("context.time is after block {newest} (")), "{message}");
        assert!(message.starts_with("participant "), "why it is refused comes first: {message}");
    }
    // The participant is pending at the height of its creation, and active in its scheduled window.
    let history = format!("/v4/participant/history/{}", market.id("badge_issuer"));
    let created = market.height_of(&history, "SelfCreateParticipant").await;
    let now = market.authorization_decision("issuer", "issue", "badge", &Value::Null, Some(created)).await;
    assert_eq!((&now["authorized"], &now["svc"]["participant_state"]), (&json!(false), &json!("FUTURE")));
    assert_eq!(now["svc"]["since"], from);
    let then = market.authorization_decision("issuer", "issue", "badge", &at(&from), Some(created)).await;
    assert_eq!((&then["authorized"], &then["time_evaluated"]), (&json!(true), &json!(from)));
    assert!(then["message"].as_str().expect("a message").starts_with("context.time is after block"), "{then}");
    // An earlier block does not contain the changes of a later one.
    let history = format!("/v4/participant/history/{}", market.id("revoked_verifier"));
    let revoked = market.height_of(&history, "RevokeParticipant").await;
    let time = market.time(revoked).await;
    let early = market.authorization_decision("grantor", "verify", "certificate", &at(&time), Some(revoked - 1)).await;
    let late = market.authorization_decision("grantor", "verify", "certificate", &at(&time), Some(revoked)).await;
    assert_eq!((&early["authorized"], &late["authorized"]), (&json!(true), &json!(false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_answered_as_of_its_last_record() {
    let market = TrqpMarket::open().await;
    let path = format!("/v4/participant/participant-session/{SESSION}");
    let session = read_ok(&market.origin, &path).await["session"].clone();
    let history = format!("/v4/participant/participant-session-history/{SESSION}");
    let opened = market.height_of(&history, "CreateOrUpdateParticipantSession").await;
    let context = json!({"session_id": SESSION});
    let answer = market.authorization_decision("issuer", "issue", "diploma", &context, None).await;
    assert_eq!((&answer["authorized"], &answer["time_evaluated"]), (&json!(true), &session["modified"]));
    assert_eq!(answer["time_requested"], market.time(market.newest().await).await);
    // At the height of its first record the session ends with that record.
    assert_ne!(session["created"], session["modified"]);
    let first = market.authorization_decision("issuer", "issue", "diploma", &context, Some(opened)).await;
    assert_eq!((&first["authorized"], &first["time_evaluated"]), (&json!(true), &session["created"]));
    // The session takes precedence over the time.
    let both = json!({"session_id": SESSION, "time": "1990-01-01T00:00:00Z"});
    let answer = market.authorization_decision("issuer", "issue", "diploma", &both, None).await;
    assert_eq!((&answer["authorized"], &answer["time_evaluated"]), (&json!(true), &session["modified"]));
    assert_eq!(answer["time_requested"], "1990-01-01T00:00:00.000Z");
    // A participant that was revoked by then stays revoked. Recognition queries accept sessions too.
    let over = market.authorization_decision("grantor", "verify", "badge", &context, None).await;
    assert_eq!(over["svc"]["participant_state"], "EXPIRED");
    let question = market.question("registry", "education", "issue", "diploma", &context);
    let recognized = market.request_decision(RECOGNITION, question, None).await;
    assert_eq!((&recognized["recognized"], &recognized["time_evaluated"]), (&json!(true), &session["modified"]));
    // A session that does not exist, or not yet, is a denial.
    for (id, at) in [("00000000-0000-0000-0000-000000000000", None), (SESSION, Some(opened - 1))] {
        let answer = market.authorization_decision("issuer", "issue", "diploma", &json!({"session_id": id}), at).await;
        assert_eq!((&answer["authorized"], answer.get("svc")), (&json!(false), None));
        assert_eq!(answer["message"], format!("session not found: participant session {id} does not exist"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_corporation_is_recognized_for_its_live_ecosystem_and_its_schemas() {
    let market = TrqpMarket::open().await;
    let education = read_ok(&market.origin, &format!("/v4/ecosystem/get/{}", market.id("education"))).await;
    let extension = json!({"ecosystem_active_egf_version": 2, "controlling_since": education["ecosystem"]["created"]});
    for action in ["issue", "verify", "grant_issue", "grant_verify", "govern"] {
        let question = market.question("registry", "education", action, "badge", &Value::Null);
        let answer = market.request_decision(RECOGNITION, question, None).await;
        assert_eq!((&answer["recognized"], answer.get("message")), (&json!(true), None));
        assert_eq!(answer["svc"], extension);
    }
    for (corporation, ecosystem, message) in [
        (
            "nobody",
            "education",
            "out of v4 recognition scope (corporation → ecosystem only): authority_id is the DID of no corporation",
        ),
        (
            "registry",
            "nobody",
            "out of v4 recognition scope (corporation → ecosystem only): entity_id is the DID of no ecosystem",
        ),
        ("grantor", "education", "entity_id: the ecosystem is controlled by another corporation"),
        ("issuer", "journeys", "entity_id: the ecosystem is archived"),
        (
            "education",
            "registry",
            "out of v4 recognition scope (corporation → ecosystem only): authority_id is the DID of no corporation",
        ),
    ] {
        let answer = market.recognition_decision(corporation, ecosystem, "diploma", None).await;
        assert_eq!((&answer["recognized"], answer.get("svc")), (&json!(false), None), "{answer}");
        assert_eq!(answer["message"], message);
    }
    // The extension is present although the schema belongs to another ecosystem. An ecosystem was live until it was
    // archived.
    let archived =
        market.height_of(&format!("/v4/ecosystem/history/{}", market.id("travel")), "ArchiveEcosystem").await;
    let before = market.recognition_decision("issuer", "journeys", "diploma", Some(archived - 1)).await;
    assert_eq!(before["recognized"], false);
    assert_eq!(before["svc"]["ecosystem_active_egf_version"], 1, "{before}");
    // The version that was active at the instant.
    let activated = market
        .height_of(
            &format!("/v4/ecosystem/history/{}", market.id("education")),
            "IncreaseActiveGovernanceFrameworkVersion",
        )
        .await;
    for (height, version) in [(activated - 1, 1), (activated, 2)] {
        let answer = market.recognition_decision("registry", "education", "diploma", Some(height)).await;
        assert_eq!(answer["svc"]["ecosystem_active_egf_version"], version, "{answer}");
        assert!(answer["message"].as_str().expect("a message").contains("is not of that ecosystem"), "not yet there");
    }
    let other = json!({
        "authority_id": did("registry"), "entity_id": did("education"), "action": "issue", "resource": "vpr:svc:x:cs:1",
    });
    let answer = market.request_decision(RECOGNITION, other, None).await;
    assert_eq!((&answer["recognized"], answer.get("svc")), (&json!(false), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_profile_lists_the_protocol_and_the_extension_has_the_name_of_the_namespace() {
    let mut config = config(MARKETPLACE_SCENARIO, None);
    config.devnet.namespace = "acme".to_owned();
    config.devnet.chain_id = "acme-7".to_owned();
    config.devnet.denom = "ucent".to_owned();
    let grounds = ChainAndIndexer::launch(&config).await.expect("chain and indexer start");
    let origin = grounds.indexer_origin();
    let profile = read_ok(&origin, "/v4/trqp/v2/profile").await;
    assert_eq!((&profile["trqp_version"], &profile["extension"]["key"]), (&json!("2.0"), &json!("acme")));
    assert_eq!(profile["resource_grammar"]["here"], "vpr:acme:acme-7:cs:<schema id>");
    let keys: BTreeSet<&str> = profile.as_object().expect("an object").keys().map(String::as_str).collect();
    for key in ["name", "profile_version", "upstream_schemas", "identifiers", "context_extensions"] {
        assert!(keys.contains(key), "{key} in {keys:?}");
    }
    let resource = profile["resource_grammar"]["here"].as_str().expect("a text");
    let resource = resource.replace("<schema id>", &grounds.devnet.saved_values["diploma"]);
    // Each action of the profile is answered at the endpoint and with the members of the profile.
    let path = profile["endpoints"]["authorization"]["path"].as_str().expect("a path");
    for action in profile["actions"].as_array().expect("actions") {
        let question = json!({
            "authority_id": did("education"), "entity_id": did("registry"), "action": action["action"],
            "resource": resource,
        });
        let read = post_at(&origin, path, &question, None).await;
        assert_eq!((read.status, &read.body["authorized"]), (200, &json!(action["role"] == "ECOSYSTEM")));
        if let Some(extension) = read.body.get("acme") {
            let named = profile["extension"]["authorization"].as_array().expect("names");
            assert_eq!(extension.as_object().expect("an object").len(), named.len());
            assert!(named.iter().all(|name| extension.get(name.as_str().expect("a text")).is_some()));
            assert!(extension["deposit"].as_str().expect("a text").ends_with("ucent"), "{extension}");
        }
    }
}

//! An index that tells two agents of decisions which are in no block, of earlier heights, or of nothing, and a node that is behind the index:
//! a word of the index prompts a read at the node, and the read decides.

use std::sync::{Arc, Mutex, OnceLock};

use axum::{
    Router,
    body::to_bytes,
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use svc_net::websocket::server as websocket_server;
use tokio_tungstenite::tungstenite::Message;

use crate::e2e::{
    agent::{
        credentials::identity_process::ask_until_ok,
        processes::two_agents::{TwoAgents, ValidatorPlace},
    },
    fakes::forward_websocket,
};

/// Blocks with lies that each of the two agents hears.
const LIES: usize = 12;

/// The way in which an index tells of blocks.
#[derive(Clone, Default)]
enum Telling {
    #[default]
    Truth,
    /// Each block has decisions about a participant that were never made.
    Lies {
        participant: u64,
    },
    /// Behind each block comes one of an earlier height with such decisions, and one with decisions of a height that no chain has.
    OtherHeights {
        participant: u64,
    },
    Silence,
}

/// A proxy before an index.
#[derive(Clone, Default)]
pub(in crate::e2e::agent) struct LyingIndex {
    upstream: Arc<OnceLock<String>>,
    telling: Arc<Mutex<Telling>>,
    lies_told: Arc<Mutex<usize>>,
    vouched: Arc<Mutex<Option<Vouched>>>,
}

/// A DID that an index calls trusted.
#[derive(Clone)]
struct Vouched {
    did: String,
    /// Participant of its service credential.
    participant: u64,
    /// Schema of the credential of the party behind it, where there is one.
    operator_schema: Option<u64>,
}

impl LyingIndex {
    /// Starts before an index; the own origin.
    pub(in crate::e2e::agent) async fn start(&self, upstream: String) -> String {
        self.upstream.set(upstream).expect("started once");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let origin = format!("http://{}", listener.local_addr().expect("an address"));
        let router = Router::new().fallback(forward).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        origin
    }

    /// Calls a DID trusted by a participant of another one.
    pub(in crate::e2e::agent) fn vouch_for(&self, did: &str, participant: u64) {
        self.vouch(Vouched { did: did.to_owned(), participant, operator_schema: None });
    }

    /// Calls a DID trusted by a participant, and by a credential of the party behind it under a schema.
    pub(in crate::e2e::agent) fn vouch_for_operator(&self, did: &str, participant: u64, schema: u64) {
        self.vouch(Vouched { did: did.to_owned(), participant, operator_schema: Some(schema) });
    }

    fn vouch(&self, vouched: Vouched) {
        *self.vouched.lock().expect("not poisoned") = Some(vouched);
    }

    /// The verdict on a DID that it vouches for.
    fn false_verdict(&self, asked: &[u8]) -> Option<Value> {
        let Vouched { did, participant, operator_schema } = self.vouched.lock().expect("not poisoned").clone()?;
        let asked: Value = serde_json::from_slice(asked).ok()?;
        let service = json!({"ecsSchema": "ServiceCredential", "participantId": participant});
        let of_operator =
            |id| json!({"ecsSchema": "OrganizationCredential", "participantId": participant, "credentialSchemaId": id});
        let credentials: Vec<Value> = std::iter::once(service).chain(operator_schema.map(of_operator)).collect();
        (asked["did"] == did.as_str())
            .then(|| json!({"did": did, "trusted": true, "expiresAtTime": null, "ecsCredentials": credentials}))
    }

    fn tell(&self, telling: Telling) {
        *self.telling.lock().expect("not poisoned") = telling;
        *self.lies_told.lock().expect("not poisoned") = 0;
    }

    fn lies_told(&self) -> usize {
        *self.lies_told.lock().expect("not poisoned")
    }

    /// The messages that a subscriber hears in the place of a true one.
    fn retell(&self, message: Message) -> Vec<Message> {
        let telling = self.telling.lock().expect("not poisoned").clone();
        let Message::Text(text) = &message else { return vec![message] };
        let mut block: Value = serde_json::from_str(text).expect("JSON");
        match telling {
            Telling::Lies { participant } if block["events"].is_array() => {
                let height = block["block"].as_u64().expect("a height");
                let events = lies_about(participant, height, &block["blockTime"]);
                block["events"].as_array_mut().expect("a list").extend(events);
                *self.lies_told.lock().expect("not poisoned") += 1;
                vec![Message::text(block.to_string())]
            }
            Telling::OtherHeights { participant } if block["events"].is_array() => {
                let height = block["block"].as_u64().expect("a height");
                let at = |stated: u64, height: u64| {
                    let (time, events) = (&block["blockTime"], lies_about(participant, height, &block["blockTime"]));
                    let block = json!({"type": "block", "block": stated, "blockTime": time, "events": events});
                    Message::text(block.to_string())
                };
                *self.lies_told.lock().expect("not poisoned") += 1;
                vec![message, at(1, 1), at(height + 1, height + 1_000_000_000)]
            }
            Telling::Silence if block["events"].is_array() => Vec::new(),
            _ => vec![message],
        }
    }
}

/// The events of every end and of the validation that a participant has not had.
fn lies_about(participant: u64, height: u64, time: &Value) -> Vec<Value> {
    let lies = [
        ("SetParticipantOPToValidated", "set_participant_op_to_validated"),
        ("RevokeParticipant", "revoke_participant"),
        ("SlashParticipantTrustDeposit", "slash_participant_trust_deposit"),
        ("CancelParticipantOPLastRequest", "cancel_participant_op_last_request"),
    ];
    let event = |(place, (name, action)): (usize, (&str, &str))| {
        json!({
            "type": "indexer-event", "event_type": name, "did": null, "block_height": height,
            "tx_hash": format!("{height:062X}{place:02X}"), "timestamp": time,
            "payload": {
                "module": "pp", "action": action, "message_type": format!("Msg{name}"), "tx_index": 1_000 + place,
                "message_index": 0, "sender": "", "related_dids": [], "entity_type": "Participant",
                "entity_id": participant.to_string(),
            },
        })
    };
    lies.into_iter().enumerate().map(event).collect()
}

async fn forward(State(index): State<LyingIndex>, mut request: Request) -> Response {
    let upstream = index.upstream.get().expect("started").clone();
    let path = request.uri().path_and_query().map_or_else(String::new, ToString::to_string);
    if websocket_server::is_upgrade(request.headers()) {
        let url = format!("{}{path}", upstream.replacen("http", "ws", 1));
        return forward_websocket(&mut request, url, move |message| index.retell(message));
    }
    let is_silent = matches!(*index.telling.lock().expect("not poisoned"), Telling::Silence);
    if is_silent && path.starts_with("/v4/indexer/") {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.expect("a body");
    if path.starts_with("/v4/verifiable-trust/resolve")
        && let Some(verdict) = index.false_verdict(&body)
    {
        return axum::Json(verdict).into_response();
    }
    let onward = reqwest::Client::new().request(parts.method, format!("{upstream}{path}")).headers(parts.headers);
    match onward.body(body).send().await {
        Ok(response) => {
            let status = StatusCode::from_u16(response.status().as_u16()).expect("a status");
            let kind = response.headers().get("content-type").cloned();
            let bytes = response.bytes().await.expect("a body");
            let mut answer = (status, bytes).into_response();
            if let Some(kind) = kind {
                answer.headers_mut().insert("content-type", kind);
            }
            answer
        }
        Err(_) => StatusCode::BAD_GATEWAY.into_response(),
    }
}

impl TwoAgents {
    /// The states of a flow on both sides, and its round.
    async fn sides(&self, participant: u64) -> [(Value, Value); 2] {
        let sides = [self.flow(&self.applicant, participant).await, self.flow(&self.validator, participant).await];
        sides.map(|flow| (flow["flowState"].clone(), flow["round"].clone()))
    }

    /// Lets the index lie until both agents have heard enough, and checks that nothing has come of it.
    async fn hear_lies(&self, index: &LyingIndex, participant: u64) {
        let before = self.sides(participant).await;
        for telling in [Telling::Lies { participant }, Telling::OtherHeights { participant }] {
            // A message outside of the contract ends the connection, and the next one comes behind a pause.
            let wanted = if matches!(telling, Telling::Lies { .. }) { 2 * LIES } else { LIES / 2 };
            index.tell(telling);
            self.world.wait_until("the agents have heard lies", async || index.lies_told() >= wanted).await;
            assert_eq!(self.sides(participant).await, before);
        }
        index.tell(Telling::Truth);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_lies_or_is_silent_issues_completes_and_revokes_nothing() {
    let index = LyingIndex::default();
    let agents = TwoAgents::start(ValidatorPlace { index: Some(index.clone()), ..ValidatorPlace::default() }).await;
    let participant = agents.apply().await;
    let waits = |flow: &Value| flow["flowState"] == "VALIDATING";
    let flow = agents.await_flow(&agents.validator, participant, waits).await;
    agents.await_flow(&agents.applicant, participant, waits).await;
    let session = flow["participantSessionId"].as_str().expect("a session").to_owned();
    // With claims that fit a validation would be followed by an offer at once.
    let path = format!("/v2/vt/flows/{session}");
    let claims = json!({"claims": {"grade": "A"}});
    let edited = agents.validator.send("PUT", &format!("{path}/claims"), Some(&claims)).await;
    assert_eq!(edited.status, 200, "{}", edited.body);
    agents.hear_lies(&index, participant).await;
    assert_eq!(agents.world.records_of(&session).await, 0);

    // Without a word of the index the agents go on by their own transactions and messages alone.
    index.tell(Telling::Silence);
    ask_until_ok(&agents.world, &agents.validator, &format!("{path}/validate"), &json!({})).await;
    agents.await_completed(participant, 1).await;
    assert_eq!(agents.world.records_of(&session).await, 1);

    index.tell(Telling::Truth);
    agents.hear_lies(&index, participant).await;
    assert_eq!(agents.world.records_of(&session).await, 1, "nothing is paid again");
    // The truth behind the lies still counts.
    agents.world.call_ok("svc.ledger.pp.revokeParticipant", json!({"id": participant})).await;
    for agent in [&agents.applicant, &agents.validator] {
        agents.await_flow(agent, participant, |flow| flow["flowState"] == "CRED_REVOKED").await;
    }
    assert!(agents.validator.terminate().0 && agents.applicant.terminate().0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_followed_once_a_node_that_is_behind_has_its_block() {
    let agents = TwoAgents::start(ValidatorPlace { has_own_node: true, ..ValidatorPlace::default() }).await;
    let node = agents.node.clone().expect("the validator's own");
    let participant = agents.apply().await;
    let session = agents.validate(participant, "A").await;
    agents.await_completed(participant, 1).await;
    // The index tells of the renewal while the node still has the state before it. No other event follows.
    node.update_faults(|faults| faults.lag_blocks = 30);
    agents.world.call_ok("svc.ledger.pp.renewParticipantOp", json!({"id": participant})).await;
    let renewed = |flow: &Value| flow["flowState"] == "VALIDATING" && flow["round"] == 2;
    agents.await_flow(&agents.validator, participant, renewed).await;
    node.update_faults(|faults| faults.lag_blocks = 0);
    agents.validate(participant, "B").await;
    agents.await_completed(participant, 2).await;
    assert_eq!(agents.world.records_of(&session).await, 2);
    // No message of the applicant tells of this one.
    node.update_faults(|faults| faults.lag_blocks = 30);
    agents.world.call_ok("svc.ledger.pp.revokeParticipant", json!({"id": participant})).await;
    agents.await_flow(&agents.validator, participant, |flow| flow["flowState"] == "CRED_REVOKED").await;
    assert!(agents.validator.terminate().0 && agents.applicant.terminate().0);
}

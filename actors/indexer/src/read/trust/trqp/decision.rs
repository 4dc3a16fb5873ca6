//! The two decisions of TRQP, on the registry state at a block. Pure.

use serde_json::{Value, json};

use super::query::TrqpQuery;
use svc_wire::participant_state::ParticipantState;

use crate::read::answer_json::format_coin;

/// Member of an answer with the result of an authorization query.
pub const AUTHORIZED_KEY: &str = "authorized";
/// Member of an answer with the result of a recognition query.
pub const RECOGNIZED_KEY: &str = "recognized";

/// The decision on a query.
#[derive(Debug, PartialEq)]
pub struct TrqpDecision {
    pub is_granted: bool,
    /// Reason of a denial.
    pub message: Option<String>,
    /// Data that the registry adds to the protocol's answer.
    pub extension: Option<Value>,
}

impl TrqpDecision {
    /// Creates a denial with a reason.
    pub fn deny(message: impl Into<String>) -> Self {
        Self { is_granted: false, message: Some(message.into()), extension: None }
    }
}

/// The registry state for an authorization.
#[derive(Debug, Default)]
pub struct AuthorizationFacts {
    pub has_schema: bool,
    /// The ecosystem of the schema.
    pub ecosystem: Option<Value>,
    /// The corporation with the DID of the entity.
    pub corporation: Option<u64>,
    /// Its participants in the schema, of every role.
    pub participants: Vec<Value>,
}

/// Members of the extension of an authorization, which the profile lists.
pub const AUTHORIZATION_EXTENSION: [&str; 3] = ["participant_state", "since", "deposit"];

impl AuthorizationFacts {
    /// Grants the authorization if a participant of the corporation with the role of the action is ACTIVE. The
    /// extension is about an active participant, else about the newest.
    pub fn decide(&self, query: &TrqpQuery<'_>, at: i128, denom: &str) -> TrqpDecision {
        let schema = query.resource.schema_id;
        if !self.has_schema {
            return TrqpDecision::deny(format!("resource: there is no credential schema {schema}"));
        }
        let did = self.ecosystem.as_ref().and_then(|ecosystem| ecosystem["did"].as_str());
        if did != Some(query.authority) {
            return TrqpDecision::deny(format!(
                "authority_id: is not the DID of the ecosystem of credential schema {schema}"
            ));
        }
        if self.corporation.is_none() {
            return TrqpDecision::deny("entity_id: is the DID of no corporation");
        }
        let matching = self.participants.iter().filter(|body| body["role"] == query.role);
        let ranked = matching.map(|body| (ParticipantState::derive_at(body, at), body));
        let best = ranked.max_by_key(|(state, body)| (*state == ParticipantState::Active, body["id"].as_u64()));
        let Some((state, body)) = best else {
            let text = format!("the entity has no participant with role {} in credential schema {schema}", query.role);
            return TrqpDecision::deny(text);
        };
        let since = if body["effective_from"].is_null() { &body["created"] } else { &body["effective_from"] };
        let [state_key, since_key, deposit_key] = AUTHORIZATION_EXTENSION;
        let holds = state == ParticipantState::Active;
        let message = || format!("participant {} is {}", body["id"], state.as_str());
        TrqpDecision {
            is_granted: holds,
            message: (!holds).then(message),
            extension: Some(json!({
                state_key: state.as_str(), since_key: since,
                deposit_key: format_coin(body["deposit"].as_u64().unwrap_or(0), denom),
            })),
        }
    }
}

/// Beginning of the denial of a recognition between other parties; clients compare it.
const OUT_OF_SCOPE: &str = "out of v4 recognition scope (corporation → ecosystem only)";

/// The registry state for a recognition.
#[derive(Debug, Default)]
pub struct RecognitionFacts {
    /// The corporation with the DID of the authority.
    pub corporation: Option<u64>,
    /// Ecosystems with the DID of the entity; several may have the same DID.
    pub ecosystems: Vec<Value>,
    /// The ecosystem of the schema; `None` when the schema does not exist.
    pub schema_ecosystem: Option<u64>,
}

/// Members of the extension of a recognition, which the profile lists.
pub const RECOGNITION_EXTENSION: [&str; 2] = ["ecosystem_active_egf_version", "controlling_since"];

impl RecognitionFacts {
    /// Grants the recognition if the corporation controls an ecosystem that is not archived and has the schema. The
    /// owner of an ecosystem never changes, so the control began with its creation.
    pub fn decide(&self, query: &TrqpQuery<'_>) -> TrqpDecision {
        let Some(corporation) = self.corporation else {
            return TrqpDecision::deny(format!("{OUT_OF_SCOPE}: authority_id is the DID of no corporation"));
        };
        if self.ecosystems.is_empty() {
            return TrqpDecision::deny(format!("{OUT_OF_SCOPE}: entity_id is the DID of no ecosystem"));
        }
        let owned: Vec<&Value> = self.ecosystems.iter().filter(|body| body["corporation_id"] == corporation).collect();
        if owned.is_empty() {
            return TrqpDecision::deny("entity_id: the ecosystem is controlled by another corporation");
        }
        let has_schema = |body: &Value| self.schema_ecosystem.is_some_and(|owner| body["id"] == owner);
        let live = owned.iter().filter(|body| body["archived"].is_null());
        let Some(ecosystem) = live.max_by_key(|body| (has_schema(body), body["id"].as_u64())) else {
            return TrqpDecision::deny("entity_id: the ecosystem is archived");
        };
        let holds = has_schema(ecosystem);
        let message = || format!("resource: credential schema {} is not of that ecosystem", query.resource.schema_id);
        let [version_key, since_key] = RECOGNITION_EXTENSION;
        TrqpDecision {
            is_granted: holds,
            message: (!holds).then(message),
            extension: Some(json!({version_key: ecosystem["active_version"], since_key: ecosystem["created"]})),
        }
    }
}

#[cfg(test)]
mod tests {
    use svc_wire::indexer_reads::find_endpoint;

    use super::*;
    use crate::read::{ReadArguments, trust::trqp::query::ACTION_ROLES};

    const AT: i128 = 10_000_000_000;

    fn time(second: u32) -> String {
        format!("1970-01-01T00:00:{second:02}.000Z")
    }

    fn decide_query<R>(action: &str, decide: impl Fn(&TrqpQuery<'_>) -> R) -> R {
        let body =
            json!({"authority_id": "did:a", "entity_id": "did:e", "action": action, "resource": "vpr:svc:c:cs:3"});
        let endpoint = find_endpoint("trqp.authorize").expect("an endpoint");
        let params = ReadArguments::from_body(endpoint, body.to_string().as_bytes()).expect("parameters");
        decide(&TrqpQuery::parse(&params).expect("a query"))
    }

    fn participant(id: u64, role: &str, times: Value) -> Value {
        let mut body =
            json!({"id": id, "role": role, "created": time(1), "deposit": id * 100, "op_state": "VALIDATED"});
        for (key, value) in times.as_object().expect("times") {
            body[key] = value.clone();
        }
        body
    }

    #[test]
    fn an_authorization_is_an_active_participant_with_the_role() {
        let known = |participants: Vec<Value>| AuthorizationFacts {
            has_schema: true,
            ecosystem: Some(json!({"did": "did:a"})),
            corporation: Some(7),
            participants,
        };
        let decide =
            |facts: &AuthorizationFacts, action: &str| decide_query(action, |query| facts.decide(query, AT, "ucoin"));
        let extension = |state: &str, since: u32, deposit: &str| {
            Some(json!({"participant_state": state, "since": time(since), "deposit": deposit}))
        };
        // Every action finds its own role and no other.
        for (action, role) in ACTION_ROLES {
            for (_, other) in ACTION_ROLES {
                let verdict = decide(&known(vec![participant(5, other, json!({}))]), action);
                assert_eq!(verdict.is_granted, role == other, "{action} {other}");
                assert_eq!(verdict.extension, extension("ACTIVE", 1, "500ucoin").filter(|_| role == other));
            }
        }
        // Every state but ACTIVE refuses, and says which participant it is about.
        for (times, state, since) in [
            (json!({"slashed": time(5), "repaid": time(6)}), "REPAID", 1),
            (json!({"slashed": time(5)}), "SLASHED", 1),
            (json!({"revoked": time(10), "effective_from": time(2)}), "REVOKED", 2),
            (json!({"effective_from": time(2), "effective_until": time(10)}), "EXPIRED", 2),
            (json!({"effective_from": time(11)}), "FUTURE", 11),
            (json!({"op_state": "PENDING"}), "INACTIVE", 1),
        ] {
            let verdict = decide(&known(vec![participant(5, "ISSUER", times)]), "issue");
            assert_eq!(verdict.message, Some(format!("participant 5 is {state}")));
            assert_eq!((verdict.is_granted, verdict.extension), (false, extension(state, since, "500ucoin")));
        }
        // One active participant is enough, in any order; without one the newest decides the message.
        let (over, active) = (json!({"revoked": time(3)}), json!({"effective_from": time(4)}));
        for order in [[4, 5, 6], [5, 4, 6], [6, 5, 4]] {
            let row = |id: u64| participant(id, "ISSUER", if id == 5 { active.clone() } else { over.clone() });
            let verdict = decide(&known(order.map(row).to_vec()), "issue");
            assert_eq!((verdict.is_granted, verdict.message), (true, None));
            assert_eq!(verdict.extension, extension("ACTIVE", 4, "500ucoin"));
            let over = decide(&known(order.map(|id| participant(id, "ISSUER", over.clone())).to_vec()), "issue");
            assert_eq!(over.message.as_deref(), Some("participant 6 is REVOKED"));
        }
        // The reason names the missing entity.
        let elsewhere = Some(json!({"did": "did:other"}));
        for (facts, expected) in [
            (AuthorizationFacts::default(), "resource: there is no credential schema 3"),
            (
                AuthorizationFacts { ecosystem: elsewhere, ..known(vec![]) },
                "authority_id: is not the DID of the ecosystem of credential schema 3",
            ),
            (AuthorizationFacts { corporation: None, ..known(vec![]) }, "entity_id: is the DID of no corporation"),
            (known(vec![]), "the entity has no participant with role ISSUER in credential schema 3"),
        ] {
            assert_eq!(decide(&facts, "issue"), TrqpDecision::deny(expected));
        }
    }

    #[test]
    fn a_recognition_is_control_of_a_live_ecosystem_with_the_schema() {
        let row = |id: u64, corporation: u64, archived: Value| json!({"id": id, "corporation_id": corporation, "archived": archived, "active_version": id + 1, "created": time(2)});
        let (live, archived) = (row(1, 7, Value::Null), row(2, 7, time(3).into()));
        let known = |ecosystems: &[Value], owner: Option<u64>| RecognitionFacts {
            corporation: Some(7),
            ecosystems: ecosystems.to_vec(),
            schema_ecosystem: owner,
        };
        let extension =
            |version: u64| Some(json!({"ecosystem_active_egf_version": version, "controlling_since": time(2)}));
        let of_another = "resource: credential schema 3 is not of that ecosystem";
        for (facts, holds, message, shown) in [
            (known(std::slice::from_ref(&live), Some(1)), true, None, extension(2)),
            (known(std::slice::from_ref(&live), Some(9)), false, Some(of_another), extension(2)),
            (known(std::slice::from_ref(&live), None), false, Some(of_another), extension(2)),
            (
                known(std::slice::from_ref(&archived), Some(2)),
                false,
                Some("entity_id: the ecosystem is archived"),
                None,
            ),
            // Several ecosystems may have the DID; one that is live and has the schema is enough.
            (known(&[live.clone(), row(4, 7, Value::Null)], Some(1)), true, None, extension(2)),
            (known(&[archived, live], Some(1)), true, None, extension(2)),
            (
                known(&[row(1, 8, Value::Null)], Some(1)),
                false,
                Some("entity_id: the ecosystem is controlled by another corporation"),
                None,
            ),
            (
                known(&[], Some(1)),
                false,
                Some(
                    "out of v4 recognition scope (corporation → ecosystem only): entity_id is the DID of no ecosystem",
                ),
                None,
            ),
            (
                RecognitionFacts { ecosystems: vec![row(1, 7, Value::Null)], ..RecognitionFacts::default() },
                false,
                Some(
                    "out of v4 recognition scope (corporation → ecosystem only): authority_id is the DID of no corporation",
                ),
                None,
            ),
        ] {
            // The decision is the same for every action.
            for (action, _) in ACTION_ROLES {
                let verdict = decide_query(action, |query| facts.decide(query));
                let expected =
                    TrqpDecision { is_granted: holds, message: message.map(str::to_owned), extension: shown.clone() };
                assert_eq!(verdict, expected, "{facts:?}");
            }
        }
    }
}

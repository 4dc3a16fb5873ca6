//! The two decisions of TRQP, on what the registry had at a block. Pure.

use serde_json::{Value, json};

use super::question::Question;
use crate::{derive::state::ParticipantState, read::coin};

/// Member of an answer that says whether the entity is authorized.
pub const AUTHORIZED: &str = "authorized";
/// Member of an answer that says whether the entity is recognized.
pub const RECOGNIZED: &str = "recognized";

/// An answer to a question.
#[derive(Debug, PartialEq)]
pub struct Verdict {
    pub holds: bool,
    /// Why it does not hold.
    pub message: Option<String>,
    /// What the registry adds of its own.
    pub extension: Option<Value>,
}

impl Verdict {
    pub fn no(message: impl Into<String>) -> Self {
        Self { holds: false, message: Some(message.into()), extension: None }
    }
}

/// What an authorization is decided on.
#[derive(Debug, Default)]
pub struct Authorization {
    pub has_schema: bool,
    /// The ecosystem of the schema.
    pub ecosystem: Option<Value>,
    /// The corporation with the entity's DID.
    pub corporation: Option<u64>,
    /// Its participants in the schema, of every role.
    pub participants: Vec<Value>,
}

/// Members of the extension of an authorization, as the profile names them.
pub const OF_AUTHORIZATION: [&str; 3] = ["participant_state", "since", "deposit"];

impl Authorization {
    /// Whether a participant of the corporation with the action's role is ACTIVE. Of several, an active one is told; else the
    /// newest.
    pub fn decide(&self, question: &Question<'_>, at: i128, denom: &str) -> Verdict {
        let schema = question.resource.schema_id;
        if !self.has_schema {
            return Verdict::no(format!("resource: there is no credential schema {schema}"));
        }
        let did = self.ecosystem.as_ref().and_then(|ecosystem| ecosystem["did"].as_str());
        if did != Some(question.authority) {
            return Verdict::no(format!("authority_id: is not the DID of the ecosystem of credential schema {schema}"));
        }
        if self.corporation.is_none() {
            return Verdict::no("entity_id: is the DID of no corporation");
        }
        let matching = self.participants.iter().filter(|body| body["role"] == question.role);
        let ranked = matching.map(|body| (ParticipantState::at(body, at), body));
        let best = ranked.max_by_key(|(state, body)| (*state == ParticipantState::Active, body["id"].as_u64()));
        let Some((state, body)) = best else {
            let text =
                format!("the entity has no participant with role {} in credential schema {schema}", question.role);
            return Verdict::no(text);
        };
        let since = if body["effective_from"].is_null() { &body["created"] } else { &body["effective_from"] };
        let [state_key, since_key, deposit_key] = OF_AUTHORIZATION;
        let holds = state == ParticipantState::Active;
        let message = || format!("participant {} is {}", body["id"], state.as_str());
        Verdict {
            holds,
            message: (!holds).then(message),
            extension: Some(json!({
                state_key: state.as_str(), since_key: since,
                deposit_key: coin(body["deposit"].as_u64().unwrap_or(0), denom),
            })),
        }
    }
}

/// What a recognition is decided on.
#[derive(Debug, Default)]
pub struct Recognition {
    /// The corporation with the authority's DID.
    pub corporation: Option<u64>,
    /// Ecosystems with the entity's DID; a corporation may give several the same.
    pub ecosystems: Vec<Value>,
    /// The ecosystem of the schema, when there is the schema.
    pub owner_of_schema: Option<u64>,
}

/// Members of the extension of a recognition, as the profile names them.
pub const OF_RECOGNITION: [&str; 2] = ["ecosystem_active_egf_version", "controlling_since"];

impl Recognition {
    /// Whether the corporation controls the ecosystem, which is not archived and has the schema. An ecosystem never changes
    /// hands, so it has been controlled since it was created.
    pub fn decide(&self, question: &Question<'_>) -> Verdict {
        let Some(corporation) = self.corporation else {
            return Verdict::no("authority_id: is the DID of no corporation");
        };
        if self.ecosystems.is_empty() {
            return Verdict::no("entity_id: is the DID of no ecosystem");
        }
        let owned: Vec<&Value> = self.ecosystems.iter().filter(|body| body["corporation_id"] == corporation).collect();
        if owned.is_empty() {
            return Verdict::no("entity_id: the ecosystem is controlled by another corporation");
        }
        let has_schema = |body: &Value| self.owner_of_schema.is_some_and(|owner| body["id"] == owner);
        let live = owned.iter().filter(|body| body["archived"].is_null());
        let Some(ecosystem) = live.max_by_key(|body| (has_schema(body), body["id"].as_u64())) else {
            return Verdict::no("entity_id: the ecosystem is archived");
        };
        let holds = has_schema(ecosystem);
        let message =
            || format!("resource: credential schema {} is not of that ecosystem", question.resource.schema_id);
        let [version_key, since_key] = OF_RECOGNITION;
        Verdict {
            holds,
            message: (!holds).then(message),
            extension: Some(json!({version_key: ecosystem["active_version"], since_key: ecosystem["created"]})),
        }
    }
}

#[cfg(test)]
mod tests {
    use svc_wire::reads::endpoint;

    use super::*;
    use crate::read::Params;

    const AT: i128 = 10_000_000_000;

    fn time(second: u32) -> String {
        format!("1970-01-01T00:00:{second:02}.000Z")
    }

    fn asked<R>(action: &str, decide: impl Fn(&Question<'_>) -> R) -> R {
        let body =
            json!({"authority_id": "did:a", "entity_id": "did:e", "action": action, "resource": "vpr:svc:c:cs:3"});
        let endpoint = endpoint("trqp.authorize").expect("an endpoint");
        let params = Params::posted(endpoint, body.to_string().as_bytes()).expect("parameters");
        decide(&Question::read(&params).expect("a question"))
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
        let known = |participants: Vec<Value>| Authorization {
            has_schema: true,
            ecosystem: Some(json!({"did": "did:a"})),
            corporation: Some(7),
            participants,
        };
        let decide =
            |facts: &Authorization, action: &str| asked(action, |question| facts.decide(question, AT, "ucoin"));
        let extension = |state: &str, since: u32, deposit: &str| {
            Some(json!({"participant_state": state, "since": time(since), "deposit": deposit}))
        };
        // Every action finds its own role and no other.
        for (action, role) in super::super::question::ACTIONS {
            for (_, other) in super::super::question::ACTIONS {
                let verdict = decide(&known(vec![participant(5, other, json!({}))]), action);
                assert_eq!(verdict.holds, role == other, "{action} {other}");
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
            assert_eq!((verdict.holds, verdict.extension), (false, extension(state, since, "500ucoin")));
        }
        // Any active one is enough, wherever it stands; without one the newest is told.
        let (over, active) = (json!({"revoked": time(3)}), json!({"effective_from": time(4)}));
        for order in [[4, 5, 6], [5, 4, 6], [6, 5, 4]] {
            let row = |id: u64| participant(id, "ISSUER", if id == 5 { active.clone() } else { over.clone() });
            let verdict = decide(&known(order.map(row).to_vec()), "issue");
            assert_eq!((verdict.holds, verdict.message), (true, None));
            assert_eq!(verdict.extension, extension("ACTIVE", 4, "500ucoin"));
            let over = decide(&known(order.map(|id| participant(id, "ISSUER", over.clone())).to_vec()), "issue");
            assert_eq!(over.message.as_deref(), Some("participant 6 is REVOKED"));
        }
        // What is not there is named.
        let elsewhere = Some(json!({"did": "did:other"}));
        for (facts, expected) in [
            (Authorization::default(), "resource: there is no credential schema 3"),
            (
                Authorization { ecosystem: elsewhere, ..known(vec![]) },
                "authority_id: is not the DID of the ecosystem of credential schema 3",
            ),
            (Authorization { corporation: None, ..known(vec![]) }, "entity_id: is the DID of no corporation"),
            (known(vec![]), "the entity has no participant with role ISSUER in credential schema 3"),
        ] {
            assert_eq!(decide(&facts, "issue"), Verdict::no(expected));
        }
    }

    #[test]
    fn a_recognition_is_control_of_a_live_ecosystem_with_the_schema() {
        let row = |id: u64, corporation: u64, archived: Value| json!({"id": id, "corporation_id": corporation, "archived": archived, "active_version": id + 1, "created": time(2)});
        let (live, archived) = (row(1, 7, Value::Null), row(2, 7, time(3).into()));
        let known = |ecosystems: &[Value], owner: Option<u64>| Recognition {
            corporation: Some(7),
            ecosystems: ecosystems.to_vec(),
            owner_of_schema: owner,
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
            // One DID may stand for several ecosystems: one that is live and has the schema is enough.
            (known(&[live.clone(), row(4, 7, Value::Null)], Some(1)), true, None, extension(2)),
            (known(&[archived, live], Some(1)), true, None, extension(2)),
            (
                known(&[row(1, 8, Value::Null)], Some(1)),
                false,
                Some("entity_id: the ecosystem is controlled by another corporation"),
                None,
            ),
            (known(&[], Some(1)), false, Some("entity_id: is the DID of no ecosystem"), None),
            (
                Recognition { ecosystems: vec![row(1, 7, Value::Null)], ..Recognition::default() },
                false,
                Some("authority_id: is the DID of no corporation"),
                None,
            ),
        ] {
            // The same for every action.
            for (action, _) in super::super::question::ACTIONS {
                let verdict = asked(action, |question| facts.decide(question));
                let expected = Verdict { holds, message: message.map(str::to_owned), extension: shown.clone() };
                assert_eq!(verdict, expected, "{facts:?}");
            }
        }
    }
}

//! Which sections of a trust answer are wanted, and how much of them. A selector is `true`, `false`, or an object that says
//! more; a member it does not know is refused, since it would silently select something else. Pure.

use serde_json::{Map, Value};

use crate::{
    derive::state::ParticipantState,
    read::{
        ReadError,
        body::bad_json,
        params::{Params, bad},
    },
};

/// Which participations of a DID.
#[derive(Debug, PartialEq, Eq)]
pub struct Participations {
    pub states: Vec<ParticipantState>,
}

/// Which ecosystems of a DID.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct Ecosystems {
    pub includes_archived: bool,
    /// With their schemas, if at all.
    pub schemas: Option<Schemas>,
}

/// Which schemas of an ecosystem.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct Schemas {
    pub includes_archived: bool,
}

/// Which presentations of a DID.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct Presentations {
    shows_unresolvable: bool,
    shows_invalid: bool,
}

impl Presentations {
    /// `presentations`: without the credentials that do not count, unless it says otherwise.
    pub fn read(params: &Params) -> Result<Option<Self>, ReadError> {
        let name = "presentations";
        let allowed = ["unresolvableCredentialIds", "invalidCredentialIds"];
        let Some(own) = members(name, params.json(name), &allowed)? else { return Ok(None) };
        let [shows_unresolvable, shows_invalid] = allowed.map(|member| flag(name, &own, member));
        Ok(Some(Self { shows_unresolvable: shows_unresolvable?, shows_invalid: shows_invalid? }))
    }

    /// What of the stored presentations is wanted.
    pub fn of(&self, mut presentations: Value) -> Value {
        for presentation in presentations.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            if !self.shows_unresolvable {
                presentation.remove("unresolvableCredentialIds");
            }
            if !self.shows_invalid {
                presentation.remove("invalidCredentialIds");
            }
        }
        presentations
    }
}

impl Participations {
    /// `participations`: the ACTIVE ones unless it names states.
    pub fn read(params: &Params) -> Result<Option<Self>, ReadError> {
        let name = "participations";
        let Some(members) = members(name, params.json(name), &["states"])? else { return Ok(None) };
        let states = match members.get("states") {
            None | Some(Value::Null) => vec![ParticipantState::Active],
            Some(Value::Array(items)) => items.iter().map(state).collect::<Result<_, _>>()?,
            Some(other) => return Err(bad_json("participations.states", other, "an array of states")),
        };
        Ok(Some(Self { states }))
    }
}

fn state(given: &Value) -> Result<ParticipantState, ReadError> {
    let is_it = |state: &ParticipantState| given.as_str().is_some_and(|text| text.eq_ignore_ascii_case(state.as_str()));
    let known = || ParticipantState::ALL.map(ParticipantState::as_str).join(", ");
    let found = ParticipantState::ALL.into_iter().find(is_it);
    found.ok_or_else(|| bad_json("participations.states", given, &format!("one of {}", known())))
}

impl Ecosystems {
    /// `ecosystems`: those that are not archived, without their schemas, unless it says otherwise.
    pub fn read(params: &Params) -> Result<Option<Self>, ReadError> {
        let name = "ecosystems";
        let allowed = ["includeArchived", "credentialSchemas"];
        let Some(own) = members(name, params.json(name), &allowed)? else { return Ok(None) };
        let name = "ecosystems.credentialSchemas";
        let schemas = match members(name, own.get("credentialSchemas"), &["includeArchived"])? {
            Some(inner) => Some(Schemas { includes_archived: flag(name, &inner, "includeArchived")? }),
            None => None,
        };
        Ok(Some(Self { includes_archived: flag("ecosystems", &own, "includeArchived")?, schemas }))
    }
}

fn flag(name: &str, members: &Map<String, Value>, member: &str) -> Result<bool, ReadError> {
    match members.get(member) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(other) => Err(bad_json(&format!("{name}.{member}"), other, "true or false")),
    }
}

/// The members of a selector, none for `true`; nothing when it selects nothing.
fn members(name: &str, given: Option<&Value>, allowed: &[&str]) -> Result<Option<Map<String, Value>>, ReadError> {
    match given {
        None | Some(Value::Null | Value::Bool(false)) => Ok(None),
        Some(Value::Bool(true)) => Ok(Some(Map::new())),
        Some(Value::Object(members)) => match members.keys().find(|key| !allowed.contains(&key.as_str())) {
            Some(unknown) => Err(bad(name, unknown, &format!("one of its members: {}", allowed.join(", ")))),
            None => Ok(Some(members.clone())),
        },
        Some(other) => Err(bad_json(name, other, "true, false or an object")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use svc_wire::reads::endpoint;

    use super::*;

    fn with(name: &str, selector: &Value) -> Params {
        let body = json!({"did": "did:web:a", name: selector}).to_string();
        Params::posted(endpoint("vt.resolve").expect("an endpoint"), body.as_bytes()).expect("parameters")
    }

    #[test]
    fn selectors_say_what_they_select() {
        use ParticipantState as S;
        for (selector, expected) in [
            (json!(null), None),
            (json!(false), None),
            (json!(true), Some(vec![S::Active])),
            (json!({}), Some(vec![S::Active])),
            (json!({"states": null}), Some(vec![S::Active])),
            (json!({"states": []}), Some(vec![])),
            (json!({"states": ["REVOKED", "slashed"]}), Some(vec![S::Revoked, S::Slashed])),
            (json!({"states": S::ALL.map(S::as_str)}), Some(S::ALL.to_vec())),
        ] {
            let found = Participations::read(&with("participations", &selector)).expect("a selector");
            assert_eq!(found.map(|found| found.states), expected, "{selector}");
        }
        let schemas = |includes_archived| Some(Schemas { includes_archived });
        for (selector, expected) in [
            (json!(false), None),
            (json!(true), Some((false, None))),
            (json!({"includeArchived": true}), Some((true, None))),
            (json!({"credentialSchemas": false}), Some((false, None))),
            (json!({"credentialSchemas": true}), Some((false, schemas(false)))),
            (json!({"includeArchived": null, "credentialSchemas": {}}), Some((false, schemas(false)))),
            (json!({"credentialSchemas": {"includeArchived": true}}), Some((false, schemas(true)))),
        ] {
            let found = Ecosystems::read(&with("ecosystems", &selector)).expect("a selector");
            let expected = expected.map(|(includes_archived, schemas)| Ecosystems { includes_archived, schemas });
            assert_eq!(found, expected, "{selector}");
        }
    }

    #[test]
    fn what_a_selector_does_not_know_is_refused_by_name() {
        let states = "one of REPAID, SLASHED, REVOKED, EXPIRED, FUTURE, ACTIVE, INACTIVE";
        for (selector, expected) in [
            (json!({"state": ["ACTIVE"]}), "participations: \"state\" is not one of its members: states".to_owned()),
            (json!({"states": "ACTIVE"}), "participations.states: \"ACTIVE\" is not an array of states".to_owned()),
            (json!({"states": ["OPEN"]}), format!("participations.states: \"OPEN\" is not {states}")),
            (json!({"states": [1]}), format!("participations.states: 1 is not {states}")),
        ] {
            let error = Participations::read(&with("participations", &selector)).expect_err("refused");
            assert_eq!(error.to_string(), expected);
        }
        for (selector, expected) in [
            (
                json!({"archived": true}),
                "ecosystems: \"archived\" is not one of its members: includeArchived, credentialSchemas",
            ),
            (json!({"includeArchived": "true"}), "ecosystems.includeArchived: \"true\" is not true or false"),
            (json!({"credentialSchemas": 1}), "ecosystems.credentialSchemas: 1 is not true, false or an object"),
            (
                json!({"credentialSchemas": {"all": true}}),
                "ecosystems.credentialSchemas: \"all\" is not one of its members: includeArchived",
            ),
            (
                json!({"credentialSchemas": {"includeArchived": 1}}),
                "ecosystems.credentialSchemas.includeArchived: 1 is not true or false",
            ),
        ] {
            let error = Ecosystems::read(&with("ecosystems", &selector)).expect_err("refused");
            assert_eq!(error.to_string(), expected);
        }
    }
}

//! Selectors of the sections of a trust answer. A selector is `true`, `false`, or an object with details. An unknown
//! member is refused, since ignoring it would select other data than requested. Pure.

use serde_json::{Map, Value};

use crate::read::{
    arguments::{
        json_body::invalid_json,
        params::{ReadArguments, invalid_value},
    },
    error::ReadError,
};
use svc_wire::participant_state::ParticipantState;

/// The requested participations of a DID.
#[derive(Debug, PartialEq, Eq)]
pub struct ParticipationSelector {
    pub states: Vec<ParticipantState>,
}

/// The requested ecosystems of a DID.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct EcosystemSelector {
    pub includes_archived: bool,
    /// The requested schemas of the ecosystems; `None` for none.
    pub schemas: Option<SchemaSelector>,
}

/// The requested schemas of an ecosystem.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct SchemaSelector {
    pub includes_archived: bool,
}

/// The requested presentations of a DID.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct PresentationSelector {
    shows_unresolvable: bool,
    shows_invalid: bool,
}

impl PresentationSelector {
    /// Parses `presentations`. By default it excludes unresolvable and invalid credentials.
    pub fn parse(params: &ReadArguments) -> Result<Option<Self>, ReadError> {
        let name = "presentations";
        let allowed = ["unresolvableCredentialIds", "invalidCredentialIds"];
        let Some(own) = parse_selector(name, params.json(name), &allowed)? else { return Ok(None) };
        let [shows_unresolvable, shows_invalid] = allowed.map(|member| parse_flag(name, &own, member));
        Ok(Some(Self { shows_unresolvable: shows_unresolvable?, shows_invalid: shows_invalid? }))
    }

    /// Removes the parts of stored presentations that are not requested.
    pub fn select(&self, mut presentations: Value) -> Value {
        for presentation in presentations.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            if !self.shows_unresolvable {
                presentation.shift_remove("unresolvableCredentialIds");
            }
            if !self.shows_invalid {
                presentation.shift_remove("invalidCredentialIds");
            }
        }
        presentations
    }
}

impl ParticipationSelector {
    /// Parses `participations`. By default it includes the ACTIVE ones.
    pub fn parse(params: &ReadArguments) -> Result<Option<Self>, ReadError> {
        let name = "participations";
        let Some(members) = parse_selector(name, params.json(name), &["states"])? else { return Ok(None) };
        let states = match members.get("states") {
            None | Some(Value::Null) => vec![ParticipantState::Active],
            Some(Value::Array(items)) => items.iter().map(parse_state).collect::<Result<_, _>>()?,
            Some(other) => return Err(invalid_json("participations.states", other, "an array of states")),
        };
        Ok(Some(Self { states }))
    }
}

fn parse_state(given: &Value) -> Result<ParticipantState, ReadError> {
    let is_match =
        |state: &ParticipantState| given.as_str().is_some_and(|text| text.eq_ignore_ascii_case(state.as_str()));
    let known = || ParticipantState::ALL.map(ParticipantState::as_str).join(", ");
    let found = ParticipantState::ALL.into_iter().find(is_match);
    found.ok_or_else(|| invalid_json("participations.states", given, &format!("one of {}", known())))
}

impl EcosystemSelector {
    /// Parses `ecosystems`. By default it excludes archived ones and schemas.
    pub fn parse(params: &ReadArguments) -> Result<Option<Self>, ReadError> {
        let name = "ecosystems";
        let allowed = ["includeArchived", "credentialSchemas"];
        let Some(own) = parse_selector(name, params.json(name), &allowed)? else { return Ok(None) };
        let name = "ecosystems.credentialSchemas";
        let schemas = match parse_selector(name, own.get("credentialSchemas"), &["includeArchived"])? {
            Some(inner) => Some(SchemaSelector { includes_archived: parse_flag(name, &inner, "includeArchived")? }),
            None => None,
        };
        Ok(Some(Self { includes_archived: parse_flag("ecosystems", &own, "includeArchived")?, schemas }))
    }
}

fn parse_flag(name: &str, members: &Map<String, Value>, member: &str) -> Result<bool, ReadError> {
    match members.get(member) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(other) => Err(invalid_json(&format!("{name}.{member}"), other, "true or false")),
    }
}

/// Returns the members of a selector, none for `true`; `None` for a section that is not requested.
fn parse_selector(
    name: &str,
    given: Option<&Value>,
    allowed: &[&str],
) -> Result<Option<Map<String, Value>>, ReadError> {
    match given {
        None | Some(Value::Null | Value::Bool(false)) => Ok(None),
        Some(Value::Bool(true)) => Ok(Some(Map::new())),
        Some(Value::Object(members)) => match members.keys().find(|key| !allowed.contains(&key.as_str())) {
            Some(unknown) => Err(invalid_value(name, unknown, &format!("one of its members: {}", allowed.join(", ")))),
            None => Ok(Some(members.clone())),
        },
        Some(other) => Err(invalid_json(name, other, "true, false or an object")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use svc_wire::indexer_reads::find_endpoint;

    use super::*;

    fn with(name: &str, selector: &Value) -> ReadArguments {
        let body = json!({"did": "did:web:a", name: selector}).to_string();
        ReadArguments::from_body(find_endpoint("vt.resolve").expect("an endpoint"), body.as_bytes())
            .expect("parameters")
    }

    #[test]
    fn selectors_have_defaults_and_details() {
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
            let found = ParticipationSelector::parse(&with("participations", &selector)).expect("a selector");
            assert_eq!(found.map(|found| found.states), expected, "{selector}");
        }
        let schemas = |includes_archived| Some(SchemaSelector { includes_archived });
        for (selector, expected) in [
            (json!(false), None),
            (json!(true), Some((false, None))),
            (json!({"includeArchived": true}), Some((true, None))),
            (json!({"credentialSchemas": false}), Some((false, None))),
            (json!({"credentialSchemas": true}), Some((false, schemas(false)))),
            (json!({"includeArchived": null, "credentialSchemas": {}}), Some((false, schemas(false)))),
            (json!({"credentialSchemas": {"includeArchived": true}}), Some((false, schemas(true)))),
        ] {
            let found = EcosystemSelector::parse(&with("ecosystems", &selector)).expect("a selector");
            let expected =
                expected.map(|(includes_archived, schemas)| EcosystemSelector { includes_archived, schemas });
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
            let error = ParticipationSelector::parse(&with("participations", &selector)).expect_err("refused");
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
            let error = EcosystemSelector::parse(&with("ecosystems", &selector)).expect_err("refused");
            assert_eq!(error.to_string(), expected);
        }
    }
}

//! The event catalog: the chain's events that subscribers receive, with their names for subscribers. Pure.

use std::borrow::Cow;

use heck::{ToSnakeCase, ToUpperCamelCase};
use svc_wire::comet_rpc::AbciEvent;

use super::event_type_rows::{EVENT_TYPE_ROWS, EventTypeRow, FEE_GRANT_ENTITY};
use crate::store::EntityKind;

/// The subject of an event. It decides the relations by which filters find the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventSubject {
    Corporation,
    Ecosystem,
    /// Governance framework of a corporation or an ecosystem.
    Framework,
    Schema,
    Participant,
    Session,
    TrustDeposit,
    Digest,
    /// Exchange rates have no corporation: only subscribers without a filter receive their events.
    ExchangeRate,
    Delegation,
    Proposal,
    Group,
    /// A message that this version does not know.
    Unknown,
}

/// The place of an event among those of its message. Readers that keep one event of a message keep the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventRank {
    /// The event of a group message: of the one that has run a proposal with the events below, too.
    Group,
    /// The event of a registry message.
    Message,
    /// An authorization or a digest: the only event of its own message, and an effect of some other messages.
    Secondary,
    /// A movement of a trust deposit or a fee allowance, which the chain emits ahead of the event of its message.
    Effect,
}

/// The names of an event for subscribers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventType {
    pub name: Cow<'static, str>,
    pub module: Cow<'static, str>,
    pub message_type: Cow<'static, str>,
    pub entity_type: Option<&'static str>,
    /// Attribute of the chain's event that holds the id of the entity.
    pub entity_id_key: &'static str,
    pub subject: EventSubject,
}

impl EventType {
    /// Returns `payload.action`: the name in snake case.
    pub fn action(&self) -> String {
        self.name.to_snake_case()
    }

    /// Returns its place among the events of its message.
    pub fn rank(&self) -> EventRank {
        let is_group = matches!(self.subject, EventSubject::Proposal | EventSubject::Group);
        let is_authorization = self.subject == EventSubject::Delegation && self.entity_type != Some(FEE_GRANT_ENTITY);
        if is_group {
            EventRank::Group
        } else if is_authorization || self.subject == EventSubject::Digest {
            EventRank::Secondary
        } else if self.message_type.starts_with("Msg") {
            EventRank::Message
        } else {
            EventRank::Effect
        }
    }

    /// Returns the name of the message in activity logs.
    pub fn activity_name(&self) -> String {
        match self.message_type.strip_prefix("Msg") {
            Some(name) => name.to_owned(),
            None => self.name.to_string(),
        }
    }
}

/// Returns the event type of a chain event; `None` for an event that subscribers do not receive.
pub fn find_event_type(event: &AbciEvent) -> Option<EventType> {
    // The chain emits the event of the first document with that of its new owner. Only a document that was added later
    // has an operator.
    if event.event_type == "add_gf_document" && event.get("operator").is_none() {
        return None;
    }
    let row = EVENT_TYPE_ROWS.iter().find(|row| row.chain_type == event.event_type)?;
    let message_type = row.message_type.unwrap_or(row.chain_type);
    Some(EventType {
        name: row_name(row),
        module: row.module.into(),
        message_type: message_type.into(),
        entity_type: Some(row.entity_type),
        entity_id_key: row.entity_id_key,
        subject: row.subject,
    })
}

fn row_name(row: &EventTypeRow) -> Cow<'static, str> {
    let message_name = row.message_type.and_then(|message| message.strip_prefix("Msg"));
    match (row.event_type, message_name) {
        (Some(event_type), _) => event_type.into(),
        (None, Some(name)) => name.into(),
        (None, None) => row.chain_type.to_upper_camel_case().into(),
    }
}

/// Whether this version knows an event type. A message that a later version of the chain has becomes an event type too.
pub fn is_known_event_type(name: &str) -> bool {
    let groups = GROUP_MESSAGE_NAMES.iter().filter_map(|message| message.strip_prefix("Msg"));
    EVENT_TYPE_ROWS.iter().any(|row| row_name(row) == name) || groups.into_iter().any(|group| group == name)
}

/// Messages of x/group for which the keeper emits the same event.
const GROUP_MESSAGE_NAMES: [&str; 7] = [
    "MsgUpdateGroupMembers",
    "MsgUpdateGroupMetadata",
    "MsgUpdateGroupAdmin",
    "MsgUpdateGroupPolicyDecisionPolicy",
    "MsgUpdateGroupPolicyMetadata",
    "MsgUpdateGroupPolicyAdmin",
    "MsgLeaveGroup",
];

/// Returns the event type of a group message that only the message itself identifies.
pub fn find_group_event_type(type_url: &str) -> Option<EventType> {
    let name = type_url.strip_prefix("/cosmos.group.v1.")?;
    let message_type = GROUP_MESSAGE_NAMES.into_iter().find(|known| *known == name)?;
    Some(EventType {
        name: message_type.trim_start_matches("Msg").into(),
        module: "group".into(),
        message_type: message_type.into(),
        entity_type: Some(EntityKind::Group.entity_type()),
        entity_id_key: "corporation_id",
        subject: EventSubject::Group,
    })
}

/// Returns the event type of a registry message that this version does not know.
pub fn unknown_event_type(module: &str, name: &str) -> EventType {
    EventType {
        name: name.strip_prefix("Msg").unwrap_or(name).to_owned().into(),
        module: module.to_owned().into(),
        message_type: name.to_owned().into(),
        entity_type: None,
        entity_id_key: "",
        subject: EventSubject::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of(kind: &str) -> (String, String, String) {
        let event = AbciEvent { event_type: kind.to_owned(), attributes: Vec::new() };
        let event_type = find_event_type(&event).expect("an event that subscribers receive");
        (event_type.name.to_string(), event_type.action(), event_type.message_type.to_string())
    }

    #[test]
    fn names_of_events_match_the_contract() {
        for (kind, event_type, action, message_type) in [
            ("create_ecosystem", "CreateNewEcosystem", "create_new_ecosystem", "MsgCreateEcosystem"),
            (
                "increase_active_gf_version",
                "IncreaseActiveGFVersion",
                "increase_active_gf_version",
                "MsgIncreaseActiveGovernanceFrameworkVersion",
            ),
            (
                "set_participant_op_to_validated",
                "SetParticipantOPToValidated",
                "set_participant_op_to_validated",
                "MsgSetParticipantOPToValidated",
            ),
            (
                "grant_vs_operator_authorization",
                "GrantVSOperatorAuthorization",
                "grant_vs_operator_authorization",
                "grant_vs_operator_authorization",
            ),
            (
                "create_update_csps",
                "CreateOrUpdateParticipantSession",
                "create_or_update_participant_session",
                "MsgCreateOrUpdateParticipantSession",
            ),
            ("cosmos.group.v1.EventVote", "Vote", "vote", "MsgVote"),
            ("adjust_trust_deposit", "AdjustTrustDeposit", "adjust_trust_deposit", "adjust_trust_deposit"),
        ] {
            assert_eq!(names_of(kind), (event_type.into(), action.into(), message_type.into()));
        }
        let group = find_group_event_type("/cosmos.group.v1.MsgUpdateGroupPolicyDecisionPolicy").expect("known");
        assert_eq!(group.action(), "update_group_policy_decision_policy");
        assert_eq!(unknown_event_type("pp", "MsgInventNewThing").name, "InventNewThing");
    }
}

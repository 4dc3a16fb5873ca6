//! Which of the chain's events subscribers hear of, and how each is spelled. Pure.

use std::borrow::Cow;

use heck::{ToSnakeCase, ToUpperCamelCase};
use svc_wire::comet::AbciEvent;

use crate::store::Kind;

/// What an event is about; decides by which relations it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    Corporation,
    Ecosystem,
    /// Governance framework of a corporation or an ecosystem.
    Framework,
    Schema,
    Participant,
    Session,
    TrustDeposit,
    Digest,
    /// Exchange rates belong to nobody: only those who hear everything hear of them.
    ExchangeRate,
    Delegation,
    Proposal,
    Group,
    /// A message this version does not know.
    Unknown,
}

/// How an event is spelled for subscribers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spelling {
    pub event_type: Cow<'static, str>,
    pub module: Cow<'static, str>,
    pub message_type: Cow<'static, str>,
    pub entity_type: Option<&'static str>,
    /// Attribute of the chain's event that holds the entity's id.
    pub entity_id: &'static str,
    pub subject: Subject,
}

impl Spelling {
    /// `payload.action`
    pub fn action(&self) -> String {
        self.event_type.to_snake_case()
    }

    /// Name of the message in activity logs.
    pub fn msg(&self) -> String {
        match self.message_type.strip_prefix("Msg") {
            Some(name) => name.to_owned(),
            None => self.event_type.to_string(),
        }
    }
}

struct Row {
    /// Type of the chain's event.
    chain: &'static str,
    /// Type for subscribers; empty where it is the message's name without `Msg`.
    event_type: &'static str,
    module: &'static str,
    /// Message; empty where it is the chain's event type.
    message: &'static str,
    entity_type: &'static str,
    entity_id: &'static str,
    subject: Subject,
}

const fn row(
    chain: &'static str,
    [event_type, module, message]: [&'static str; 3],
    [entity_type, entity_id]: [&'static str; 2],
    subject: Subject,
) -> Row {
    Row { chain, event_type, module, message, entity_type, entity_id, subject }
}

const CORPORATION: [&str; 2] = ["Corporation", "corporation_id"];
const ECOSYSTEM: [&str; 2] = ["Ecosystem", "ecosystem_id"];
const SCHEMA: [&str; 2] = ["CredentialSchema", "credential_schema_id"];
const POLICY: [&str; 2] = ["SchemaAuthorizationPolicy", "id"];
const PARTICIPANT: [&str; 2] = ["Participant", "participant_id"];
const DEPOSIT: [&str; 2] = ["TrustDeposit", "corporation_id"];
const RATE: [&str; 2] = ["ExchangeRate", "id"];
const RATE_AUTHORIZATION: [&str; 2] = ["ExchangeRate", "xr_id"];
const AUTHORIZATION: [&str; 2] = ["OperatorAuthorization", "authz_id"];
const VS_AUTHORIZATION: [&str; 2] = ["VSOperatorAuthorization", "vsoa_id"];
const PROPOSAL: [&str; 2] = ["GroupProposal", "proposal_id"];

use Subject as S;

const ROWS: [Row; 47] = [
    row("create_corporation", ["CreateNewCorporation", "co", "MsgCreateCorporation"], CORPORATION, S::Corporation),
    row("update_corporation", ["", "co", "MsgUpdateCorporation"], CORPORATION, S::Corporation),
    row("create_ecosystem", ["CreateNewEcosystem", "ec", "MsgCreateEcosystem"], ECOSYSTEM, S::Ecosystem),
    row("update_ecosystem", ["", "ec", "MsgUpdateEcosystem"], ECOSYSTEM, S::Ecosystem),
    row("archive_ecosystem", ["", "ec", "MsgArchiveEcosystem"], ECOSYSTEM, S::Ecosystem),
    row(
        "add_gf_document",
        ["", "co", "MsgAddGovernanceFrameworkDocument"],
        ["GovernanceFrameworkDocument", "gfd_id"],
        S::Framework,
    ),
    row(
        "increase_active_gf_version",
        ["IncreaseActiveGFVersion", "co", "MsgIncreaseActiveGovernanceFrameworkVersion"],
        ["GovernanceFrameworkVersion", "gfv_id"],
        S::Framework,
    ),
    row(
        "create_credential_schema",
        ["CreateNewCredentialSchema", "cs", "MsgCreateCredentialSchema"],
        SCHEMA,
        S::Schema,
    ),
    row("update_credential_schema", ["", "cs", "MsgUpdateCredentialSchema"], SCHEMA, S::Schema),
    row("archive_credential_schema", ["", "cs", "MsgArchiveCredentialSchema"], SCHEMA, S::Schema),
    row("create_schema_authorization_policy", ["", "cs", "MsgCreateSchemaAuthorizationPolicy"], POLICY, S::Schema),
    row(
        "increase_active_schema_authorization_policy_version",
        ["", "cs", "MsgIncreaseActiveSchemaAuthorizationPolicyVersion"],
        POLICY,
        S::Schema,
    ),
    row("revoke_schema_authorization_policy", ["", "cs", "MsgRevokeSchemaAuthorizationPolicy"], POLICY, S::Schema),
    row("start_participant_op", ["", "pp", "MsgStartParticipantOP"], PARTICIPANT, S::Participant),
    row(
        "create_root_participant",
        ["", "pp", "MsgCreateRootParticipant"],
        ["Participant", "root_participant_id"],
        S::Participant,
    ),
    row("create_participant", ["", "pp", "MsgSelfCreateParticipant"], PARTICIPANT, S::Participant),
    row("renew_participant_op", ["", "pp", "MsgRenewParticipantOP"], PARTICIPANT, S::Participant),
    row("set_participant_op_to_validated", ["", "pp", "MsgSetParticipantOPToValidated"], PARTICIPANT, S::Participant),
    row("set_participant_effective_until", ["", "pp", "MsgSetParticipantEffectiveUntil"], PARTICIPANT, S::Participant),
    row("revoke_participant", ["", "pp", "MsgRevokeParticipant"], PARTICIPANT, S::Participant),
    row("slash_participant_trust_deposit", ["", "pp", "MsgSlashParticipantTrustDeposit"], PARTICIPANT, S::Participant),
    row(
        "repay_participant_slashed_trust_deposit",
        ["", "pp", "MsgRepayParticipantSlashedTrustDeposit"],
        PARTICIPANT,
        S::Participant,
    ),
    row(
        "cancel_participant_op_last_request",
        ["", "pp", "MsgCancelParticipantOPLastRequest"],
        PARTICIPANT,
        S::Participant,
    ),
    row("trigger_resolver", ["", "pp", "MsgTriggerResolver"], PARTICIPANT, S::Participant),
    row(
        "create_update_csps",
        ["", "pp", "MsgCreateOrUpdateParticipantSession"],
        ["ParticipantSession", "session_id"],
        S::Session,
    ),
    row("adjust_trust_deposit", ["", "td", ""], DEPOSIT, S::TrustDeposit),
    row("slash_trust_deposit", ["", "td", "MsgSlashTrustDeposit"], DEPOSIT, S::TrustDeposit),
    row("burn_ecosystem_slashed_trust_deposit", ["", "td", ""], DEPOSIT, S::TrustDeposit),
    row("reclaim_trust_deposit_yield", ["", "td", "MsgReclaimTrustDepositYield"], DEPOSIT, S::TrustDeposit),
    row("repay_slashed_trust_deposit", ["", "td", "MsgRepaySlashedTrustDeposit"], DEPOSIT, S::TrustDeposit),
    row("store_digest", ["", "di", "MsgStoreDigest"], ["DigitalIdentityDigest", "digest"], S::Digest),
    row("create_exchange_rate", ["", "xr", "MsgCreateExchangeRate"], RATE, S::ExchangeRate),
    row("update_exchange_rate", ["", "xr", "MsgUpdateExchangeRate"], RATE, S::ExchangeRate),
    row("set_exchange_rate_state", ["", "xr", "MsgSetExchangeRateState"], RATE, S::ExchangeRate),
    row(
        "grant_exchange_rate_authz",
        ["", "xr", "MsgGrantExchangeRateAuthorization"],
        RATE_AUTHORIZATION,
        S::ExchangeRate,
    ),
    row(
        "revoke_exchange_rate_authz",
        ["", "xr", "MsgRevokeExchangeRateAuthorization"],
        RATE_AUTHORIZATION,
        S::ExchangeRate,
    ),
    row("grant_operator_authorization", ["", "de", ""], AUTHORIZATION, S::Delegation),
    row("revoke_operator_authorization", ["", "de", ""], AUTHORIZATION, S::Delegation),
    row("grant_vs_operator_authorization", ["GrantVSOperatorAuthorization", "de", ""], VS_AUTHORIZATION, S::Delegation),
    row(
        "revoke_vs_operator_authorization",
        ["RevokeVSOperatorAuthorization", "de", ""],
        VS_AUTHORIZATION,
        S::Delegation,
    ),
    row(
        "update_vs_operator_authorization",
        ["UpdateVSOperatorAuthorization", "de", ""],
        VS_AUTHORIZATION,
        S::Delegation,
    ),
    row("grant_fee_allowance", ["", "de", ""], ["FeeGrant", "grantee"], S::Delegation),
    row("revoke_fee_allowance", ["", "de", ""], ["FeeGrant", "grantee"], S::Delegation),
    row("cosmos.group.v1.EventSubmitProposal", ["", "group", "MsgSubmitProposal"], PROPOSAL, S::Proposal),
    row("cosmos.group.v1.EventVote", ["", "group", "MsgVote"], PROPOSAL, S::Proposal),
    row("cosmos.group.v1.EventExec", ["", "group", "MsgExec"], PROPOSAL, S::Proposal),
    row("cosmos.group.v1.EventWithdrawProposal", ["", "group", "MsgWithdrawProposal"], PROPOSAL, S::Proposal),
];

/// The spelling of a chain event, if it is one that subscribers hear of.
pub fn of_event(event: &AbciEvent) -> Option<Spelling> {
    // The first document of a new owner comes with the owner's own event; only a document that was added has an operator.
    if event.kind == "add_gf_document" && event.get("operator").is_none() {
        return None;
    }
    let row = ROWS.iter().find(|row| row.chain == event.kind)?;
    let message_type = if row.message.is_empty() { row.chain } else { row.message };
    let event_type: Cow<'static, str> = match (row.event_type, row.message.strip_prefix("Msg")) {
        ("", Some(name)) => name.into(),
        ("", None) => row.chain.to_upper_camel_case().into(),
        (event_type, _) => event_type.into(),
    };
    Some(Spelling {
        event_type,
        module: row.module.into(),
        message_type: message_type.into(),
        entity_type: Some(row.entity_type),
        entity_id: row.entity_id,
        subject: row.subject,
    })
}

/// Messages of x/group that the keeper's events do not tell apart.
const GROUP_MESSAGES: [&str; 7] = [
    "MsgUpdateGroupMembers",
    "MsgUpdateGroupMetadata",
    "MsgUpdateGroupAdmin",
    "MsgUpdateGroupPolicyDecisionPolicy",
    "MsgUpdateGroupPolicyMetadata",
    "MsgUpdateGroupPolicyAdmin",
    "MsgLeaveGroup",
];

/// The spelling of a group message that is told by the message alone.
pub fn of_group_message(type_url: &str) -> Option<Spelling> {
    let name = type_url.strip_prefix("/cosmos.group.v1.")?;
    let message_type = GROUP_MESSAGES.into_iter().find(|known| *known == name)?;
    Some(Spelling {
        event_type: message_type.trim_start_matches("Msg").into(),
        module: "group".into(),
        message_type: message_type.into(),
        entity_type: Some(Kind::Group.entity_type()),
        entity_id: "corporation_id",
        subject: Subject::Group,
    })
}

/// The spelling of a registry message this version does not know.
pub fn of_unknown(module: &str, name: &str) -> Spelling {
    Spelling {
        event_type: name.strip_prefix("Msg").unwrap_or(name).to_owned().into(),
        module: module.to_owned().into(),
        message_type: name.to_owned().into(),
        entity_type: None,
        entity_id: "",
        subject: Subject::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(kind: &str) -> (String, String, String) {
        let event = AbciEvent { kind: kind.to_owned(), attributes: Vec::new() };
        let spelling = of_event(&event).expect("an event subscribers hear of");
        (spelling.event_type.to_string(), spelling.action(), spelling.message_type.to_string())
    }

    #[test]
    fn names_are_those_of_the_contract() {
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
            assert_eq!(spelled(kind), (event_type.into(), action.into(), message_type.into()));
        }
        let group = of_group_message("/cosmos.group.v1.MsgUpdateGroupPolicyDecisionPolicy").expect("known");
        assert_eq!(group.action(), "update_group_policy_decision_policy");
        assert_eq!(of_unknown("pp", "MsgInventNewThing").event_type, "InventNewThing");
    }
}

//! The table of the chain's events that subscribers receive. Pure.

use super::event_catalog::EventSubject;

/// One event type of the chain, and its event type for subscribers.
pub(super) struct EventTypeRow {
    /// Type of the chain's event.
    pub chain_type: &'static str,
    /// Event type for subscribers; without one it is the name of the message without `Msg`.
    pub event_type: Option<&'static str>,
    pub module: &'static str,
    /// Type of the message; without one it is the type of the chain's event.
    pub message_type: Option<&'static str>,
    pub entity_type: &'static str,
    /// Attribute of the chain's event that holds the id of the entity.
    pub entity_id_key: &'static str,
    pub subject: EventSubject,
}

/// Entity of the events of fee allowances.
pub(super) const FEE_GRANT_ENTITY: &str = "FeeGrant";

const EMPTY_ROW: EventTypeRow = EventTypeRow {
    chain_type: "",
    event_type: None,
    module: "",
    message_type: None,
    entity_type: "",
    entity_id_key: "",
    subject: EventSubject::Unknown,
};

// Each constant below names the entity of several rows; a row adds its own types to one of them.

const CORPORATION: EventTypeRow = EventTypeRow {
    module: "co",
    entity_type: "Corporation",
    entity_id_key: "corporation_id",
    subject: EventSubject::Corporation,
    ..EMPTY_ROW
};
const ECOSYSTEM: EventTypeRow = EventTypeRow {
    module: "ec",
    entity_type: "Ecosystem",
    entity_id_key: "ecosystem_id",
    subject: EventSubject::Ecosystem,
    ..EMPTY_ROW
};
const FRAMEWORK_DOCUMENT: EventTypeRow = EventTypeRow {
    module: "co",
    entity_type: "GovernanceFrameworkDocument",
    entity_id_key: "gfd_id",
    subject: EventSubject::Framework,
    ..EMPTY_ROW
};
const FRAMEWORK_VERSION: EventTypeRow = EventTypeRow {
    module: "co",
    entity_type: "GovernanceFrameworkVersion",
    entity_id_key: "gfv_id",
    subject: EventSubject::Framework,
    ..EMPTY_ROW
};
const SCHEMA: EventTypeRow = EventTypeRow {
    module: "cs",
    entity_type: "CredentialSchema",
    entity_id_key: "credential_schema_id",
    subject: EventSubject::Schema,
    ..EMPTY_ROW
};
const SCHEMA_POLICY: EventTypeRow = EventTypeRow {
    module: "cs",
    entity_type: "SchemaAuthorizationPolicy",
    entity_id_key: "id",
    subject: EventSubject::Schema,
    ..EMPTY_ROW
};
const PARTICIPANT: EventTypeRow = EventTypeRow {
    module: "pp",
    entity_type: "Participant",
    entity_id_key: "participant_id",
    subject: EventSubject::Participant,
    ..EMPTY_ROW
};
const ROOT_PARTICIPANT: EventTypeRow = EventTypeRow {
    module: "pp",
    entity_type: "Participant",
    entity_id_key: "root_participant_id",
    subject: EventSubject::Participant,
    ..EMPTY_ROW
};
const SESSION: EventTypeRow = EventTypeRow {
    module: "pp",
    entity_type: "ParticipantSession",
    entity_id_key: "session_id",
    subject: EventSubject::Session,
    ..EMPTY_ROW
};
const TRUST_DEPOSIT: EventTypeRow = EventTypeRow {
    module: "td",
    entity_type: "TrustDeposit",
    entity_id_key: "corporation_id",
    subject: EventSubject::TrustDeposit,
    ..EMPTY_ROW
};
const DIGEST: EventTypeRow = EventTypeRow {
    module: "di",
    entity_type: "DigitalIdentityDigest",
    entity_id_key: "digest",
    subject: EventSubject::Digest,
    ..EMPTY_ROW
};
const EXCHANGE_RATE: EventTypeRow = EventTypeRow {
    module: "xr",
    entity_type: "ExchangeRate",
    entity_id_key: "id",
    subject: EventSubject::ExchangeRate,
    ..EMPTY_ROW
};
const RATE_AUTHORIZATION: EventTypeRow = EventTypeRow {
    module: "xr",
    entity_type: "ExchangeRate",
    entity_id_key: "xr_id",
    subject: EventSubject::ExchangeRate,
    ..EMPTY_ROW
};
const OPERATOR_AUTHORIZATION: EventTypeRow = EventTypeRow {
    module: "de",
    entity_type: "OperatorAuthorization",
    entity_id_key: "authz_id",
    subject: EventSubject::Delegation,
    ..EMPTY_ROW
};
const VS_OPERATOR_AUTHORIZATION: EventTypeRow = EventTypeRow {
    module: "de",
    entity_type: "VSOperatorAuthorization",
    entity_id_key: "vsoa_id",
    subject: EventSubject::Delegation,
    ..EMPTY_ROW
};
const FEE_GRANT: EventTypeRow = EventTypeRow {
    module: "de",
    entity_type: FEE_GRANT_ENTITY,
    entity_id_key: "grantee",
    subject: EventSubject::Delegation,
    ..EMPTY_ROW
};
const PROPOSAL: EventTypeRow = EventTypeRow {
    module: "group",
    entity_type: "GroupProposal",
    entity_id_key: "proposal_id",
    subject: EventSubject::Proposal,
    ..EMPTY_ROW
};

pub(super) const EVENT_TYPE_ROWS: [EventTypeRow; 47] = [
    EventTypeRow {
        chain_type: "create_corporation",
        event_type: Some("CreateNewCorporation"),
        message_type: Some("MsgCreateCorporation"),
        ..CORPORATION
    },
    EventTypeRow { chain_type: "update_corporation", message_type: Some("MsgUpdateCorporation"), ..CORPORATION },
    EventTypeRow {
        chain_type: "create_ecosystem",
        event_type: Some("CreateNewEcosystem"),
        message_type: Some("MsgCreateEcosystem"),
        ..ECOSYSTEM
    },
    EventTypeRow { chain_type: "update_ecosystem", message_type: Some("MsgUpdateEcosystem"), ..ECOSYSTEM },
    EventTypeRow { chain_type: "archive_ecosystem", message_type: Some("MsgArchiveEcosystem"), ..ECOSYSTEM },
    EventTypeRow {
        chain_type: "add_gf_document",
        message_type: Some("MsgAddGovernanceFrameworkDocument"),
        ..FRAMEWORK_DOCUMENT
    },
    EventTypeRow {
        chain_type: "increase_active_gf_version",
        event_type: Some("IncreaseActiveGFVersion"),
        message_type: Some("MsgIncreaseActiveGovernanceFrameworkVersion"),
        ..FRAMEWORK_VERSION
    },
    EventTypeRow {
        chain_type: "create_credential_schema",
        event_type: Some("CreateNewCredentialSchema"),
        message_type: Some("MsgCreateCredentialSchema"),
        ..SCHEMA
    },
    EventTypeRow { chain_type: "update_credential_schema", message_type: Some("MsgUpdateCredentialSchema"), ..SCHEMA },
    EventTypeRow {
        chain_type: "archive_credential_schema",
        message_type: Some("MsgArchiveCredentialSchema"),
        ..SCHEMA
    },
    EventTypeRow {
        chain_type: "create_schema_authorization_policy",
        message_type: Some("MsgCreateSchemaAuthorizationPolicy"),
        ..SCHEMA_POLICY
    },
    EventTypeRow {
        chain_type: "increase_active_schema_authorization_policy_version",
        message_type: Some("MsgIncreaseActiveSchemaAuthorizationPolicyVersion"),
        ..SCHEMA_POLICY
    },
    EventTypeRow {
        chain_type: "revoke_schema_authorization_policy",
        message_type: Some("MsgRevokeSchemaAuthorizationPolicy"),
        ..SCHEMA_POLICY
    },
    EventTypeRow { chain_type: "start_participant_op", message_type: Some("MsgStartParticipantOP"), ..PARTICIPANT },
    EventTypeRow {
        chain_type: "create_root_participant",
        message_type: Some("MsgCreateRootParticipant"),
        ..ROOT_PARTICIPANT
    },
    EventTypeRow { chain_type: "create_participant", message_type: Some("MsgSelfCreateParticipant"), ..PARTICIPANT },
    EventTypeRow { chain_type: "renew_participant_op", message_type: Some("MsgRenewParticipantOP"), ..PARTICIPANT },
    EventTypeRow {
        chain_type: "set_participant_op_to_validated",
        message_type: Some("MsgSetParticipantOPToValidated"),
        ..PARTICIPANT
    },
    EventTypeRow {
        chain_type: "set_participant_effective_until",
        message_type: Some("MsgSetParticipantEffectiveUntil"),
        ..PARTICIPANT
    },
    EventTypeRow { chain_type: "revoke_participant", message_type: Some("MsgRevokeParticipant"), ..PARTICIPANT },
    EventTypeRow {
        chain_type: "slash_participant_trust_deposit",
        message_type: Some("MsgSlashParticipantTrustDeposit"),
        ..PARTICIPANT
    },
    EventTypeRow {
        chain_type: "repay_participant_slashed_trust_deposit",
        message_type: Some("MsgRepayParticipantSlashedTrustDeposit"),
        ..PARTICIPANT
    },
    EventTypeRow {
        chain_type: "cancel_participant_op_last_request",
        message_type: Some("MsgCancelParticipantOPLastRequest"),
        ..PARTICIPANT
    },
    EventTypeRow { chain_type: "trigger_resolver", message_type: Some("MsgTriggerResolver"), ..PARTICIPANT },
    EventTypeRow {
        chain_type: "create_update_csps",
        message_type: Some("MsgCreateOrUpdateParticipantSession"),
        ..SESSION
    },
    EventTypeRow { chain_type: "adjust_trust_deposit", ..TRUST_DEPOSIT },
    EventTypeRow { chain_type: "slash_trust_deposit", message_type: Some("MsgSlashTrustDeposit"), ..TRUST_DEPOSIT },
    EventTypeRow { chain_type: "burn_ecosystem_slashed_trust_deposit", ..TRUST_DEPOSIT },
    EventTypeRow {
        chain_type: "reclaim_trust_deposit_yield",
        message_type: Some("MsgReclaimTrustDepositYield"),
        ..TRUST_DEPOSIT
    },
    EventTypeRow {
        chain_type: "repay_slashed_trust_deposit",
        message_type: Some("MsgRepaySlashedTrustDeposit"),
        ..TRUST_DEPOSIT
    },
    EventTypeRow { chain_type: "store_digest", message_type: Some("MsgStoreDigest"), ..DIGEST },
    EventTypeRow { chain_type: "create_exchange_rate", message_type: Some("MsgCreateExchangeRate"), ..EXCHANGE_RATE },
    EventTypeRow { chain_type: "update_exchange_rate", message_type: Some("MsgUpdateExchangeRate"), ..EXCHANGE_RATE },
    EventTypeRow {
        chain_type: "set_exchange_rate_state",
        message_type: Some("MsgSetExchangeRateState"),
        ..EXCHANGE_RATE
    },
    EventTypeRow {
        chain_type: "grant_exchange_rate_authz",
        message_type: Some("MsgGrantExchangeRateAuthorization"),
        ..RATE_AUTHORIZATION
    },
    EventTypeRow {
        chain_type: "revoke_exchange_rate_authz",
        message_type: Some("MsgRevokeExchangeRateAuthorization"),
        ..RATE_AUTHORIZATION
    },
    EventTypeRow { chain_type: "grant_operator_authorization", ..OPERATOR_AUTHORIZATION },
    EventTypeRow { chain_type: "revoke_operator_authorization", ..OPERATOR_AUTHORIZATION },
    EventTypeRow {
        chain_type: "grant_vs_operator_authorization",
        event_type: Some("GrantVSOperatorAuthorization"),
        ..VS_OPERATOR_AUTHORIZATION
    },
    EventTypeRow {
        chain_type: "revoke_vs_operator_authorization",
        event_type: Some("RevokeVSOperatorAuthorization"),
        ..VS_OPERATOR_AUTHORIZATION
    },
    EventTypeRow {
        chain_type: "update_vs_operator_authorization",
        event_type: Some("UpdateVSOperatorAuthorization"),
        ..VS_OPERATOR_AUTHORIZATION
    },
    EventTypeRow { chain_type: "grant_fee_allowance", ..FEE_GRANT },
    EventTypeRow { chain_type: "revoke_fee_allowance", ..FEE_GRANT },
    EventTypeRow {
        chain_type: "cosmos.group.v1.EventSubmitProposal",
        message_type: Some("MsgSubmitProposal"),
        ..PROPOSAL
    },
    EventTypeRow { chain_type: "cosmos.group.v1.EventVote", message_type: Some("MsgVote"), ..PROPOSAL },
    EventTypeRow { chain_type: "cosmos.group.v1.EventExec", message_type: Some("MsgExec"), ..PROPOSAL },
    EventTypeRow {
        chain_type: "cosmos.group.v1.EventWithdrawProposal",
        message_type: Some("MsgWithdrawProposal"),
        ..PROPOSAL
    },
];

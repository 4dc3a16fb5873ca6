//! The kinds of entities, and their names.

/// The kind of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntityKind {
    Corporation,
    Ecosystem,
    Schema,
    Participant,
    Session,
    TrustDeposit,
    Digest,
    ExchangeRate,
    OperatorAuthorization,
    VsOperatorAuthorization,
    FeeGrant,
    /// A version of a governance framework; the parent is its ecosystem, if it has one.
    FrameworkVersion,
    Group,
    Proposal,
    Vote,
    /// Parameters of a module.
    Params,
    /// The verdict of the evaluation of trust on a DID.
    Verdict,
}

impl EntityKind {
    const ALL: [Self; 17] = [
        Self::Corporation,
        Self::Ecosystem,
        Self::Schema,
        Self::Participant,
        Self::Session,
        Self::TrustDeposit,
        Self::Digest,
        Self::ExchangeRate,
        Self::OperatorAuthorization,
        Self::VsOperatorAuthorization,
        Self::FeeGrant,
        Self::FrameworkVersion,
        Self::Group,
        Self::Proposal,
        Self::Vote,
        Self::Params,
        Self::Verdict,
    ];

    pub(in crate::store) fn as_str(self) -> &'static str {
        match self {
            Self::Corporation => "corporation",
            Self::Ecosystem => "ecosystem",
            Self::Schema => "schema",
            Self::Participant => "participant",
            Self::Session => "session",
            Self::TrustDeposit => "trust_deposit",
            Self::Digest => "digest",
            Self::ExchangeRate => "exchange_rate",
            Self::OperatorAuthorization => "operator_authorization",
            Self::VsOperatorAuthorization => "vs_operator_authorization",
            Self::FeeGrant => "fee_grant",
            Self::FrameworkVersion => "framework_version",
            Self::Group => "group",
            Self::Proposal => "proposal",
            Self::Vote => "vote",
            Self::Params => "params",
            Self::Verdict => "verdict",
        }
    }

    /// Returns the kind with a name as columns hold it.
    pub(in crate::store) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Returns the name of the kind in activity logs and events.
    pub fn entity_type(self) -> &'static str {
        match self {
            Self::Corporation => "Corporation",
            Self::Ecosystem => "Ecosystem",
            Self::Schema => "CredentialSchema",
            Self::Participant => "Participant",
            Self::Session => "ParticipantSession",
            Self::TrustDeposit => "TrustDeposit",
            Self::Digest => "DigitalIdentityDigest",
            Self::ExchangeRate => "ExchangeRate",
            Self::OperatorAuthorization => "OperatorAuthorization",
            Self::VsOperatorAuthorization => "VSOperatorAuthorization",
            Self::FeeGrant => "FeeGrant",
            Self::FrameworkVersion => "GovernanceFrameworkVersion",
            Self::Group => "CorporationGroup",
            Self::Proposal => "GroupProposal",
            Self::Vote => "GroupVote",
            Self::Params => "GlobalVariables",
            Self::Verdict => "TrustVerdict",
        }
    }

    /// Whether the JSON has an `id`; the other kinds have a name.
    pub(super) fn has_id_member(self) -> bool {
        !matches!(self, Self::Session | Self::TrustDeposit | Self::Digest | Self::Group | Self::Params | Self::Verdict)
    }
}

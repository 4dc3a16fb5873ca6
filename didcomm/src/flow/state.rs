//! The states of a flow.

use super::named::named;

named! {
    /// The side of a flow.
    Side {
        /// Asks for a participant's validation, or for a credential.
        Applicant = "A",
        /// Validates and issues.
        Validator = "V",
    }
}

named! {
    /// The kind of a flow.
    Variant {
        /// A participant of the registry is validated.
        Onboarding = "onboarding",
        /// A credential is issued without a validation.
        Direct = "direct",
    }
}

named! {
    /// The state of a flow.
    FlowState {
        /// The applicant's participant is pending, and nothing was sent.
        AwaitingOp = "AWAITING_OP",
        /// The onboarding request is on its way.
        OrSent = "OR_SENT",
        /// An onboarding request has come, or has to come again.
        AwaitingOr = "AWAITING_OR",
        /// The issuance request is on its way.
        IrSent = "IR_SENT",
        /// An issuance request has come.
        AwaitingIr = "AWAITING_IR",
        /// The applicant has something to do at a link.
        OobPending = "OOB_PENDING",
        /// The validator's operator decides.
        Validating = "VALIDATING",
        /// The corporation's operator sends the validation.
        AwaitingValidationTx = "AWAITING_VALIDATION_TX",
        /// The agent has sent the validation.
        ValidationTxSubmitted = "VALIDATION_TX_SUBMITTED",
        /// The validation was not included, or would not be.
        ValidationTxFailed = "VALIDATION_TX_FAILED",
        /// The chain has the validation.
        Validated = "VALIDATED",
        /// The claims do not fit the schema yet.
        ValidatedPendingClaims = "VALIDATED_PENDING_CLAIMS",
        /// A credential is offered.
        CredOffered = "CRED_OFFERED",
        /// The credential is held.
        Completed = "COMPLETED",
        /// The credential is revoked.
        CredRevoked = "CRED_REVOKED",
        /// The validator has ended the flow.
        TerminatedByValidator = "TERMINATED_BY_VALIDATOR",
        /// The applicant has ended the flow.
        TerminatedByApplicant = "TERMINATED_BY_APPLICANT",
        /// Something went wrong that cannot be mended.
        Error = "ERROR",
        /// The participant of an unfinished flow is revoked.
        ParticipantRevoked = "PARTICIPANT_REVOKED",
        /// The participant of an unfinished flow is slashed.
        ParticipantSlashed = "PARTICIPANT_SLASHED",
    }
}

named! {
    /// The connection of a flow with its peer.
    ConnectionState {
        /// None yet.
        NotConnected = "NOT_CONNECTED",
        /// Messages go both ways.
        Established = "ESTABLISHED",
        /// The flow sends nothing any more.
        Terminated = "TERMINATED",
    }
}

named! {
    /// The party that has to act next.
    PendingAction {
        /// The applicant's operator.
        Applicant = "APPLICANT",
        /// The validator's operator.
        Validator = "VALIDATOR",
        /// One of the agents.
        Agent = "AGENT",
        /// The chain.
        Chain = "CHAIN",
        /// None.
        None = "NONE",
    }
}

impl FlowState {
    /// Whether no row leads on, but for a validation that was in flight when the flow was rejected.
    pub fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::TerminatedByValidator
                | Self::TerminatedByApplicant
                | Self::Error
                | Self::ParticipantRevoked
                | Self::ParticipantSlashed
        )
    }

    /// Whether a side can be in the state.
    pub fn is_of(self, side: Side) -> bool {
        match self {
            Self::AwaitingOp | Self::OrSent | Self::IrSent => side == Side::Applicant,
            Self::AwaitingOr
            | Self::AwaitingIr
            | Self::AwaitingValidationTx
            | Self::ValidationTxSubmitted
            | Self::ValidationTxFailed
            | Self::ValidatedPendingClaims => side == Side::Validator,
            _ => true,
        }
    }
}

//! The causes of transitions, their conditions, and the messages that they send.

use super::named::named;

named! {
    /// The cause of a transition.
    Trigger {
        /// The node shows the applicant's participant as PENDING in a round that is new.
        ChainPending = "chain.pending",
        /// The node shows it as VALIDATED in the flow's round.
        ChainValidated = "chain.validated",
        /// The node shows that a renewal was cancelled.
        ChainRestored = "chain.restored",
        /// The node shows that the application was cancelled.
        ChainTerminated = "chain.terminated",
        /// The node shows it as revoked.
        ChainRevoked = "chain.revoked",
        /// The node shows it as slashed.
        ChainSlashed = "chain.slashed",
        /// The node shows the validator's own participant as revoked.
        ValidatorRevoked = "validator.revoked",
        /// The node shows the validator's own participant as slashed.
        ValidatorSlashed = "validator.slashed",
        /// The operator opens an onboarding.
        FlowsOpen = "flows.open",
        /// The operator asks for a credential without an onboarding.
        FlowsRequest = "flows.request",
        /// The operator ends the flow.
        FlowsEnd = "flows.end",
        /// The opening message can be sent.
        RequestReady = "request.ready",
        /// The opening message is taken.
        RequestAccepted = "request.accepted",
        /// The validation is not on the chain, and will not be.
        ValidationFailed = "validation.failed",
        /// The claims fit the schema.
        ClaimsFit = "claims.fit",
        /// They do not.
        ClaimsMissing = "claims.missing",
        /// The credential has passed every check and is stored.
        CredentialAccepted = "credential.accepted",
        /// It has not passed.
        CredentialRefused = "credential.refused",
        /// Another flow of the same participant begins.
        FlowReplaced = "flow.replaced",
        /// Message of an applicant that begins.
        OnboardingRequest = "onboarding-request",
        /// Message of an applicant that wants a credential without an onboarding.
        IssuanceRequest = "issuance-request",
        /// Message of a validator that works on it.
        Validating = "validating",
        /// Message of a validator that wants something done elsewhere.
        OobLink = "oob-link",
        /// Message with an offer.
        OfferCredential = "offer-credential",
        /// Message of a holder that has the credential.
        Ack = "ack",
        /// Message that ends the exchange of a credential.
        IssueProblemReport = "issue-problem-report",
        /// Message of an issuer about the state of a credential.
        CredentialStateChange = "credential-state-change",
        /// Problem report of a peer that has ended the flow.
        ReportEnded = "problem-report.ended",
        /// Problem report of a validator that refuses.
        ReportRefused = "problem-report.refused",
        /// Problem report that leaves no way on.
        ReportFatal = "problem-report.fatal",
        /// Problem report of a validator that states a revocation.
        ReportParticipantRevoked = "problem-report.participant-revoked",
        /// Problem report of a validator that states a slashing.
        ReportParticipantSlashed = "problem-report.participant-slashed",
        /// Call of the validator's operator.
        SendOobLink = "sendOobLink",
        /// Call of the validator's operator.
        StartValidation = "startValidation",
        /// Call of the validator's operator.
        ValidateFlow = "validateFlow",
        /// Call of the validator's operator.
        RejectFlow = "rejectFlow",
    }
}

named! {
    /// The kind of a trigger.
    TriggerKind {
        /// A read of a participant at the node.
        Chain = "chain",
        /// A message that has passed all checks.
        Message = "message",
        /// A call of the validator's operator.
        Api = "api",
        /// A call of the applicant's operator.
        Operator = "operator",
        /// The result of the agent's own step.
        Outcome = "outcome",
    }
}

named! {
    /// A condition of a transition.
    Guard {
        /// The participant has the agent's DID, and its validator exists.
        OwnParticipant = "own_participant",
        /// No flow of the participant has this round.
        NoFlowForRound = "no_flow_for_round",
        /// No flow of the participant is live.
        NoLiveFlow = "no_live_flow",
        /// The participant is PENDING, or VALIDATED as a HOLDER without a credential.
        OpensWithoutEvent = "opens_without_event",
        /// The validator's participant has the agent's own DID.
        SelfValidated = "self_validated",
        /// The peer is trusted now.
        GatePassed = "gate_passed",
        /// The peer is trusted now, or is about to be by this flow.
        GateOrExempt = "gate_or_exempt",
        /// The ecosystem of an essential schema counts, and the parent is the right one.
        EcosystemAllowed = "ecosystem_allowed",
        /// The applicant's participant is the one that it says, and its session is free.
        RequestFits = "request_fits",
        /// The session id is no other's.
        SessionFree = "session_free",
        /// The schema needs no onboarding of holders.
        Permissionless = "permissionless",
        /// The peer is an active issuer of the schema.
        PeerIssuerActive = "peer_issuer_active",
        /// The agent is an active issuer of the schema.
        OwnIssuerActive = "own_issuer_active",
        /// The node shows the applicant's participant as VALIDATED and active.
        OpValidated = "op_validated",
        /// The applicant's participant is a HOLDER.
        Holder = "holder",
        /// The connection is established.
        Established = "established",
        /// The terms of the call fit.
        TermsFit = "terms_fit",
        /// The agent's account may send the validation.
        GrantUsable = "grant_usable",
        /// The simulation of the validation passed.
        PreflightPassed = "preflight_passed",
        /// The claims fit the schema.
        ClaimsFit = "claims_fit",
        /// The credential is signed, and its transaction failed.
        AnchoringFailed = "anchoring_failed",
        /// Another record of this participant's round was paid.
        AlreadyIssued = "already_issued",
        /// The credential of this exchange was sent.
        Delivered = "delivered",
        /// The message names the exchange of the flow.
        NamesExchange = "names_exchange",
        /// The state in the message is REVOKED.
        StateRevoked = "state_revoked",
        /// Peer, session and participant or schema are those of the flow.
        SamePeer = "same_peer",
        /// The operator has decided.
        DecisionRecorded = "decision_recorded",
        /// No other flow of the participant is newer.
        NewestFlow = "newest_flow",
        /// A credential of the flow is held.
        CredentialHeld = "credential_held",
        /// An earlier round ended with a credential that was not revoked.
        CredentialDelivered = "credential_delivered",
        /// The last credential was revoked.
        CredentialRevoked = "credential_revoked",
        /// The node shows the participant as the report says.
        NodeConfirms = "node_confirms",
    }
}

named! {
    /// A message that a transition sends.
    Outgoing {
        /// The applicant's first message.
        OnboardingRequest = "onboarding-request",
        /// The applicant's first message without an onboarding.
        IssuanceRequest = "issuance-request",
        /// The request for the offered credential.
        RequestCredential = "request-credential",
        /// The credential is held.
        Ack = "ack",
        /// The exchange of the credential ends.
        IssueProblemReport = "issue-problem-report",
        /// The validator works on it.
        Validating = "validating",
        /// Something is to be done at a link.
        OobLink = "oob-link",
        /// A credential is offered.
        OfferCredential = "offer-credential",
        /// The credential is revoked.
        CredentialRevoked = "credential-state-change REVOKED",
        /// The applicant ends the flow.
        SessionTerminated = "problem-report session-terminated",
        /// The validator ends the flow with the code of the call.
        Rejected = "problem-report with the code, who_retries NONE",
        /// The validator's participant is revoked.
        ParticipantRevoked = "problem-report participant-revoked",
        /// The validator's participant is slashed.
        ParticipantSlashed = "problem-report participant-slashed",
    }
}

named! {
    /// A change of the record beside its state, or the agent's own step that follows.
    Effect {
        /// The record begins with a session id of its own.
        NewSession = "new session",
        /// The claims are read from their source.
        ReadClaims = "read claims",
        /// The connection is established.
        Establish = "establish",
        /// The link is gone.
        ClearOobLink = "clear oobLink",
        /// The link is the one of the message or the call.
        SetOobLink = "set oobLink",
        /// The last problem report is settled.
        ClearRefusal = "clear refusal",
        /// The message or the call is kept among the messages for people.
        KeepMessage = "keep message",
        /// An exchange of a credential begins, in the place of an older one.
        NewExchange = "new exchange",
        /// The thread of the flow is that of the message.
        NewThread = "new thread",
        /// The credential is held, in the place of one of an earlier round.
        HoldCredential = "hold credential",
        /// The credential leaves the DID Document and the store.
        DropCredential = "drop credential",
        /// A credential that was not delivered is forgotten.
        DiscardCredential = "discard credential",
        /// The next round begins.
        NextRound = "next round",
        /// The decision of the operator is kept.
        RecordValidation = "record validation",
        /// The validation is sent by the agent.
        SubmitValidation = "submit validation",
        /// The transaction of the validation failed.
        FailValidation = "fail validation",
        /// The decision is that of the chain.
        FillValidation = "fill validation",
        /// The credential that is stored is anchored again.
        AnchorAgain = "anchor again",
        /// An older flow of the participant ends.
        ReplaceOlder = "replace older",
    }
}

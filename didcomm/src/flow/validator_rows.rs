//! The transitions of a validator.

use super::{
    state::{
        FlowState::{self, *},
        Side, Variant,
    },
    transition::{Transition, no, yes},
    trigger::{Effect, Guard, Outgoing, Trigger},
};

const ONBOARDING: Option<Variant> = Some(Variant::Onboarding);
const DIRECT: Option<Variant> = Some(Variant::Direct);
const BOTH: Option<Variant> = None;

const fn row(
    id: &'static str,
    variant: Option<Variant>,
    from: &'static [FlowState],
    to: FlowState,
    trigger: Trigger,
) -> Transition {
    Transition::new((id, Side::Validator), variant, from, to, trigger)
}

/// The rows, in the order of the contract. Of those of one trigger the first whose guards hold is taken.
pub(super) const ROWS: &[Transition] = &[
    row("V01", ONBOARDING, &[], AwaitingOr, Trigger::OnboardingRequest)
        .when(&[yes(Guard::GateOrExempt), yes(Guard::RequestFits)])
        .with(&[Effect::ReplaceOlder]),
    row("V02", DIRECT, &[], AwaitingIr, Trigger::IssuanceRequest).when(&[
        yes(Guard::GatePassed),
        yes(Guard::Permissionless),
        yes(Guard::OwnIssuerActive),
        yes(Guard::SessionFree),
    ]),
    row("V03", ONBOARDING, &[AwaitingOr], Validating, Trigger::RequestAccepted).sends(Outgoing::Validating),
    row("V04", DIRECT, &[AwaitingIr], Validating, Trigger::RequestAccepted).sends(Outgoing::Validating),
    row("V05", BOTH, &[Validating, OobPending], OobPending, Trigger::SendOobLink)
        .when(&[yes(Guard::Established)])
        .with(&[Effect::SetOobLink, Effect::KeepMessage])
        .sends(Outgoing::OobLink),
    row("V06", BOTH, &[OobPending], Validating, Trigger::StartValidation)
        .when(&[yes(Guard::Established)])
        .with(&[Effect::ClearOobLink, Effect::KeepMessage])
        .sends(Outgoing::Validating),
    row("V07", BOTH, &[OobPending], Validating, Trigger::ValidateFlow)
        .when(&[yes(Guard::Established), yes(Guard::TermsFit)])
        .with(&[Effect::ClearOobLink])
        .sends(Outgoing::Validating),
    row("V08", ONBOARDING, &[Validating, ValidationTxFailed], AwaitingValidationTx, Trigger::ValidateFlow)
        .when(&[yes(Guard::TermsFit), no(Guard::GrantUsable)])
        .with(&[Effect::RecordValidation]),
    row("V09", ONBOARDING, &[Validating, ValidationTxFailed], ValidationTxSubmitted, Trigger::ValidateFlow)
        .when(&[yes(Guard::TermsFit), yes(Guard::GrantUsable), yes(Guard::PreflightPassed)])
        .with(&[Effect::RecordValidation, Effect::SubmitValidation]),
    row("V10", ONBOARDING, &[Validating, ValidationTxFailed], ValidationTxFailed, Trigger::ValidateFlow)
        .when(&[yes(Guard::TermsFit), yes(Guard::GrantUsable), no(Guard::PreflightPassed)])
        .with(&[Effect::RecordValidation, Effect::FailValidation]),
    row("V11", ONBOARDING, &[ValidationTxSubmitted], ValidationTxFailed, Trigger::ValidationFailed)
        .with(&[Effect::FailValidation]),
    row(
        "V12",
        ONBOARDING,
        &[AwaitingOr, OobPending, Validating, AwaitingValidationTx, ValidationTxSubmitted, ValidationTxFailed],
        Validated,
        Trigger::ChainValidated,
    )
    .with(&[Effect::FillValidation, Effect::ClearOobLink]),
    row("V13", ONBOARDING, &[TerminatedByValidator], Validated, Trigger::ChainValidated)
        .when(&[yes(Guard::DecisionRecorded), yes(Guard::NewestFlow)])
        .with(&[Effect::FillValidation]),
    row("V14", ONBOARDING, &[Validated], CredOffered, Trigger::ClaimsFit)
        .when(&[yes(Guard::Holder), yes(Guard::Established), yes(Guard::OwnIssuerActive), no(Guard::AlreadyIssued)])
        .with(&[Effect::NewExchange])
        .sends(Outgoing::OfferCredential),
    row("V15", ONBOARDING, &[Validated], ValidatedPendingClaims, Trigger::ClaimsMissing).when(&[yes(Guard::Holder)]),
    row("V16", ONBOARDING, &[Validated, ValidatedPendingClaims], CredOffered, Trigger::ValidateFlow)
        .when(&[yes(Guard::Holder), yes(Guard::ClaimsFit), yes(Guard::Established), yes(Guard::OwnIssuerActive)])
        .with(&[Effect::NewExchange])
        .sends(Outgoing::OfferCredential),
    row("V17", DIRECT, &[Validating], CredOffered, Trigger::ValidateFlow)
        .when(&[yes(Guard::ClaimsFit), yes(Guard::Established), yes(Guard::OwnIssuerActive)])
        .with(&[Effect::NewExchange])
        .sends(Outgoing::OfferCredential),
    row("V18", BOTH, &[CredOffered], CredOffered, Trigger::ValidateFlow)
        .when(&[yes(Guard::AnchoringFailed)])
        .with(&[Effect::AnchorAgain]),
    row("V19", BOTH, &[CredOffered], Completed, Trigger::Ack).when(&[yes(Guard::NamesExchange), yes(Guard::Delivered)]),
    row("V20", BOTH, &[CredOffered], Error, Trigger::IssueProblemReport).when(&[yes(Guard::NamesExchange)]),
    row("V21", ONBOARDING, &[CredOffered, Completed], CredOffered, Trigger::OnboardingRequest)
        .when(&[yes(Guard::SamePeer), yes(Guard::OpValidated), yes(Guard::Established)])
        .with(&[Effect::NewThread, Effect::NewExchange])
        .sends(Outgoing::OfferCredential),
    row("V22", DIRECT, &[CredOffered, Completed], CredOffered, Trigger::IssuanceRequest)
        .when(&[yes(Guard::SamePeer), yes(Guard::Established)])
        .with(&[Effect::NewThread, Effect::NewExchange])
        .sends(Outgoing::OfferCredential),
    row("V23", ONBOARDING, &[Completed], CredRevoked, Trigger::ChainRevoked).sends(Outgoing::CredentialRevoked),
    row("V24", ONBOARDING, &[Completed], CredRevoked, Trigger::ChainSlashed).sends(Outgoing::CredentialRevoked),
    row(
        "V25",
        ONBOARDING,
        &[Completed, CredRevoked, Validated, ValidatedPendingClaims, CredOffered],
        AwaitingOr,
        Trigger::ChainPending,
    )
    .with(&[Effect::NextRound]),
    row(
        "V26",
        ONBOARDING,
        &[AwaitingOr, OobPending, Validating, AwaitingValidationTx, ValidationTxFailed],
        TerminatedByValidator,
        Trigger::RejectFlow,
    )
    .when(&[no(Guard::OpValidated)])
    .sends(Outgoing::Rejected),
    row("V27", DIRECT, &[AwaitingIr, OobPending, Validating], TerminatedByValidator, Trigger::RejectFlow)
        .sends(Outgoing::Rejected),
    row(
        "V28",
        ONBOARDING,
        &[AwaitingOr, OobPending, Validating, AwaitingValidationTx, ValidationTxSubmitted, ValidationTxFailed],
        TerminatedByApplicant,
        Trigger::ChainTerminated,
    )
    .with(&[Effect::ClearOobLink, Effect::DiscardCredential]),
    row(
        "V29",
        ONBOARDING,
        &[AwaitingOr, OobPending, Validating, AwaitingValidationTx, ValidationTxSubmitted, ValidationTxFailed],
        Completed,
        Trigger::ChainRestored,
    )
    .when(&[yes(Guard::CredentialDelivered)])
    .with(&[Effect::ClearOobLink]),
    row(
        "V30",
        ONBOARDING,
        &[AwaitingOr, OobPending, Validating, AwaitingValidationTx, ValidationTxSubmitted, ValidationTxFailed],
        CredRevoked,
        Trigger::ChainRestored,
    )
    .when(&[no(Guard::CredentialDelivered), yes(Guard::CredentialRevoked)])
    .with(&[Effect::ClearOobLink]),
    row(
        "V31",
        ONBOARDING,
        &[AwaitingOr, OobPending, Validating, AwaitingValidationTx, ValidationTxSubmitted, ValidationTxFailed],
        Validated,
        Trigger::ChainRestored,
    )
    .when(&[no(Guard::CredentialDelivered), no(Guard::CredentialRevoked)])
    .with(&[Effect::ClearOobLink]),
    row(
        "V32",
        ONBOARDING,
        &[
            AwaitingOr,
            OobPending,
            Validating,
            AwaitingValidationTx,
            ValidationTxSubmitted,
            ValidationTxFailed,
            Validated,
            ValidatedPendingClaims,
            CredOffered,
        ],
        ParticipantRevoked,
        Trigger::ChainRevoked,
    )
    .with(&[Effect::ClearOobLink, Effect::DiscardCredential]),
    row(
        "V33",
        ONBOARDING,
        &[
            AwaitingOr,
            OobPending,
            Validating,
            AwaitingValidationTx,
            ValidationTxSubmitted,
            ValidationTxFailed,
            Validated,
            ValidatedPendingClaims,
            CredOffered,
        ],
        ParticipantSlashed,
        Trigger::ChainSlashed,
    )
    .with(&[Effect::ClearOobLink, Effect::DiscardCredential]),
    row(
        "V34",
        BOTH,
        &[
            AwaitingOr,
            OobPending,
            Validating,
            AwaitingValidationTx,
            ValidationTxSubmitted,
            ValidationTxFailed,
            AwaitingIr,
            ValidatedPendingClaims,
            CredOffered,
        ],
        ParticipantRevoked,
        Trigger::ValidatorRevoked,
    )
    .with(&[Effect::ClearOobLink, Effect::DiscardCredential])
    .sends(Outgoing::ParticipantRevoked),
    row("V35", ONBOARDING, &[Validated], ParticipantRevoked, Trigger::ValidatorRevoked)
        .when(&[yes(Guard::Holder)])
        .sends(Outgoing::ParticipantRevoked),
    row(
        "V36",
        BOTH,
        &[
            AwaitingOr,
            OobPending,
            Validating,
            AwaitingValidationTx,
            ValidationTxSubmitted,
            ValidationTxFailed,
            AwaitingIr,
            ValidatedPendingClaims,
            CredOffered,
        ],
        ParticipantSlashed,
        Trigger::ValidatorSlashed,
    )
    .with(&[Effect::ClearOobLink, Effect::DiscardCredential])
    .sends(Outgoing::ParticipantSlashed),
    row("V37", ONBOARDING, &[Validated], ParticipantSlashed, Trigger::ValidatorSlashed)
        .when(&[yes(Guard::Holder)])
        .sends(Outgoing::ParticipantSlashed),
    row(
        "V38",
        BOTH,
        &[
            AwaitingOr,
            OobPending,
            Validating,
            AwaitingValidationTx,
            ValidationTxSubmitted,
            ValidationTxFailed,
            AwaitingIr,
            Validated,
            ValidatedPendingClaims,
            CredOffered,
            Completed,
            CredRevoked,
        ],
        TerminatedByApplicant,
        Trigger::ReportEnded,
    ),
    row(
        "V39",
        BOTH,
        &[
            AwaitingOr,
            AwaitingIr,
            OobPending,
            Validating,
            AwaitingValidationTx,
            ValidationTxFailed,
            ValidatedPendingClaims,
            CredOffered,
        ],
        Error,
        Trigger::ReportFatal,
    ),
    row(
        "V40",
        ONBOARDING,
        &[
            AwaitingOr,
            OobPending,
            Validating,
            AwaitingValidationTx,
            ValidationTxSubmitted,
            ValidationTxFailed,
            Validated,
            ValidatedPendingClaims,
            CredOffered,
        ],
        Error,
        Trigger::FlowReplaced,
    ),
];

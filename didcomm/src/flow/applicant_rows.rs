//! The transitions of an applicant.

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
    Transition::new((id, Side::Applicant), variant, from, to, trigger)
}

/// The rows, in the order of the contract. Of those of one trigger the first whose guards hold is taken.
pub(super) const ROWS: &[Transition] = &[
    row("A01", ONBOARDING, &[], AwaitingOp, Trigger::ChainPending)
        .when(&[yes(Guard::OwnParticipant), yes(Guard::NoFlowForRound), no(Guard::SelfValidated)])
        .with(&[Effect::NewSession, Effect::ReadClaims]),
    row("A02", ONBOARDING, &[], AwaitingOp, Trigger::FlowsOpen)
        .when(&[
            yes(Guard::OwnParticipant),
            yes(Guard::NoLiveFlow),
            yes(Guard::OpensWithoutEvent),
            no(Guard::SelfValidated),
        ])
        .with(&[Effect::NewSession, Effect::ReadClaims]),
    row("A03", ONBOARDING, &[AwaitingOp], OrSent, Trigger::RequestReady)
        .when(&[yes(Guard::GatePassed), yes(Guard::EcosystemAllowed)])
        .with(&[Effect::Establish])
        .sends(Outgoing::OnboardingRequest),
    row("A04", ONBOARDING, &[AwaitingOp], Validated, Trigger::ChainValidated).when(&[no(Guard::Holder)]),
    row("A05", DIRECT, &[], IrSent, Trigger::FlowsRequest)
        .when(&[yes(Guard::Permissionless), yes(Guard::PeerIssuerActive), yes(Guard::GatePassed)])
        .with(&[Effect::NewSession, Effect::ReadClaims])
        .sends(Outgoing::IssuanceRequest),
    row("A06", ONBOARDING, &[OrSent, OobPending], Validating, Trigger::Validating).with(&[
        Effect::ClearOobLink,
        Effect::ClearRefusal,
        Effect::KeepMessage,
    ]),
    row("A07", DIRECT, &[IrSent, OobPending], Validating, Trigger::Validating).with(&[
        Effect::ClearOobLink,
        Effect::ClearRefusal,
        Effect::KeepMessage,
    ]),
    row("A08", ONBOARDING, &[OrSent, Validating, OobPending], OobPending, Trigger::OobLink)
        .with(&[Effect::SetOobLink, Effect::KeepMessage]),
    row("A09", DIRECT, &[IrSent, Validating, OobPending], OobPending, Trigger::OobLink)
        .with(&[Effect::SetOobLink, Effect::KeepMessage]),
    row("A10", ONBOARDING, &[OrSent, Validating, OobPending], Validated, Trigger::ChainValidated)
        .with(&[Effect::ClearOobLink]),
    row(
        "A11",
        ONBOARDING,
        &[OrSent, Validating, OobPending, Validated, CredOffered, Completed, CredRevoked],
        CredOffered,
        Trigger::OfferCredential,
    )
    .when(&[yes(Guard::Holder), yes(Guard::OpValidated)])
    .with(&[Effect::NewExchange])
    .sends(Outgoing::RequestCredential),
    row(
        "A12",
        DIRECT,
        &[IrSent, Validating, OobPending, CredOffered, Completed, CredRevoked],
        CredOffered,
        Trigger::OfferCredential,
    )
    .when(&[yes(Guard::PeerIssuerActive)])
    .with(&[Effect::NewExchange])
    .sends(Outgoing::RequestCredential),
    row("A13", BOTH, &[CredOffered], Completed, Trigger::CredentialAccepted)
        .with(&[Effect::HoldCredential])
        .sends(Outgoing::Ack),
    row("A14", BOTH, &[CredOffered], Error, Trigger::CredentialRefused).sends(Outgoing::IssueProblemReport),
    row("A15", BOTH, &[CredOffered], Error, Trigger::IssueProblemReport).when(&[yes(Guard::NamesExchange)]),
    row("A16", BOTH, &[Completed], CredRevoked, Trigger::CredentialStateChange)
        .when(&[yes(Guard::NamesExchange), yes(Guard::StateRevoked)])
        .with(&[Effect::DropCredential]),
    row("A17", ONBOARDING, &[Completed], CredRevoked, Trigger::ChainRevoked).with(&[Effect::DropCredential]),
    row("A18", ONBOARDING, &[Completed], CredRevoked, Trigger::ChainSlashed).with(&[Effect::DropCredential]),
    row("A19", ONBOARDING, &[Completed, CredRevoked, Validated, CredOffered], OrSent, Trigger::ChainPending)
        .when(&[yes(Guard::GatePassed)])
        .with(&[Effect::NextRound, Effect::ReadClaims])
        .sends(Outgoing::OnboardingRequest),
    row(
        "A20",
        ONBOARDING,
        &[AwaitingOp, OrSent, Validating, OobPending],
        TerminatedByApplicant,
        Trigger::ChainTerminated,
    ),
    row("A21", ONBOARDING, &[OrSent, Validating, OobPending], Completed, Trigger::ChainRestored)
        .when(&[yes(Guard::CredentialHeld)]),
    row("A22", ONBOARDING, &[OrSent, Validating, OobPending], CredRevoked, Trigger::ChainRestored)
        .when(&[no(Guard::CredentialHeld), yes(Guard::CredentialRevoked)]),
    row("A23", ONBOARDING, &[OrSent, Validating, OobPending], Validated, Trigger::ChainRestored)
        .when(&[no(Guard::CredentialHeld), no(Guard::CredentialRevoked)]),
    row(
        "A24",
        ONBOARDING,
        &[AwaitingOp, OrSent, OobPending, Validating, Validated, CredOffered],
        ParticipantRevoked,
        Trigger::ChainRevoked,
    )
    .with(&[Effect::DropCredential]),
    row(
        "A25",
        ONBOARDING,
        &[AwaitingOp, OrSent, OobPending, Validating, Validated, CredOffered],
        ParticipantSlashed,
        Trigger::ChainSlashed,
    )
    .with(&[Effect::DropCredential]),
    row(
        "A26",
        BOTH,
        &[OrSent, IrSent, OobPending, Validating, Validated, CredOffered, Completed, CredRevoked],
        TerminatedByValidator,
        Trigger::ReportEnded,
    ),
    row(
        "A27",
        BOTH,
        &[OrSent, IrSent, OobPending, Validating, Validated, CredOffered],
        TerminatedByValidator,
        Trigger::ReportRefused,
    ),
    row("A28", BOTH, &[OrSent, IrSent, OobPending, Validating, Validated, CredOffered], Error, Trigger::ReportFatal),
    row(
        "A29",
        BOTH,
        &[OrSent, IrSent, OobPending, Validating, Validated, CredOffered],
        ParticipantRevoked,
        Trigger::ReportParticipantRevoked,
    )
    .when(&[yes(Guard::NodeConfirms)]),
    row(
        "A30",
        BOTH,
        &[OrSent, IrSent, OobPending, Validating, Validated, CredOffered],
        Error,
        Trigger::ReportParticipantRevoked,
    )
    .when(&[no(Guard::NodeConfirms)]),
    row(
        "A31",
        BOTH,
        &[OrSent, IrSent, OobPending, Validating, Validated, CredOffered],
        ParticipantSlashed,
        Trigger::ReportParticipantSlashed,
    )
    .when(&[yes(Guard::NodeConfirms)]),
    row(
        "A32",
        BOTH,
        &[OrSent, IrSent, OobPending, Validating, Validated, CredOffered],
        Error,
        Trigger::ReportParticipantSlashed,
    )
    .when(&[no(Guard::NodeConfirms)]),
    row(
        "A33",
        BOTH,
        &[AwaitingOp, OrSent, IrSent, OobPending, Validating, Validated, CredOffered, Completed, CredRevoked],
        TerminatedByApplicant,
        Trigger::FlowsEnd,
    )
    .sends(Outgoing::SessionTerminated),
];

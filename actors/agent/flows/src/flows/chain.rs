//! Reads of participants at the node, and the flows that they begin and move. Pure, but for the ids.

use serde_json::{Map, Value};
use svc_agent_core::flows::{ShownParticipant, messages_of};
use svc_agent_store::FlowRefusal;
use svc_didcomm::{
    Message,
    flow::{
        Cause, FlowRecord, Guard, MessageParts, NewFlow, OnboardingState, Outgoing, Progress, Side, Trigger, Variant,
        begin, validator_trigger,
    },
};
use svc_wire::proto::svc::pp::v1::{Participant, ParticipantRole};
use uuid::Uuid;

/// The circumstances of a read. Times are milliseconds since the epoch.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadContext {
    /// Whether no newer flow has the participant.
    pub is_newest: bool,
    /// Whether the peer is a verifiable service.
    pub is_gate_passed: bool,
    /// Claims for a renewal.
    pub claims: Option<Map<String, Value>>,
    /// Connection for a renewal.
    pub connection_id: Option<String>,
    /// Time.
    pub now: i64,
}

/// The flow behind reads of the applicant's participant, if it has one, and of the validator's where it is ours. Nothing when nothing is new; the height of a
/// read is.
pub(crate) fn after_read(
    record: &FlowRecord,
    applicant: Option<&ShownParticipant>,
    own_validator: Option<&ShownParticipant>,
    context: &ReadContext,
) -> Option<(Progress, Vec<Message>)> {
    let mut progress = Progress::of(record.clone());
    let facts = [(context.is_newest, Guard::NewestFlow), (context.is_gate_passed, Guard::GatePassed)];
    let facts = facts.into_iter().filter(|(holds, _)| *holds).map(|(_, guard)| guard);
    let cause = Cause {
        read: applicant.map(ShownParticipant::to_read),
        validation: applicant.map(|applicant| applicant.to_validation(context.now)),
        new_id: Uuid::new_v4().to_string(),
        ..Cause::new(Trigger::ChainPending, context.now)
    };
    let cause = cause.with_facts(facts);
    progress.take_read(&cause);
    let of_validator = own_validator.filter(|_| record.side == Side::Validator);
    if let Some(trigger) = of_validator.and_then(|own| validator_trigger(&own.to_read())) {
        progress.take(&Cause { trigger, read: None, ..cause });
    }
    if progress.sends.contains(&Outgoing::OnboardingRequest) {
        progress.record.claims.clone_from(&context.claims);
        progress.record.connection_id = context.connection_id.clone().or(progress.record.connection_id);
    }
    if progress.record == *record {
        return None;
    }
    let messages = messages_of(Some(record), &progress, |_, _| MessageParts::default());
    Some((progress, messages))
}

/// An application of this agent that may begin a flow.
pub(crate) struct Application<'a> {
    /// DID of the agent.
    pub own_did: &'a str,
    /// Its participant.
    pub applicant: &'a ShownParticipant,
    /// The participant that validates it.
    pub validator: &'a Participant,
    /// The flows of the participant on this side, the newest first.
    pub known: &'a [FlowRecord],
    /// Claims of the credential.
    pub claims: Option<Map<String, Value>>,
    /// Milliseconds since the epoch.
    pub now: i64,
}

/// The reason for which an application begins no flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoApplication {
    /// The node lags behind an earlier read, and says nothing.
    LateRead,
    /// A condition does not hold.
    Unmet(Guard),
    /// The store has no place for it.
    Refused(FlowRefusal),
}

/// Why an application has no flow that has begun by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ApplicationError {
    /// A condition is against it.
    NotBegun(NoApplication),
    /// The node or the store failed.
    Failed(String),
}

impl Application<'_> {
    /// Begins the flow: by a read that shows a new application, or by a call of the operator.
    pub fn begin(&self, trigger: Trigger) -> Result<Progress, NoApplication> {
        let (shown, read) = (&self.applicant.participant, self.applicant.to_read());
        if self.known.iter().any(|flow| read.height < flow.round.read_at) {
            return Err(NoApplication::LateRead);
        }
        let unmet = |guard| Err(NoApplication::Unmet(guard));
        // A flow that has not ended goes on by the read itself.
        if self.known.iter().any(|flow| !flow.state.is_terminal()) {
            return unmet(Guard::NoLiveFlow);
        }
        let is_holder = shown.role() == ParticipantRole::Holder;
        let lacks_credential = self.known.first().is_none_or(|newest| newest.lacks_credential(&read));
        let is_taken_away = read.is_revoked || read.is_slashed;
        let opens = match read.state {
            OnboardingState::Pending => !is_taken_away,
            OnboardingState::Validated => !is_taken_away && is_holder && lacks_credential,
            OnboardingState::None | OnboardingState::Terminated => false,
        };
        if !opens {
            return unmet(Guard::OpensWithoutEvent);
        }
        let is_known_round = self.known.iter().any(|flow| flow.round.changed_at == read.changed_at);
        let is_own = shown.did == self.own_did && shown.validator_participant_id == self.validator.id;
        let facts = [
            (is_own, Guard::OwnParticipant),
            (!is_known_round, Guard::NoFlowForRound),
            (true, Guard::NoLiveFlow),
            (true, Guard::OpensWithoutEvent),
            (self.validator.did == self.own_did, Guard::SelfValidated),
        ];
        let facts = facts.into_iter().filter(|(holds, _)| *holds).map(|(_, guard)| guard);
        let cause = Cause { read: Some(read), ..Cause::new(trigger, self.now) }.with_facts(facts);
        let new = NewFlow {
            id: Uuid::now_v7().to_string(),
            side: Side::Applicant,
            variant: Variant::Onboarding,
            peer_did: self.validator.did.clone(),
            connection_id: None,
            schema_id: shown.schema_id,
            applicant_participant_id: Some(shown.id),
            validator_participant_id: Some(self.validator.id),
            is_holder,
            session_id: Uuid::new_v4().to_string(),
            claims: self.claims.clone(),
            proofs: None,
        };
        begin(new, &cause).map_err(NoApplication::Unmet)
    }
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;
    use svc_didcomm::flow::{FlowState, Submission};
    use svc_wire::proto::svc::pp::v1::OnboardingState as WireState;

    use super::*;

    const OWN: &str = "did:web:ours";

    fn shown(state: WireState, changed_at: i64, height: u64) -> ShownParticipant {
        let participant = Participant {
            id: 7,
            schema_id: 4,
            role: ParticipantRole::Holder as i32,
            did: OWN.to_owned(),
            validator_participant_id: 3,
            op_state: state as i32,
            op_last_state_change: Some(Timestamp { seconds: changed_at, nanos: 0 }),
            op_exp: (state == WireState::Validated).then_some(Timestamp { seconds: 900, nanos: 0 }),
            ..Participant::default()
        };
        ShownParticipant { participant, height }
    }

    fn validator() -> Participant {
        Participant { id: 3, did: "did:web:theirs".to_owned(), ..Participant::default() }
    }

    fn begin_with(
        applicant: &ShownParticipant,
        known: &[FlowRecord],
        trigger: Trigger,
    ) -> Result<FlowRecord, NoApplication> {
        let validator = validator();
        let application =
            Application { own_did: OWN, applicant, validator: &validator, known, claims: None, now: 1_000 };
        application.begin(trigger).map(|progress| progress.record)
    }

    fn in_state(state: FlowState) -> FlowRecord {
        let pending = shown(WireState::Pending, 5, 9);
        FlowRecord {
            state,
            thread_id: Some("t".into()),
            ..begin_with(&pending, &[], Trigger::ChainPending).expect("begins")
        }
    }

    #[test]
    fn an_application_begins_one_flow_for_each_round() {
        let pending = shown(WireState::Pending, 5, 9);
        let begun = begin_with(&pending, &[], Trigger::ChainPending).expect("it begins");
        assert_eq!(
            (begun.state, begun.peer_did.as_str(), begun.schema_id),
            (FlowState::AwaitingOp, "did:web:theirs", 4)
        );
        assert_ne!(begun.session_id, begin_with(&pending, &[], Trigger::ChainPending).expect("begins").session_id);

        let ended = |state| FlowRecord { state, ..begun.clone() };
        let unmet = |guard| Err(NoApplication::Unmet(guard));
        let live = std::slice::from_ref(&begun);
        assert_eq!(begin_with(&pending, live, Trigger::ChainPending), unmet(Guard::NoLiveFlow));
        let over = [ended(FlowState::TerminatedByValidator)];
        assert_eq!(begin_with(&pending, &over, Trigger::ChainPending), unmet(Guard::NoFlowForRound));
        assert!(begin_with(&pending, &over, Trigger::FlowsOpen).is_ok(), "the operator may begin again");
        assert!(begin_with(&shown(WireState::Pending, 6, 10), &over, Trigger::ChainPending).is_ok(), "another round");
        let late = shown(WireState::Pending, 6, 8);
        assert_eq!(begin_with(&late, &over, Trigger::ChainPending), Err(NoApplication::LateRead));

        let validated = shown(WireState::Validated, 6, 10);
        assert!(begin_with(&validated, &over, Trigger::FlowsOpen).is_ok(), "its credential is missing");
        for (name, change) in [
            ("cancelled", Participant { op_state: WireState::Terminated as i32, ..validated.participant.clone() }),
            ("revoked", Participant { revoked: Some(Timestamp::default()), ..validated.participant.clone() }),
            (
                "without a credential",
                Participant { role: ParticipantRole::Issuer as i32, ..validated.participant.clone() },
            ),
        ] {
            let changed = ShownParticipant { participant: change, height: 10 };
            assert_eq!(begin_with(&changed, &[], Trigger::FlowsOpen), unmet(Guard::OpensWithoutEvent), "{name}");
        }
        let mut foreign = pending.clone();
        foreign.participant.did = "did:web:other".to_owned();
        assert_eq!(begin_with(&foreign, &[], Trigger::ChainPending), unmet(Guard::OwnParticipant));
        let own = Participant { did: OWN.to_owned(), ..validator() };
        let application =
            Application { own_did: OWN, applicant: &pending, validator: &own, known: &[], claims: None, now: 1 };
        assert!(matches!(application.begin(Trigger::ChainPending), Err(NoApplication::Unmet(Guard::SelfValidated))));
    }

    #[test]
    fn a_read_moves_the_flow_and_an_older_one_does_not() {
        let context = ReadContext { is_newest: true, is_gate_passed: true, now: 2_000, ..ReadContext::default() };
        let waiting = in_state(FlowState::OrSent);
        let validated = shown(WireState::Validated, 6, 12);
        let (progress, messages) = after_read(&waiting, Some(&validated), None, &context).expect("it moves");
        assert_eq!((progress.record.state, messages.len()), (FlowState::Validated, 0));
        assert_eq!(after_read(&progress.record, Some(&validated), None, &context), None, "it is known");
        let late = shown(WireState::Terminated, 7, 11);
        assert_eq!(after_read(&progress.record, Some(&late), None, &context), None, "its node lags");
        let higher = shown(WireState::Validated, 6, 13);
        let (refreshed, _) = after_read(&progress.record, Some(&higher), None, &context).expect("the height is kept");
        assert_eq!((refreshed.changes.len(), refreshed.record.round.read_at), (0, 13));

        // A renewal opens the flow again, with the claims of now.
        let completed = FlowRecord { state: FlowState::Completed, ..progress.record.clone() };
        let renewed = shown(WireState::Pending, 8, 14);
        let claims = serde_json::json!({"name": "n"}).as_object().cloned();
        let connection_id = Some("another".to_owned());
        let with_claims = ReadContext { claims: claims.clone(), connection_id, ..context.clone() };
        let (again, messages) = after_read(&completed, Some(&renewed), None, &with_claims).expect("it is renewed");
        assert_eq!(
            (again.record.state, again.record.round.number, &again.record.claims),
            (FlowState::OrSent, 2, &claims)
        );
        assert_eq!(again.record.connection_id.as_deref(), Some("another"), "the one of before may have ended");
        assert_eq!(
            messages.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(),
            [again.record.thread_id.as_deref().expect("a thread")]
        );
        let blocked = ReadContext { is_gate_passed: false, ..context };
        let (held_up, messages) = after_read(&completed, Some(&renewed), None, &blocked).expect("the height is kept");
        assert_eq!((held_up.record.state, messages.len()), (FlowState::Completed, 0), "the peer is not trusted now");
    }

    #[test]
    fn a_validator_without_its_participant_ends_what_is_unfinished() {
        let context = ReadContext { is_newest: true, now: 2_000, ..ReadContext::default() };
        let mut record = in_state(FlowState::Validating);
        record.side = Side::Validator;
        let pending = shown(WireState::Pending, 5, 12);
        let mut own = ShownParticipant { participant: validator(), height: 12 };
        let (untouched, _) = after_read(&record, Some(&pending), Some(&own), &context).expect("the height is kept");
        assert_eq!(untouched.record.state, FlowState::Validating);
        own.participant.revoked = Some(Timestamp::default());
        let (ended, messages) = after_read(&record, Some(&pending), Some(&own), &context).expect("it ends");
        assert_eq!((ended.record.state, messages.len()), (FlowState::ParticipantRevoked, 1));
        let (validated, _) =
            after_read(&record, Some(&shown(WireState::Validated, 6, 13)), None, &context).expect("moves");
        assert_eq!(validated.record.validation.map(|one| one.submission), Some(Submission::Operator));
    }
}

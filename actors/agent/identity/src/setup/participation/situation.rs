//! The participant of the DID that comes closest to the wanted one.

use svc_wire::{
    participant_state::ParticipantState,
    proto::svc::pp::v1::{OnboardingState, Participant},
    proto_registry::NodeGeneration,
};

use super::{super::facts::ParticipantPlace, Participation, has_type, seconds};

/// The participant of the DID that comes closest to the wanted one.
pub(super) enum Situation<'a> {
    /// It is active, and its record can be used until this time; for ever where there is none.
    Usable { participant: &'a Participant, end: Option<i64> },
    /// It has applied, and was never validated.
    Applied(&'a Participant),
    /// It begins later.
    Begins(&'a Participant),
    /// It is active, and its record has ended or has no end.
    Ended(&'a Participant),
    /// It is active, and gives the account no right.
    Rightless(&'a Participant, String),
    /// There is none.
    Absent,
}

impl<'a> Participation<'a> {
    fn is_candidate(&self, participant: &Participant) -> bool {
        let of_schema = match &self.wanted.place {
            Ok(place) if self.wanted.is_validator_fixed => participant.validator_participant_id == place.validator.id,
            _ => self.wanted.schemas.is_empty() || self.wanted.schemas.contains(&participant.schema_id),
        };
        participant.role == self.wanted.role as i32 && participant.corporation_id == self.own && of_schema
    }

    pub(super) fn situation(&self) -> Situation<'a> {
        let mut candidates: Vec<Situation<'a>> =
            self.facts.participants.iter().filter(|one| self.is_candidate(one)).map(|one| self.classify(one)).collect();
        let rank = |situation: &Situation<'_>| match situation {
            Situation::Usable { end, .. } => (5, end.unwrap_or(i64::MAX)),
            Situation::Begins(_) => (4, 0),
            Situation::Applied(_) => (3, 0),
            Situation::Ended(_) => (2, 0),
            Situation::Rightless(..) => (1, 0),
            Situation::Absent => (0, 0),
        };
        candidates.sort_by_key(rank);
        candidates.pop().unwrap_or(Situation::Absent)
    }

    fn classify(&self, participant: &'a Participant) -> Situation<'a> {
        let is_applicant = participant.op_state() == OnboardingState::Pending && participant.effective_from.is_none();
        let state = self.state(participant);
        match state {
            ParticipantState::Active | ParticipantState::Future => {}
            ParticipantState::Inactive if is_applicant => {}
            _ => return Situation::Absent,
        }
        let address = &self.facts.agent.address;
        if participant.vs_operator != *address {
            let reason = format!("names {:?} as its account, and the agent's is {address}", participant.vs_operator);
            return Situation::Rightless(participant, reason);
        }
        let record = self.facts.records.iter().find(|record| record.participant_id == participant.id);
        let lacks = |record: &&_| self.wanted.msg_types.iter().find(|one| !has_type(record, one));
        match record.as_ref().map(lacks) {
            None => return Situation::Rightless(participant, "gives the account no rights".to_owned()),
            Some(Some(lacking)) => return Situation::Rightless(participant, format!("does not allow {lacking}")),
            Some(None) => {}
        }
        // Later nodes have records that end with their participant: an expiration is that of a spend cycle there.
        let has_own_end = self.facts.generation.is_none_or(NodeGeneration::has_own_record_limits);
        let expires = record.and_then(|record| seconds(record.expiration.as_ref())).filter(|_| has_own_end);
        let may_lack_end = self.facts.generation > Some(NodeGeneration::N0);
        let until = seconds(participant.effective_until.as_ref());
        match (state, expires) {
            (ParticipantState::Future, _) => Situation::Begins(participant),
            (ParticipantState::Inactive, _) => Situation::Applied(participant),
            // With a period it is the end of a cycle, and the first use after it begins the next one.
            (_, Some(_)) if record.is_some_and(|record| record.period.is_some()) => {
                Situation::Usable { participant, end: until }
            }
            (_, Some(expires)) if expires > self.now() => {
                Situation::Usable { participant, end: Some(until.map_or(expires, |until| until.min(expires))) }
            }
            (_, None) if may_lack_end => Situation::Usable { participant, end: until },
            _ => Situation::Ended(participant),
        }
    }

    /// The place, if it is that of a participant.
    pub(super) fn place_of(&self, participant: &Participant) -> Option<&'a ParticipantPlace> {
        let place = self.wanted.place.as_ref().ok()?;
        (place.validator.id == participant.validator_participant_id).then_some(place)
    }
}

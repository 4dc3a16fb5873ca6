//! The steps towards one participant of the DID: the application or creation, the validation, the extension before its end. Pure.

mod situation;

use prost_types::Timestamp;
use serde_json::{Map, Value, json};
use svc_agent_core::participant::state_of;
use svc_wire::{
    participant_state::ParticipantState,
    proto::{
        cosmos::base::v1beta1::Coin,
        svc::{
            cs::v1::{CredentialSchema, HolderOnboardingMode, IssuerOnboardingMode},
            pp::v1::{OnboardingState, Participant, ParticipantRole},
        },
    },
    proto_registry::NodeGeneration,
    timestamp,
};

use self::situation::Situation;
use super::{
    facts::{GapEnd, MissingPlace, ParticipantPlace, SetupFacts, WantedParticipant},
    options::SetupOptions,
    step::{SetupStep, StepState},
};

const SELF_CREATE: &str = "svc.ledger.pp.selfCreateParticipant";
const APPLY: &str = "svc.ledger.pp.startParticipantOp";
const VALIDATE: &str = "svc.ledger.pp.setParticipantOpToValidated";
const EXTEND: &str = "svc.ledger.pp.setParticipantEffectiveUntil";
const RENEW: &str = "svc.ledger.pp.renewParticipantOp";

const DAY: i64 = 86_400;
/// Seconds between the plan and the beginning of a participant: the chain takes none that begins in the past, and a person reads the plan
/// before it is sent.
const LEAD_SECONDS: i64 = 30;
/// The same for a message that is sent at once: blocks that it may wait for, and seconds for its way to the node.
const LEAD_BLOCKS: u32 = 3;
const WAY_SECONDS: i64 = 2;
/// Longest time before an end at which the participant is extended. Of a short participation it is the last third.
const EXTEND_SECONDS: i64 = 30 * DAY;

/// The first step before a participant can be used; `None` when it can.
pub(super) fn first_open_step(
    facts: &SetupFacts,
    options: &SetupOptions,
    wanted: &WantedParticipant,
) -> Option<SetupStep> {
    let participation = Participation { facts, options, wanted, own: facts.agent.corporation_id };
    match participation.situation() {
        Situation::Usable { .. } => None,
        _ => participation.steps().into_iter().find(|step| step.state != StepState::Done),
    }
}

/// The steps towards a participant.
pub(super) fn participation_steps(
    facts: &SetupFacts,
    options: &SetupOptions,
    wanted: &WantedParticipant,
) -> Vec<SetupStep> {
    let participation = Participation { facts, options, wanted, own: facts.agent.corporation_id };
    participation.steps()
}

fn seconds(instant: Option<&Timestamp>) -> Option<i64> {
    instant.map(|instant| instant.seconds)
}

fn text(seconds: i64) -> String {
    timestamp::iso_seconds(&Timestamp { seconds, nanos: 0 })
}

struct Participation<'a> {
    facts: &'a SetupFacts,
    options: &'a SetupOptions,
    wanted: &'a WantedParticipant,
    own: u64,
}

impl<'a> Participation<'a> {
    fn steps(&self) -> Vec<SetupStep> {
        let id = &self.wanted.id;
        let done = |reason: String| SetupStep::new(id, StepState::Done, reason).of(self.own, self.own);
        match self.situation() {
            Situation::Usable { participant, end } => {
                let until = end.map_or_else(|| "without an end".to_owned(), |end| format!("until {}", text(end)));
                let mut steps = vec![done(format!("participant {}, {until}", participant.id))];
                match end {
                    Some(end) => steps.extend(self.extension(participant, end)),
                    None if participant.op_state() == OnboardingState::Pending => {
                        steps.push(self.validation(participant));
                    }
                    None => {}
                }
                steps
            }
            Situation::Applied(participant) => {
                let validation = self.validation(participant);
                vec![done(format!("participant {} has applied", participant.id)), validation]
            }
            Situation::Begins(participant) => {
                let from = seconds(participant.effective_from.as_ref()).unwrap_or_default();
                let reason = format!("participant {} begins at {}", participant.id, text(from));
                let waiting = SetupStep::new(id, StepState::Waiting, reason).of(self.own, self.own);
                vec![waiting.ending_in(from - self.now())]
            }
            Situation::Ended(participant) => {
                vec![self.extend(
                    id,
                    participant,
                    format!("the rights by participant {} have no end ahead", participant.id),
                )]
            }
            Situation::Rightless(participant, reason) => {
                let reason = format!("participant {} {reason}: revoke it, and look again", participant.id);
                vec![SetupStep::new(id, StepState::Missing, reason).of(self.own, self.own)]
            }
            Situation::Absent => vec![self.creation()],
        }
    }

    fn now(&self) -> i64 {
        self.facts.now.seconds
    }

    fn state(&self, participant: &Participant) -> ParticipantState {
        state_of(participant, timestamp::unix_nanos(&self.facts.now))
    }

    /// Seconds between the plan and the beginning of a participant.
    fn lead_seconds(&self) -> i64 {
        let blocks = self.facts.block_interval.map(|one| (one * LEAD_BLOCKS).as_millis().div_ceil(1_000));
        match blocks.and_then(|seconds| i64::try_from(seconds).ok()).map(|seconds| seconds + WAY_SECONDS) {
            Some(lead) if self.options.is_sent_at_once => lead,
            Some(lead) => lead.max(LEAD_SECONDS),
            None => LEAD_SECONDS,
        }
    }

    /// The earliest of the wished days, the end of the validator, and another end.
    fn end_of_days(&self, validator: &Participant, other: Option<i64>) -> i64 {
        let wished = self.facts.clock.seconds + i64::from(self.options.days) * DAY;
        let ends = [seconds(validator.effective_until.as_ref()), other];
        ends.into_iter().flatten().fold(wished, i64::min)
    }

    fn key(&self, step: &str, participant: &Participant) -> String {
        let changed = |instant: Option<&Timestamp>| instant.map_or(0, |at| at.seconds);
        let (state, until) = (participant.op_last_state_change.as_ref(), participant.effective_until.as_ref());
        let basis = format!("{} {} {}", participant.id, changed(state), changed(until));
        self.facts.step_key(step, &basis)
    }

    /// The first step: the application, or the creation where the schema is open.
    fn creation(&self) -> SetupStep {
        let id = &self.wanted.id;
        let missing = |reason: String| SetupStep::new(id, StepState::Missing, reason);
        let place = match &self.wanted.place {
            Ok(place) => place,
            Err(unknown) => return self.gap(unknown),
        };
        let ParticipantPlace { schema, validator, .. } = place;
        if self.wanted.role == ParticipantRole::Holder
            && schema.holder_onboarding_mode() == HolderOnboardingMode::Permissionless
        {
            let reason = format!("schema {} has no HOLDER participants; choose another with --apply-to", schema.id);
            return missing(reason).of(self.own, self.own);
        }
        let is_open = is_open_to(self.wanted.role, schema);
        if let Some(reason) = self.obstacle(place, is_open) {
            return missing(reason).of(self.own, self.own);
        }
        let mut message = Map::new();
        message.insert("role".to_owned(), role_name(self.wanted.role).into());
        message.insert("validator_participant_id".to_owned(), validator.id.into());
        message.insert("did".to_owned(), self.facts.agent.did.as_str().into());
        if is_open {
            // The oldest nodes take a participant without a beginning, and it never begins there: every node takes one with it.
            let begins = seconds(validator.effective_from.as_ref()).unwrap_or_default();
            let from = (self.facts.clock.seconds + self.lead_seconds()).max(begins);
            message.insert("effective_from".to_owned(), text(from).into());
            message.insert("effective_until".to_owned(), text(self.end_of_days(validator, None)).into());
        }
        message.extend(self.rights());
        let newest = self.facts.participants.iter().map(|one| one.id).max().unwrap_or_default();
        let key = self.facts.step_key(id, &format!("{} {newest}", validator.id));
        message.insert("idempotency_key".to_owned(), key.into());
        let reason = format!(
            "{} has no {} participant under participant {} of schema {}",
            self.facts.agent.did,
            role_name(self.wanted.role),
            validator.id,
            schema.id
        );
        missing(reason)
            .of(self.own, self.own)
            .with_message(if is_open { SELF_CREATE } else { APPLY }, Value::Object(message))
    }

    /// The step of a place that is not known.
    fn gap(&self, missing: &MissingPlace) -> SetupStep {
        let step = |state| SetupStep::new(&self.wanted.id, state, &missing.reason).of(self.own, self.own);
        match missing.end {
            GapEnd::Operator => step(StepState::Missing),
            GapEnd::Other => step(StepState::Missing).by_other(),
            GapEnd::NextRead => step(StepState::Waiting),
            GapEnd::Time(at) => step(StepState::Waiting).ending_in(at - self.now()),
            GapEnd::Presentation(schema) => {
                let mut credentials = self.facts.schema_credentials.iter();
                let is_anchored = credentials.any(|one| one.schema_id == schema && one.is_anchored);
                step(if is_anchored { StepState::Waiting } else { StepState::Missing })
            }
        }
    }

    /// The rights of the agent's account, as members of a message.
    fn rights(&self) -> Map<String, Value> {
        let coins = |coin: &Coin| json!([{"denom": coin.denom, "amount": coin.amount}]);
        let mut rights = Map::new();
        rights.insert("vs_operator".to_owned(), self.facts.agent.address.as_str().into());
        rights.insert("vs_operator_authz_msg_types".to_owned(), self.wanted.msg_types.clone().into());
        if self.wanted.role == ParticipantRole::Issuer {
            let (denom, amount) = (self.facts.denom.clone(), SetupOptions::DEFAULT_SPEND_LIMIT.to_string());
            let limit = self.options.spend_limit.clone().unwrap_or(Coin { denom, amount });
            rights.insert("vs_operator_authz_spend_limit".to_owned(), coins(&limit));
        }
        rights.insert("vs_operator_authz_with_feegrant".to_owned(), true.into());
        // Nodes with a common allowance of a corporation's VS operators take no record without a limit.
        let is_needed = self.facts.generation.is_some_and(|generation| !generation.has_own_record_limits());
        let amount = SetupOptions::DEFAULT_FEE_LIMIT.to_string();
        let default = is_needed.then(|| Coin { denom: self.facts.denom.clone(), amount });
        if let Some(limit) = self.options.fee_limit.as_ref().or(default.as_ref()) {
            rights.insert("vs_operator_authz_fee_spend_limit".to_owned(), coins(limit));
        }
        rights
    }

    /// A participant for which the chain would refuse another one of the corporation in the same place.
    fn obstacle(&self, place: &ParticipantPlace, is_open: bool) -> Option<String> {
        // From the second generation on participants of other DIDs stand beside each other; its builds differ, and the simulation decides.
        if self.facts.generation > Some(NodeGeneration::N0) {
            return None;
        }
        let other = place.siblings.iter().find(|one| {
            if is_open {
                // Under the rules of the chain one that has ended stands in the way of each successor that has an end.
                one.revoked.is_none() && one.slashed.is_none() && one.repaid.is_none()
            } else {
                matches!(one.op_state(), OnboardingState::Pending | OnboardingState::Validated)
            }
        })?;
        let is_choice = self.wanted.role == ParticipantRole::Holder && !self.wanted.is_validator_fixed;
        let way_out = if is_choice { "; choose another with --apply-to" } else { "" };
        Some(format!(
            "the corporation has participant {} ({:?}, {}) under participant {}, beside which the chain takes no other{way_out}",
            other.id,
            self.state(other),
            other.did,
            place.validator.id
        ))
    }

    /// The validation of an application or of a renewal.
    fn validation(&self, participant: &Participant) -> SetupStep {
        let id = format!("{}-validation", self.wanted.id);
        let Some(place) = self.place_of(participant) else {
            let reason = format!(
                "participant {} validates participant {}",
                participant.validator_participant_id, participant.id
            );
            return SetupStep::new(id, StepState::Waiting, reason).by_other();
        };
        let is_renewal = participant.effective_from.is_some();
        let period = i64::from(validity_period(self.wanted.role, &place.schema)) * DAY;
        let allowed = (period > 0).then(|| seconds(participant.op_exp.as_ref()).unwrap_or(self.now()) + period);
        let until = self.end_of_days(&place.validator, allowed);
        let mut message = json!({
            "id": participant.id, "effective_until": text(until), "idempotency_key": self.key(&id, participant),
        });
        if is_renewal {
            // A renewal repeats the values of the first validation.
            let Participant { validation_fees, issuance_fees, verification_fees, .. } = *participant;
            let Participant { issuance_fee_discount, verification_fee_discount, .. } = *participant;
            for (name, value) in [
                ("validation_fees", validation_fees),
                ("issuance_fees", issuance_fees),
                ("verification_fees", verification_fees),
                ("issuance_fee_discount", issuance_fee_discount),
                ("verification_fee_discount", verification_fee_discount),
            ] {
                if value > 0 {
                    message[name] = value.into();
                }
            }
        }
        let validator = place.validator.corporation_id;
        let state = if validator == self.own { StepState::Missing } else { StepState::Waiting };
        let reason = format!(
            "participant {} of corporation {validator} has to validate participant {}",
            place.validator.id, participant.id
        );
        SetupStep::new(id, state, reason).of(validator, self.own).with_message(VALIDATE, message)
    }

    /// The step before the end of a participant, when it is near.
    fn extension(&self, participant: &Participant, end: i64) -> Option<SetupStep> {
        if participant.op_state() == OnboardingState::Pending {
            return Some(self.validation(participant));
        }
        let span = end - seconds(participant.effective_from.as_ref()).unwrap_or(end);
        if end - self.now() > EXTEND_SECONDS.min(span / 3) {
            return None;
        }
        let id = format!("{}-extension", self.wanted.id);
        Some(self.extend(&id, participant, format!("participant {} ends at {}", participant.id, text(end))))
    }

    /// A later end of an active participant: set by its corporation where the schema is open, else by that of its validator within the
    /// validation, else after a renewal.
    fn extend(&self, id: &str, participant: &Participant, reason: String) -> SetupStep {
        let missing = |reason: String| SetupStep::new(id, StepState::Missing, reason);
        let Some(place) = self.place_of(participant) else {
            return missing(reason).of(self.own, self.own);
        };
        let ParticipantPlace { schema, validator, .. } = place;
        let present = seconds(participant.effective_until.as_ref()).unwrap_or_default().max(self.now());
        let extend = |until: i64, corporation_id: u64| {
            let message = json!({
                "id": participant.id, "effective_until": text(until), "idempotency_key": self.key(id, participant),
            });
            missing(reason.clone()).of(corporation_id, self.own).with_message(EXTEND, message)
        };
        let wished = self.end_of_days(validator, None);
        if wished <= present {
            let reason = format!("{reason}, as the participant {} above it does", validator.id);
            return missing(reason).of(validator.corporation_id, self.own);
        }
        if is_open_to(self.wanted.role, schema) {
            return extend(wished, self.own);
        }
        match seconds(participant.op_exp.as_ref()) {
            Some(validated) if validated < wished.min(present + DAY) => {
                let message = json!({"id": participant.id, "idempotency_key": self.key(id, participant)});
                missing(reason).of(self.own, self.own).with_message(RENEW, message)
            }
            validated => {
                let until = validated.map_or(wished, |validated| validated.min(wished));
                extend(until, validator.corporation_id)
            }
        }
    }
}

fn has_type(record: &svc_wire::proto::svc::de::v1::ParticipantAuthorizationRecord, msg_type: &str) -> bool {
    record.msg_types.iter().any(|one| one == msg_type)
}

fn is_open_to(role: ParticipantRole, schema: &CredentialSchema) -> bool {
    role == ParticipantRole::Issuer && schema.issuer_onboarding_mode() == IssuerOnboardingMode::Open
}

/// Days of a validation; 0 without an end.
fn validity_period(role: ParticipantRole, schema: &CredentialSchema) -> u32 {
    match role {
        ParticipantRole::Issuer => schema.issuer_validation_validity_period,
        _ => schema.holder_validation_validity_period,
    }
}

fn role_name(role: ParticipantRole) -> &'static str {
    role.as_str_name()
}

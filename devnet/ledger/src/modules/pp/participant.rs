//! Loads, checks and stores participants; shared by the messages of the module.

use prost_types::Timestamp;
use svc_wire::{proto::svc::pp::v1::Participant, timestamp};

use crate::{
    chain::ChainConfig,
    context::ExecContext,
    error::LedgerError,
    modules::{de, did_owner::ensure_did_is_own},
    state::{keys::ParticipantContextKey, next_id, table::PlainValue},
    values::validate::{self, ensure},
};

pub const AUTHORIZATION_FAILED: &str = "authorization check failed";

/// Returns an unregistered error. Quirk: this module registers almost none of its errors.
pub fn unregistered_error<T>(text: impl Into<String>) -> Result<T, LedgerError> {
    Err(LedgerError::unregistered(text))
}

pub fn ensure_addresses(chain: &ChainConfig, corporation: &str, operator: &str) -> Result<(), LedgerError> {
    validate::plain_address(&chain.prefix, "corporation", corporation)?;
    validate::plain_address(&chain.prefix, "operator", operator)
}

pub fn require_corporation(exec: &ExecContext<'_>, corporation: &str) -> Result<u64, LedgerError> {
    de::find_corporation(exec, corporation)
        .ok_or_else(|| LedgerError::unregistered(format!("corporation not registered: {corporation}")))
}

/// Runs AUTHZ-CHECK-1, then AUTHZ-CHECK-5. Quirk: in this order an unknown corporation is reported as a missing
/// authorization.
pub fn authorize(
    exec: &mut ExecContext<'_>,
    corporation: &str,
    operator: &str,
    name: &str,
) -> Result<u64, LedgerError> {
    let url = de::message_url(exec, "pp", name);
    de::authorize(exec, corporation, operator, &url).map_err(|error| error.wrap(AUTHORIZATION_FAILED))?;
    require_corporation(exec, corporation)
}

/// Counts an amount of the fee denom against the operator's spend limit.
pub fn debit(
    exec: &mut ExecContext<'_>,
    corporation: &str,
    operator: &str,
    name: &str,
    amount: u64,
) -> Result<(), LedgerError> {
    let url = de::message_url(exec, "pp", name);
    de::debit_authorization(exec, corporation, operator, &url, &fee_denom_amounts(exec.chain, amount))
        .map_err(|error| error.wrap("spend limit exceeded"))
}

pub fn fee_denom_amounts(chain: &ChainConfig, amount: u64) -> Vec<(String, u128)> {
    if amount == 0 { Vec::new() } else { vec![(chain.denom.clone(), u128::from(amount))] }
}

pub fn load_participant(exec: &ExecContext<'_>, id: u64) -> Result<Participant, LedgerError> {
    let found = exec.state.participants.get(&id, exec.gas).cloned();
    found.ok_or_else(|| LedgerError::unregistered(format!("participant {id} not found")))
}

pub fn load_validator(exec: &ExecContext<'_>, id: u64) -> Result<Participant, LedgerError> {
    load_participant(exec, id).map_err(|error| LedgerError::unregistered(format!("validator {}", error.text)))
}

pub fn load_owned(exec: &ExecContext<'_>, id: u64, corporation_id: u64) -> Result<Participant, LedgerError> {
    let participant = load_participant(exec, id)?;
    if participant.corporation_id != corporation_id {
        return unregistered_error(format!("corporation {corporation_id} does not own participant {id}"));
    }
    Ok(participant)
}

/// Tells whether the corporation controls the ecosystem of a schema.
pub fn controls_ecosystem(exec: &ExecContext<'_>, schema_id: u64, corporation_id: u64) -> bool {
    let schema = exec.state.schemas.get(&schema_id, exec.gas);
    let ecosystem = schema.and_then(|schema| exec.state.ecosystems.get(&schema.ecosystem_id, exec.gas));
    ecosystem.is_some_and(|ecosystem| ecosystem.corporation_id == corporation_id)
}

pub fn store_participant(exec: &mut ExecContext<'_>, participant: Participant) {
    exec.state.participants.put(participant.id, participant, exec.gas);
}

/// Returns the key of the index in which repetition and overlap are searched.
pub fn context_key(participant: &Participant) -> ParticipantContextKey {
    ParticipantContextKey {
        schema_id: participant.schema_id,
        role: u64::from(participant.role.unsigned_abs()),
        validator_id: participant.validator_participant_id,
        corporation_id: participant.corporation_id,
        participant_id: participant.id,
    }
}

/// Returns the participants with the same schema, role, validator and corporation as `of`; from the second generation on with its DID, too.
pub fn participants_in_context(exec: &ExecContext<'_>, of: &Participant) -> Vec<Participant> {
    let key = context_key(of);
    let first = ParticipantContextKey { participant_id: 0, ..key };
    let last = ParticipantContextKey { participant_id: u64::MAX, ..key };
    let ids = exec.state.participant_context.range(first..=last).map(|(key, _)| key.participant_id);
    let found = ids.filter_map(|id| exec.state.participants.get(&id, exec.gas).cloned());
    // From the second generation on a context is that of one DID.
    found.filter(|one| !exec.chain.has_window_rules() || one.did == of.did).collect()
}

/// Returns the other participants of the same context that have a begin.
pub fn effective_others(exec: &ExecContext<'_>, participant: &Participant) -> Vec<Participant> {
    let mut others = participants_in_context(exec, participant);
    others.retain(|other| other.id != participant.id && other.effective_from.is_some());
    others
}

/// Stores a new participant under the next id.
pub fn insert_participant(exec: &mut ExecContext<'_>, mut participant: Participant) -> Participant {
    participant.id = next_id(&mut exec.state.next_participant);
    exec.state.participant_context.put(context_key(&participant), PlainValue(()), exec.gas);
    let key = (participant.did.clone(), participant.id);
    exec.state.participant_by_did.put(key, PlainValue(participant.corporation_id), exec.gas);
    store_participant(exec, participant.clone());
    participant
}

/// Fails if a participant of another corporation has the DID.
pub fn ensure_did_available(exec: &ExecContext<'_>, did: &str, corporation_id: u64) -> Result<(), LedgerError> {
    if exec.chain.has_window_rules() {
        return ensure_did_is_own(exec, did, Some(corporation_id), ("pp", 1102));
    }
    let range = (did.to_owned(), 0)..=(did.to_owned(), u64::MAX);
    let is_foreign = exec.state.participant_by_did.range(range).any(|(_, owner)| owner.0 != corporation_id);
    exec.gas.charge_read(did.len());
    ensure(!is_foreign, "pp", 1102, || format!("DID ownership conflict: {did} is used by another corporation"))
}

/// Returns the policy address of a corporation, the account that holds its coins.
pub fn policy_address(exec: &ExecContext<'_>, corporation_id: u64) -> Result<String, LedgerError> {
    let found = exec.state.corporations.get(&corporation_id, exec.gas);
    found
        .map(|corporation| corporation.policy_address.clone())
        .ok_or_else(|| LedgerError::unregistered(format!("corporation {corporation_id} not found")))
}

pub fn ensure_active(participant: &Participant, role: &str, now: &Timestamp) -> Result<(), LedgerError> {
    match inactive_reason(participant, now) {
        None => Ok(()),
        Some(reason) => unregistered_error(format!("{role} {} is not active: {reason}", participant.id)),
    }
}

pub fn is_slashed_unrepaid(participant: &Participant) -> bool {
    participant.slashed.is_some() && participant.repaid.is_none()
}

/// Formats a time as Go does; `None` becomes the empty text.
pub fn time_text(time: Option<&Timestamp>) -> String {
    time.map(timestamp::go_time_text).unwrap_or_default()
}

/// Returns the last attributes of most events of this module.
pub fn operator_attributes(
    exec: &ExecContext<'_>,
    corporation: String,
    operator: String,
) -> [(&'static str, String); 3] {
    [("corporation", corporation), ("operator", operator), ("timestamp", timestamp::go_time_text(&exec.block_time()))]
}

/// Returns why a participant is not active at a time; `None` if it is active.
pub fn inactive_reason(participant: &Participant, now: &Timestamp) -> Option<&'static str> {
    let is_past = |time: &Option<Timestamp>| time.as_ref().is_some_and(|time| timestamp::is_at_or_before(time, now));
    if participant.repaid.is_some() {
        Some("participant is repaid")
    } else if participant.slashed.is_some() {
        Some("participant is slashed")
    } else if participant.revoked.is_some() {
        Some("participant is revoked")
    } else if is_past(&participant.effective_until) {
        Some("participant is expired")
    } else if !is_past(&participant.effective_from) {
        Some("participant is not yet effective")
    } else {
        None
    }
}

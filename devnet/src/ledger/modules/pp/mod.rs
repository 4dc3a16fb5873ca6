//! Participants: who may issue, verify, hold and grant under a credential schema, and what they pay one another.

mod create;
mod manage;
mod onboarding;
mod rules;
mod session;
mod terms;
mod vs_block;

use prost_types::Timestamp;
use svc_wire::{
    instant,
    proto::svc::pp::v1::{MsgUpdateParams, MsgUpdateParamsResponse, Participant},
};

use super::{authority, de};
use crate::ledger::{
    error::LedgerError,
    exec::{Chain, Exec},
    state::next,
    table::Plain,
    validate::{self, ensure},
};

pub use create::{create_root, self_create, validate_create_root, validate_self_create};
pub use manage::{
    repay, revoke, set_effective_until, slash, trigger, validate_id, validate_set_effective_until, validate_slash,
};
pub use onboarding::{cancel, renew, set_validated, start, validate_set_validated, validate_start};
pub use rules::{beneficiaries, fee_denom, inactive_reason};
pub use session::{create_or_update, validate_session};

const AUTHORIZATION: &str = "authorization check failed";

/// Quirk: this module does not register its failures; they are plain text.
fn plain<T>(text: impl Into<String>) -> Result<T, LedgerError> {
    Err(LedgerError::plain(text))
}

fn addresses(chain: &Chain, corporation: &str, operator: &str) -> Result<(), LedgerError> {
    validate::plain_address(&chain.prefix, "corporation", corporation)?;
    validate::plain_address(&chain.prefix, "operator", operator)
}

fn registered(exec: &Exec<'_>, corporation: &str) -> Result<u64, LedgerError> {
    de::corporation_of(exec, corporation)
        .ok_or_else(|| LedgerError::plain(format!("corporation not registered: {corporation}")))
}

/// Check 1, then check 5. Quirk: in this order an unknown corporation shows as a missing authorization.
fn authorize(exec: &mut Exec<'_>, corporation: &str, operator: &str, name: &str) -> Result<u64, LedgerError> {
    let url = de::url(exec, "pp", name);
    de::authorize(exec, corporation, operator, &url).map_err(|error| error.wrap(AUTHORIZATION))?;
    registered(exec, corporation)
}

/// Counts an amount of the fee denom against the operator's spend limit.
fn debit(exec: &mut Exec<'_>, corporation: &str, operator: &str, name: &str, amount: u64) -> Result<(), LedgerError> {
    let url = de::url(exec, "pp", name);
    de::debit(exec, corporation, operator, &url, &in_fee_denom(exec.chain, amount))
        .map_err(|error| error.wrap("spend limit exceeded"))
}

fn in_fee_denom(chain: &Chain, amount: u64) -> Vec<(String, u128)> {
    if amount == 0 { Vec::new() } else { vec![(chain.denom.clone(), u128::from(amount))] }
}

fn load(exec: &Exec<'_>, id: u64) -> Result<Participant, LedgerError> {
    let found = exec.state.participants.get(&id, exec.gas).cloned();
    found.ok_or_else(|| LedgerError::plain(format!("participant {id} not found")))
}

fn load_validator(exec: &Exec<'_>, id: u64) -> Result<Participant, LedgerError> {
    load(exec, id).map_err(|error| LedgerError::plain(format!("validator {}", error.text)))
}

fn owned(exec: &Exec<'_>, id: u64, corporation_id: u64) -> Result<Participant, LedgerError> {
    let participant = load(exec, id)?;
    if participant.corporation_id != corporation_id {
        return plain(format!("corporation {corporation_id} does not own participant {id}"));
    }
    Ok(participant)
}

/// Whether the corporation controls the ecosystem of a schema.
fn controls_ecosystem(exec: &Exec<'_>, schema_id: u64, corporation_id: u64) -> bool {
    let schema = exec.state.schemas.get(&schema_id, exec.gas);
    let ecosystem = schema.and_then(|schema| exec.state.ecosystems.get(&schema.ecosystem_id, exec.gas));
    ecosystem.is_some_and(|ecosystem| ecosystem.corporation_id == corporation_id)
}

fn store(exec: &mut Exec<'_>, participant: Participant) {
    exec.state.participants.put(participant.id, participant, exec.gas);
}

/// The place in the index of context: where repetition and overlap are looked for.
fn context(participant: &Participant) -> [u64; 5] {
    [
        participant.schema_id,
        u64::from(participant.role.unsigned_abs()),
        participant.validator_participant_id,
        participant.corporation_id,
        participant.id,
    ]
}

/// Participants of one schema, role, validator and corporation.
fn in_context(exec: &Exec<'_>, of: &Participant) -> Vec<Participant> {
    let mut from = context(of);
    let mut to = from;
    (from[4], to[4]) = (0, u64::MAX);
    let ids = exec.state.participant_context.range(from..=to).map(|(key, _)| key[4]);
    ids.filter_map(|id| exec.state.participants.get(&id, exec.gas).cloned()).collect()
}

/// The others of that kind that have taken effect, or will.
fn others_with_effect(exec: &Exec<'_>, participant: &Participant) -> Vec<Participant> {
    let mut others = in_context(exec, participant);
    others.retain(|other| other.id != participant.id && other.effective_from.is_some());
    others
}

/// Stores a new participant under the next id.
fn insert(exec: &mut Exec<'_>, mut participant: Participant) -> Participant {
    participant.id = next(&mut exec.state.next_participant);
    exec.state.participant_context.put(context(&participant), Plain(()), exec.gas);
    let key = (participant.did.clone(), participant.id);
    exec.state.participant_by_did.put(key, Plain(participant.corporation_id), exec.gas);
    store(exec, participant.clone());
    participant
}

/// No participant of another corporation may carry the DID.
fn own_did(exec: &Exec<'_>, did: &str, corporation_id: u64) -> Result<(), LedgerError> {
    let range = (did.to_owned(), 0)..=(did.to_owned(), u64::MAX);
    let is_foreign = exec.state.participant_by_did.range(range).any(|(_, owner)| owner.0 != corporation_id);
    exec.gas.read(did.len());
    ensure(!is_foreign, "pp", 1102, || format!("DID ownership conflict: {did} is used by another corporation"))
}

/// Policy address of a corporation: where its money is.
fn policy_address(exec: &Exec<'_>, corporation_id: u64) -> Result<String, LedgerError> {
    let found = exec.state.corporations.get(&corporation_id, exec.gas);
    found
        .map(|corporation| corporation.policy_address.clone())
        .ok_or_else(|| LedgerError::plain(format!("corporation {corporation_id} not found")))
}

fn active(participant: &Participant, what: &str, now: &Timestamp) -> Result<(), LedgerError> {
    match inactive_reason(participant, now) {
        None => Ok(()),
        Some(reason) => plain(format!("{what} {} is not active: {reason}", participant.id)),
    }
}

fn is_slashed_unrepaid(participant: &Participant) -> bool {
    participant.slashed.is_some() && participant.repaid.is_none()
}

/// Unset times print as empty text.
fn time_text(time: Option<&Timestamp>) -> String {
    time.map(instant::go_text).unwrap_or_default()
}

/// Attributes of most events of this module end like this.
fn by_operator(exec: &Exec<'_>, corporation: String, operator: String) -> [(&'static str, String); 3] {
    [("corporation", corporation), ("operator", operator), ("timestamp", instant::go_text(&exec.now()))]
}

pub fn update_params(exec: &mut Exec<'_>, message: MsgUpdateParams) -> Result<MsgUpdateParamsResponse, LedgerError> {
    authority(exec, &message.authority, ("pp", 1100))?;
    exec.state.params.pp = message.params.unwrap_or_default();
    Ok(MsgUpdateParamsResponse {})
}

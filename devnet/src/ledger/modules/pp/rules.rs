//! Rules that several operations share.

use prost_types::Timestamp;
use svc_wire::{
    instant,
    proto::svc::{
        cs::v1::{
            CredentialSchema, HolderOnboardingMode as HolderMode, IssuerOnboardingMode as IssuerMode, PricingAssetType,
            VerifierOnboardingMode as VerifierMode,
        },
        pp::v1::{Participant, ParticipantRole as Role},
    },
};

use super::plain;
use crate::ledger::{
    error::LedgerError,
    exec::{Chain, Exec},
    modules::{td, xr},
    state::State,
};

/// Why a participant is not active at a time; `None` when it is.
pub fn inactive_reason(participant: &Participant, now: &Timestamp) -> Option<&'static str> {
    let is_past = |time: &Option<Timestamp>| time.as_ref().is_some_and(|time| instant::at_or_before(time, now));
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

/// The candidates' periods must leave room for a new one.
///
/// Quirk: by the third rule a participant that has ended blocks any new one that has an end; only open-ended ones may follow.
pub fn no_overlap(
    candidates: &[Participant],
    new_from: Option<&Timestamp>,
    new_until: Option<&Timestamp>,
) -> Result<(), LedgerError> {
    let alive = |one: &&Participant| one.revoked.is_none() && one.slashed.is_none() && one.repaid.is_none();
    for other in candidates.iter().filter(alive) {
        let Some(until) = &other.effective_until else {
            return plain(format!("participant {} never expires: overlap", other.id));
        };
        if new_from.is_some_and(|from| instant::nanos(until) > instant::nanos(from)) {
            return plain(format!("participant {} is effective until after the new one begins: overlap", other.id));
        }
        if let (Some(end), Some(begin)) = (new_until, &other.effective_from)
            && instant::nanos(begin) < instant::nanos(end)
        {
            return plain(format!("participant {} is effective before the new one ends: overlap", other.id));
        }
    }
    Ok(())
}

/// Role the validator must have for an applicant's role under a schema's onboarding modes.
pub fn validator_role(schema: &CredentialSchema, role: Role) -> Option<Role> {
    match (role, schema.issuer_onboarding_mode(), schema.verifier_onboarding_mode()) {
        (Role::Issuer, IssuerMode::GrantorOnboardingProcess, _) => Some(Role::IssuerGrantor),
        (Role::Issuer, IssuerMode::EcosystemOnboardingProcess, _) => Some(Role::Ecosystem),
        (Role::IssuerGrantor, IssuerMode::GrantorOnboardingProcess, _) => Some(Role::Ecosystem),
        (Role::Verifier, _, VerifierMode::GrantorOnboardingProcess) => Some(Role::VerifierGrantor),
        (Role::Verifier, _, VerifierMode::EcosystemOnboardingProcess) => Some(Role::Ecosystem),
        (Role::VerifierGrantor, _, VerifierMode::GrantorOnboardingProcess) => Some(Role::Ecosystem),
        (Role::Holder, _, _) if schema.holder_onboarding_mode() == HolderMode::IssuerOnboardingProcess => {
            Some(Role::Issuer)
        }
        _ => None,
    }
}

/// Whether a role may create itself.
pub fn is_open(schema: &CredentialSchema, role: Role) -> bool {
    match role {
        Role::Issuer => schema.issuer_onboarding_mode() == IssuerMode::Open,
        Role::Verifier => schema.verifier_onboarding_mode() == VerifierMode::Open,
        _ => false,
    }
}

/// Days a validation lasts for a role; 0 means without end.
pub fn validity_days(schema: &CredentialSchema, role: Role) -> u32 {
    match role {
        Role::IssuerGrantor => schema.issuer_grantor_validation_validity_period,
        Role::VerifierGrantor => schema.verifier_grantor_validation_validity_period,
        Role::Issuer => schema.issuer_validation_validity_period,
        Role::Verifier => schema.verifier_validation_validity_period,
        Role::Holder => schema.holder_validation_validity_period,
        Role::Ecosystem | Role::Unspecified => 0,
    }
}

/// Largest discounts a validator may give when it validates first: (issuance, verification).
pub fn discount_limits(schema: &CredentialSchema, role: Role, validator: &Participant) -> (u64, u64) {
    const ALL: u64 = 10_000;
    let issuance = match (role, schema.issuer_onboarding_mode()) {
        (Role::IssuerGrantor, IssuerMode::GrantorOnboardingProcess) => ALL,
        (Role::Issuer, IssuerMode::GrantorOnboardingProcess) => validator.issuance_fee_discount,
        (Role::Issuer, IssuerMode::EcosystemOnboardingProcess) => ALL,
        _ => 0,
    };
    let verification = match (role, schema.verifier_onboarding_mode()) {
        (Role::VerifierGrantor, VerifierMode::GrantorOnboardingProcess) => ALL,
        (Role::Verifier, VerifierMode::GrantorOnboardingProcess) => validator.verification_fee_discount,
        (Role::Verifier, VerifierMode::EcosystemOnboardingProcess) => ALL,
        _ => 0,
    };
    (issuance, verification)
}

/// Denom in which fees under a schema are paid on chain.
pub fn fee_denom(chain: &Chain, schema: &CredentialSchema) -> String {
    match schema.pricing_asset_type() {
        PricingAssetType::Coin => schema.pricing_asset.clone(),
        _ => chain.denom.clone(),
    }
}

/// An amount under a schema.
#[derive(Debug, Clone, Copy)]
pub struct Price {
    /// Paid on chain, in the schema's fee denom.
    pub fee: u64,
    /// Worth in the fee denom: what trust deposits and rewards are computed from.
    pub basis: u64,
}

pub fn price(exec: &Exec<'_>, schema: &CredentialSchema, amount: u64) -> Result<Price, LedgerError> {
    let amount = td::int64(u128::from(amount))?;
    let kind = schema.pricing_asset_type();
    if kind == PricingAssetType::Coin && schema.pricing_asset == exec.chain.denom {
        return Ok(Price { fee: amount, basis: amount });
    }
    let basis = xr::to_fee_denom(exec, (kind, &schema.pricing_asset), amount)?;
    let fee = match kind {
        PricingAssetType::Coin => amount,
        PricingAssetType::Tu => basis,
        // Quirk: fiat prices are not paid on chain, but still stake and reward.
        PricingAssetType::Fiat | PricingAssetType::Unspecified => 0,
    };
    Ok(Price { fee, basis })
}

/// The validator chain above a participant, bottom-up, without itself.
pub fn ancestors(state: &State, participant: &Participant) -> Vec<Participant> {
    let mut found = Vec::new();
    let mut above = participant.validator_participant_id;
    // A validator exists before whom it validates, so ids fall on the way up.
    while let Some(next) = state.participants.peek(&above) {
        found.push(next.clone());
        if next.validator_participant_id >= above {
            break;
        }
        above = next.validator_participant_id;
    }
    found
}

/// Who is paid for an issuance or a verification, in order, each once: the issuer's ancestors; with a verifier also the
/// issuer itself, then the verifier's ancestors. Revoked and slashed ones are left out.
pub fn beneficiaries(state: &State, issuer: Option<&Participant>, verifier: Option<&Participant>) -> Vec<Participant> {
    let above = |one: Option<&Participant>| one.map(|one| ancestors(state, one)).unwrap_or_default();
    let mut found: Vec<Participant> = Vec::new();
    let itself = issuer.filter(|_| verifier.is_some()).cloned();
    for one in above(issuer).into_iter().chain(itself).chain(above(verifier)) {
        let is_paid = one.revoked.is_none() && one.slashed.is_none();
        if is_paid && !found.iter().any(|known| known.id == one.id) {
            found.push(one);
        }
    }
    found
}

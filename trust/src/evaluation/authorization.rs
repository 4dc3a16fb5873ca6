//! The participants of the registry that authorise the issuer and the holder of a credential.

use svc_wire::participant_state::ParticipantState;

use crate::{RegistryParticipant, RegistrySchema, RejectionCode, RejectionReason};

fn with_role<'a>(
    participants: &'a [RegistryParticipant],
    role: &'a str,
    schema_id: u64,
) -> impl Iterator<Item = &'a RegistryParticipant> + Clone {
    participants.iter().filter(move |one| one.role == role && one.schema_id == schema_id)
}

/// The participant that authorised the issuer at the time of issuance. It may have expired since then. It must not be revoked
/// or slashed.
pub fn authorize_issuer(
    participants: &[RegistryParticipant],
    schema_id: u64,
    issued_at: i128,
) -> Result<&RegistryParticipant, RejectionReason> {
    let checked = with_role(participants, "ISSUER", schema_id).map(|one| {
        let code = match one.state {
            ParticipantState::Revoked => RejectionCode::IssuerRevoked,
            ParticipantState::Slashed | ParticipantState::Repaid => RejectionCode::IssuerSlashed,
            ParticipantState::Future | ParticipantState::Inactive => RejectionCode::IssuerNotEffective,
            // It ended without having begun.
            ParticipantState::Expired if one.effective_from.is_none() => RejectionCode::IssuerNotEffective,
            ParticipantState::Active | ParticipantState::Expired
                if one.effective_from.is_some_and(|from| issued_at < from) =>
            {
                RejectionCode::AnchoredTooEarly
            }
            ParticipantState::Active | ParticipantState::Expired
                if one.effective_until.is_some_and(|until| issued_at >= until) =>
            {
                RejectionCode::AnchoredTooLate
            }
            ParticipantState::Active | ParticipantState::Expired => return Ok(one),
        };
        Err((one, code))
    });
    best_participant(checked, RejectionCode::IssuerNeverAuthorised, schema_id)
}

/// The participant that authorises the holder. An issuer without a HOLDER participant is authorised for its own credentials by
/// its ISSUER participant. None for a schema whose credentials need no HOLDER participant.
pub fn authorize_holder<'a>(
    participants: &'a [RegistryParticipant],
    schema: &RegistrySchema,
    is_own_issuer: bool,
) -> Result<Option<&'a RegistryParticipant>, RejectionReason> {
    let check = |one: &'a RegistryParticipant| {
        let code = match one.state {
            ParticipantState::Active => return Ok(one),
            ParticipantState::Revoked => RejectionCode::HolderRevoked,
            ParticipantState::Slashed | ParticipantState::Repaid => RejectionCode::HolderSlashed,
            ParticipantState::Expired => RejectionCode::HolderExpired,
            ParticipantState::Future | ParticipantState::Inactive => RejectionCode::HolderNotEffective,
        };
        Err((one, code))
    };
    let mut candidates: Vec<_> = with_role(participants, "HOLDER", schema.id).map(check).collect();
    if candidates.is_empty() && is_own_issuer {
        candidates.extend(with_role(participants, "ISSUER", schema.id).map(check));
    }
    if candidates.is_empty() && schema.is_open_to_holders {
        return Ok(None);
    }
    best_participant(candidates.into_iter(), RejectionCode::HolderNeverAuthorised, schema.id).map(Some)
}

/// The authorised participant with the latest end, or the rejection of the newest other one.
fn best_participant<'a>(
    checked: impl Iterator<Item = Result<&'a RegistryParticipant, (&'a RegistryParticipant, RejectionCode)>>,
    none: RejectionCode,
    schema_id: u64,
) -> Result<&'a RegistryParticipant, RejectionReason> {
    let (good, bad): (Vec<_>, Vec<_>) = checked.partition(Result::is_ok);
    let good = good.into_iter().flatten();
    if let Some(found) = good.max_by_key(|one| (one.effective_until.unwrap_or(i128::MAX), one.id)) {
        return Ok(found);
    }
    let bad = bad.into_iter().filter_map(Result::err).max_by_key(|(one, _)| one.id);
    Err(match bad {
        Some((one, code)) => RejectionReason::new(code, format!("participant {} of schema {schema_id}", one.id)),
        None => RejectionReason::new(none, format!("schema {schema_id}")),
    })
}

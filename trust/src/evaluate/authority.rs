//! Whether the registry authorised the issuer of a credential, and its holder.

use crate::{Code, Participant, Reason, Schema, State};

fn of_role<'a>(
    participants: &'a [Participant],
    role: &'a str,
    schema_id: u64,
) -> impl Iterator<Item = &'a Participant> + Clone {
    participants.iter().filter(move |one| one.role == role && one.schema_id == schema_id)
}

/// The issuer's participant at the time of issuance. It may have expired since; it must not have been taken away.
pub fn issuer(participants: &[Participant], schema_id: u64, issued_at: i128) -> Result<&Participant, Reason> {
    let judged = of_role(participants, "ISSUER", schema_id).map(|one| {
        let code = match one.state {
            State::Revoked => Code::IssuerRevoked,
            State::Slashed | State::Repaid => Code::IssuerSlashed,
            State::Future | State::Inactive => Code::IssuerNotEffective,
            // It never becomes active on the chain.
            State::Active | State::Expired if one.effective_from.is_none() => Code::IssuerNotEffective,
            State::Active | State::Expired if one.effective_from.is_some_and(|from| issued_at < from) => {
                Code::AnchoredTooEarly
            }
            State::Active | State::Expired if one.effective_until.is_some_and(|until| issued_at >= until) => {
                Code::AnchoredTooLate
            }
            State::Active | State::Expired => return Ok(one),
        };
        Err((one, code))
    });
    best(judged, Code::IssuerNeverAuthorised, schema_id)
}

/// The holder's participant; of one who issues to itself and holds nothing, the issuer's. None where anybody may hold the
/// credential.
pub fn holder<'a>(
    participants: &'a [Participant],
    schema: &Schema,
    is_own_issuer: bool,
) -> Result<Option<&'a Participant>, Reason> {
    let judge = |one: &'a Participant| {
        let code = match one.state {
            State::Active if one.effective_from.is_some() => return Ok(one),
            State::Active => Code::HolderNotEffective,
            State::Revoked => Code::HolderRevoked,
            State::Slashed | State::Repaid => Code::HolderSlashed,
            State::Expired => Code::HolderExpired,
            State::Future | State::Inactive => Code::HolderNotEffective,
        };
        Err((one, code))
    };
    let mut anchors: Vec<_> = of_role(participants, "HOLDER", schema.id).map(judge).collect();
    if anchors.is_empty() && is_own_issuer {
        anchors.extend(of_role(participants, "ISSUER", schema.id).map(judge));
    }
    if anchors.is_empty() && schema.is_open_to_holders {
        return Ok(None);
    }
    best(anchors.into_iter(), Code::HolderNeverAuthorised, schema.id).map(Some)
}

/// The participant that holds, the one with the latest end; or why the newest of the others does not.
fn best<'a>(
    judged: impl Iterator<Item = Result<&'a Participant, (&'a Participant, Code)>>,
    none: Code,
    schema_id: u64,
) -> Result<&'a Participant, Reason> {
    let (good, bad): (Vec<_>, Vec<_>) = judged.partition(Result::is_ok);
    let good = good.into_iter().flatten();
    if let Some(found) = good.max_by_key(|one| (one.effective_until.unwrap_or(i128::MAX), one.id)) {
        return Ok(found);
    }
    let bad = bad.into_iter().filter_map(Result::err).max_by_key(|(one, _)| one.id);
    Err(match bad {
        Some((one, code)) => Reason::new(code, format!("participant {} of schema {schema_id}", one.id)),
        None => Reason::new(none, format!("schema {schema_id}")),
    })
}

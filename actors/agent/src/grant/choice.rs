//! The participant by which the agent sends a message. Pure.

use prost_types::Timestamp;
use svc_wire::{
    proto::{
        cosmos::base::v1beta1::Coin,
        svc::{
            de::v1::{ParticipantAuthorizationRecord, VsOperatorAuthorization},
            pp::v1::Participant,
        },
    },
    timestamp,
};

use super::{BlockedReason, WantedGrant};

/// The agent, as participants and records name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentAccount {
    /// DID.
    pub did: String,
    /// Corporation.
    pub corporation_id: u64,
    /// Address of the account.
    pub address: String,
}

/// A participant with a record that is valid.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChosenParticipant {
    pub id: u64,
    pub expires_at: Timestamp,
    /// Whether the corporation pays fees for this record, and the rest of its limit; without a limit `None`.
    pub with_feegrant: bool,
    pub fees_left: Option<Vec<Coin>>,
}

/// Returns the participant whose record has the message type, with the latest expiration, and of equal ones the lowest id.
pub(super) fn choose_participant(
    (agent, wanted): (&AgentAccount, &WantedGrant),
    active: &[Participant],
    authorizations: &[VsOperatorAuthorization],
    msg_type: &str,
    now: &Timestamp,
) -> Result<ChosenParticipant, BlockedReason> {
    let own: Vec<u64> = active.iter().filter(|one| is_own(agent, wanted, one)).map(|one| one.id).collect();
    if own.is_empty() {
        return Err(BlockedReason::NoParticipant);
    }
    let records = authorizations
        .iter()
        .filter(|one| one.corporation_id == agent.corporation_id && one.vs_operator == agent.address)
        .flat_map(|one| &one.records)
        .filter(|record| own.contains(&record.participant_id) && record.msg_types.iter().any(|one| one == msg_type));
    // The chain takes a record without an end for one that has ended.
    let ends: Vec<(i128, &ParticipantAuthorizationRecord)> =
        records.filter_map(|record| Some((timestamp::unix_nanos(record.expiration.as_ref()?), record))).collect();
    if ends.is_empty() {
        return Err(BlockedReason::NoGrant);
    }
    let now = timestamp::unix_nanos(now);
    let valid = ends.into_iter().filter(|(end, _)| *end > now);
    let best = valid.max_by_key(|(end, record)| (*end, std::cmp::Reverse(record.participant_id)));
    let chosen = |(end, record): (i128, &ParticipantAuthorizationRecord)| ChosenParticipant {
        id: record.participant_id,
        expires_at: timestamp::from_unix_nanos(end),
        with_feegrant: record.with_feegrant,
        fees_left: (!record.fee_spend_limit.is_empty()).then(|| record.remaining_fee_spend.clone()),
    };
    best.map(chosen).ok_or(BlockedReason::GrantExpired)
}

fn is_own(agent: &AgentAccount, wanted: &WantedGrant, participant: &Participant) -> bool {
    participant.did == agent.did
        && participant.corporation_id == agent.corporation_id
        && participant.vs_operator == agent.address
        && participant.role == wanted.role as i32
        && wanted.schema_id.is_none_or(|schema_id| participant.schema_id == schema_id)
        && wanted.participant_id.is_none_or(|id| participant.id == id)
}

#[cfg(test)]
mod tests {
    use svc_wire::proto::svc::pp::v1::ParticipantRole;

    use super::*;

    const TYPE: &str = "/svc.pp.v1.MsgTriggerResolver";

    fn agent() -> AgentAccount {
        AgentAccount { did: "did:web:a".to_owned(), corporation_id: 7, address: "svc1own".to_owned() }
    }

    fn participant(id: u64) -> Participant {
        let AgentAccount { did, corporation_id, address: vs_operator } = agent();
        Participant {
            id,
            did,
            corporation_id,
            vs_operator,
            role: ParticipantRole::Holder as i32,
            ..Participant::default()
        }
    }

    fn authorization(records: &[(u64, &str, Option<i64>)]) -> VsOperatorAuthorization {
        let record = |(id, msg_type, end): &(u64, &str, Option<i64>)| ParticipantAuthorizationRecord {
            participant_id: *id,
            msg_types: vec![(*msg_type).to_owned()],
            expiration: end.map(|seconds| Timestamp { seconds, nanos: 0 }),
            ..ParticipantAuthorizationRecord::default()
        };
        VsOperatorAuthorization {
            corporation_id: 7,
            vs_operator: "svc1own".to_owned(),
            records: records.iter().map(record).collect(),
            ..VsOperatorAuthorization::default()
        }
    }

    #[test]
    fn the_record_that_is_valid_longest_is_used() {
        let now = Timestamp { seconds: 100, nanos: 0 };
        let all = [participant(1), participant(2), participant(3)];
        for (records, expected) in [
            (vec![(1, TYPE, Some(150)), (2, TYPE, Some(200)), (3, TYPE, Some(200))], Ok(2)),
            (vec![(1, TYPE, Some(101)), (2, TYPE, None)], Ok(1)),
            (vec![(1, TYPE, Some(100))], Err(BlockedReason::GrantExpired)),
            (vec![(1, TYPE, None)], Err(BlockedReason::NoGrant)),
            (vec![(1, "/svc.pp.v1.MsgOther", Some(200))], Err(BlockedReason::NoGrant)),
            (vec![(9, TYPE, Some(200))], Err(BlockedReason::NoGrant)),
            (vec![], Err(BlockedReason::NoGrant)),
        ] {
            let found =
                choose_participant((&agent(), &WantedGrant::TRIGGER), &all, &[authorization(&records)], TYPE, &now);
            assert_eq!(found.map(|chosen| chosen.id), expected, "{records:?}");
        }
    }

    #[test]
    fn participants_and_records_of_others_do_not_count() {
        let now = Timestamp { seconds: 100, nanos: 0 };
        let record = authorization(&[(1, TYPE, Some(200))]);
        for stranger in [
            Participant { did: "did:web:b".to_owned(), ..participant(1) },
            Participant { corporation_id: 8, ..participant(1) },
            Participant { vs_operator: "svc1other".to_owned(), ..participant(1) },
            Participant { role: ParticipantRole::Issuer as i32, ..participant(1) },
        ] {
            let found = choose_participant(
                (&agent(), &WantedGrant::TRIGGER),
                &[stranger],
                std::slice::from_ref(&record),
                TYPE,
                &now,
            );
            assert_eq!(found, Err(BlockedReason::NoParticipant));
        }
        for foreign in [
            VsOperatorAuthorization { corporation_id: 8, ..record.clone() },
            VsOperatorAuthorization { vs_operator: "svc1other".to_owned(), ..record.clone() },
        ] {
            let found =
                choose_participant((&agent(), &WantedGrant::TRIGGER), &[participant(1)], &[foreign], TYPE, &now);
            assert_eq!(found, Err(BlockedReason::NoGrant));
        }
    }
}

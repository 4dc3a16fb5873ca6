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
pub struct ChosenParticipant {
    /// The participant.
    pub id: u64,
    /// End of the right; `None` where it ends with its participant, as each right with spend cycles does.
    pub expires_at: Option<Timestamp>,
    /// Whether the corporation pays fees for this record.
    pub with_feegrant: bool,
    /// The rest of its limit; without a limit `None`.
    pub fees_left: Option<Vec<Coin>>,
}

/// Whether records have a cap of fees and an end of their own. Where they have, one without an end is the second choice: the oldest nodes
/// refuse it, and to the others it does not expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordRules {
    /// They have both.
    pub has_own_limits: bool,
}

/// Returns the participant whose record has the message type, with the latest expiration, and of equal ones the lowest id.
pub fn choose_participant(
    (agent, wanted): (&AgentAccount, &WantedGrant),
    active: &[Participant],
    authorizations: &[VsOperatorAuthorization],
    msg_type: &str,
    (now, rules): (&Timestamp, RecordRules),
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
    let records: Vec<&ParticipantAuthorizationRecord> = records.collect();
    if records.is_empty() {
        return Err(BlockedReason::NoGrant);
    }
    let now = timestamp::unix_nanos(now);
    // Without ends of their own, an expiration is that of a spend cycle.
    let end_of = |record: &ParticipantAuthorizationRecord| {
        record.expiration.as_ref().filter(|_| rules.has_own_limits).map(timestamp::unix_nanos)
    };
    // With a period, the first use behind an end begins the next cycle.
    let is_usable = |record: &&ParticipantAuthorizationRecord| {
        record.period.is_some() || end_of(record).is_none_or(|end| end > now)
    };
    // That use has the whole limit again; the node still states the rest of the cycle before.
    let fees_left = |record: &ParticipantAuthorizationRecord| {
        let has_ended = record.period.is_some() && end_of(record).is_some_and(|end| end <= now);
        if has_ended { record.fee_spend_limit.clone() } else { record.remaining_fee_spend.clone() }
    };
    let rank = |record: &ParticipantAuthorizationRecord| match end_of(record) {
        Some(end) if end > now => (2, Some(end)),
        None => (1, None),
        Some(end) => (0, Some(end)),
    };
    let best = records
        .into_iter()
        .filter(is_usable)
        .max_by_key(|record| (rank(record), std::cmp::Reverse(record.participant_id)));
    let chosen = |record: &ParticipantAuthorizationRecord| ChosenParticipant {
        id: record.participant_id,
        expires_at: end_of(record).filter(|_| record.period.is_none()).map(timestamp::from_unix_nanos),
        with_feegrant: record.with_feegrant,
        fees_left: (rules.has_own_limits && !record.fee_spend_limit.is_empty()).then(|| fees_left(record)),
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
        let all = [participant(1), participant(2), participant(3)];
        for (records, expected) in [
            (vec![(1, TYPE, Some(150)), (2, TYPE, Some(200)), (3, TYPE, Some(200))], Ok(2)),
            (vec![(1, TYPE, Some(101)), (2, TYPE, None)], Ok(1)),
            (vec![(1, TYPE, Some(100))], Err(BlockedReason::GrantExpired)),
            // A record without an end is the second choice.
            (vec![(1, TYPE, None), (2, TYPE, Some(100))], Ok(1)),
            (vec![(1, "/svc.pp.v1.MsgOther", Some(200))], Err(BlockedReason::NoGrant)),
            (vec![(9, TYPE, Some(200))], Err(BlockedReason::NoGrant)),
            (vec![], Err(BlockedReason::NoGrant)),
        ] {
            let found = choose(&all, &authorization(&records), true);
            assert_eq!(found.map(|chosen| chosen.id), expected, "{records:?}");
        }
        // Where a right ends with its participant, an expiration in the past is that of a spend cycle.
        let chosen = choose(&all, &authorization(&[(2, TYPE, Some(1))]), false).expect("a right");
        assert_eq!((chosen.id, chosen.expires_at, chosen.fees_left), (2, None, None));
    }

    fn choose(
        active: &[Participant],
        records: &VsOperatorAuthorization,
        has_own_limits: bool,
    ) -> Result<ChosenParticipant, BlockedReason> {
        let now = Timestamp { seconds: 100, nanos: 0 };
        let at = (&now, RecordRules { has_own_limits });
        choose_participant((&agent(), &WantedGrant::TRIGGER), active, std::slice::from_ref(records), TYPE, at)
    }

    #[test]
    fn the_first_use_after_the_end_of_a_cycle_has_the_whole_limit_again() {
        let coins = |amount: &str| vec![Coin { denom: "usvc".to_owned(), amount: amount.to_owned() }];
        let minute = Some(prost_types::Duration { seconds: 60, nanos: 0 });
        let rest = |expires_at: Option<i64>, amount: &str| Ok((expires_at, Some(coins(amount))));
        for (end, period, has_own_limits, expected) in [
            // Without a period it is the end of the right.
            (Some(101), None, true, rest(Some(101), "4")),
            (Some(100), None, true, Err(BlockedReason::GrantExpired)),
            (None, None, true, rest(None, "4")),
            // With a period the right ends with its participant. The rest that the node states is that of the cycle that has ended.
            (Some(101), minute, true, rest(None, "4")),
            (Some(100), minute, true, rest(None, "9")),
            (Some(1), minute, true, rest(None, "9")),
            (None, minute, true, rest(None, "4")),
            // Later nodes bound fees by the common allowance alone, and no end of a cycle is that of the right.
            (Some(101), minute, false, Ok((None, None))),
            (Some(100), minute, false, Ok((None, None))),
            (Some(1), None, false, Ok((None, None))),
            (None, minute, false, Ok((None, None))),
        ] {
            let mut records = authorization(&[(1, TYPE, end)]);
            let record = &mut records.records[0];
            (record.period, record.with_feegrant) = (period, true);
            (record.fee_spend_limit, record.remaining_fee_spend) = (coins("9"), coins("4"));
            let found = choose(&[participant(1)], &records, has_own_limits);
            let found = found.map(|one| (one.expires_at.map(|at| at.seconds), one.fees_left));
            assert_eq!(found, expected, "{end:?} {period:?} {has_own_limits}");
        }
        // An end ahead is the first choice, none the second, and that of a cycle in the past the last.
        for (ends, expected) in
            [([Some(1), Some(101), None], 2), ([Some(1), None, Some(2)], 2), ([Some(1), Some(3), Some(2)], 2)]
        {
            let mut records = authorization(&[(1, TYPE, ends[0]), (2, TYPE, ends[1]), (3, TYPE, ends[2])]);
            records.records.iter_mut().for_each(|record| record.period = minute);
            let all = [participant(1), participant(2), participant(3)];
            assert_eq!(choose(&all, &records, true).map(|one| one.id), Ok(expected), "{ends:?}");
        }
    }

    #[test]
    fn participants_and_records_of_others_do_not_count() {
        let record = authorization(&[(1, TYPE, Some(200))]);
        for stranger in [
            Participant { did: "did:web:b".to_owned(), ..participant(1) },
            Participant { corporation_id: 8, ..participant(1) },
            Participant { vs_operator: "svc1other".to_owned(), ..participant(1) },
            Participant { role: ParticipantRole::Issuer as i32, ..participant(1) },
        ] {
            let found = choose(&[stranger], &record, true);
            assert_eq!(found, Err(BlockedReason::NoParticipant));
        }
        for foreign in [
            VsOperatorAuthorization { corporation_id: 8, ..record.clone() },
            VsOperatorAuthorization { vs_operator: "svc1other".to_owned(), ..record.clone() },
        ] {
            let found = choose(&[participant(1)], &foreign, true);
            assert_eq!(found, Err(BlockedReason::NoGrant));
        }
    }
}

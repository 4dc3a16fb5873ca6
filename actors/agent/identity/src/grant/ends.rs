//! The ends of an agent's participants, of their records and of its allowance.

use std::collections::BTreeMap;

use prost_types::Timestamp;
use svc_agent_core::{grant::AgentAccount, participant::state_of};
use svc_net::upstream::{NodeClient, NodeClientError};
use svc_pipeline::{RegistryChain, query_fee_allowance};
use svc_wire::{
    participant_state::ParticipantState,
    proto::svc::pp::v1::{Participant, QueryListParticipantsRequest},
    timestamp,
};

use super::grant_reader::{read_authorizations, read_corporation_account};

/// The end of something that the agent needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryEnd {
    /// The participant, the record or the allowance, in words.
    pub name: String,
    /// The end; `None` without one.
    pub until: Option<Timestamp>,
}

/// Reads the ends at the node. Of several participants with one role and schema the one that lasts longest counts.
///
/// # Errors
/// When the node does not answer.
pub async fn read_ends(
    node: &NodeClient,
    chain: &RegistryChain,
    agent: &AgentAccount,
    now: &Timestamp,
) -> Result<Vec<RegistryEnd>, NodeClientError> {
    let request = QueryListParticipantsRequest {
        did: agent.did.clone(),
        grantee: agent.address.clone(),
        ..QueryListParticipantsRequest::default()
    };
    let path = chain.registry.namespace().query_path("pp", "ListParticipants");
    let participants = node.list_participants(&path, request).await?;
    let records = read_authorizations(node, chain, agent.corporation_id, &agent.address).await?;
    // Where rights end with their participant, or a record has a period, an expiration is that of a spend cycle.
    let has_own_ends = chain.release.has_own_record_limits();
    let records = records.into_iter().filter(|_| has_own_ends).flat_map(|one| one.records);
    let records = records.filter(|one| one.period.is_none());
    let records: BTreeMap<u64, Option<Timestamp>> = records.map(|one| (one.participant_id, one.expiration)).collect();
    let own = participants.iter().filter(|one| one.corporation_id == agent.corporation_id);
    let mut ends = ends_of(own, &records, now);
    let corporation = read_corporation_account(node, chain, agent.corporation_id).await?;
    let allowance = query_fee_allowance(node, &corporation, &agent.address, &chain.params.denom).await?;
    ends.extend(allowance.map(|one| RegistryEnd { name: "fee allowance".to_owned(), until: one.expiration }));
    Ok(ends)
}

/// The ends of the participants that began, and of their records.
fn ends_of<'a>(
    participants: impl Iterator<Item = &'a Participant>,
    records: &BTreeMap<u64, Option<Timestamp>>,
    now: &Timestamp,
) -> Vec<RegistryEnd> {
    let nanos = timestamp::unix_nanos(now);
    let counts = |one: &&Participant| match state_of(one, nanos) {
        ParticipantState::Active | ParticipantState::Future => true,
        ParticipantState::Expired => one.effective_from.is_some(),
        _ => false,
    };
    let last = |one: &Participant| one.effective_until.map_or(i64::MAX, |until| until.seconds);
    let mut longest: BTreeMap<(u64, i32), &Participant> = BTreeMap::new();
    for one in participants.filter(counts) {
        let place = longest.entry((one.schema_id, one.role)).or_insert(one);
        if (last(one), one.id) > (last(place), place.id) {
            *place = one;
        }
    }
    let mut ends = Vec::new();
    for one in longest.into_values() {
        let (id, role, schema) = (one.id, one.role().as_str_name(), one.schema_id);
        ends.push(RegistryEnd {
            name: format!("{role} participant {id} of schema {schema}"),
            until: one.effective_until,
        });
        if let Some(expiration) = records.get(&id) {
            ends.push(RegistryEnd { name: format!("rights by participant {id}"), until: *expiration });
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use svc_wire::proto::svc::pp::v1::ParticipantRole;

    use super::*;

    #[test]
    fn of_each_role_and_schema_the_longest_participant_counts() {
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        let participant = |id, schema_id, until: Option<i64>| Participant {
            id,
            schema_id,
            role: ParticipantRole::Issuer as i32,
            effective_from: at(1),
            effective_until: until.and_then(at),
            ..Participant::default()
        };
        let revoked = Participant { revoked: at(2), ..participant(9, 3, None) };
        let all = [participant(1, 3, Some(50)), participant(2, 3, Some(200)), participant(3, 4, Some(60)), revoked];
        let records = BTreeMap::from([(1, at(50)), (2, at(150))]);
        let now = Timestamp { seconds: 100, nanos: 0 };
        let expected = [
            ("ISSUER participant 2 of schema 3", Some(200)),
            ("rights by participant 2", Some(150)),
            ("ISSUER participant 3 of schema 4", Some(60)),
        ];
        // One without a beginning has never counted, and its end is none.
        let unset = |id, until| Participant { effective_from: None, ..participant(id, 5, Some(until)) };
        let all = all.into_iter().chain([unset(4, 300), unset(5, 50)]).collect::<Vec<_>>();
        let found = ends_of(all.iter(), &records, &now);
        let shown: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.until.map(|until| until.seconds))).collect();
        assert_eq!(shown, expected);
    }
}

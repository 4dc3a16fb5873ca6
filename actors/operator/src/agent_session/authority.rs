//! The node's word on an agent: the snapshot comes from an indexer, and a login at a server that an indexer names proves the key to it.

use std::{collections::BTreeSet, sync::Arc};

use svc_net::upstream::{LIST_LIMIT, NodeClient, NodeClientError, require_whole};
use svc_wire::{
    proto::svc::{
        de::v1::{
            QueryListVsOperatorAuthorizationsRequest, QueryListVsOperatorAuthorizationsResponse,
            VsOperatorAuthorization,
        },
        pp::v1::{Participant, QueryListParticipantsRequest},
    },
    proto_registry::ProtoRegistry,
};

/// VS operators of one DID that are looked up.
const MAX_OPERATORS: usize = 16;

/// The node does not confirm an agent.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The chain does not have it.
    #[error("{0}")]
    NotOnChain(String),
    /// The node could not be asked.
    #[error(transparent)]
    Node(#[from] NodeClientError),
}

/// Asks the node about the agents of a corporation.
#[derive(Clone)]
pub struct AgentAuthority {
    /// The node.
    pub node: NodeClient,
    /// Paths of its queries.
    pub registry: Arc<ProtoRegistry>,
    /// The corporation.
    pub corporation_id: u64,
}

impl AgentAuthority {
    /// Checks that a participant of the corporation has the DID, and a VS operator that the corporation has authorized.
    pub(super) async fn check(&self, did: &str) -> Result<(), AuthorityError> {
        let request = QueryListParticipantsRequest { did: did.to_owned(), ..QueryListParticipantsRequest::default() };
        let path = self.registry.namespace().query_path("pp", "ListParticipants");
        let participants = self.node.list_participants(&path, request).await?;
        let operators = operators_of(did, self.corporation_id, &participants);
        if operators.len() > MAX_OPERATORS {
            tracing::warn!(did, operators = operators.len(), "only the first VS operators of the DID are looked up");
        }
        let path = self.registry.namespace().query_path("de", "ListVSOperatorAuthorizations");
        for (vs_operator, participants) in operators.into_iter().take(MAX_OPERATORS) {
            let request = QueryListVsOperatorAuthorizationsRequest {
                corporation_id: self.corporation_id,
                vs_operator: vs_operator.clone(),
                response_max_size: LIST_LIMIT,
            };
            let found: QueryListVsOperatorAuthorizationsResponse = self.node.query(&path, &request, 0).await?;
            let authorizations =
                require_whole(&path, found.vs_operator_authorizations).map_err(NodeClientError::from)?;
            if is_authorized(self.corporation_id, &vs_operator, &participants, &authorizations) {
                return Ok(());
            }
        }
        Err(AuthorityError::NotOnChain(format!(
            "the chain has no participant of corporation {} with the DID {did} and an authorized VS operator",
            self.corporation_id
        )))
    }
}

/// The VS operators of a DID's participants of the corporation, with the participants of each. Revoked and slashed ones do not count.
fn operators_of(did: &str, corporation_id: u64, participants: &[Participant]) -> Vec<(String, BTreeSet<u64>)> {
    let mut operators: Vec<(String, BTreeSet<u64>)> = Vec::new();
    let is_own = |one: &&Participant| {
        one.did == did
            && one.corporation_id == corporation_id
            && !one.vs_operator.is_empty()
            && one.revoked.is_none()
            && one.slashed.is_none()
    };
    for participant in participants.iter().filter(is_own) {
        match operators.iter_mut().find(|(operator, _)| *operator == participant.vs_operator) {
            Some((_, ids)) => {
                ids.insert(participant.id);
            }
            None => operators.push((participant.vs_operator.clone(), BTreeSet::from([participant.id]))),
        }
    }
    operators
}

fn is_authorized(
    corporation_id: u64,
    vs_operator: &str,
    participants: &BTreeSet<u64>,
    authorizations: &[VsOperatorAuthorization],
) -> bool {
    let own =
        authorizations.iter().filter(|one| one.corporation_id == corporation_id && one.vs_operator == vs_operator);
    own.flat_map(|one| &one.records).any(|record| participants.contains(&record.participant_id))
}

#[cfg(test)]
mod tests {
    use svc_wire::proto::svc::de::v1::ParticipantAuthorizationRecord;

    use super::*;

    fn participant(id: u64) -> Participant {
        Participant {
            id,
            did: "did:web:a".to_owned(),
            corporation_id: 7,
            vs_operator: "svc1agent".to_owned(),
            ..Participant::default()
        }
    }

    #[test]
    fn only_standing_participants_of_the_corporation_with_a_record_count() {
        let over = Some(prost_types::Timestamp::default());
        let all = [
            participant(1),
            participant(2),
            Participant { did: "did:web:b".to_owned(), ..participant(3) },
            Participant { corporation_id: 8, ..participant(4) },
            Participant { vs_operator: String::new(), ..participant(5) },
            Participant { revoked: over, ..participant(6) },
            Participant { slashed: over, ..participant(7) },
        ];
        let operators = operators_of("did:web:a", 7, &all);
        assert_eq!(operators, [("svc1agent".to_owned(), BTreeSet::from([1, 2]))]);
        let of = |corporation_id, vs_operator: &str, participant_id| VsOperatorAuthorization {
            corporation_id,
            vs_operator: vs_operator.to_owned(),
            records: vec![ParticipantAuthorizationRecord { participant_id, ..Default::default() }],
            ..VsOperatorAuthorization::default()
        };
        for (authorization, expected) in [
            (of(7, "svc1agent", 2), true),
            (of(7, "svc1agent", 6), false),
            (of(8, "svc1agent", 2), false),
            (of(7, "svc1other", 2), false),
        ] {
            let found = is_authorized(7, "svc1agent", &operators[0].1, std::slice::from_ref(&authorization));
            assert_eq!(found, expected, "{authorization:?}");
        }
    }
}

//! Groups without a corporation: every account can make one, and some chains begin with one. Nothing of them is data of the index, but
//! an earlier release stored their proposals, votes and activity.

use std::collections::HashMap;

use serde_json::Value;

use crate::{
    read::{error::ReadError, reader::IndexReader},
    store::{EntityKind, StoredActivity},
};

/// Whether proposals belong to a corporation, by id, as far as one read has looked them up.
#[derive(Default)]
pub struct AnchoredProposals(HashMap<u64, bool>);

fn is_of_corporation(proposal: &Value) -> bool {
    proposal["corporation_id"].as_u64().is_some_and(|id| id > 0)
}

impl IndexReader {
    /// Whether a read may show an entity: a proposal of a corporation, a vote on one, and every entity of another kind.
    pub(in crate::read) async fn is_anchored(
        &self,
        kind: EntityKind,
        body: &Value,
        height: u64,
        known: &mut AnchoredProposals,
    ) -> Result<bool, ReadError> {
        match (kind, body["proposal_id"].as_u64()) {
            (EntityKind::Proposal, _) => Ok(is_of_corporation(body)),
            (EntityKind::Vote, Some(proposal)) => self.is_anchored_proposal(proposal, height, known).await,
            (EntityKind::Vote, None) => Ok(false),
            _ => Ok(true),
        }
    }

    /// Whether a read may show a row of the activity log.
    pub(in crate::read) async fn is_anchored_activity(
        &self,
        row: &StoredActivity,
        height: u64,
        known: &mut AnchoredProposals,
    ) -> Result<bool, ReadError> {
        match row.entity_key.parse() {
            Ok(proposal) if row.entity_type == EntityKind::Proposal.entity_type() => {
                self.is_anchored_proposal(proposal, height, known).await
            }
            _ => Ok(true),
        }
    }

    async fn is_anchored_proposal(
        &self,
        id: u64,
        height: u64,
        known: &mut AnchoredProposals,
    ) -> Result<bool, ReadError> {
        if let Some(found) = known.0.get(&id) {
            return Ok(*found);
        }
        let proposal = self.store.entity(EntityKind::Proposal, id, height).await?;
        let found = proposal.as_ref().is_some_and(is_of_corporation);
        known.0.insert(id, found);
        Ok(found)
    }
}

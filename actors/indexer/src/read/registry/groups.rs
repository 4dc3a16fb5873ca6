//! Reads of the groups of corporations, their proposals and votes.

use std::collections::HashSet;

use serde_json::{Value, json};
use svc_wire::timestamp::parse_instant;

use super::entity_scan::{MeasuredEntity, contains_text};
use crate::{
    projection::public_members,
    read::{
        answer_json::wrap_member,
        error::ReadError,
        reader::{IndexReader, ReadRequest},
    },
    store::{EntityFilter, EntityKind},
};

fn find_member<'a>(group: &'a Value, account: &str) -> Option<&'a Value> {
    group["members"].as_array()?.iter().find(|member| member["address"] == account)
}

impl IndexReader {
    pub(in crate::read) async fn group(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let body =
            self.require_entity(request, EntityKind::Group, request.params.required_number("corporation_id")?).await?;
        Ok(wrap_member("group", public_members(body)))
    }

    pub(in crate::read) async fn memberships(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let account = request.params.text("account").unwrap_or_default();
        let is_wanted = |row: &MeasuredEntity| find_member(&row.body, account).is_some();
        let rows = self.scan_entities(request, EntityKind::Group, &EntityFilter::default(), None, is_wanted).await?;
        let show = |row: MeasuredEntity| {
            let member = find_member(&row.body, account).cloned().unwrap_or_default();
            json!({
                "corporation_id": row.id, "weight": member["weight"], "metadata": member["metadata"],
                "added_at": member["added_at"],
            })
        };
        Ok(wrap_member("memberships", rows.into_iter().map(show).collect::<Vec<_>>()))
    }

    pub(in crate::read) async fn proposals(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let params = request.params;
        let filter = EntityFilter { corporation_id: params.number("corporation_id"), ..EntityFilter::default() };
        let (status, proposer) = (params.text("status"), params.text("proposer"));
        let pending = match params.text("pending_voter") {
            None => None,
            Some(voter) => Some(self.pending_votes(request, voter).await?),
        };
        let is_wanted = |body: &Value| {
            status.is_none_or(|status| body["status"] == status)
                && proposer.is_none_or(|proposer| contains_text(body, "proposers", proposer))
                && pending.as_ref().is_none_or(|pending| pending.is_pending(body, request.block_time))
        };
        Ok(wrap_member("proposals", self.list_entities(request, EntityKind::Proposal, &filter, is_wanted).await?))
    }

    async fn pending_votes(&self, request: &ReadRequest<'_>, voter: &str) -> Result<PendingVotes, ReadError> {
        let groups = self.store.list_all(EntityKind::Group, request.height, &EntityFilter::default()).await?;
        let member_of =
            groups.iter().filter(|stored| find_member(&stored.body, voter).is_some()).map(|stored| stored.id);
        let filter = EntityFilter { name: Some(voter.to_owned()), ..EntityFilter::default() };
        let votes = self.store.list_all(EntityKind::Vote, request.height, &filter).await?;
        Ok(PendingVotes {
            corporations: member_of.collect(),
            voted_proposals: votes.iter().filter_map(|vote| vote.body["proposal_id"].as_u64()).collect(),
        })
    }

    pub(in crate::read) async fn proposal(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let id = request.params.required_number("id")?;
        let found = self.require_entity(request, EntityKind::Proposal, id).await?;
        Ok(wrap_member("proposal", public_members(found)))
    }

    pub(in crate::read) async fn votes(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let filter = EntityFilter {
            parent_id: request.params.number("proposal_id"),
            name: request.params.text("voter").map(str::to_owned),
            ..EntityFilter::default()
        };
        if filter.parent_id.is_none() && filter.name.is_none() {
            return Err(ReadError::InvalidParameter(
                "proposal_id, voter: at least one of the two is required".to_owned(),
            ));
        }
        Ok(wrap_member("votes", self.list_entities(request, EntityKind::Vote, &filter, |_| true).await?))
    }
}

/// The proposals on which an account may still vote.
struct PendingVotes {
    corporations: HashSet<u64>,
    voted_proposals: HashSet<u64>,
}

impl PendingVotes {
    fn is_pending(&self, proposal: &Value, now: i128) -> bool {
        let is_open = proposal["status"] == "SUBMITTED"
            && parse_instant(proposal, "voting_period_end").is_none_or(|end| end > now);
        let has = |set: &HashSet<u64>, key: &str| proposal[key].as_u64().is_some_and(|id| set.contains(&id));
        is_open && has(&self.corporations, "corporation_id") && !has(&self.voted_proposals, "id")
    }
}

//! Reads of the groups behind corporations, their proposals and votes.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{Ask, ReadError, Reader, scan::holds, wrapped};
use crate::{
    derive::state::instant_of,
    project::public,
    store::{Filter, Kind},
};

fn member<'a>(group: &'a Value, account: &str) -> Option<&'a Value> {
    group["members"].as_array()?.iter().find(|member| member["address"] == account)
}

impl Reader {
    pub(super) async fn group(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let body = self.one(ask, Kind::Group, ask.params.required("corporation_id")?).await?;
        Ok(wrapped("group", public(body)))
    }

    pub(super) async fn memberships(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let account = ask.params.text("account").unwrap_or_default();
        let is_wanted = |row: &super::scan::Row| member(&row.body, account).is_some();
        let rows = self.scan(ask, Kind::Group, &Filter::default(), None, is_wanted).await?;
        let show = |row: super::scan::Row| {
            let member = member(&row.body, account).cloned().unwrap_or_default();
            json!({
                "corporation_id": row.id, "weight": member["weight"], "metadata": member["metadata"],
                "added_at": member["added_at"],
            })
        };
        Ok(wrapped("memberships", rows.into_iter().map(show).collect::<Vec<_>>()))
    }

    pub(super) async fn proposals(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let params = ask.params;
        let filter = Filter { corporation_id: params.number("corporation_id"), ..Filter::default() };
        let (status, proposer) = (params.text("status"), params.text("proposer"));
        let pending = match params.text("pending_voter") {
            None => None,
            Some(voter) => Some(self.pending_of(ask, voter).await?),
        };
        let is_wanted = |body: &Value| {
            status.is_none_or(|status| body["status"] == status)
                && proposer.is_none_or(|proposer| holds(body, "proposers", proposer))
                && pending.as_ref().is_none_or(|pending| pending.admits(body, ask.now))
        };
        Ok(wrapped("proposals", self.plain_list(ask, Kind::Proposal, &filter, is_wanted).await?))
    }

    async fn pending_of(&self, ask: &Ask<'_>, voter: &str) -> Result<Pending, ReadError> {
        let groups = self.store.all(Kind::Group, ask.height, &Filter::default()).await?;
        let member_of = groups.iter().filter(|stored| member(&stored.body, voter).is_some()).map(|stored| stored.id);
        let filter = Filter { name: Some(voter.to_owned()), ..Filter::default() };
        let votes = self.store.all(Kind::Vote, ask.height, &filter).await?;
        Ok(Pending {
            corporations: member_of.collect(),
            voted: votes.iter().filter_map(|vote| vote.body["proposal_id"].as_u64()).collect(),
        })
    }

    pub(super) async fn proposal(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        Ok(wrapped("proposal", public(self.one(ask, Kind::Proposal, ask.params.required("id")?).await?)))
    }

    pub(super) async fn votes(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let filter = Filter {
            parent_id: ask.params.number("proposal_id"),
            name: ask.params.text("voter").map(str::to_owned),
            ..Filter::default()
        };
        if filter.parent_id.is_none() && filter.name.is_none() {
            return Err(ReadError::Parameter("proposal_id, voter: at least one of the two is required".to_owned()));
        }
        Ok(wrapped("votes", self.plain_list(ask, Kind::Vote, &filter, |_| true).await?))
    }
}

/// What somebody may still vote on.
struct Pending {
    corporations: HashSet<u64>,
    voted: HashSet<u64>,
}

impl Pending {
    fn admits(&self, proposal: &Value, now: i128) -> bool {
        let is_open =
            proposal["status"] == "SUBMITTED" && instant_of(proposal, "voting_period_end").is_none_or(|end| end > now);
        let has = |set: &HashSet<u64>, key: &str| proposal[key].as_u64().is_some_and(|id| set.contains(&id));
        is_open && has(&self.corporations, "corporation_id") && !has(&self.voted, "id")
    }
}

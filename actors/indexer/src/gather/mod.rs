//! From what a block says to what it writes: entities read at its height, events with their routes, activity, figures.

mod figures;
mod shape;
mod view;

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use svc_kit::upstream::NodeError;

use crate::{
    block::{BlockFacts, Cause, Knowledge, Loose, PARAMETERS, Touched},
    derive::state,
    follower::{Reading, Source},
    project::{self, delegation, framework, group},
    store::{Activity, BlockWrite, Change, Kind, Store, StoreError, iso_millis},
};
use figures::Tick;
use view::{Body, Step, View};

/// A block could not be taken in.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    #[error(transparent)]
    Node(#[from] NodeError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("block {0} has a header time that is no time")]
    Time(u64),
}

impl IngestError {
    /// What may be told to anybody: which part failed, and what the node itself said; no addresses, no SQL.
    pub fn public(&self) -> String {
        match self {
            Self::Node(NodeError::Upstream(_)) => "the node does not answer".to_owned(),
            Self::Node(error) => error.to_string(),
            Self::Store(_) => "the store failed".to_owned(),
            Self::Time(_) => self.to_string(),
        }
    }
}

/// A block with the readings of everything it names itself.
#[derive(Debug, Clone)]
pub struct Fetched {
    pub facts: BlockFacts,
    pub readings: BTreeMap<Touched, Reading>,
}

/// Reads asked of the node at once.
const PARALLEL: usize = 8;

/// Reads entities at a height.
pub async fn read_all(
    source: Source<'_>,
    touched: Vec<Touched>,
    height: u64,
) -> Result<BTreeMap<Touched, Reading>, NodeError> {
    let reads = touched.into_iter().map(|one| async move {
        let reading = source.read(&one, height).await?;
        Ok::<_, NodeError>((one, reading))
    });
    stream::iter(reads).buffer_unordered(PARALLEL).try_collect().await
}

/// What a block is gathered with.
pub struct Gatherer<'a> {
    pub source: Source<'a>,
    pub store: &'a Store,
    pub knowledge: &'a Knowledge,
}

impl Gatherer<'_> {
    /// Everything the block writes.
    pub async fn gather(&self, fetched: &Fetched) -> Result<BlockWrite, IngestError> {
        let mut facts = fetched.facts.clone();
        let height = facts.height;
        let checkpoint = self.store.checkpoint().await?;
        // Before the first block nothing was counted, so its own time stands for the time before it.
        let before = if checkpoint.height == 0 { facts.time } else { checkpoint.time };
        let mut view = View::new(self.store, height);
        if checkpoint.height == 0 {
            let start = Cause { msg: "Start".to_owned(), account: None };
            for module in PARAMETERS {
                facts.note(Touched::Params(module), &start);
            }
        }
        let due = if checkpoint.height == 0 { Vec::new() } else { self.store.due(before, facts.time).await? };
        self.run_proposals(&view, &mut facts).await?;
        self.resolve(&view, &mut facts, &due, &fetched.readings).await?;

        let missing = facts.touched.keys().filter(|one| !fetched.readings.contains_key(*one)).cloned().collect();
        let late = read_all(self.source, missing, height).await?;
        for (one, causes) in &facts.touched {
            let Some(reading) = fetched.readings.get(one).or_else(|| late.get(one)) else { continue };
            if let Some((change, before)) = self.change(&view, &facts, reading).await? {
                view.steps.push(Step { change, before, causes: causes.clone() });
            }
        }
        self.finish_steps(&mut view, &facts).await?;
        self.add_versions(&mut view).await?;

        let mut events = Vec::new();
        for raw in &facts.events {
            events.push(shape::shape(&view, raw, height, facts.time).await?);
        }
        let is_participant = |(kind, id): &(Kind, u64)| (*kind == Kind::Participant).then_some(*id);
        let flips: Vec<u64> = due.iter().filter_map(is_participant).collect();
        let tick = Tick { before, now: facts.time };
        let deltas = figures::figures(&view, &facts, tick, &flips).await?;
        let activity = view.steps.iter().flat_map(activity).collect();
        let schedule = view.steps.iter().flat_map(|step| schedule(step, facts.time)).collect();
        let changed = view.steps.into_iter().filter(|step| !is_same(step)).map(|step| step.change);
        let changes = changed.map(|change| dated(change, facts.time)).collect();
        Ok(BlockWrite { height, time: facts.time, changes, events, activity, deltas, schedule })
    }

    /// Messages inside a proposal that was run with success say as much as messages of their own.
    async fn run_proposals(&self, view: &View<'_>, facts: &mut BlockFacts) -> Result<(), IngestError> {
        for executed in facts.executed.clone() {
            let messages = match facts.submitted.get(&executed.proposal) {
                Some(submitted) => submitted.messages.clone(),
                None => match view.before(Kind::Proposal, executed.proposal).await? {
                    Some(body) => group::stored_messages(&body),
                    None => Vec::new(),
                },
            };
            for message in &messages {
                facts.take_message(message, &executed.at, self.knowledge);
            }
        }
        facts.settle_order();
        Ok(())
    }

    /// Names what only the store can name.
    async fn resolve(
        &self,
        view: &View<'_>,
        facts: &mut BlockFacts,
        due: &[(Kind, u64)],
        readings: &BTreeMap<Touched, Reading>,
    ) -> Result<(), IngestError> {
        for (loose, cause) in std::mem::take(&mut facts.loose) {
            let mut found = Vec::new();
            match loose {
                Loose::CorporationAt(address) => {
                    found.extend(view.corporation_at(&address).await?.map(Touched::Corporation));
                }
                Loose::GroupAt(policy) => {
                    let corporation = view.corporation_at(&policy).await?;
                    found.extend(corporation.map(|corporation_id| Touched::Group { corporation_id, policy }));
                }
                Loose::GroupId(id) => {
                    let group = view.group(id).await?;
                    found.extend(group.map(|(corporation_id, policy)| Touched::Group { corporation_id, policy }));
                }
                Loose::Ancestors(id) => {
                    // One that was made in this block is known from its reading.
                    let read = match readings.get(&Touched::Participant(id)) {
                        Some(Reading::Change(change)) => change.body.clone().map(std::sync::Arc::new),
                        _ => None,
                    };
                    let body = match read {
                        Some(body) => Some(body),
                        None => view.before(Kind::Participant, id).await?,
                    };
                    if let Some(body) = body {
                        let ancestors = view.ancestors(&body).await?;
                        found.extend(body["validator_participant_id"].as_u64().map(Touched::Participant));
                        found.extend(ancestors.into_iter().map(|(id, _)| Touched::Participant(id)));
                    }
                }
            }
            for one in found {
                facts.note(one, &cause);
            }
        }
        let ended = Cause { msg: "EndVotingPeriod".to_owned(), account: None };
        for (_, id) in due.iter().filter(|(kind, _)| *kind == Kind::Proposal) {
            facts.note(Touched::Proposal(*id), &ended);
        }
        // A change of members or of the policy may end the proposals that are open.
        let groups: Vec<(u64, Cause)> = facts
            .touched
            .iter()
            .filter_map(|(one, causes)| match one {
                Touched::Group { corporation_id, .. } => Some((*corporation_id, causes.last()?.clone())),
                _ => None,
            })
            .collect();
        for (corporation_id, cause) in groups {
            for (id, body) in view.owned_before(Kind::Proposal, corporation_id).await? {
                if body["status"] == "SUBMITTED" {
                    facts.note(Touched::Proposal(id), &cause);
                }
            }
        }
        Ok(())
    }

    async fn change(
        &self,
        view: &View<'_>,
        facts: &BlockFacts,
        reading: &Reading,
    ) -> Result<Option<(Change, Body)>, IngestError> {
        let change = match reading {
            Reading::Change(change) => (**change).clone(),
            Reading::Allowance { granter, grantee, allowance } => {
                // Allowances of accounts that are no corporation are not the registry's business.
                let Some(corporation_id) = view.corporation_at(granter).await? else { return Ok(None) };
                let mut change = Change {
                    corporation_id: Some(corporation_id),
                    name: Some(grantee.clone()),
                    ..Change::new(Kind::FeeGrant, None, None)
                };
                let before = view.find_before(&change).await?;
                let is_new = facts.granted_fees.contains(&(corporation_id.to_string(), grantee.clone()));
                change.body = allowance.as_ref().and_then(|allowance| {
                    delegation::fee_grant(corporation_id, grantee, allowance, before.as_deref(), is_new)
                });
                return Ok(Some((change, before)));
            }
        };
        let before = view.find_before(&change).await?;
        let is_nothing = change.body.is_none() && before.is_none() && change.kind != Kind::Proposal;
        Ok((!is_nothing).then_some((change, before)))
    }

    /// What a state alone does not tell: since when, of which ecosystem, of which corporation, and what became of proposals.
    async fn finish_steps(&self, view: &mut View<'_>, facts: &BlockFacts) -> Result<(), IngestError> {
        for index in 0..view.steps.len() {
            let step = &view.steps[index];
            let mut change = step.change.clone();
            let before = step.before.clone();
            match change.kind {
                Kind::Ecosystem => {
                    if let (Some(body), Some(before)) = (&mut change.body, &before) {
                        framework::date_archiving(body, before);
                    }
                }
                Kind::Participant => {
                    if let Some(body) = &mut change.body {
                        let schema = body["schema_id"].as_u64().unwrap_or(0);
                        let schema = view.after(Kind::Schema, schema).await?;
                        body["ecosystem_id"] = schema.map_or(Value::Null, |schema| schema["ecosystem_id"].clone());
                    }
                }
                Kind::Proposal => self.finish_proposal(view, facts, &mut change, before.as_deref()).await?,
                _ => {}
            }
            view.steps[index].change = change;
        }
        for vote in &facts.votes {
            let change = Change {
                parent_id: Some(vote.proposal),
                name: Some(vote.voter.clone()),
                ..Change::new(
                    Kind::Vote,
                    None,
                    Some(json!({
                        "proposal_id": vote.proposal, "voter": vote.voter, "option": vote.option,
                        "metadata": vote.metadata, "submit_time": iso_millis(facts.time),
                    })),
                )
            };
            view.steps.push(Step { change, before: None, causes: Vec::new() });
        }
        Ok(())
    }

    /// Versions of governance frameworks, which the node tells as part of their owners.
    async fn add_versions(&self, view: &mut View<'_>) -> Result<(), IngestError> {
        let mut found = Vec::new();
        for step in &view.steps {
            if !matches!(step.change.kind, Kind::Corporation | Kind::Ecosystem) {
                continue;
            }
            let versions = step.change.body.as_ref().and_then(|body| body["versions"].as_array());
            for version in versions.into_iter().flatten() {
                let owner = step.change.id;
                let (corporation_id, parent_id) =
                    if step.change.kind == Kind::Corporation { (owner, None) } else { (None, owner) };
                let id = version["id"].as_u64();
                let change = Change {
                    corporation_id,
                    parent_id,
                    ..Change::new(Kind::FrameworkVersion, id, Some(version.clone()))
                };
                let before = view.find_before(&change).await?;
                found.push(Step { change, before, causes: Vec::new() });
            }
        }
        view.steps.extend(found);
        Ok(())
    }

    async fn finish_proposal(
        &self,
        view: &View<'_>,
        facts: &BlockFacts,
        change: &mut Change,
        before: Option<&Value>,
    ) -> Result<(), IngestError> {
        let id = change.id.unwrap_or(0);
        if change.body.is_none() {
            let time = iso_millis(facts.time);
            let submitted = facts.submitted.get(&id);
            let known = submitted.map(|message| group::submitted(self.source.registry, id, message, &time));
            change.body = before.cloned().or(known);
            if let Some(body) = &mut change.body {
                group::close(body, facts.pruned.get(&id), facts.results.get(&id).map(String::as_str));
            }
        }
        let Some(body) = &mut change.body else { return Ok(()) };
        let policy = body["group_policy_address"].as_str().unwrap_or_default().to_owned();
        let corporation = view.corporation_at(&policy).await?;
        body["corporation_id"] = corporation.unwrap_or(0).into();
        change.corporation_id = corporation;
        change.name = Some(policy);
        Ok(())
    }
}

/// Rows of the activity log: one a message; the last tells what the block as a whole changed.
fn activity(step: &Step) -> Vec<Activity> {
    let kind = step.change.kind;
    // Each fee that is paid looks at its allowance; only what that changed is told.
    if kind == Kind::FeeGrant && is_same(step) {
        return Vec::new();
    }
    let changes = project::changes(step.before.as_deref(), step.change.body.as_ref());
    let last = step.causes.len().saturating_sub(1);
    let rows = step.causes.iter().enumerate().map(|(place, cause)| Activity {
        entity_type: kind.entity_type(),
        entity_key: step.key(),
        msg: match kind {
            Kind::TrustDeposit => deposit_verb(&cause.msg, step.before.is_none()),
            _ => cause.msg.clone(),
        },
        account: cause.account.clone(),
        changes: changes.clone().filter(|_| place == last),
    });
    // What no message did and nothing changed is no activity.
    rows.filter(|row| row.account.is_some() || row.changes.is_some()).collect()
}

/// Trust deposits have verbs of their own.
fn deposit_verb(msg: &str, is_new: bool) -> String {
    let verb = match msg {
        "SlashTrustDeposit" => "SLASH_TRUST_DEPOSIT",
        "BurnEcosystemSlashedTrustDeposit" => "BURN_ECOSYSTEM_SLASHED_TRUST_DEPOSIT",
        "ReclaimTrustDepositYield" => "RECLAIM_YIELD",
        "RepaySlashedTrustDeposit" => "REPAY_SLASHED",
        _ if is_new => "CREATE_TRUST_DEPOSIT",
        _ => "ADJUST_TRUST_DEPOSIT",
    };
    verb.to_owned()
}

/// Whether the block left an entity as it was, as far as the node tells.
fn is_same(step: &Step) -> bool {
    let told = |body: &Value| {
        let mut body = body.clone();
        if let Some(object) = body.as_object_mut() {
            object.retain(|key, _| key != "id" && key != "_modified");
        }
        body
    };
    step.before.as_deref().map(told) == step.change.body.as_ref().map(told)
}

/// What does not say itself when it was last changed, was changed by this block.
fn dated(mut change: Change, time: i128) -> Change {
    if let Some(body) = change.body.as_mut().filter(|body| body.get("modified").is_none()) {
        body["_modified"] = iso_millis(time).into();
    }
    change
}

/// Instants at which an entity changes by itself.
fn schedule(step: &Step, now: i128) -> Vec<(i128, Kind, u64)> {
    let (Some(body), Some(id)) = (&step.change.body, step.change.id) else { return Vec::new() };
    match step.change.kind {
        Kind::Participant => state::flips_after(body, now).map(|due| (due, Kind::Participant, id)).collect(),
        Kind::Proposal if body["status"] == "SUBMITTED" => {
            let ends = state::instant_of(body, "voting_period_end");
            ends.map(|due| (due, Kind::Proposal, id)).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

//! The rows of one block, from its facts, the readings of its entities, and the state before it.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use super::{
    FetchedBlock,
    error::IngestError,
    event_builder,
    node_reader::{EntityReading, NodeReader},
    registry_cache::{EntityBody, RegistryCache},
    registry_view::{EntityTransition, RegistryView},
    stats_deltas::{self, BlockTimes},
    transitions,
};
use crate::{
    block::{BlockFacts, ChangeCause, EntityRef, KnownMessages, NewAllowance, UnresolvedChange, UnresolvedRef, nested},
    projection::{authorizations, governance, groups},
    store::{BlockWrite, Checkpoint, DueEntity, EntityChange, EntityKind, IndexStore, iso_millis},
};

/// The sources from which the rows of a block are made.
pub struct BlockIngester<'a> {
    pub node: NodeReader<'a>,
    pub store: &'a IndexStore,
    /// The store's newest state, as far as it is known.
    pub cache: &'a RegistryCache,
    /// The newest block of the store.
    pub checkpoint: &'a Checkpoint,
    /// Whether time alone may change an entity up to the block.
    pub may_be_due: bool,
    /// Whether the node may be asked for entities that only the store names: not while a transaction is open.
    pub may_ask_node: bool,
    pub known_messages: &'a KnownMessages,
}

/// Cause of the rows of a first state.
pub const START: &str = "Start";

impl BlockIngester<'_> {
    /// Returns all rows of a block. Fails when the node or the store fails.
    pub async fn ingest(&self, fetched: &FetchedBlock) -> Result<BlockWrite, IngestError> {
        let mut facts = fetched.facts.clone();
        let height = facts.height;
        let checkpoint = self.checkpoint;
        let is_first = checkpoint.height == 0;
        // The first block has no predecessor, so its own time stands for the time before it.
        let before = if is_first { facts.time } else { checkpoint.time };
        let mut view = RegistryView::new(self.store, self.cache, height);
        if is_first {
            self.forget_written(&view, &mut facts, &fetched.readings).await?;
            facts.record_params(START);
        }
        let due = match !is_first && self.may_be_due {
            true => self.store.list_due(before, facts.time).await?,
            false => Vec::new(),
        };
        self.expand_proposals(&view, &mut facts).await?;
        self.resolve_refs(&view, &mut facts, &due, &fetched.readings).await?;

        let missing: Vec<EntityRef> =
            facts.entities.keys().filter(|entity| !fetched.readings.contains_key(*entity)).cloned().collect();
        if !missing.is_empty() && !self.may_ask_node {
            return Err(IngestError::NodeNeeded);
        }
        let resolved = self.node.read_entities(missing, height).await?;
        for (entity, causes) in &facts.entities {
            let Some(reading) = fetched.readings.get(entity).or_else(|| resolved.get(entity)) else { continue };
            if let Some((change, before)) = self.build_change(&view, &facts, reading).await? {
                view.transitions.push(EntityTransition { change, before, causes: causes.clone() });
            }
        }
        self.complete_transitions(&mut view, &facts).await?;
        self.add_framework_versions(&mut view).await?;

        let mut events = Vec::new();
        for raw in &facts.events {
            events.push(event_builder::build_event(&view, raw, height, facts.time).await?);
        }
        let is_participant = |due: &DueEntity| (due.kind == EntityKind::Participant).then_some(due.id);
        let due_participants: Vec<u64> = due.iter().filter_map(is_participant).collect();
        let times = BlockTimes { previous: before, current: facts.time };
        // The measures of a page have everything of its entities.
        let is_counted = |step: &EntityTransition| is_first && step.before.is_some();
        let (counted, counting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut view.transitions).into_iter().partition(is_counted);
        view.transitions = counting;
        let deltas = stats_deltas::compute_deltas(&view, &facts, times, &due_participants).await?;
        view.transitions.extend(counted);
        let write = transitions::build_rows(view.transitions, &facts, deltas);
        Ok(BlockWrite { hash: Some(facts.hash), events, ..write })
    }

    /// Returns the rows of a page of the first state, which belongs to the first block: entities with their causes in the facts, and votes.
    /// An entity that the store has already is left out.
    pub async fn ingest_page(
        &self,
        facts: &BlockFacts,
        readings: &BTreeMap<EntityRef, EntityReading>,
    ) -> Result<BlockWrite, IngestError> {
        let mut view = RegistryView::new(self.store, self.cache, facts.height);
        for (entity, causes) in &facts.entities {
            let Some(reading) = readings.get(entity) else { continue };
            if let Some((change, None)) = self.build_change(&view, facts, reading).await? {
                view.transitions.push(EntityTransition { change, before: None, causes: causes.clone() });
            }
        }
        self.complete_transitions(&mut view, facts).await?;
        self.add_framework_versions(&mut view).await?;
        let times = BlockTimes { previous: facts.time, current: facts.time };
        let deltas = stats_deltas::compute_deltas(&view, facts, times, &[]).await?;
        Ok(transitions::build_rows(view.transitions, facts, deltas))
    }

    /// Removes the entities that the pages of the first state have written.
    async fn forget_written(
        &self,
        view: &RegistryView<'_>,
        facts: &mut BlockFacts,
        readings: &BTreeMap<EntityRef, EntityReading>,
    ) -> Result<(), IngestError> {
        for (entity, causes) in std::mem::take(&mut facts.entities) {
            let change = match readings.get(&entity) {
                Some(reading) => self.build_change(view, facts, reading).await?,
                None => None,
            };
            if change.is_none_or(|(_, before)| before.is_none()) {
                facts.entities.insert(entity, causes);
            }
        }
        Ok(())
    }

    /// Records the messages of proposals that were executed with success, as if they were messages of the block. A council may change
    /// the parameters of modules, which no event names: they are read again where a proposal can have done so.
    async fn expand_proposals(&self, view: &RegistryView<'_>, facts: &mut BlockFacts) -> Result<(), IngestError> {
        for executed in facts.executed_proposals.clone() {
            let messages = match facts.submitted_proposals.get(&executed.proposal) {
                Some(submitted) => submitted.messages.clone(),
                None => match view.entity_before(EntityKind::Proposal, executed.proposal).await? {
                    Some(body) => groups::stored_messages(&body),
                    // The store has the proposals of corporations alone.
                    None => {
                        facts.record_params("UpdateParams");
                        Vec::new()
                    }
                },
            };
            if messages.iter().any(|message| message.type_url.ends_with(".MsgUpdateParams")) {
                facts.record_params("UpdateParams");
            }
            for message in messages {
                for (message, at) in nested::flatten(message, executed.position.clone()) {
                    facts.record_message(&message, &at, self.known_messages);
                }
            }
        }
        facts.order_events();
        facts.separate_nested_events();
        Ok(())
    }

    /// Resolves references with the store, and records entities that a due instant or a change of a group affects.
    async fn resolve_refs(
        &self,
        view: &RegistryView<'_>,
        facts: &mut BlockFacts,
        due: &[DueEntity],
        readings: &BTreeMap<EntityRef, EntityReading>,
    ) -> Result<(), IngestError> {
        for UnresolvedChange { entity, cause } in std::mem::take(&mut facts.unresolved) {
            let mut found = Vec::new();
            match entity {
                UnresolvedRef::CorporationByPolicy(address) => {
                    found.extend(view.find_corporation(&address).await?.map(EntityRef::Corporation));
                }
                UnresolvedRef::GroupByPolicy(policy) => {
                    let corporation = view.find_corporation(&policy).await?;
                    found.extend(corporation.map(|corporation_id| EntityRef::Group { corporation_id, policy }));
                }
                UnresolvedRef::GroupById(id) => {
                    let group = view.find_group(id).await?;
                    found.extend(group.map(|(corporation_id, policy)| EntityRef::Group { corporation_id, policy }));
                }
                UnresolvedRef::OlderVsOperatorAuthorizations => {
                    let kind = EntityKind::VsOperatorAuthorization;
                    let older = view
                        .list_before(kind)
                        .await?
                        .into_iter()
                        .filter(|(_, body)| authorizations::has_older_record(body));
                    found.extend(older.map(|(id, _)| EntityRef::VsOperatorAuthorization(id)));
                }
                UnresolvedRef::AncestorsOf(id) => {
                    // The store does not have a participant of this block yet; its reading does.
                    let read = match readings.get(&EntityRef::Participant(id)) {
                        Some(EntityReading::Change(change)) => change.body.clone().map(Arc::new),
                        _ => None,
                    };
                    let body = match read {
                        Some(body) => Some(body),
                        None => view.entity_before(EntityKind::Participant, id).await?,
                    };
                    if let Some(body) = body {
                        let ancestors = view.list_ancestors(&body).await?;
                        found.extend(body["validator_participant_id"].as_u64().map(EntityRef::Participant));
                        found.extend(ancestors.into_iter().map(|(id, _)| EntityRef::Participant(id)));
                    }
                }
            }
            for entity in found {
                facts.record_entity(entity, &cause);
            }
        }
        let ended = ChangeCause { message: "EndVotingPeriod".to_owned(), account: None };
        for due in due.iter().filter(|due| due.kind == EntityKind::Proposal) {
            facts.record_entity(EntityRef::Proposal(due.id), &ended);
        }
        // A change of members or of the policy can end open proposals.
        let groups: Vec<(u64, ChangeCause)> = facts
            .entities
            .iter()
            .filter_map(|(entity, causes)| match entity {
                EntityRef::Group { corporation_id, .. } => Some((*corporation_id, causes.last()?.clone())),
                _ => None,
            })
            .collect();
        for (corporation_id, cause) in groups {
            for (id, body) in view.list_owned_before(EntityKind::Proposal, corporation_id).await? {
                if body["status"] == "SUBMITTED" {
                    facts.record_entity(EntityRef::Proposal(id), &cause);
                }
            }
        }
        Ok(())
    }

    async fn build_change(
        &self,
        view: &RegistryView<'_>,
        facts: &BlockFacts,
        reading: &EntityReading,
    ) -> Result<Option<(EntityChange, EntityBody)>, IngestError> {
        let change = match reading {
            EntityReading::Change(change) => (**change).clone(),
            EntityReading::Allowance { granter, grantee, allowance } => {
                // The registry holds only the allowances that corporations grant.
                let Some(corporation_id) = view.find_corporation(granter).await? else { return Ok(None) };
                let mut change = EntityChange {
                    corporation_id: Some(corporation_id),
                    name: Some(grantee.clone()),
                    ..EntityChange::new(EntityKind::FeeGrant, None, None)
                };
                let before = view.find_entity_before(&change).await?;
                let is_new = facts.new_allowances.contains(&NewAllowance { corporation_id, grantee: grantee.clone() });
                change.body = allowance.as_ref().and_then(|allowance| {
                    authorizations::fee_grant(corporation_id, grantee, allowance, before.as_deref(), is_new)
                });
                return Ok(Some((change, before)));
            }
        };
        let before = view.find_entity_before(&change).await?;
        let is_absent = change.body.is_none() && before.is_none() && change.kind != EntityKind::Proposal;
        Ok((!is_absent).then_some((change, before)))
    }

    /// Adds the members that the node does not return: archive times, ecosystems, corporations, and results of
    /// proposals.
    async fn complete_transitions(&self, view: &mut RegistryView<'_>, facts: &BlockFacts) -> Result<(), IngestError> {
        for index in 0..view.transitions.len() {
            let step = &view.transitions[index];
            let mut change = step.change.clone();
            let before = step.before.clone();
            match change.kind {
                EntityKind::Ecosystem => {
                    if let (Some(body), Some(before)) = (&mut change.body, &before) {
                        governance::keep_archive_time(body, before);
                    }
                }
                EntityKind::Participant => {
                    if let Some(body) = &mut change.body {
                        let schema = body["schema_id"].as_u64().unwrap_or(0);
                        let schema = view.entity_after(EntityKind::Schema, schema).await?;
                        body["ecosystem_id"] = schema.map_or(Value::Null, |schema| schema["ecosystem_id"].clone());
                    }
                }
                EntityKind::Proposal => self.complete_proposal(view, facts, &mut change, before.as_deref()).await?,
                _ => {}
            }
            view.transitions[index].change = change;
        }
        // Anyone can make a group. A proposal that is no corporation's is no data of this index, and neither are its votes.
        view.transitions.retain(|step| {
            let is_known = step.before.as_ref().is_some_and(|before| before["corporation_id"] != 0);
            step.change.kind != EntityKind::Proposal || step.change.corporation_id.is_some() || is_known
        });
        for vote in &facts.votes {
            let proposal = view.entity_after(EntityKind::Proposal, vote.proposal).await?;
            if proposal.is_none_or(|proposal| proposal["corporation_id"] == 0) {
                continue;
            }
            let change = EntityChange {
                parent_id: Some(vote.proposal),
                name: Some(vote.voter.clone()),
                ..EntityChange::new(
                    EntityKind::Vote,
                    None,
                    Some(json!({
                        "proposal_id": vote.proposal, "voter": vote.voter, "option": vote.option,
                        "metadata": vote.metadata, "submit_time": iso_millis(vote.time.unwrap_or(facts.time)),
                    })),
                )
            };
            view.transitions.push(EntityTransition { change, before: None, causes: Vec::new() });
        }
        Ok(())
    }

    /// Adds the versions of governance frameworks, which the node returns as part of their owners.
    async fn add_framework_versions(&self, view: &mut RegistryView<'_>) -> Result<(), IngestError> {
        let mut found = Vec::new();
        for step in &view.transitions {
            if !matches!(step.change.kind, EntityKind::Corporation | EntityKind::Ecosystem) {
                continue;
            }
            // Other messages of the block can change the owner too.
            let is_framework = |cause: &&ChangeCause| cause.message.contains("GovernanceFramework");
            let cause = step.causes.iter().rev().find(is_framework).or(step.causes.last());
            let versions = step.change.body.as_ref().and_then(|body| body["versions"].as_array());
            for version in versions.into_iter().flatten() {
                let owner = step.change.id;
                let (corporation_id, parent_id) =
                    if step.change.kind == EntityKind::Corporation { (owner, None) } else { (None, owner) };
                let id = version["id"].as_u64();
                let change = EntityChange {
                    corporation_id,
                    parent_id,
                    ..EntityChange::new(EntityKind::FrameworkVersion, id, Some(version.clone()))
                };
                let before = view.find_entity_before(&change).await?;
                found.push(EntityTransition { change, before, causes: cause.cloned().into_iter().collect() });
            }
        }
        view.transitions.extend(found);
        Ok(())
    }

    async fn complete_proposal(
        &self,
        view: &RegistryView<'_>,
        facts: &BlockFacts,
        change: &mut EntityChange,
        before: Option<&Value>,
    ) -> Result<(), IngestError> {
        let id = change.id.unwrap_or(0);
        if change.body.is_none() {
            let time = iso_millis(facts.time);
            let submitted = facts.submitted_proposals.get(&id);
            let mut known = submitted.map(|message| groups::submitted_proposal(self.node.registry, id, message, &time));
            if let Some(body) = &mut known {
                let policy = body["group_policy_address"].as_str().unwrap_or_default().to_owned();
                let corporation = view.find_corporation(&policy).await?.unwrap_or(0);
                // The versions at the submission; the execution may have changed them.
                let group = match view.entity_before(EntityKind::Group, corporation).await? {
                    Some(group) => Some(group),
                    None => view.entity_after(EntityKind::Group, corporation).await?,
                };
                if let Some(group) = group {
                    groups::complete_submission(body, &group);
                }
            }
            change.body = before.cloned().or(known);
            if let Some(body) = &mut change.body {
                groups::finalize_proposal(
                    body,
                    facts.pruned_proposals.get(&id),
                    facts.execution_results.get(&id).map(String::as_str),
                );
            }
        }
        let Some(body) = &mut change.body else { return Ok(()) };
        let policy = body["group_policy_address"].as_str().unwrap_or_default().to_owned();
        let corporation = view.find_corporation(&policy).await?;
        body["corporation_id"] = corporation.unwrap_or(0).into();
        change.corporation_id = corporation;
        change.name = Some(policy);
        Ok(())
    }
}

//! Rows that follow from the transitions of entities: activity, schedules, and modification times. Pure.

use serde_json::Value;

use super::registry_view::EntityTransition;
use crate::{
    block::{BlockFacts, ChangeCause},
    derive::{participant, stats::StatsDeltas},
    projection,
    store::{BlockWrite, EntityActivity, EntityChange, EntityKind, ScheduledChange, iso_millis},
};

/// Returns the rows of the transitions of a block, without its events and its hash.
pub fn build_rows(steps: Vec<EntityTransition>, facts: &BlockFacts, deltas: StatsDeltas) -> BlockWrite {
    let activity = steps.iter().flat_map(entity_activity).collect();
    let schedule = steps.iter().flat_map(|step| scheduled_changes(step, facts.time)).collect();
    let is_change = |step: &EntityTransition| !is_unchanged(step) || is_used_allowance(step);
    let changed = steps.into_iter().filter(is_change);
    let changes = changed.map(|step| stamp_modified(step.change, facts.time)).collect();
    BlockWrite { height: facts.height, time: facts.time, changes, activity, deltas, schedule, ..BlockWrite::default() }
}

/// Returns the rows of the activity log, one for each message. The last row holds all changes of the block.
pub fn entity_activity(step: &EntityTransition) -> Vec<EntityActivity> {
    let kind = step.change.kind;
    // Every fee payment touches its allowance, and every change of an owner all versions of its framework: one that
    // did not change has no activity.
    if matches!(kind, EntityKind::FeeGrant | EntityKind::FrameworkVersion) && is_unchanged(step) {
        return Vec::new();
    }
    if kind == EntityKind::FrameworkVersion {
        return framework_activity(step);
    }
    let changes = projection::changed_members(step.before.as_deref(), step.change.body.as_ref());
    let last = step.causes.len().saturating_sub(1);
    let rows = step.causes.iter().enumerate().map(|(index, cause)| EntityActivity {
        entity_type: kind.entity_type(),
        entity_key: step.entity_key(),
        message: match kind {
            EntityKind::TrustDeposit => deposit_action(&cause.message),
            _ => cause.message.clone(),
        },
        account: cause.account.clone(),
        changes: changes.clone().filter(|_| index == last),
    });
    // A row without a signer and without a change is no activity.
    rows.filter(|row| row.account.is_some() || row.changes.is_some()).collect()
}

/// Returns the rows of a changed version of a governance framework: one for the version, unless only its documents
/// changed, and one for each changed document.
fn framework_activity(step: &EntityTransition) -> Vec<EntityActivity> {
    let Some(cause) = step.causes.last() else { return Vec::new() };
    let row = |entity_type, entity_key, changes: Option<Value>| {
        let (message, account) = (cause.message.clone(), cause.account.clone());
        changes.map(|changes| EntityActivity { entity_type, entity_key, message, account, changes: Some(changes) })
    };
    let without_documents = |body: &Value| {
        let mut body = body.clone();
        body.as_object_mut().and_then(|members| members.shift_remove("documents"));
        body
    };
    let (before, after) = (step.before.as_deref(), step.change.body.as_ref());
    let version =
        projection::changed_members(before.map(without_documents).as_ref(), after.map(without_documents).as_ref());
    let documents = |body: Option<&Value>| -> Vec<Value> {
        body.and_then(|body| body["documents"].as_array()).cloned().unwrap_or_default()
    };
    let known = documents(before);
    let document_rows = documents(after).into_iter().filter_map(|document| {
        let before = known.iter().find(|before| before["id"] == document["id"]);
        let changes = projection::changed_members(before, Some(&document));
        row(GOVERNANCE_DOCUMENT, document["id"].to_string(), changes)
    });
    row(step.change.kind.entity_type(), step.entity_key(), version).into_iter().chain(document_rows).collect()
}

/// Name of a document of a governance framework in activity logs.
const GOVERNANCE_DOCUMENT: &str = "GovernanceFrameworkDocument";

/// Messages that are about trust deposits themselves. Every other one adjusts them.
const DEPOSIT_MESSAGES: [&str; 4] =
    ["SlashTrustDeposit", "BurnEcosystemSlashedTrustDeposit", "ReclaimTrustDepositYield", "RepaySlashedTrustDeposit"];

/// Returns the name of a message in the activity log of a trust deposit.
fn deposit_action(message: &str) -> String {
    DEPOSIT_MESSAGES.into_iter().find(|own| *own == message).unwrap_or("AdjustTrustDeposit").to_owned()
}

/// Whether the block left the members of an entity that the node returns unchanged.
pub fn is_unchanged(step: &EntityTransition) -> bool {
    let node_members = |body: &Value| {
        let mut body = body.clone();
        if let Some(object) = body.as_object_mut() {
            object.retain(|key, _| key != "id" && key != "_modified");
        }
        body
    };
    step.before.as_deref().map(node_members) == step.change.body.as_ref().map(node_members)
}

/// Whether the block has used a fee allowance. Without a limit a use leaves its members as they were, and is a change all the same.
pub fn is_used_allowance(step: &EntityTransition) -> bool {
    let is_use = |cause: &ChangeCause| cause.message == ALLOWANCE_USE;
    step.change.kind == EntityKind::FeeGrant && step.change.body.is_some() && step.causes.iter().any(is_use)
}

/// Cause of a fee payment: the name of the chain's event, since fees are paid ahead of all messages.
const ALLOWANCE_USE: &str = "UseFeegrant";

/// Adds the time of the block to an entity that has no `modified` member.
pub fn stamp_modified(mut change: EntityChange, time: i128) -> EntityChange {
    if let Some(body) = change.body.as_mut().filter(|body| body.get("modified").is_none()) {
        body["_modified"] = iso_millis(time).into();
    }
    change
}

/// Returns the instants at which time alone changes an entity.
pub fn scheduled_changes(step: &EntityTransition, now: i128) -> Vec<ScheduledChange> {
    let (Some(body), Some(id)) = (&step.change.body, step.change.id) else { return Vec::new() };
    let kind = step.change.kind;
    match kind {
        EntityKind::Participant => {
            participant::state_changes_after(body, now).map(|due| ScheduledChange { due, kind, id }).collect()
        }
        EntityKind::Proposal if body["status"] == "SUBMITTED" => {
            let ends = svc_wire::timestamp::parse_instant(body, "voting_period_end");
            ends.map(|due| ScheduledChange { due, kind, id }).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_log_of_a_deposit_names_its_movements_as_the_chain_names_its_messages() {
        for (message, expected) in [
            ("SlashTrustDeposit", "SlashTrustDeposit"),
            ("BurnEcosystemSlashedTrustDeposit", "BurnEcosystemSlashedTrustDeposit"),
            ("ReclaimTrustDepositYield", "ReclaimTrustDepositYield"),
            ("RepaySlashedTrustDeposit", "RepaySlashedTrustDeposit"),
            ("AdjustTrustDeposit", "AdjustTrustDeposit"),
            // Every other message adjusts a deposit.
            ("StartParticipantOP", "AdjustTrustDeposit"),
            ("CreateCorporation", "AdjustTrustDeposit"),
            ("SlashParticipantTrustDeposit", "AdjustTrustDeposit"),
        ] {
            let step = |kind: EntityKind| EntityTransition {
                change: EntityChange::new(kind, Some(1), Some(json!({"deposit": 2}))),
                before: None,
                causes: vec![ChangeCause { message: message.to_owned(), account: Some("svc1o".to_owned()) }],
            };
            let names = |kind| entity_activity(&step(kind)).into_iter().map(|row| row.message).collect::<Vec<_>>();
            assert_eq!(names(EntityKind::TrustDeposit), [expected]);
            assert_eq!(names(EntityKind::Corporation), [message], "other entities have the message itself");
        }
    }
}

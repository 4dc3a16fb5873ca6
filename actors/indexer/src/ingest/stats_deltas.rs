//! Changes of the measures of every scope by a block.

use serde_json::Value;
use svc_wire::participant_state::ParticipantState;

use super::registry_view::{EntityTransition, RegistryView};
use crate::{
    block::BlockFacts,
    derive::stats::{StatsDeltas, StatsMetric as M, StatsScope},
    store::{EntityKind, IndexStoreError},
};

/// Times of a block and of its predecessor, nanoseconds since the epoch.
#[derive(Debug, Clone, Copy)]
pub struct BlockTimes {
    pub previous: i128,
    pub current: i128,
}

fn amount(body: Option<&Value>, key: &str) -> i128 {
    body.and_then(|body| body[key].as_u64()).map_or(0, i128::from)
}

fn active_count(body: Option<&Value>, at: i128) -> i128 {
    i128::from(body.is_some_and(|body| ParticipantState::derive_at(body, at) == ParticipantState::Active))
}

/// Returns 1 when the entity exists and is archived, or is not archived.
fn archive_count(body: Option<&Value>, is_archived: bool) -> i128 {
    i128::from(body.is_some_and(|body| body["archived"].is_null() != is_archived))
}

/// Returns the scopes that count a participant: every participant above it, its schema, its ecosystem, and the global
/// scope.
async fn list_scopes(view: &RegistryView<'_>, participant: &Value) -> Result<Vec<StatsScope>, IndexStoreError> {
    let ancestors = view.list_ancestors(participant).await?;
    let mut scopes: Vec<StatsScope> = ancestors.into_iter().map(|(id, _)| StatsScope::Participant(id)).collect();
    scopes.extend(participant["schema_id"].as_u64().map(StatsScope::Schema));
    scopes.extend(participant["ecosystem_id"].as_u64().map(StatsScope::Ecosystem));
    scopes.push(StatsScope::Global);
    Ok(scopes)
}

async fn add_participant(
    view: &RegistryView<'_>,
    facts: &BlockFacts,
    times: BlockTimes,
    id: u64,
    (before, after): (Option<&Value>, Option<&Value>),
    deltas: &mut StatsDeltas,
) -> Result<(), IndexStoreError> {
    let Some(known) = after.or(before) else { return Ok(()) };
    let scopes = list_scopes(view, known).await?;
    let active_change = active_count(after, times.current) - active_count(before, times.previous);
    let owner = known["corporation_id"].as_u64().filter(|id| *id > 0).map(StatsScope::Corporation);
    let counts = [Some(M::Participants), known["role"].as_str().and_then(M::for_role)];
    for scope in scopes.iter().copied().chain(owner) {
        for metric in counts.into_iter().flatten() {
            deltas.add(scope, metric, active_change);
        }
    }
    let slashes = facts.events.iter().filter(|event| {
        event.chain_event.event_type == "slash_participant_trust_deposit" && event.id("participant_id") == Some(id)
    });
    let slashes = i128::try_from(slashes.count()).unwrap_or(0);
    // The scope of a participant includes the participant itself.
    for scope in scopes.into_iter().chain([StatsScope::Participant(id)]) {
        for (metric, key) in [
            (M::Weight, "deposit"),
            (M::EcosystemSlashedAmount, "slashed_deposit"),
            (M::EcosystemSlashedAmountRepaid, "repaid_deposit"),
        ] {
            deltas.add(scope, metric, amount(after, key) - amount(before, key));
        }
        deltas.add(scope, M::EcosystemSlashEvents, slashes);
    }
    Ok(())
}

/// Adds the new records of a session. A record with a verifier is a verification, any other an issuance.
async fn add_session(
    view: &RegistryView<'_>,
    step: &EntityTransition,
    deltas: &mut StatsDeltas,
) -> Result<(), IndexStoreError> {
    fn records(body: Option<&Value>) -> &[Value] {
        body.and_then(|body| body["session_records"].as_array()).map_or(&[], Vec::as_slice)
    }
    let known = records(step.before.as_deref()).len();
    for record in records(step.change.body.as_ref()).iter().skip(known) {
        let verifier = record["verifier_participant_id"].as_u64();
        let (metric, participant) = match verifier {
            Some(verifier) => (M::Verified, Some(verifier)),
            None => (M::Issued, record["issuer_participant_id"].as_u64()),
        };
        let Some(id) = participant else { continue };
        let Some(participant) = view.entity_after(EntityKind::Participant, id).await? else { continue };
        for scope in list_scopes(view, &participant).await?.into_iter().chain([StatsScope::Participant(id)]) {
            deltas.add(scope, metric, 1);
        }
    }
    Ok(())
}

/// Adds the slashes of a trust deposit. A slash by the network's governance counts once in every scope in which the
/// corporation participates.
async fn add_deposit(
    view: &RegistryView<'_>,
    step: &EntityTransition,
    deltas: &mut StatsDeltas,
) -> Result<(), IndexStoreError> {
    let (before, after) = (step.before.as_deref(), step.change.body.as_ref());
    let changes = [
        (M::NetworkSlashEvents, "slash_count"),
        (M::NetworkSlashedAmount, "slashed_deposit"),
        (M::NetworkSlashedAmountRepaid, "repaid_deposit"),
    ]
    .map(|(metric, key)| (metric, amount(after, key) - amount(before, key)));
    if changes.iter().all(|(_, change)| *change == 0) {
        return Ok(());
    }
    let mut scopes = std::collections::BTreeSet::from([StatsScope::Global]);
    for (id, participant) in view.list_owned_before(EntityKind::Participant, step.change.id.unwrap_or(0)).await? {
        scopes.insert(StatsScope::Participant(id));
        scopes.extend(list_scopes(view, &participant).await?);
    }
    for scope in scopes {
        for (metric, change) in changes {
            deltas.add(scope, metric, change);
        }
    }
    Ok(())
}

/// Returns the changes of all measures by a block. Time alone may have changed the states of the `due_participants`.
pub async fn compute_deltas(
    view: &RegistryView<'_>,
    facts: &BlockFacts,
    times: BlockTimes,
    due_participants: &[u64],
) -> Result<StatsDeltas, IndexStoreError> {
    let mut deltas = StatsDeltas::default();
    for step in &view.transitions {
        let (before, after, id) = (step.before.as_deref(), step.change.body.as_ref(), step.change.id.unwrap_or(0));
        let known = after.or(before);
        let number = |key: &str| known.and_then(|body| body[key].as_u64());
        match step.change.kind {
            EntityKind::Participant => add_participant(view, facts, times, id, (before, after), &mut deltas).await?,
            EntityKind::Session => add_session(view, step, &mut deltas).await?,
            EntityKind::TrustDeposit => add_deposit(view, step, &mut deltas).await?,
            EntityKind::Ecosystem => {
                let owner = number("corporation_id").map(StatsScope::Corporation);
                for scope in [Some(StatsScope::Global), Some(StatsScope::Ecosystem(id)), owner].into_iter().flatten() {
                    for (metric, is_archived) in [(M::ActiveEcosystems, false), (M::ArchivedEcosystems, true)] {
                        deltas.add(
                            scope,
                            metric,
                            archive_count(after, is_archived) - archive_count(before, is_archived),
                        );
                    }
                }
            }
            EntityKind::Schema => {
                let ecosystem = number("ecosystem_id").map(StatsScope::Ecosystem);
                for scope in [Some(StatsScope::Global), Some(StatsScope::Schema(id)), ecosystem].into_iter().flatten() {
                    for (metric, is_archived) in [(M::ActiveSchemas, false), (M::ArchivedSchemas, true)] {
                        deltas.add(
                            scope,
                            metric,
                            archive_count(after, is_archived) - archive_count(before, is_archived),
                        );
                    }
                }
            }
            _ => {}
        }
    }
    let is_changed = |id: u64| {
        view.transitions.iter().any(|step| step.change.kind == EntityKind::Participant && step.change.id == Some(id))
    };
    for id in due_participants.iter().copied().filter(|id| !is_changed(*id)) {
        let body = view.entity_before(EntityKind::Participant, id).await?;
        add_participant(view, facts, times, id, (body.as_deref(), body.as_deref()), &mut deltas).await?;
    }
    Ok(deltas)
}

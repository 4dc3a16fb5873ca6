//! What a block does to the figures of every scope.

use serde_json::Value;

use super::view::{Step, View};
use crate::{
    block::BlockFacts,
    derive::{
        measures::{Deltas, Metric as M, Scope},
        state::ParticipantState,
    },
    store::{Kind, StoreError},
};

/// Times of the block before and of this one.
#[derive(Debug, Clone, Copy)]
pub struct Tick {
    pub before: i128,
    pub now: i128,
}

fn amount(body: Option<&Value>, key: &str) -> i128 {
    body.and_then(|body| body[key].as_u64()).map_or(0, i128::from)
}

fn is_active(body: Option<&Value>, at: i128) -> i128 {
    i128::from(body.is_some_and(|body| ParticipantState::at(body, at) == ParticipantState::Active))
}

/// One when an entity with an `archived` instant is there and is (or is not) archived.
fn standing(body: Option<&Value>, is_archived: bool) -> i128 {
    i128::from(body.is_some_and(|body| body["archived"].is_null() != is_archived))
}

/// Where a participant counts: every participant above it, its schema, its ecosystem, the globe.
async fn scopes_above(view: &View<'_>, participant: &Value) -> Result<Vec<Scope>, StoreError> {
    let ancestors = view.ancestors(participant).await?;
    let mut scopes: Vec<Scope> = ancestors.into_iter().map(|(id, _)| Scope::Participant(id)).collect();
    scopes.extend(participant["schema_id"].as_u64().map(Scope::Schema));
    scopes.extend(participant["ecosystem_id"].as_u64().map(Scope::Ecosystem));
    scopes.push(Scope::Global);
    Ok(scopes)
}

async fn add_participant(
    view: &View<'_>,
    facts: &BlockFacts,
    tick: Tick,
    id: u64,
    (before, after): (Option<&Value>, Option<&Value>),
    deltas: &mut Deltas,
) -> Result<(), StoreError> {
    let Some(known) = after.or(before) else { return Ok(()) };
    let above = scopes_above(view, known).await?;
    let turned = is_active(after, tick.now) - is_active(before, tick.before);
    let owner = known["corporation_id"].as_u64().filter(|id| *id > 0).map(Scope::Corporation);
    let counts = [Some(M::Participants), known["role"].as_str().and_then(M::of_role)];
    for scope in above.iter().copied().chain(owner) {
        for metric in counts.into_iter().flatten() {
            deltas.add(scope, metric, turned);
        }
    }
    let slashes = facts.events.iter().filter(|event| {
        event.attributes.kind == "slash_participant_trust_deposit" && event.number("participant_id") == Some(id)
    });
    let slashes = i128::try_from(slashes.count()).unwrap_or(0);
    // What a participant has and does counts for itself too, not only for those above it.
    for scope in above.into_iter().chain([Scope::Participant(id)]) {
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

/// A record of a session is a verification when a verifier is named, else an issuance.
async fn add_session(view: &View<'_>, step: &Step, deltas: &mut Deltas) -> Result<(), StoreError> {
    fn records(body: Option<&Value>) -> &[Value] {
        body.and_then(|body| body["session_records"].as_array()).map_or(&[], Vec::as_slice)
    }
    let known = records(step.before.as_deref()).len();
    for record in records(step.change.body.as_ref()).iter().skip(known) {
        let verifier = record["verifier_participant_id"].as_u64();
        let (metric, who) = match verifier {
            Some(verifier) => (M::Verified, Some(verifier)),
            None => (M::Issued, record["issuer_participant_id"].as_u64()),
        };
        let Some(id) = who else { continue };
        let Some(participant) = view.after(Kind::Participant, id).await? else { continue };
        for scope in scopes_above(view, &participant).await?.into_iter().chain([Scope::Participant(id)]) {
            deltas.add(scope, metric, 1);
        }
    }
    Ok(())
}

/// A slash by the network's governance hits a corporation: it counts once wherever the corporation participates.
async fn add_deposit(view: &View<'_>, step: &Step, deltas: &mut Deltas) -> Result<(), StoreError> {
    let (before, after) = (step.before.as_deref(), step.change.body.as_ref());
    let moved = [
        (M::NetworkSlashEvents, "slash_count"),
        (M::NetworkSlashedAmount, "slashed_deposit"),
        (M::NetworkSlashedAmountRepaid, "repaid_deposit"),
    ]
    .map(|(metric, key)| (metric, amount(after, key) - amount(before, key)));
    if moved.iter().all(|(_, change)| *change == 0) {
        return Ok(());
    }
    let mut scopes = std::collections::BTreeSet::from([Scope::Global]);
    for (id, participant) in view.owned_before(Kind::Participant, step.change.id.unwrap_or(0)).await? {
        scopes.insert(Scope::Participant(id));
        scopes.extend(scopes_above(view, &participant).await?);
    }
    for scope in scopes {
        for (metric, change) in moved {
            deltas.add(scope, metric, change);
        }
    }
    Ok(())
}

/// Everything a block does to the figures; `flips` are participants whose state may change by time alone.
pub async fn figures(view: &View<'_>, facts: &BlockFacts, tick: Tick, flips: &[u64]) -> Result<Deltas, StoreError> {
    let mut deltas = Deltas::default();
    for step in &view.steps {
        let (before, after, id) = (step.before.as_deref(), step.change.body.as_ref(), step.change.id.unwrap_or(0));
        let known = after.or(before);
        let number = |key: &str| known.and_then(|body| body[key].as_u64());
        match step.change.kind {
            Kind::Participant => add_participant(view, facts, tick, id, (before, after), &mut deltas).await?,
            Kind::Session => add_session(view, step, &mut deltas).await?,
            Kind::TrustDeposit => add_deposit(view, step, &mut deltas).await?,
            Kind::Ecosystem => {
                let owner = number("corporation_id").map(Scope::Corporation);
                for scope in [Some(Scope::Global), Some(Scope::Ecosystem(id)), owner].into_iter().flatten() {
                    for (metric, is_archived) in [(M::ActiveEcosystems, false), (M::ArchivedEcosystems, true)] {
                        deltas.add(scope, metric, standing(after, is_archived) - standing(before, is_archived));
                    }
                }
            }
            Kind::Schema => {
                let ecosystem = number("ecosystem_id").map(Scope::Ecosystem);
                for scope in [Some(Scope::Global), Some(Scope::Schema(id)), ecosystem].into_iter().flatten() {
                    for (metric, is_archived) in [(M::ActiveSchemas, false), (M::ArchivedSchemas, true)] {
                        deltas.add(scope, metric, standing(after, is_archived) - standing(before, is_archived));
                    }
                }
            }
            _ => {}
        }
    }
    let is_changed =
        |id: u64| view.steps.iter().any(|step| step.change.kind == Kind::Participant && step.change.id == Some(id));
    for id in flips.iter().copied().filter(|id| !is_changed(*id)) {
        let body = view.before(Kind::Participant, id).await?;
        add_participant(view, facts, tick, id, (body.as_deref(), body.as_deref()), &mut deltas).await?;
    }
    Ok(deltas)
}

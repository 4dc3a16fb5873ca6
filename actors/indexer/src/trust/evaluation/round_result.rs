//! The rows of a round of verdicts, and the blocks of the trust stream that follow from them.

use std::{collections::BTreeMap, sync::Arc};

use svc_wire::trust_stream::{RecordedDidChange, RecordedTrustBlock};

use super::{
    did_evaluator::DidEvaluation,
    verdict_record::{VerdictChange, is_unfinished, recorded_change},
};
use crate::{
    store::{IndexStore, IndexStoreError, KeptVerdict, OpenRow, TrustWrite, VerdictWrite, iso_millis},
    trust::{round::HeightRange, triggers::round_triggers::RoundTriggers},
};

/// The result of a round.
pub struct RoundResult {
    pub heights: HeightRange,
    pub evaluations: BTreeMap<String, Arc<DidEvaluation>>,
    pub triggers: Arc<RoundTriggers>,
    /// DIDs that are still to be evaluated, each with whether its evidence must be fetched again.
    pub pending_dids: BTreeMap<String, bool>,
    /// Rows of the evaluations that wait for a web server.
    pub open_evaluations: BTreeMap<String, OpenRow>,
}

impl RoundResult {
    /// Writes the round with `write_store` and returns its blocks for the trust hub. Fails when the store fails.
    pub async fn write(
        self,
        store: &IndexStore,
        write_store: &IndexStore,
    ) -> Result<Vec<RecordedTrustBlock>, IndexStoreError> {
        let last = self.heights.last;
        let mut write = TrustWrite {
            height: last,
            pending_dids: self.pending_dids,
            open_evaluations: self.open_evaluations,
            ..TrustWrite::default()
        };
        for (did, evaluation) in &self.evaluations {
            if evaluation.keeps_former() {
                let evidence_keys = evaluation.evidence_keys.clone();
                write.kept_verdicts.push(KeptVerdict { did: did.clone(), evidence_keys });
                continue;
            }
            let stored = store.verdict(did, last.saturating_sub(1)).await?;
            // No subscriber knows a verdict that was not finished.
            let before = stored.filter(|body| !is_unfinished(body));
            let corporation_id = evaluation.corporation_id.unwrap_or(0);
            let after = evaluation.body.clone();
            let registry = self.triggers.registry_changes.get(&last).and_then(|changes| changes.get(did));
            // A DID that left the registry has a change too, for the subscribers that know its last verdict.
            let is_registered = evaluation.corporation_id.is_some();
            if is_registered || before.is_some() {
                let verdicts = VerdictChange { before: before.as_ref(), after: &after };
                let finished = evaluation.open.is_none().then_some(verdicts);
                let change = recorded_change(did, corporation_id, finished, registry);
                write.changes.entry(last).or_default().extend(change);
                write.verdicts.push(VerdictWrite {
                    did: did.clone(),
                    corporation_id,
                    body: is_registered.then_some(after),
                    evidence_keys: evaluation.evidence_keys.clone(),
                    fetched_keys: evaluation.fetched_keys.clone(),
                });
            }
        }
        for (height, changes) in &self.triggers.registry_changes {
            for (did, registry) in changes {
                let evaluation = self.evaluations.get(did);
                if *height == last && evaluation.is_some_and(|evaluation| !evaluation.keeps_former()) {
                    continue;
                }
                let corporation_id = store.find_owner(did, *height).await?.unwrap_or(0);
                let change = recorded_change(did, corporation_id, None, Some(registry));
                write.changes.entry(*height).or_default().extend(change);
            }
        }
        for changes in write.changes.values_mut() {
            changes.sort_by(|left: &RecordedDidChange, right| left.did.cmp(&right.did));
        }
        write_store.write_trust(&write).await?;
        let blocks = self.triggers.block_times.iter().map(|(height, time)| RecordedTrustBlock {
            block: *height,
            block_time: iso_millis(*time),
            changes: write.changes.remove(height).unwrap_or_default(),
        });
        Ok(blocks.collect())
    }
}

//! One sweep: grants that must end are taken back, and the keys of tokens go on.

use futures::{StreamExt, stream};
use svc_agent_core::access::{GrantState, StoredGrant};
use svc_agent_store::{AccessGrantFilter, AgentStoreError};
use svc_kit::wall_clock;
use svc_otel::metrics;

use super::{GranterParts, VOID, revoked_list::RevokedListCache};

/// Time from which a key is used that no resolver is known to have.
pub(super) const NOT_USED_YET: i64 = i64::MAX;
/// Seconds from the publication of a key to its first use.
const KNOWN_AFTER: i64 = 60;
/// Grants of one page.
const PAGE: usize = 500;
/// Verdicts that are asked for at the same time.
const VERDICTS_AT_ONCE: usize = 16;
/// Age of a verdict from which on it is asked for again, in seconds: a peer that has lost trust is out after a minute.
const VERDICT_AGE: i64 = 30;

/// The end of a sweep.
#[derive(Debug)]
pub(crate) enum SweepEnd {
    /// Every grant was looked at.
    Complete,
    /// The store or the document failed.
    Failed,
}

/// Sweeps once.
pub(super) async fn sweep(parts: &GranterParts, list: &RevokedListCache) -> SweepEnd {
    let swept = async {
        use_published_keys(parts).await?;
        end_grants(parts, list).await?;
        parts.store.forget_old_grants(wall_clock::now().seconds).await
    };
    if let Err(error) = swept.await {
        tracing::warn!(%error, "grants of access cannot be looked at; they are with the next sweep");
        return SweepEnd::Failed;
    }
    let outlived = parts.keeper.access_keys().outlived(wall_clock::now().seconds);
    if !outlived.is_empty()
        && let Err(refusal) = parts.keeper.drop_access_keys(&outlived).await
    {
        tracing::warn!(error = refusal.message, "an old key of tokens cannot be removed; the next sweep tries again");
        return SweepEnd::Failed;
    }
    SweepEnd::Complete
}

/// Notes the time from which new keys are used that the document names.
pub(super) async fn use_published_keys(parts: &GranterParts) -> Result<(), AgentStoreError> {
    let published = parts.keeper.published();
    let named = published.document.token_keys();
    let keys = parts.keeper.access_keys();
    for key in keys.keys().iter().filter(|key| key.is_unused() && named.contains(&key.method.as_str())) {
        parts.keeper.use_access_key(key.version, wall_clock::now().seconds + KNOWN_AFTER).await?;
    }
    Ok(())
}

async fn end_grants(parts: &GranterParts, list: &RevokedListCache) -> Result<(), AgentStoreError> {
    let filter = AccessGrantFilter { state: Some(GrantState::Active), ..AccessGrantFilter::default() };
    let valid_from = parts.store.tokens_valid_from().await?;
    let (mut after, mut active): (Option<String>, u64) = (None, 0);
    loop {
        let now = wall_clock::now().seconds;
        let page = parts.store.access_grants(&filter, after.as_deref(), PAGE, now).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id.clone());
        active += page.len() as u64;
        let judged = stream::iter(page).map(|grant| async { (end_reason(parts, valid_from, &grant).await, grant) });
        let judged: Vec<(Option<&'static str>, StoredGrant)> =
            judged.buffer_unordered(VERDICTS_AT_ONCE).collect().await;
        for (reason, grant) in judged {
            let Some(reason) = reason else { continue };
            active -= parts.revoke(list, &[grant.id], reason).await?.len() as u64;
        }
    }
    metrics::record_access_active(active);
    Ok(())
}

/// The reason for which a valid grant ends.
async fn end_reason(parts: &GranterParts, valid_from: i64, grant: &StoredGrant) -> Option<&'static str> {
    // A store that was recovered, or a void that has failed halfway.
    if grant.issued_at < valid_from {
        return Some(VOID);
    }
    if let Some(reason) = parts.owner.outdated(grant) {
        return Some(reason);
    }
    let verdict = match parts.gate.verdict(&grant.peer).await {
        Ok(verdict) if wall_clock::now().seconds - verdict.at > VERDICT_AGE => {
            parts.gate.fresh_verdict(&grant.peer).await
        }
        asked => asked,
    };
    // Without a verdict nothing has turned. The token ends by itself within minutes.
    let is_untrusted = verdict.is_ok_and(|verdict| !verdict.is_trusted);
    is_untrusted.then_some("the registry does not show this DID as a verifiable service any more")
}

//! The rebase of a stopped agent: its chain has gone back to a height and made other blocks.

use svc_agent_core::lost_blocks::LostBlocks;
use svc_agent_store::{AgentStore, AgentStoreError, RebasedStore, StoreSettings};
use svc_kit::wall_clock::now_millis;
use svc_net::upstream::NodeClient;
use svc_pipeline::{BlockPin, JournalRebase, RebaseError, plan_rebase};

/// An agent after a rebase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRebase {
    /// The journal.
    pub journal: JournalRebase,
    /// The rows of the store that were changed.
    pub store: RebasedStore,
}

/// A rebase that failed. A repetition goes on with it.
#[derive(Debug, thiserror::Error)]
pub enum AgentRebaseError {
    /// The store failed, or another process uses it.
    #[error(transparent)]
    Store(#[from] AgentStoreError),
    /// The journal failed, the node does not answer, or the rebase would be wrong.
    #[error(transparent)]
    Journal(#[from] RebaseError),
}

/// Rebases the store and the journal of a stopped agent to a height of the node's chain. `progress` gets a line after each step. Each step is
/// whole or has not happened, so that a rebase that was interrupted is repeated; a repetition changes nothing.
///
/// # Errors
/// When another process uses store or journal, and when the rebase of the journal is refused.
pub async fn rebase_agent(
    store: StoreSettings,
    journal: &str,
    node: &NodeClient,
    to: u64,
    mut progress: impl FnMut(&str) + Send,
) -> Result<AgentRebase, AgentRebaseError> {
    let store = AgentStore::open(store).await?;
    let rebased = rebase(&store, journal, (node, to), &mut progress).await;
    store.close().await;
    rebased
}

async fn rebase(
    store: &AgentStore,
    journal: &str,
    (node, to): (&NodeClient, u64),
    progress: &mut (impl FnMut(&str) + Send),
) -> Result<AgentRebase, AgentRebaseError> {
    let known = store.cursor_block().await?.map(|(height, hash)| BlockPin { height, hash });
    let planned = plan_rebase(journal, node, to, known).await?;
    let mut rebased = RebasedStore::default();
    if planned.is_needed() {
        let transactions = Some(planned.lost_transactions().await?);
        let lost = LostBlocks { newest_kept: to, kept_hash: planned.hash().map(str::to_owned), transactions };
        rebased = store.rebase(&lost, now_millis()).await?;
        progress(&format!("the store goes on from block {to}"));
    }
    // The journal is last: until it goes on from the height, an agent that starts signs and stores nothing.
    let journal = planned.carry_out().await?;
    progress(&format!("the journal goes on from block {to}"));
    Ok(AgentRebase { journal, store: rebased })
}

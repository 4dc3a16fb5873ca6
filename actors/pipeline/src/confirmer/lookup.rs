//! Lookups at the node: the facts, the index of transactions as a shortcut, and the blocks.

use std::collections::HashMap;

use futures::StreamExt;
use svc_kit::Mailbox;
use svc_net::upstream::{NodeClient, NodeClientError};

use super::{
    Msg,
    block_reader::BlockReader,
    core::{AbsenceVerdict, BlockEvidence, NodeFacts, PendingTx, SequenceFact, decisive_heights, judge_evidence},
};
use crate::{chain::account::query_account, write::outcome::WriteOutcome};

/// Questions to the index of transactions at once.
const MAX_CONCURRENT_LOOKUPS: usize = 8;

/// The outcome that a lookup proves, or the meaning of absence.
pub type LookupAnswer = Result<WriteOutcome, AbsenceVerdict>;

/// Looks transactions up and reports each result to the confirmer.
pub async fn look_up_all(
    node: NodeClient,
    blocks: BlockReader,
    address: String,
    due: Vec<PendingTx>,
    mailbox: Mailbox<Msg>,
) {
    // One node answers all of it: the facts that it states describe the blocks that it has.
    let node = node.pinned();
    let answers = match read_node_facts(&node, &address).await {
        Ok(facts) => look_up(&node, &blocks, &facts, &due).await,
        Err(error) => Err(error),
    };
    for (position, pending) in due.into_iter().enumerate() {
        let answer = match &answers {
            Ok(answers) => Ok(answers[position].clone()),
            Err(error) => Err(error.clone()),
        };
        mailbox.send(Msg::LookupFinished { hash: pending.hash, answer });
    }
}

/// Looks transactions up at the node that stated the facts; the answers are in the order of `due`.
pub async fn look_up(
    node: &NodeClient,
    blocks: &BlockReader,
    facts: &NodeFacts,
    due: &[PendingTx],
) -> Result<Vec<LookupAnswer>, NodeClientError> {
    let questions: Vec<_> = due.iter().map(|pending| find_in_index(node.clone(), pending.clone())).collect();
    let indexed = futures::stream::iter(questions);
    let indexed: Vec<BlockEvidence> = indexed.buffered(MAX_CONCURRENT_LOOKUPS).collect().await;
    let by_index: Vec<LookupAnswer> =
        due.iter().zip(&indexed).map(|(pending, evidence)| judge_evidence(pending, facts, evidence)).collect();
    let undecided = due.iter().zip(&by_index).filter(|(_, answer)| answer.is_err()).map(|(pending, _)| pending);
    let wanted: HashMap<_, _> = undecided
        .filter_map(|pending| decisive_heights(pending, facts).map(|heights| (pending.hash.clone(), heights)))
        .collect();
    if wanted.is_empty() {
        return Ok(by_index);
    }
    let evidence = blocks.find_evidence(node, &wanted).await?;
    let judge = |(pending, answer): (&PendingTx, LookupAnswer)| match evidence.get(&pending.hash) {
        Some(evidence) => judge_evidence(pending, facts, evidence),
        None => answer,
    };
    Ok(due.iter().zip(by_index).map(judge).collect())
}

/// Asks the index, which is sooner than reading blocks. It may lack a block for good, so its silence proves nothing.
async fn find_in_index(node: NodeClient, pending: PendingTx) -> BlockEvidence {
    let found = node.tx(&pending.hash).await.ok().flatten();
    BlockEvidence {
        results: found.into_iter().map(|tx| (tx.height, Box::new(tx.tx_result))).collect(),
        searched_through: pending.signed_height,
        missing: Vec::new(),
    }
}

/// Facts of a node and of the account. The height is read first, so that the rest is at least as new.
pub async fn read_node_facts(node: &NodeClient, address: &str) -> Result<NodeFacts, NodeClientError> {
    let height = node.status().await?.sync_info.latest_block_height;
    let sequence = match query_account(node, address).await {
        Ok(Some(account)) => Some(SequenceFact { sequence: account.sequence, height: account.height }),
        Ok(None) => Some(SequenceFact { sequence: 0, height }),
        Err(_) => None,
    };
    Ok(NodeFacts { height, sequence })
}

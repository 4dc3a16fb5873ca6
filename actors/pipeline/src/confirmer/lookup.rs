//! Lookups at the node: the facts, the index of transactions as a shortcut, and the blocks.

use std::collections::HashMap;

use futures::StreamExt;
use svc_kit::Mailbox;
use svc_net::upstream::{NodeClient, NodeClientError};
use svc_wire::{account_key::PublicKey, comet_rpc::ExecTxResult, tx::SigningContext};

use super::{
    Msg,
    account_txs::BlockSigner,
    block_reader::{BlockReader, BlockSearch, read_agreed_result},
    core::{
        BlockEvidence, NodeFacts, PendingTx, PendingVerdict, SequenceFact, decisive_heights, judge_evidence,
        wider_heights,
    },
};
use crate::{
    chain::{
        account::{AccountIdentity, query_account},
        params::ChainParams,
    },
    write::outcome::WriteOutcome,
};

/// Questions to the index of transactions at once.
const MAX_CONCURRENT_LOOKUPS: usize = 8;

/// The outcome that a lookup proves, or the meaning of its evidence.
pub type LookupAnswer = Result<WriteOutcome, PendingVerdict>;

/// Looks transactions up and reports each result to the confirmer.
pub async fn look_up_all(
    node: NodeClient,
    blocks: BlockReader,
    account: SigningAccount,
    due: Vec<PendingTx>,
    mailbox: Mailbox<Msg>,
) {
    // One node answers all of it: the facts that it states describe the blocks that it has.
    let node = node.pinned();
    let answers = match read_node_facts(&node, &account.address).await {
        Ok(facts) => look_up(&node, &blocks, &account, &facts, &due).await.into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error); due.len()],
    };
    for (pending, answer) in due.into_iter().zip(answers) {
        mailbox.send(Msg::LookedUp { hash: pending.hash, answer });
    }
}

/// The account whose transactions are followed.
#[derive(Debug, Clone)]
pub struct SigningAccount {
    /// Its address.
    pub address: String,
    /// Its public key.
    pub public_key: PublicKey,
    /// The chain that its signatures are bound to.
    pub chain_id: String,
}

impl SigningAccount {
    /// The account of a key on a chain.
    pub fn new(identity: &AccountIdentity, chain: &ChainParams) -> Self {
        Self {
            address: identity.address.to_string(),
            public_key: identity.public_key,
            chain_id: chain.chain_id.clone(),
        }
    }

    /// The account as signatures name it. The number is that of the node; with a wrong one no signature is valid.
    pub(crate) fn block_signer(&self, facts: &NodeFacts) -> BlockSigner {
        let account_number = facts.sequence.map(|fact| fact.account_number).unwrap_or_default();
        let context = SigningContext { chain_id: self.chain_id.clone(), account_number };
        BlockSigner { address: self.address.clone(), public_key: self.public_key, context }
    }
}

/// Looks transactions up at the node that stated the facts; the answers are in the order of `due`.
pub async fn look_up(
    node: &NodeClient,
    blocks: &BlockReader,
    account: &SigningAccount,
    facts: &NodeFacts,
    due: &[PendingTx],
) -> Vec<LookupAnswer> {
    let questions: Vec<_> = due.iter().map(|pending| find_in_index(node.clone(), pending.clone())).collect();
    let indexed = futures::stream::iter(questions);
    let indexed: Vec<BlockEvidence> = indexed.buffered(MAX_CONCURRENT_LOOKUPS).collect().await;
    let mut answers: Vec<LookupAnswer> =
        due.iter().zip(&indexed).map(|(pending, evidence)| judge_evidence(pending, facts, evidence)).collect();
    let search = |(pending, answer): (&PendingTx, &LookupAnswer)| {
        let heights = decisive_heights(pending, facts).filter(|_| answer.is_err())?;
        // A state in which the sequence is used asks for the transaction that has used it.
        let sequence = facts.used_at(pending.sequence).map(|_| pending.sequence);
        Some((pending.hash.clone(), BlockSearch { heights, sequence }))
    };
    let wanted: HashMap<_, _> = due.iter().zip(&answers).filter_map(search).collect();
    if wanted.is_empty() {
        return answers;
    }
    let signer = account.block_signer(facts);
    let mut evidence = blocks.find_evidence(node, &signer, &wanted).await;
    for (pending, answer) in due.iter().zip(&mut answers) {
        let Some(found) = evidence.remove(&pending.hash) else { continue };
        let found = prove_failures(node, &pending.hash, found).await;
        *answer = judge_evidence(pending, facts, &search_wider(node, blocks, &signer, facts, pending, found).await);
    }
    answers
}

/// Searches the blocks before and after those that were read, when these do not explain the state of the account.
async fn search_wider(
    node: &NodeClient,
    blocks: &BlockReader,
    signer: &BlockSigner,
    facts: &NodeFacts,
    pending: &PendingTx,
    evidence: BlockEvidence,
) -> BlockEvidence {
    for heights in wider_heights(pending, facts, &evidence) {
        let search = BlockSearch { heights, sequence: Some(pending.sequence) };
        let mut found = blocks.find_evidence(node, signer, &HashMap::from([(pending.hash.clone(), search)])).await;
        let Some(found) = found.remove(&pending.hash) else { continue };
        if found.displaced_at.is_some() {
            return BlockEvidence { displaced_at: found.displaced_at, ..evidence };
        }
        if !found.results.is_empty() {
            let found = prove_failures(node, &pending.hash, found).await;
            return BlockEvidence { results: found.results, unread: found.unread, ..evidence };
        }
    }
    evidence
}

/// Replaces each failure by that of the block's results, as all nodes state it that have them. One node's message or index does not
/// suffice to answer that a write has no effect, since its caller would repeat it.
async fn prove_failures(node: &NodeClient, hash: &str, mut evidence: BlockEvidence) -> BlockEvidence {
    for (height, result) in std::mem::take(&mut evidence.results) {
        if result.code == 0 {
            evidence.results.push((height, result));
            continue;
        }
        match read_agreed_result(node, height, hash).await {
            Ok(Some(proven)) => evidence.results.push((height, Box::new(proven))),
            Ok(None) | Err(_) => evidence.unread.push(height),
        }
    }
    evidence
}

/// Proves a failure that the node has reported, and sends the answer to the confirmer.
pub async fn look_up_failure(
    node: NodeClient,
    pending: PendingTx,
    reported: (u64, Box<ExecTxResult>),
    mailbox: Mailbox<Msg>,
) {
    let facts = NodeFacts { height: reported.0, sequence: None };
    let evidence = BlockEvidence {
        results: vec![reported],
        searched_through: pending.search_from.saturating_sub(1),
        ..BlockEvidence::default()
    };
    let evidence = prove_failures(&node.pinned(), &pending.hash, evidence).await;
    let answer = judge_evidence(&pending, &facts, &evidence);
    mailbox.send(Msg::LookedUp { hash: pending.hash, answer: Ok(answer) });
}

/// Asks the index, which is sooner than reading blocks. It may lack a block for good, so its silence proves nothing.
async fn find_in_index(node: NodeClient, pending: PendingTx) -> BlockEvidence {
    // Refused transactions are seldom in a block: the blocks decide them in time.
    let found = if pending.is_refused { None } else { node.tx(&pending.hash).await.ok().flatten() };
    let evidence = BlockEvidence {
        results: found.into_iter().map(|tx| (tx.height, Box::new(tx.tx_result))).collect(),
        searched_through: pending.search_from.saturating_sub(1),
        ..BlockEvidence::default()
    };
    prove_failures(&node, &pending.hash, evidence).await
}

/// Facts of a node and of the account. The height is read first, so that the rest is at least as new.
pub async fn read_node_facts(node: &NodeClient, address: &str) -> Result<NodeFacts, NodeClientError> {
    let height = node.status().await?.sync_info.latest_block_height;
    let sequence = match query_account(node, address).await {
        Ok(Some(account)) => {
            Some(SequenceFact { sequence: account.sequence, height: account.height, account_number: account.number })
        }
        Ok(None) => Some(SequenceFact { sequence: 0, height, account_number: 0 }),
        Err(_) => None,
    };
    Ok(NodeFacts { height, sequence })
}

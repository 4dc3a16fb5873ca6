//! Transactions in blocks that have used sequences of an account.

use base64::{Engine, engine::general_purpose::STANDARD};
use svc_net::upstream::{NodeClient, NodeClientError};
use svc_wire::{
    account_key::PublicKey,
    comet_rpc::{EventAttribute, ExecTxResult},
    tx::{SigningContext, is_signed_at, tx_hash},
};

use super::block_reader::{read_anywhere, read_results};

/// The account whose transactions are looked for.
#[derive(Debug, Clone)]
pub struct BlockSigner {
    /// Its address.
    pub address: String,
    /// Its public key.
    pub public_key: PublicKey,
    /// Chain and number of the account, to which its signatures are bound.
    pub context: SigningContext,
}

/// A transaction of the account in a block, with the sequence that it has used.
#[derive(Debug, Clone)]
pub struct AccountTx {
    /// Its sequence.
    pub sequence: u64,
    /// Upper-case hex.
    pub hash: String,
    /// The signed bytes.
    pub bytes: Vec<u8>,
    /// Its result.
    pub result: ExecTxResult,
}

/// Transactions that have used sequences of the account in a block, proven by its signatures; `None` when no node has the block or its
/// results.
pub async fn read_account_txs(
    node: &NodeClient,
    height: u64,
    signer: &BlockSigner,
) -> Result<Option<Vec<AccountTx>>, NodeClientError> {
    let Some(results) = read_results(node.clone(), height).await? else { return Ok(None) };
    let stated = stated_sequences(&results, &signer.address);
    if stated.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let read = |node: NodeClient| async move { node.block(height).await };
    let Some(block) = read_anywhere(node.clone(), "block", height, read).await? else { return Ok(None) };
    let prove = |(sequence, position): (u64, usize)| {
        let bytes = STANDARD.decode(block.block.data.txs.get(position)?).ok()?;
        let is_proven = is_signed_at(&bytes, &signer.public_key, &signer.context, sequence);
        let result = results.get(position)?.clone();
        is_proven.then(|| AccountTx { sequence, hash: tx_hash(&bytes), bytes, result })
    };
    Ok(Some(stated.into_iter().filter_map(prove).collect()))
}

/// Sequences that the account has used according to the results of a block, and the positions of the transactions: only the events of
/// a transaction that passed the ante handler hold `tx.acc_seq`.
fn stated_sequences(results: &[ExecTxResult], address: &str) -> Vec<(u64, usize)> {
    let sequence_of = |attribute: &EventAttribute| {
        let (owner, sequence) = attribute.value.rsplit_once('/').filter(|_| attribute.key == "acc_seq")?;
        sequence.parse().ok().filter(|_: &u64| owner == address)
    };
    let used_in = |(position, result): (usize, &ExecTxResult)| {
        let events = result.events.iter().filter(|event| event.event_type == "tx");
        let sequences: Vec<u64> = events.flat_map(|event| event.attributes.iter().filter_map(sequence_of)).collect();
        sequences.into_iter().map(move |sequence| (sequence, position)).collect::<Vec<_>>()
    };
    results.iter().enumerate().flat_map(used_in).collect()
}

#[cfg(test)]
mod tests {
    use svc_wire::comet_rpc::AbciEvent;

    use super::*;

    #[test]
    fn the_sequences_that_an_account_has_used_stand_in_the_events() {
        let result = |event_type: &str, values: &[&str]| {
            let attribute =
                |value: &&str| EventAttribute { key: "acc_seq".to_owned(), value: (*value).to_owned(), index: true };
            let attributes = values.iter().map(attribute).collect();
            ExecTxResult {
                events: vec![AbciEvent { event_type: event_type.to_owned(), attributes }],
                ..ExecTxResult::default()
            }
        };
        let results = [
            result("tx", &["other/7"]),
            result("tx", &["other/8", "own/7"]),
            result("transfer", &["own/8"]),
            result("tx", &["own/8", "own/x"]),
        ];
        assert_eq!(stated_sequences(&results, "own"), [(7, 1), (8, 3)]);
    }
}

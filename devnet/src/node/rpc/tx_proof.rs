//! The proof that a block has a transaction: the hashes beside the way from it to the root that the header names, as CometBFT has them.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The prefixes that tell a leaf from a node inside of the tree.
const LEAF: [u8; 1] = [0];
const INNER: [u8; 1] = [1];

fn leaf_hash(leaf: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(LEAF).chain_update(leaf).finalize().into()
}

fn inner_hash(left: [u8; 32], right: [u8; 32]) -> [u8; 32] {
    Sha256::new().chain_update(INNER).chain_update(left).chain_update(right).finalize().into()
}

/// The root of a tree with these leaves, of which there is one at least.
fn root_of(leaves: &[[u8; 32]]) -> [u8; 32] {
    match leaves {
        [] => Sha256::digest([]).into(),
        [one] => *one,
        several => {
            let (left, right) = several.split_at(split_point(several.len()));
            inner_hash(root_of(left), root_of(right))
        }
    }
}

/// The largest power of two below a number of leaves, of which there are two at least.
fn split_point(length: usize) -> usize {
    length.next_power_of_two() / 2
}

/// The hashes beside the way from a leaf to the root, the lowest first.
fn aunts_of(leaves: &[[u8; 32]], place: usize) -> Vec<[u8; 32]> {
    if leaves.len() < 2 {
        return Vec::new();
    }
    let (left, right) = leaves.split_at(split_point(leaves.len()));
    let (mut aunts, beside) = if place < left.len() {
        (aunts_of(left, place), root_of(right))
    } else {
        (aunts_of(right, place - left.len()), root_of(left))
    };
    aunts.push(beside);
    aunts
}

/// The proof for the transaction at a place of a block.
pub fn tx_proof(txs: &[Vec<u8>], place: usize) -> Value {
    // The leaves are the hashes of the transactions.
    let leaves: Vec<[u8; 32]> = txs.iter().map(|tx| leaf_hash(&Sha256::digest(tx))).collect();
    let aunts: Vec<String> = aunts_of(&leaves, place).iter().map(|aunt| STANDARD.encode(aunt)).collect();
    json!({
        "root_hash": hex::encode_upper(root_of(&leaves)), "data": STANDARD.encode(&txs[place]),
        "proof": {
            "total": txs.len().to_string(), "index": place.to_string(), "leaf_hash": STANDARD.encode(leaves[place]),
            "aunts": aunts,
        },
    })
}

#[cfg(test)]
mod tests {
    use tendermint::merkle::simple_hash_from_byte_vectors;

    use super::*;

    /// The root that a leaf and the hashes beside its way lead to, as CometBFT computes it.
    fn follow(place: usize, total: usize, leaf: [u8; 32], aunts: &[[u8; 32]]) -> [u8; 32] {
        let Some((last, rest)) = aunts.split_last() else { return leaf };
        let left = split_point(total);
        if place < left {
            inner_hash(follow(place, left, leaf, rest), *last)
        } else {
            inner_hash(*last, follow(place - left, total - left, leaf, rest))
        }
    }

    #[test]
    fn each_transaction_leads_to_the_root_that_the_header_has() {
        for total in 1..=33 {
            let txs: Vec<Vec<u8>> = (0..total).map(|number| vec![number as u8; 3]).collect();
            let hashes: Vec<Vec<u8>> = txs.iter().map(|tx| Sha256::digest(tx).to_vec()).collect();
            let root = simple_hash_from_byte_vectors::<tendermint::crypto::default::Sha256>(&hashes);
            for place in 0..total {
                let proof = tx_proof(&txs, place);
                assert_eq!(proof["root_hash"], hex::encode_upper(root), "{place} of {total}");
                let bytes = |value: &Value| -> [u8; 32] {
                    let decoded = STANDARD.decode(value.as_str().expect("a text")).expect("base64");
                    decoded.try_into().expect("a hash")
                };
                let aunts: Vec<[u8; 32]> =
                    proof["proof"]["aunts"].as_array().expect("a list").iter().map(bytes).collect();
                assert_eq!(follow(place, total, bytes(&proof["proof"]["leaf_hash"]), &aunts), root);
            }
        }
    }
}

//! Faults during a write: with each of them the answer is final and correct, and the chain has the write at most once.

mod account_sequence;
mod block_proof;
mod changed_state;
mod endpoint_failover;
pub(in crate::e2e) mod foreign_indexers;
mod full_disk;
mod idempotency_keys;
mod limits;
mod mempool;
mod other_history;
mod prices;
mod process_kill;
mod quoted_sentences;
mod random_histories;
mod records;
mod refusals;
mod silent_indexers;

use serde_json::{Value, json};
use svc_operator::{FeeLimits, Operator, OperatorConfig, WriteOrigin, WriteRequest};
use svc_wire::account_key::AccountKey;

use super::harness::{CallResult, OPERATOR_MNEMONIC, TEST_TIMEOUT, TestNetwork, ecosystem_arguments, pause};

impl TestNetwork {
    /// Number of ecosystems with this name on chain.
    pub fn times_on_chain(&self, name: &str) -> usize {
        let did = format!("did:web:{name}.example");
        self.ecosystems_on_chain().iter().filter(|known| **known == did).count()
    }

    /// Rows of `svc://own/transactions`, newest first.
    pub async fn transactions(&self) -> Vec<Value> {
        let read = self.client.read_resource("svc://own/transactions").await.expect("readable");
        read["transactions"].as_array().cloned().expect("a list")
    }

    /// States of the transactions, oldest first.
    pub async fn transaction_states(&self) -> Vec<String> {
        let rows = self.transactions().await;
        rows.iter().rev().map(|row| row["state"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Waits until the node's mempool has `count` transactions.
    pub async fn await_mempool_size(&self, count: usize) {
        let size = || self.network.devnet.node.read_core(|core| core.mempool_txs().len());
        // Several transactions may come between two looks.
        let filled = async {
            while size() < count {
                pause().await;
            }
        };
        let in_time = tokio::time::timeout(TEST_TIMEOUT, filled).await.is_ok();
        assert!(in_time, "the mempool has {} transactions, not {count}", size());
    }

    /// Waits for further blocks.
    pub async fn await_blocks(&self, count: usize) {
        let mut heights = self.network.devnet.node.watch_heights();
        for _ in 0..count {
            heights.changed().await.expect("the node makes blocks");
        }
    }

    /// Another operator with the same key, as in another process.
    async fn start_foreign_operator(&self) -> Operator {
        let network = &self.network;
        let config = OperatorConfig::new(1, network.devnet.node.origin(), network.indexer_origin());
        let key = AccountKey::from_mnemonic(OPERATOR_MNEMONIC).expect("a key");
        Operator::boot(config, key).await.expect("boots")
    }

    /// A write of the other process.
    async fn write_as_foreign(&self, foreign: &Operator, name: &str) {
        let mut arguments = ecosystem_arguments(name);
        arguments["corporation"] = foreign.snapshot().policy_address().into();
        arguments["operator"] = foreign.identity().address.to_string().into();
        let call = WriteRequest {
            msg_type: "/svc.ec.v1.MsgCreateEcosystem".to_owned(),
            arguments,
            accounts: Vec::new(),
            needs_grant: true,
        };
        let message = foreign.encode_message(&call).expect("encoded");
        let write =
            foreign.execute(message, WriteOrigin::embedder("foreign"), None, FeeLimits::default()).expect("admitted");
        write.answer().await.expect("written");
    }

    /// Asserts that a reported success is on chain once, in the reported block.
    pub fn assert_included_once(&self, name: &str, answer: &CallResult) {
        assert!(!answer.is_error, "{name}: {:#}", answer.content);
        assert_eq!(self.times_on_chain(name), 1, "{name}");
        let hash = answer.content["tx_hash"].as_str().expect("a hash");
        let height = self.network.devnet.node.read_core(|core| core.find_tx(hash).map(|(block, _)| block.height));
        assert_eq!(json!(height), answer.content["block_height"], "{name}");
    }
}

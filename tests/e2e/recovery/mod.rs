//! What may break while a write is on its way: whatever it is, the answer is final and true, and the chain has the write once
//! or never.

mod endpoints;
mod keys;
mod mempool;
mod process;
mod reality;
mod sequence;

use serde_json::{Value, json};
use svc_operator::{Asker, LedgerCall, Operator, OperatorConfig};
use svc_wire::key::AccountKey;

use super::harness::{Answer, OPERATOR_MNEMONIC, World, ecosystem};

impl World {
    /// How often an ecosystem with this name is on chain.
    pub fn times_on_chain(&self, name: &str) -> usize {
        let did = format!("did:web:{name}.example");
        self.ecosystems_on_chain().iter().filter(|known| **known == did).count()
    }

    /// Rows of `svc://own/transactions`, newest first.
    pub async fn transactions(&self) -> Vec<Value> {
        let read = self.client.read("svc://own/transactions").await.expect("readable");
        read["transactions"].as_array().cloned().expect("a list")
    }

    /// States of the transactions, oldest first.
    pub async fn states(&self) -> Vec<String> {
        let rows = self.transactions().await;
        rows.iter().rev().map(|row| row["state"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Waits until the node's mempool holds so many.
    pub async fn until_waiting(&self, count: usize) {
        while self.network.devnet.node.inspect(|core| core.waiting().len()) != count {
            tokio::task::yield_now().await;
        }
    }

    /// Waits for so many more blocks.
    pub async fn blocks(&self, count: usize) {
        let mut heights = self.network.devnet.node.heights();
        for _ in 0..count {
            heights.changed().await.expect("the node makes blocks");
        }
    }

    /// Another process with the same key.
    async fn foreign(&self) -> Operator {
        let network = &self.network;
        let config = OperatorConfig::new(1, network.devnet.node.origin(), network.indexer_origin());
        let key = AccountKey::from_mnemonic(OPERATOR_MNEMONIC).expect("a key");
        Operator::boot(config, key).await.expect("boots")
    }

    /// A write of that other process.
    async fn foreign_write(&self, foreign: &Operator, name: &str) {
        let mut arguments = ecosystem(name);
        arguments["corporation"] = foreign.snapshot().policy_address().into();
        arguments["operator"] = foreign.identity().address.to_string().into();
        let call = LedgerCall {
            msg_type: "/svc.ec.v1.MsgCreateEcosystem".to_owned(),
            arguments,
            accounts: Vec::new(),
            needs_grant: true,
        };
        let prepared = foreign.prepare(&call).expect("prepared");
        foreign.execute(prepared, Asker::embedder("foreign"), None, None).await.expect("written");
    }

    /// An answered success is on chain once, in the block that was told.
    fn assert_happened(&self, name: &str, answer: &Answer) {
        assert!(!answer.is_error, "{name}: {:#}", answer.content);
        assert_eq!(self.times_on_chain(name), 1, "{name}");
        let hash = answer.content["tx_hash"].as_str().expect("a hash");
        let height = self.network.devnet.node.inspect(|core| core.locate(hash).map(|(block, _)| block.height));
        assert_eq!(json!(height), answer.content["block_height"], "{name}");
    }
}

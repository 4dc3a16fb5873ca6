//! An index into which a test has blocks ingested. The readings of the node are those of the test.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use prost::Message;
use prost_types::Any;
use serde_json::{Value, json};
use svc_net::upstream::NodeClient;
use svc_wire::{
    comet_rpc::{BlockResults, CommittedBlock},
    proto::cosmos::tx::v1beta1::{TxBody, TxRaw},
    proto_registry::{Namespace, ProtoRegistry},
};

use super::{BlockIngester, EntityReading, FetchedBlock, NodeReader, RegistryCache};
use crate::{
    block::{EntityRef, KnownMessages, PARAMETER_MODULES, decode_block},
    read::{IndexReader, ReadArguments, test_reader::reader_of},
    store::{EntityChange, EntityKind, IndexStore},
};

/// A transaction: its messages, and the events that it emitted.
#[derive(Debug, Clone, Default)]
pub struct TestTx {
    pub messages: Vec<Any>,
    pub events: Vec<Value>,
}

/// An event as a node returns it.
pub fn event(kind: &str, attributes: &[(&str, &str)]) -> Value {
    let attributes: Vec<_> = attributes.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
    json!({"type": kind, "attributes": attributes})
}

/// The time of a block, whose height is its second.
pub fn block_time(height: u64) -> String {
    format!("2026-01-01T00:00:{height:02}.000Z")
}

/// An index in memory.
pub struct TestIndex {
    store: IndexStore,
    cache: RegistryCache,
    node: NodeClient,
    registry: ProtoRegistry,
    known: KnownMessages,
    /// The answers of the index.
    pub reader: IndexReader,
    height: u64,
}

impl TestIndex {
    pub async fn new() -> Self {
        let store = IndexStore::open("sqlite::memory:", "c").await.expect("opens");
        let namespace = Namespace::compiled();
        Self {
            reader: reader_of(store.clone()),
            store,
            cache: RegistryCache::default(),
            node: NodeClient::new("http://127.0.0.1:1").expect("an origin"),
            registry: ProtoRegistry::compiled(&namespace).expect("descriptors"),
            known: KnownMessages::compiled(&namespace).expect("descriptors"),
            height: 0,
        }
    }

    /// Ingests the next block. An entity without a reading is one that the node does not have.
    pub async fn ingest(&mut self, txs: &[TestTx], readings: BTreeMap<EntityRef, EntityReading>) {
        self.height += 1;
        let encode = |(index, tx): (usize, &TestTx)| {
            // Without a memo of its own a transaction could have the hash of another.
            let memo = format!("{} {index}", self.height);
            let body = TxBody { messages: tx.messages.clone(), memo, ..TxBody::default() };
            STANDARD.encode(TxRaw { body_bytes: body.encode_to_vec(), ..TxRaw::default() }.encode_to_vec())
        };
        let block: CommittedBlock = serde_json::from_value(json!({
            "block_id": {"hash": format!("{:064X}", self.height)},
            "block": {
                "header": {"chain_id": "c", "height": self.height.to_string(), "time": block_time(self.height)},
                "data": {"txs": txs.iter().enumerate().map(encode).collect::<Vec<_>>()},
            },
        }))
        .expect("a block");
        let results = txs.iter().map(|tx| json!({"code": 0, "gas_wanted": "0", "gas_used": "0", "events": tx.events}));
        let results: BlockResults = serde_json::from_value(json!({
            "height": self.height.to_string(), "finalize_block_events": [], "txs_results": results.collect::<Vec<_>>(),
        }))
        .expect("results");
        let facts = decode_block(&block, &results, &self.known).expect("a block");
        let absent = || EntityReading::Change(Box::new(EntityChange::new(EntityKind::Digest, Some(1), None)));
        let named = facts.entities.keys().cloned().chain(PARAMETER_MODULES.map(EntityRef::Params));
        let mut all: BTreeMap<EntityRef, EntityReading> = named.map(|entity| (entity, absent())).collect();
        all.extend(readings);
        let checkpoint = self.store.checkpoint().await.expect("a checkpoint");
        let ingester = BlockIngester {
            node: NodeReader { node: &self.node, registry: &self.registry },
            store: &self.store,
            cache: &self.cache,
            checkpoint: &checkpoint,
            may_be_due: false,
            may_ask_node: false,
            known_messages: &self.known,
        };
        let written =
            ingester.ingest(&FetchedBlock { origin: String::new(), facts, readings: all }).await.expect("ingests");
        self.store.write_block(&written).await.expect("writes");
        self.cache.apply(&written.changes);
    }

    /// The answer of a read without parameters in its path.
    pub async fn read(&self, operation: &str, query: &str) -> Value {
        let endpoint = svc_wire::indexer_reads::find_endpoint(operation).expect("an endpoint");
        let arguments = ReadArguments::from_query(endpoint, [], query);
        let arguments = arguments.expect("parameters");
        self.reader.answer_read(endpoint, &arguments, None).await.expect("an answer").body
    }
}

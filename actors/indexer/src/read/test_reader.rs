//! A reader of a store with the blocks of a test.

use std::sync::Arc;

use svc_kit::RetainedState;
use svc_net::upstream::NodeClient;
use svc_wire::{
    comet_rpc::NodeInfo,
    proto_registry::{Namespace, ProtoRegistry},
};

use super::{IndexReader, ReadSubject};
use crate::{
    derive::stats::{StatsDeltas, StatsMetric, StatsScope},
    follower::FollowerHandle,
    ingest::DigestLookup,
    store::{BlockWrite, EntityChange, IndexStore},
};

/// Returns a second of 1970 in the form of entities.
pub fn time(second: u64) -> String {
    format!("1970-01-01T00:00:{second:02}.000Z")
}

/// Returns a second of 1970 in nanoseconds.
pub fn at(second: u64) -> i128 {
    i128::from(second) * 1_000_000_000
}

/// Returns a block at the time of its height in seconds.
pub fn block(height: u64, changes: Vec<EntityChange>, measures: &[(StatsScope, StatsMetric, i128)]) -> BlockWrite {
    let mut deltas = StatsDeltas::default();
    for (scope, metric, change) in measures {
        deltas.add(*scope, *metric, *change);
    }
    BlockWrite { height, time: at(height), changes, deltas, ..BlockWrite::default() }
}

/// Returns a reader of these blocks, of chain `c`, in namespace `svc`, with deposits in `ucoin`.
pub async fn reader(blocks: &[BlockWrite]) -> IndexReader {
    let store = IndexStore::open("sqlite::memory:", "c").await.expect("opens");
    for block in blocks {
        store.write_block(block).await.expect("writes");
    }
    reader_of(store)
}

/// Returns a lookup of digests whose node does not answer.
pub fn unanswered_digests(store: IndexStore) -> DigestLookup {
    let registry = ProtoRegistry::compiled(&Namespace::compiled()).expect("the compiled messages");
    // Nothing listens on the port of discard.
    DigestLookup::new(store, NodeClient::new("http://127.0.0.1:9").expect("a client"), Arc::new(registry))
}

/// Returns a reader of a store.
pub fn reader_of(store: IndexStore) -> IndexReader {
    let subject = ReadSubject {
        node: NodeInfo { network: "c".to_owned(), ..NodeInfo::default() },
        namespace: Namespace::compiled(),
        denom: "ucoin".to_owned(),
        rpc: "http://node".to_owned(),
    };
    let last_error = RetainedState::new(None);
    IndexReader::new(unanswered_digests(store), FollowerHandle::new(), last_error, subject, Arc::new(()))
        .expect("the endpoints of the profile")
}

//! A reader of a store that a test fills by hand.

use svc_kit::{Handle, Retained};
use svc_wire::{comet::NodeInfo, schema::Namespace};

use super::Reader;
use crate::{
    derive::measures::{Deltas, Metric, Scope},
    store::{BlockWrite, Change, Store},
};

/// A second of 1970 as entities tell it.
pub fn time(second: u64) -> String {
    format!("1970-01-01T00:00:{second:02}.000Z")
}

/// The same in nanoseconds.
pub fn at(second: u64) -> i128 {
    i128::from(second) * 1_000_000_000
}

/// A block at its height in seconds.
pub fn block(height: u64, changes: Vec<Change>, figures: &[(Scope, Metric, i128)]) -> BlockWrite {
    let mut deltas = Deltas::default();
    for (scope, metric, change) in figures {
        deltas.add(*scope, *metric, *change);
    }
    BlockWrite { height, time: at(height), changes, deltas, ..BlockWrite::default() }
}

/// A reader of these blocks, of chain `c`, in namespace `svc`, with deposits in `ucoin`.
pub async fn reader(blocks: &[BlockWrite]) -> Reader {
    let store = Store::open("sqlite::memory:", "c").await.expect("opens");
    for block in blocks {
        store.write(block).await.expect("writes");
    }
    Reader::new(
        store,
        Handle::new("follower", "follower", 1),
        Retained::new(None),
        NodeInfo { network: "c".to_owned(), version: String::new() },
        Namespace::compiled(),
        "ucoin".to_owned(),
        "http://node".to_owned(),
    )
}

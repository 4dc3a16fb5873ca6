//! The journal's file: what is written once is there once, and survives.

use std::sync::Arc;

use svc_wire::comet::TxResult;

use super::{Note, Outbox, ResultNote, SignedNote, Store, store::JournalError};
use crate::{
    in_flight::{CallId, Entry},
    order::Order,
};

fn entry(hash: &str, sequence: u64, key: Option<&str>) -> Entry {
    let order = Order { key: key.map(str::to_owned), ..(*Order::sample()).clone() };
    Entry {
        call: CallId(0),
        hash: hash.to_owned(),
        bytes: vec![1, 2, 3],
        sequence,
        timeout_height: 30,
        signed_height: 10,
        order: Arc::new(order),
        has_granter: true,
        outcome: None,
    }
}

fn signed(hash: &str, sequence: u64, key: Option<&str>) -> Note {
    Note::Signed(Box::new(SignedNote { entry: entry(hash, sequence, key), at: "2026-01-01T00:00:00.000Z".to_owned() }))
}

fn decided(hash: &str, state: &'static str, height: Option<u64>) -> Note {
    let result =
        height.map(|height| Box::new(ResultNote::new(height, &TxResult { gas_used: 7, ..TxResult::default() }, true)));
    Note::Decided { hash: hash.to_owned(), state, result, at: "2026-01-01T00:00:01.000Z".to_owned() }
}

#[tokio::test]
async fn what_was_open_is_found_again_and_what_was_decided_stays_decided() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("journal.db");
    let path = file.to_str().expect("a path");
    let store = Store::open(Some(path), "chain/account").await.expect("opens");
    let notes = [
        signed("A", 5, Some("key")),
        signed("B", 6, None),
        signed("C", 7, None),
        signed("D", 8, None),
        decided("A", "included", Some(12)),
        Note::Refused { hash: "B".to_owned() },
        decided("B", "included", Some(13)),
        Note::Late { hash: "C".to_owned() },
        Note::Answered { hash: "A".to_owned(), answer: "{}".to_owned() },
    ];
    store.write(&notes).await.expect("written");
    store.write(&notes).await.expect("written again");
    drop(store);

    assert!(
        matches!(Store::open(Some(path), "chain/another").await, Err(JournalError::Foreign { .. })),
        "a journal has one owner"
    );
    let store = Store::open(Some(path), "chain/account").await.expect("opens again");
    let mut next = 40;
    let open = store
        .open_entries(|| {
            next += 1;
            CallId(next)
        })
        .await
        .expect("read");
    assert_eq!(
        open.iter().map(|entry| (entry.hash.as_str(), entry.call.0)).collect::<Vec<_>>(),
        [("C", 41), ("D", 42)]
    );
    assert_eq!((open[0].bytes.as_slice(), open[0].timeout_height, open[0].signed_height), (&[1, 2, 3][..], 30, 10));
    assert_eq!(open[0].order.prepared.msg_type(), "/svc.ec.v1.MsgCreateEcosystem");
    assert_eq!(store.floor().await, Ok(6));
    let known = store.of_key("key").await.expect("read").expect("there");
    assert_eq!((known.state.as_str(), known.block_height, known.gas_used), ("included", Some(12), Some(7)));
    assert_eq!(known.answer.as_deref(), Some("{}"));
    assert!(store.of_key("other").await.expect("read").is_none());
    let states: Vec<_> =
        store.newest(3).await.expect("read").into_iter().map(|row| (row.tx_hash, row.state, row.is_late)).collect();
    let expected = [("D", "open", false), ("C", "open", true), ("B", "refused", false)];
    assert_eq!(states, expected.map(|(hash, state, late)| (hash.to_owned(), state.to_owned(), late)));
    assert_eq!(store.of_write("order").await.expect("read").len(), 4);
}

#[tokio::test]
async fn bytes_that_were_refused_and_signed_again_are_open_again_for_whoever_signed_them_last() {
    let store = Store::open(None, "o").await.expect("opens");
    let refused = || Note::Refused { hash: "A".to_owned() };
    store.write(&[signed("A", 5, Some("first")), refused()]).await.expect("written");
    store.write(&[signed("A", 5, Some("second"))]).await.expect("written");
    assert!(store.of_key("first").await.expect("read").is_none());
    let open = store.open_entries(|| CallId(1)).await.expect("read");
    assert_eq!((open.len(), open[0].bytes.len(), open[0].order.key.as_deref()), (1, 3, Some("second")));
    store.write(&[decided("A", "included", Some(9)), signed("A", 5, Some("third")), refused()]).await.expect("written");
    let known = store.of_key("second").await.expect("read").expect("there");
    assert_eq!((known.state.as_str(), known.block_height), ("included", Some(9)), "what is decided stays decided");
    assert_eq!(store.floor().await, Ok(6));
}

#[tokio::test]
async fn a_file_that_is_no_journal_and_one_in_use_are_refused_by_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("text");
    std::fs::write(&file, "not a database, and long enough to be looked at as one").expect("written");
    let error = Store::open(file.to_str(), "o").await.err().expect("refused").to_string();
    assert!(error.contains("text"), "{error}");
    let nowhere = directory.path().join("no/where.db");
    assert!(Store::open(nowhere.to_str(), "o").await.is_err());
}

#[test]
fn the_outbox_keeps_order_and_numbers() {
    let mut outbox = Outbox::default();
    let refused = |hash: &str| Note::Refused { hash: hash.to_owned() };
    assert_eq!([outbox.push(refused("A")), outbox.push(refused("B"))], [0, 1]);
    assert_eq!(outbox.group(1).len(), 1);
    outbox.written(1);
    assert_eq!((outbox.written_below(), outbox.len(), outbox.push(refused("C"))), (1, 1, 2));
}

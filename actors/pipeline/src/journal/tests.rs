//! The journal's database and outbox: an entry is stored once, and survives the process.

use std::sync::Arc;

use svc_wire::comet_rpc::ExecTxResult;

use super::{
    core::{JournalEntry, JournalOutbox, SignedTxEntry, TxResultEntry},
    store::{JournalError, JournalStore},
};
use crate::write::{in_flight::InFlightTx, intent::WriteIntent, submission::SubmissionId};

fn entry(hash: &str, sequence: u64, key: Option<&str>) -> InFlightTx {
    let order = WriteIntent { idempotency_key: key.map(str::to_owned), ..(*WriteIntent::sample()).clone() };
    InFlightTx {
        submission_id: SubmissionId(0),
        hash: hash.to_owned(),
        bytes: vec![1, 2, 3],
        sequence,
        timeout_height: 30,
        signed_height: 10,
        intent: Arc::new(order),
        has_granter: true,
        outcome: None,
        missing_blocks: Vec::new(),
    }
}

fn signed(hash: &str, sequence: u64, key: Option<&str>) -> JournalEntry {
    JournalEntry::Signed(Box::new(SignedTxEntry {
        tx: entry(hash, sequence, key),
        signed_at: "2026-01-01T00:00:00.000Z".to_owned(),
    }))
}

fn decided(hash: &str, state: &'static str, height: Option<u64>) -> JournalEntry {
    let result = height.map(|height| {
        Box::new(TxResultEntry::new(height, &ExecTxResult { gas_used: 7, ..ExecTxResult::default() }, true))
    });
    JournalEntry::Decided { hash: hash.to_owned(), state, result, decided_at: "2026-01-01T00:00:01.000Z".to_owned() }
}

#[tokio::test]
async fn open_transactions_are_found_again_and_decided_ones_stay_decided() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("journal.db");
    let path = file.to_str().expect("a path");
    let store = JournalStore::open(Some(path), "chain/account").await.expect("opens");
    let notes = [
        signed("A", 5, Some("key")),
        signed("B", 6, None),
        signed("C", 7, None),
        signed("D", 8, None),
        decided("A", "included", Some(12)),
        JournalEntry::Refused { hash: "B".to_owned() },
        decided("B", "included", Some(13)),
        JournalEntry::CallerTimedOut { hash: "C".to_owned() },
        JournalEntry::Answered { hash: "A".to_owned(), answer: "{}".to_owned() },
    ];
    store.write(&notes).await.expect("written");
    store.write(&notes).await.expect("written again");
    drop(store);

    assert!(
        matches!(JournalStore::open(Some(path), "chain/another").await, Err(JournalError::OwnerMismatch { .. })),
        "a journal has one owner"
    );
    let store = JournalStore::open(Some(path), "chain/account").await.expect("opens again");
    let mut next = 40;
    let open = store
        .open_transactions(|| {
            next += 1;
            SubmissionId(next)
        })
        .await
        .expect("read");
    assert_eq!(
        open.iter().map(|entry| (entry.hash.as_str(), entry.submission_id.0)).collect::<Vec<_>>(),
        [("C", 41), ("D", 42)]
    );
    assert_eq!((open[0].bytes.as_slice(), open[0].timeout_height, open[0].signed_height), (&[1, 2, 3][..], 30, 10));
    assert_eq!(open[0].intent.encoded.msg_type(), "/svc.ec.v1.MsgCreateEcosystem");
    assert_eq!(store.sequence_floor().await, Ok(6));
    let known = store.find_by_key("key").await.expect("read").expect("there");
    assert_eq!((known.state.as_str(), known.block_height, known.gas_used), ("included", Some(12), Some(7)));
    assert_eq!(known.answer.as_deref(), Some("{}"));
    assert!(store.find_by_key("other").await.expect("read").is_none());
    let states: Vec<_> = store
        .newest_records(3)
        .await
        .expect("read")
        .into_iter()
        .map(|row| (row.tx_hash, row.state, row.is_late))
        .collect();
    let expected = [("D", "open", false), ("C", "open", true), ("B", "refused", false)];
    assert_eq!(states, expected.map(|(hash, state, late)| (hash.to_owned(), state.to_owned(), late)));
    assert_eq!(store.find_by_write("intent").await.expect("read").len(), 4);
}

#[tokio::test]
async fn refused_bytes_that_are_signed_again_are_open_for_the_newest_write() {
    let store = JournalStore::open(None, "o").await.expect("opens");
    let refused = || JournalEntry::Refused { hash: "A".to_owned() };
    store.write(&[signed("A", 5, Some("first")), refused()]).await.expect("written");
    store.write(&[signed("A", 5, Some("second"))]).await.expect("written");
    assert!(store.find_by_key("first").await.expect("read").is_none());
    let open = store.open_transactions(|| SubmissionId(1)).await.expect("read");
    assert_eq!((open.len(), open[0].bytes.len(), open[0].intent.idempotency_key.as_deref()), (1, 3, Some("second")));
    store.write(&[decided("A", "included", Some(9)), signed("A", 5, Some("third")), refused()]).await.expect("written");
    let known = store.find_by_key("second").await.expect("read").expect("there");
    assert_eq!(
        (known.state.as_str(), known.block_height),
        ("included", Some(9)),
        "a decided transaction stays decided"
    );
    assert_eq!(store.sequence_floor().await, Ok(6));
}

#[tokio::test]
async fn a_file_that_is_no_journal_and_a_missing_folder_are_refused_by_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("text");
    std::fs::write(&file, "not a database, and long enough to be looked at as one").expect("written");
    let error = JournalStore::open(file.to_str(), "o").await.err().expect("refused").to_string();
    assert!(error.contains("text"), "{error}");
    let nowhere = directory.path().join("no/where.db");
    assert!(JournalStore::open(nowhere.to_str(), "o").await.is_err());
}

#[test]
fn the_outbox_keeps_order_and_numbers() {
    let mut outbox = JournalOutbox::default();
    let refused = |hash: &str| JournalEntry::Refused { hash: hash.to_owned() };
    assert_eq!([outbox.push(refused("A")), outbox.push(refused("B"))], [0, 1]);
    assert_eq!(outbox.next_batch(1).len(), 1);
    outbox.mark_written(1);
    assert_eq!((outbox.written_below(), outbox.len(), outbox.push(refused("C"))), (1, 1, 2));
}

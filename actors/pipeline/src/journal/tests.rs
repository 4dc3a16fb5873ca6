//! The journal's database and outbox: an entry is stored once, and survives the process.

use std::sync::Arc;

use sqlx::SqliteConnection;
use svc_wire::{chain_error::ChainError, comet_rpc::ExecTxResult};

use super::{
    JournalHandle,
    core::{JournalEntry, JournalOutbox, RestoredEntry, SignedTxEntry, TxResultEntry},
    error::JournalError,
    store::{JournalPlace, JournalStore},
};
use crate::{
    known_history::HistoryState,
    write::{
        daily_fees::UtcDay,
        in_flight::InFlightTx,
        intent::{DEFAULT_PRINCIPAL, WriteIntent},
        outcome::TxRefusal,
        submission::SubmissionId,
    },
};

pub(super) async fn open(file: Option<&str>, owner: &str) -> Result<JournalStore, JournalError> {
    JournalStore::open(&JournalPlace { file: file.map(str::to_owned), min_free_space: 0.into() }, owner).await
}

pub(super) fn entry(hash: &str, sequence: u64, key: Option<&str>) -> InFlightTx {
    let order = WriteIntent { idempotency_key: key.map(str::to_owned), ..(*WriteIntent::sample()).clone() };
    InFlightTx {
        bytes: vec![1, 2, 3],
        timeout_height: 30,
        signed_height: 10,
        intent: Arc::new(order),
        has_granter: true,
        fee: 5,
        signed_day: UtcDay::of(&svc_kit::wall_clock::now()),
        ..InFlightTx::sample(hash, SubmissionId(0), sequence)
    }
}

pub(crate) fn signed(hash: &str, sequence: u64, key: Option<&str>) -> JournalEntry {
    JournalEntry::Signed(Box::new(SignedTxEntry {
        tx: entry(hash, sequence, key),
        signed_at: "2026-01-01T00:00:00.000Z".to_owned(),
    }))
}

pub(crate) fn decided(hash: &str, state: &'static str, height: Option<u64>) -> JournalEntry {
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
    let store = open(Some(path), "chain/account").await.expect("opens");
    let notes = [
        signed("A", 5, Some("key")),
        signed("B", 6, None),
        signed("C", 7, None),
        signed("D", 8, None),
        decided("A", "included", Some(12)),
        JournalEntry::Unsent { hash: "B".to_owned() },
        decided("B", "included", Some(13)),
        JournalEntry::CallerTimedOut { hash: "C".to_owned() },
        JournalEntry::Answered { hash: "A".to_owned(), answer: "{}".to_owned() },
    ];
    store.write(&notes).await.expect("written");
    store.write(&notes).await.expect("written again");
    drop(store);

    assert!(
        matches!(open(Some(path), "chain/another").await, Err(JournalError::OwnerMismatch { .. })),
        "a journal has one owner"
    );
    let store = open(Some(path), "chain/account").await.expect("opens again");
    let mut next = 40;
    let open = store
        .open_transactions(|_| {
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
    let known = store.find_by_key(DEFAULT_PRINCIPAL, "key").await.expect("read").expect("there");
    assert_eq!((known.state.as_str(), known.block_height, known.gas_used), ("included", Some(12), Some(7)));
    assert_eq!(known.answer.as_deref(), Some("{}"));
    assert!(store.find_by_key(DEFAULT_PRINCIPAL, "other").await.expect("read").is_none());
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
    let store = open(None, "o").await.expect("opens");
    let refused = || JournalEntry::Unsent { hash: "A".to_owned() };
    store.write(&[signed("A", 5, Some("first")), refused()]).await.expect("written");
    store.write(&[signed("A", 5, Some("second"))]).await.expect("written");
    assert!(store.find_by_key(DEFAULT_PRINCIPAL, "first").await.expect("read").is_none());
    let open = store.open_transactions(|_| SubmissionId(1)).await.expect("read");
    assert_eq!((open.len(), open[0].bytes.len(), open[0].intent.idempotency_key.as_deref()), (1, 3, Some("second")));
    store.write(&[decided("A", "included", Some(9)), signed("A", 5, Some("third")), refused()]).await.expect("written");
    let known = store.find_by_key(DEFAULT_PRINCIPAL, "second").await.expect("read").expect("there");
    assert_eq!(
        (known.state.as_str(), known.block_height),
        ("included", Some(9)),
        "a decided transaction stays decided"
    );
    assert_eq!(store.sequence_floor().await, Ok(6));
}

#[tokio::test]
async fn a_refused_transaction_binds_its_key_until_it_is_certain_never_to_execute() {
    let store = open(None, "o").await.expect("opens");
    let refusal = || TxRefusal {
        error: ChainError { codespace: "sdk".to_owned(), code: 13, raw_log: "too little".to_owned() },
        block_height: None,
    };
    let refused = |hash: &str| JournalEntry::Refused { hash: hash.to_owned(), refusal: refusal() };
    store.write(&[signed("A", 5, Some("key")), refused("A"), refused("A")]).await.expect("written");
    let found = || async { store.find_by_key(DEFAULT_PRINCIPAL, "key").await.expect("read") };
    let bound = found().await.expect("there");
    assert_eq!((bound.state.as_str(), bound.refusal(), bound.timeout_height), ("open_refused", refusal(), 30));
    let open = store.open_transactions(|_| SubmissionId(1)).await.expect("read");
    assert_eq!((open.len(), open[0].refusal.clone(), open[0].bytes.len()), (1, Some(refusal()), 0));
    store.write(&[signed("B", 5, Some("key"))]).await.expect("written");
    assert_eq!(found().await.expect("there").tx_hash, "B", "the one that is in flight speaks for the write");
    store.write(&[decided("A", "included", Some(9)), decided("B", "displaced", None)]).await.expect("written");
    let included = found().await.expect("there");
    assert_eq!((included.tx_hash.as_str(), included.block_height, included.code), ("A", Some(9), Some(0)));

    store.write(&[signed("C", 6, Some("other")), refused("C"), decided("C", "refused", None)]).await.expect("written");
    assert!(store.find_by_key(DEFAULT_PRINCIPAL, "other").await.expect("read").is_none(), "the key is free");
    let known = store.find_by_hash("C").await.expect("read").expect("there");
    assert_eq!((known.state.as_str(), known.code, known.raw_log.as_deref()), ("refused", Some(13), Some("too little")));
}

#[tokio::test]
async fn a_record_that_fails_again_leaves_the_transaction_open_and_a_first_one_says_that_it_was_never_sent() {
    let store = open(None, "o").await.expect("opens");
    // The actor of this journal never runs.
    let (journal, args) = JournalHandle::new(store, HistoryState::default(), 10);
    args.outbox.with(|outbox| outbox.push(signed("sent", 5, None)));
    let short = std::time::Duration::from_millis(50);
    let (again, first) = tokio::join!(
        journal.record_within(entry("sent", 5, None), false, short),
        journal.record_within(entry("new", 6, None), true, short)
    );
    assert!(again.is_err() && first.is_err());
    let kinds: Vec<bool> = args
        .outbox
        .with(|outbox| outbox.next_batch(9).iter().map(|entry| matches!(entry, JournalEntry::Signed(_))).collect());
    assert_eq!(kinds, [true, true, false]);
}

#[tokio::test]
async fn the_fees_of_a_day_are_those_of_transactions_that_may_pay() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("journal.db");
    let store = open(file.to_str(), "o").await.expect("opens");
    let now = svc_kit::wall_clock::now_rfc3339();
    let signed_now = |hash: &str, sequence| {
        JournalEntry::Signed(Box::new(SignedTxEntry { tx: entry(hash, sequence, None), signed_at: now.clone() }))
    };
    let transactions = [
        signed("earlier", 1, None),
        signed_now("open", 2),
        signed_now("included", 3),
        decided("included", "included", Some(9)),
        signed_now("expired", 4),
        decided("expired", "expired", None),
        signed_now("unsent", 5),
        JournalEntry::Unsent { hash: "unsent".to_owned() },
    ];
    store.write(&transactions).await.expect("written");
    let today = UtcDay::of(&svc_kit::wall_clock::now());
    assert_eq!(store.daily_fees(today).await.expect("read").spent(DEFAULT_PRINCIPAL).by_principal, 10);
    // A journal of an earlier release has no fees.
    drop(store);
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&file);
    let mut connection = <SqliteConnection as sqlx::Connection>::connect_with(&options).await.expect("connects");
    let earlier = "ALTER TABLE transactions DROP COLUMN fee; ALTER TABLE transactions DROP COLUMN checksum; DROP TABLE head; \
                   PRAGMA user_version = 0";
    sqlx::raw_sql(earlier).execute(&mut connection).await.expect("dropped");
    drop(connection);
    let store = open(file.to_str(), "o").await.expect("opens again");
    assert_eq!(store.daily_fees(today).await.expect("read").spent(DEFAULT_PRINCIPAL).in_all, 0);
}

#[tokio::test]
async fn a_file_that_is_no_journal_and_a_missing_folder_are_refused_by_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("text");
    std::fs::write(&file, "not a database, and long enough to be looked at as one").expect("written");
    let error = open(file.to_str(), "o").await.err().expect("refused").to_string();
    assert!(error.contains("text"), "{error}");
    let nowhere = directory.path().join("no/where.db");
    assert!(open(nowhere.to_str(), "o").await.is_err());
}

#[test]
fn the_outbox_keeps_order_and_numbers() {
    let mut outbox = JournalOutbox::default();
    let refused = |hash: &str| JournalEntry::Unsent { hash: hash.to_owned() };
    assert_eq!([outbox.push(refused("A")), outbox.push(refused("B"))], [0, 1]);
    assert_eq!(outbox.next_batch(1).len(), 1);
    outbox.mark_written(1);
    assert_eq!((outbox.written_below(), outbox.len(), outbox.push(refused("C"))), (1, 1, 2));
}

#[tokio::test]
async fn a_sequence_without_a_record_is_unknown_until_it_was_looked_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("journal.db").display().to_string();
    let store = open(Some(&path), "o").await.expect("opens");
    let unknown = async |next| {
        let unknown = store.unknown_sequences(next, 100).await.expect("read");
        (unknown.count(), unknown.lowest_height, unknown.is_new_journal)
    };
    assert_eq!((unknown(0).await, unknown(7).await), ((0, 1, true), (7, 1, true)));
    // A node may state any sequence.
    assert_eq!(unknown(u64::MAX).await.0, u64::MAX);
    store
        .write(&[signed("A", 5, None), decided("A", "included", Some(12)), signed("B", 8, None)])
        .await
        .expect("written");
    assert_eq!(unknown(6).await, (0, 12, false), "those below a used one are used");
    assert_eq!(unknown(9).await.0, 3, "only a block shows that an open transaction has used its sequence");
    let restored = |hash: &str, sequence| {
        JournalEntry::Restored(Box::new(RestoredEntry {
            hash: hash.to_owned(),
            sequence,
            timeout_height: 0,
            message: WriteIntent::sample().encoded.clone(),
            result: TxResultEntry::new(20, &ExecTxResult::default(), true),
            fee: 9,
            restored_at: svc_kit::wall_clock::now_rfc3339(),
        }))
    };
    store.write(&[restored("C", 7)]).await.expect("written");
    // A process may die after it has taken the newest: the older one is still unknown.
    let mut left = store.unknown_sequences(9, 100).await.expect("read");
    assert_eq!((left.count(), left.lowest_height), (2, 12));
    assert!(!left.explain(7) && !left.explain(9) && left.explain(6) && left.explain(8));
    assert!(left.is_open("B") && !left.is_open("C"));
    assert_eq!(
        store.daily_fees(UtcDay::of(&svc_kit::wall_clock::now())).await.expect("read").spent(DEFAULT_PRINCIPAL).in_all,
        9
    );
    store.end_comparison(9, 20).await.expect("written");
    assert_eq!((unknown(9).await, unknown(11).await.0), ((0, 20, false), 2));
    // A later record does not hide a sequence without one.
    store.write(&[signed("D", 12, None), decided("D", "included", Some(30))]).await.expect("written");
    assert_eq!(unknown(13).await, (3, 20, false));
    // A node that stated too much does not end later comparisons.
    store.end_comparison(1_000_000, 20).await.expect("written");
    assert_eq!(unknown(15).await, (2, 30, false));

    // A block shows a transaction that counted as never sent; one that is followed keeps its record.
    store.write(&[signed("E", 13, Some("key")), JournalEntry::Unsent { hash: "E".to_owned() }]).await.expect("written");
    store.write(&[restored("E", 13), restored("B", 8)]).await.expect("written");
    let state = async |hash: &str| store.find_by_hash(hash).await.expect("read").map(|record| record.state);
    assert_eq!((state("E").await.as_deref(), state("B").await.as_deref()), (Some("included"), Some("open")));
    let known = store.find_by_key(DEFAULT_PRINCIPAL, "key").await.expect("read").map(|record| record.block_height);
    assert_eq!(known, Some(Some(20)));
}

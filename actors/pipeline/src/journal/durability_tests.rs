//! The journal against its disk: full, damaged, vanished, replaced.

use std::path::{Path, PathBuf};

use sqlx::{Connection, SqliteConnection, sqlite::SqliteConnectOptions};
use svc_kit::supervision::{ChildSpec, Supervisor, SupervisorSpec};
use svc_test_support::small_disk;

use super::{
    JournalHandle, JournalWriter,
    core::JournalEntry,
    error::{JournalError, JournalLoss},
    inspection::{back_up_journal, verify_journal},
    tests::{decided, entry, open, signed},
};
use crate::known_history::HistoryState;

async fn written_journal(directory: &Path) -> PathBuf {
    let file = directory.join("journal.db");
    let store = open(file.to_str(), "o").await.expect("opens");
    for number in 0..40_u32 {
        let hash = format!("{number:04}");
        store.write(&[signed(&hash, number.into(), None)]).await.expect("written");
        store.write(&[decided(&hash, "included", Some(9))]).await.expect("written");
    }
    store.close().await;
    file
}

async fn change(file: &Path, sql: &'static str) {
    let mut connection = connect(file).await;
    sqlx::raw_sql(sql).execute(&mut connection).await.expect("changed");
    connection.close().await.expect("closed");
}

async fn connect(file: &Path) -> SqliteConnection {
    SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(file)).await.expect("connects")
}

#[tokio::test]
async fn rows_that_are_not_as_they_were_written_stop_the_boot() {
    for (sql, words) in [
        ("UPDATE transactions SET sequence = 7 WHERE number = 3", "row 3 is not as it was written"),
        ("UPDATE transactions SET answer = '' WHERE number = 4", "row 4 is not as it was written"),
        ("DELETE FROM transactions WHERE number = 5", "rows are missing"),
        (
            "INSERT INTO transactions SELECT 99, 'A', write_id, state, sequence, signed_height, timeout_height, bytes, msg_type, \
          message, needs_grant, tool, session, client, verdict, idempotency_key, message_digest, is_fee_granted, traceparent, \
          signed_at, decided_at, is_late, block_height, code, codespace, raw_log, gas_used, gas_wanted, uses_sequence, answer, \
          fee, checksum, restored_at, principal FROM transactions WHERE number = 6",
            "row 99 is not as it was written",
        ),
        ("UPDATE head SET checksum_sum = 1", "rows are missing or were added"),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let file = written_journal(directory.path()).await;
        change(&file, sql).await;
        let error = open(file.to_str(), "o").await.err().expect("refused");
        assert!(matches!(&error, JournalError::Damaged { .. }) && error.to_string().contains(words), "{sql}: {error}");
    }
}

#[tokio::test]
async fn damaged_bytes_are_never_taken_for_a_journal() {
    type Damage = fn(Vec<u8>) -> Vec<u8>;
    let damages: [(&str, Damage); 4] = [
        ("cut in half", |bytes| bytes[..bytes.len() / 2].to_vec()),
        ("cut within a page", |bytes| bytes[..bytes.len() - 1_000].to_vec()),
        ("flipped", |mut bytes| {
            let middle = bytes.len() / 2;
            bytes[middle..middle + 3_000].iter_mut().for_each(|byte| *byte = !*byte);
            bytes
        }),
        ("one bit of each row", |mut bytes| {
            let text = b"2026-01-01T00:00:01.000Z";
            // Some of the places are left from an earlier state of their row.
            let places: Vec<usize> =
                (0..bytes.len() - text.len()).filter(|at| bytes[*at..].starts_with(text)).collect();
            assert!(places.len() > 30, "the times of rows");
            places.into_iter().for_each(|place| bytes[place] ^= 1);
            bytes
        }),
    ];
    for (word, damage) in damages {
        let directory = tempfile::tempdir().expect("a directory");
        let file = written_journal(directory.path()).await;
        let bytes = std::fs::read(&file).expect("read");
        std::fs::write(&file, damage(bytes)).expect("written");
        assert!(open(file.to_str(), "o").await.is_err(), "{word}");
    }
}

#[tokio::test]
async fn a_journal_that_vanished_or_is_an_older_copy_is_opened_and_its_loss_is_known() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = written_journal(directory.path()).await;
    let older = std::fs::read(&file).expect("read");
    let store = open(file.to_str(), "o").await.expect("opens");
    assert_eq!(store.loss(), None);
    store.write(&[signed("newer", 99, None)]).await.expect("written");
    store.close().await;

    std::fs::write(&file, older).expect("replaced");
    let store = open(file.to_str(), "o").await.expect("opens");
    assert_eq!(store.loss(), Some(JournalLoss { acknowledged: 81, found: 80 }));
    store.close().await;
    let store = open(file.to_str(), "o").await.expect("opens");
    let known = store.loss().map(|loss| loss.acknowledged);
    assert_eq!(known, Some(81), "a boot that ended before the records were taken from blocks forgets nothing");
    store.end_comparison(40, 9).await.expect("noted");
    store.close().await;
    let store = open(file.to_str(), "o").await.expect("opens");
    assert_eq!(store.loss(), None);
    store.close().await;

    for remove in [true, false] {
        if remove {
            std::fs::remove_file(&file).expect("removed");
        } else {
            std::fs::write(&file, []).expect("emptied");
        }
        let store = open(file.to_str(), "o").await.expect("opens");
        let known = store.loss().map(|loss| (loss.acknowledged > 0, loss.found));
        assert_eq!(known, Some((true, 0)));
        store.write(&[signed("again", 1, None)]).await.expect("written");
        store.close().await;
    }
}

#[tokio::test]
async fn one_process_uses_a_journal_and_a_newer_one_is_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = written_journal(directory.path()).await;
    let store = open(file.to_str(), "o").await.expect("opens");
    let error = open(file.to_str(), "o").await.err().expect("refused").to_string();
    assert!(error.contains(&format!("process {}", std::process::id())) && error.contains("since 20"), "{error}");
    store.close().await;
    change(&file, "PRAGMA user_version = 9").await;
    let error = open(file.to_str(), "o").await.err().expect("refused");
    assert!(matches!(error, JournalError::NewerSchema { found: 9, known: 3, .. }), "{error}");
}

#[tokio::test]
async fn a_journal_of_a_release_without_principals_is_verified_and_copied_as_it_is_and_then_opened() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = written_journal(directory.path()).await;
    let sql = "ALTER TABLE transactions DROP COLUMN principal; DROP TABLE pins; DROP TABLE rebases; \
               CREATE TABLE history (one INTEGER PRIMARY KEY, first_height INTEGER NOT NULL, first_hash TEXT NOT NULL, \
               newest_height INTEGER NOT NULL, newest_hash TEXT NOT NULL); \
               INSERT INTO history VALUES (1, 3, 'A3', 8, 'A8'); PRAGMA user_version = 1";
    change(&file, sql).await;
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    assert_eq!(verify_journal(&text(&file)).await.expect("whole").transactions, 40);
    let copy = text(&directory.path().join("copy.db"));
    assert_eq!(back_up_journal(&text(&file), &copy).await.expect("copied").transactions, 40);
    let store = open(file.to_str(), "o").await.expect("opens");
    let pins: Vec<(u64, String)> =
        store.pins().await.expect("read").into_iter().map(|pin| (pin.height, pin.hash)).collect();
    assert_eq!(pins, [(3, "A3".to_owned()), (8, "A8".to_owned())]);
    store.close().await;
    assert_eq!(verify_journal(&text(&file)).await.expect("whole").transactions, 40);
}

#[test]
fn on_a_disk_that_fills_and_empties_every_record_that_was_acknowledged_is_there() {
    let name =
        "journal::durability_tests::on_a_disk_that_fills_and_empties_every_record_that_was_acknowledged_is_there";
    small_disk::run(name, |directory| {
        tokio::runtime::Runtime::new().expect("a runtime").block_on(fill_and_empty(directory));
    });
}

async fn fill_and_empty(directory: &Path) {
    let file = directory.join("journal.db");
    let store = open(file.to_str(), "o").await.expect("opens");
    let (handle, args) = JournalHandle::new(store.clone(), HistoryState::default(), 100);
    let supervisor = Supervisor::new("test");
    let spec = SupervisorSpec::one_for_one(vec![ChildSpec::worker::<JournalWriter>(handle.actor(), args)]);
    supervisor.start(spec).await.expect("starts");
    let (mut acknowledged, mut failed) = (Vec::new(), 0);
    for round in 0..4_u32 {
        let filler = small_disk::fill(directory);
        for number in 0..8_u32 {
            let hash = format!("{round}-{number}");
            match handle.record_signed(entry(&hash, u64::from(round * 10 + number), None)).await {
                Ok(()) => acknowledged.push(hash),
                Err(_) => failed += 1,
            }
        }
        std::fs::remove_file(filler).expect("removed");
    }
    supervisor.shutdown(std::time::Duration::from_secs(5)).await;
    assert!(failed > 0, "the disk was never full");
    let mut connection = connect(&file).await;
    let found: Vec<String> = sqlx::query_scalar("SELECT tx_hash FROM transactions WHERE state = 'open'")
        .fetch_all(&mut connection)
        .await
        .expect("read");
    let lost: Vec<_> = acknowledged.iter().filter(|hash| !found.contains(hash)).collect();
    assert!(lost.is_empty(), "acknowledged and not on disk: {lost:?}");
}

#[tokio::test]
async fn a_journal_at_its_bound_does_not_grow() {
    const MAX_RECORDS: i64 = 1_000;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("journal.db");
    let store = open(file.to_str(), "o").await.expect("opens").with_max_records(MAX_RECORDS);
    let size = || -> u64 {
        let files = std::fs::read_dir(directory.path()).expect("listed").flatten();
        files.map(|file| file.metadata().expect("its size").len()).sum()
    };
    let (mut number, mut at_bound) = (0_u64, 0);
    for round in 0..16 {
        let hashes: Vec<(String, u64)> =
            (number..number + 250).map(|number| (format!("{number:064}"), number)).collect();
        number += 250;
        let begun: Vec<_> = hashes.iter().map(|(hash, number)| signed(hash, *number, Some(hash))).collect();
        store.write(&begun).await.expect("written");
        let ended: Vec<_> = hashes
            .iter()
            .flat_map(|(hash, _)| {
                let answer = JournalEntry::Answered { hash: hash.clone(), answer: "a".repeat(600) };
                [decided(hash, "included", Some(9)), answer]
            })
            .collect();
        store.write(&ended).await.expect("written");
        if round == 7 {
            at_bound = size();
        }
    }
    assert!(at_bound / 2_000 < 4_096, "{} bytes for each record, write-ahead log included", at_bound / 2_000);
    assert!(size() <= at_bound + at_bound / 10, "{at_bound} bytes grew to {}", size());
    let kept = store.newest_records(u32::MAX).await.expect("read").len();
    assert!(kept <= 2_000, "{kept} records are kept");
}

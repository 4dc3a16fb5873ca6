//! The audit log with and without a file.

use std::{fs::OpenOptions, io::Write, os::unix::fs::PermissionsExt};

use svc_pipeline::{EncodedMessage, WriteOrigin};
use svc_test_support::small_disk;

use super::*;

fn open_file(path: &str, known_head: Option<&str>) -> Result<(AuditLog, Vec<AuditRecord>), AuditError> {
    AuditLog::open(&AuditPlace { file: Some(path.to_owned()), min_free_space: 0.into() }, known_head)
}

fn intent(id: &str) -> WriteIntent {
    let message = prost_types::Any { type_url: "/svc.ec.v1.MsgCreateEcosystem".to_owned(), value: Vec::new() };
    let encoded = EncodedMessage { message, needs_grant: true };
    let new = WriteIntent::new(encoded, WriteOrigin::embedder("test"), None, &tracing::Span::none());
    WriteIntent { id: id.to_owned(), ..new }
}

fn end(outcome: &str) -> AuditCompletion {
    AuditCompletion {
        completed_at: wall_clock::now_rfc3339(),
        outcome: outcome.to_owned(),
        error_code: None,
        tx_hash: Some("AB".to_owned()),
        block_height: Some(7),
        code: Some(0),
        codespace: None,
        fee: None,
        fee_payer: None,
    }
}

#[test]
fn an_open_record_is_found_also_behind_a_torn_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("audit.jsonl");
    let path = path.to_str().expect("a path");
    let (audit, open) = open_file(path, None).expect("opens");
    assert!(open.is_empty());
    audit.begin(&intent("a"), Value::Null).expect("written");
    audit.begin(&intent("b"), Value::Null).expect("written");
    audit.complete("a", end("included"));
    drop(audit);
    let mut torn = OpenOptions::new().append(true).open(path).expect("there");
    torn.write_all(b"{\"record\":\"begun\",\"id\":\"c\"").expect("written");

    let (audit, open) = open_file(path, None).expect("opens");
    assert_eq!(open.iter().map(|record| record.id.as_str()).collect::<Vec<_>>(), ["b"]);
    audit.complete("b", end("not_sent"));
    assert_eq!(audit.newest_records()[0].end.as_ref().map(|end| end.outcome.as_str()), Some("not_sent"));
    drop(audit);
    let (audit, open) = open_file(path, None).expect("opens");
    assert!(open.is_empty());
    assert_eq!(audit.newest_records().len(), 2);
    let lines = std::fs::read_to_string(path).expect("readable");
    assert_eq!(lines.lines().count(), 5, "nothing is ever taken away");
}

#[test]
fn without_a_file_the_newest_records_stay() {
    let (audit, _) = AuditLog::open(&AuditPlace::default(), None).expect("opens");
    for index in 0..=MAX_RECORDS_IN_MEMORY {
        audit.begin(&intent(&index.to_string()), Value::Null).expect("kept");
        audit.complete(&index.to_string(), end("included"));
    }
    assert_eq!((audit.newest_records().len(), audit.newest_records()[0].id.as_str()), (MAX_RECORDS_IN_MEMORY, "1000"));
    assert!(open_file("/nowhere/at/all", None).is_err());
}

fn lines_of(path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("readable");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_file_is_for_one_process_and_for_its_owner() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("audit.jsonl").display().to_string();
    let (_audit, _) = open_file(&path, None).expect("opens");
    assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    let error = open_file(&path, None).err().expect("held").to_string();
    assert!(error.contains("is in use by process"), "{error}");
}

#[test]
fn a_changed_or_shortened_file_is_noticed_and_a_rotated_one_goes_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("audit.jsonl").display().to_string();
    let (audit, _) = open_file(&path, None).expect("opens");
    for id in ["a", "b", "c"] {
        audit.begin(&intent(id), Value::Null).expect("written");
        audit.complete(id, end("included"));
        audit.complete(id, end("failed"));
    }
    drop(audit);
    let whole = verify_audit(&path).expect("read");
    assert_eq!((whole.lines, whole.broken_at), (6, None), "an end is written once");
    let problem = |known_head: Option<&str>| open_file(&path, known_head).expect("opens").0.problem();
    assert_eq!(problem(Some(&whole.head)), None);
    let text = std::fs::read_to_string(&path).expect("read");
    std::fs::write(&path, text.lines().take(4).map(|line| format!("{line}\n")).collect::<String>()).expect("written");
    assert!(problem(Some(&whole.head)).is_some_and(|problem| problem.contains("the journal knows")));
    assert!(problem(None).is_some(), "a problem stays known");
    assert_eq!(lines_of(&path).iter().filter(|line| line["record"] == "problem").count(), 1);
    std::fs::write(&path, text.replacen("included", "failed", 1)).expect("written");
    assert_eq!(problem(None).as_deref(), Some("line 3 does not follow from the line before it"));

    std::fs::write(&path, &text).expect("written");
    let (audit, _) = open_file(&path, None).expect("opens");
    std::fs::rename(&path, format!("{path}.1")).expect("moved");
    audit.begin(&intent("d"), Value::Null).expect("still in the old file");
    let old_head = verify_audit(&format!("{path}.1")).expect("read").head;
    audit.rotate();
    audit.complete("d", end("included"));
    let lines = lines_of(&path);
    assert_eq!((&lines[0]["record"], &lines[0]["previous"]), (&"rotated".into(), &old_head.into()));
    let records: Vec<&Value> = lines.iter().map(|line| &line["record"]).collect();
    assert_eq!(records, ["rotated", "begun", "completed"], "a write that has not ended goes on in the new file");
    audit.rotate();
    assert_eq!(lines_of(&path).len(), 3, "a file that was not moved away goes on");
}

#[test]
fn on_a_disk_that_fills_and_empties_every_line_is_whole_and_in_the_chain() {
    let name = "write::audit::tests::on_a_disk_that_fills_and_empties_every_line_is_whole_and_in_the_chain";
    small_disk::run(name, |directory| {
        let path = directory.join("audit.jsonl").display().to_string();
        let (audit, _) = open_file(&path, None).expect("opens");
        let (mut begun, mut refused) = (Vec::new(), 0);
        for round in 0..4 {
            let filler = small_disk::fill(directory);
            for number in 0..30 {
                let id = format!("{round}-{number}");
                // A line that is longer than the rest of a page of the disk.
                match audit.begin(&intent(&id), Value::from("m".repeat(3_000))) {
                    Ok(()) => begun.push(id),
                    Err(error) => {
                        assert!(error.reason.contains("No space left"), "{error}");
                        refused += 1;
                    }
                }
            }
            begun.iter().for_each(|id| audit.complete(id, end("included")));
            std::fs::remove_file(filler).expect("removed");
            audit.begin(&intent(&format!("{round}-last")), Value::Null).expect("there is space again");
            begun.push(format!("{round}-last"));
        }
        drop(audit);
        assert!(refused > 20, "{refused} writes were refused");
        let chain = verify_audit(&path).expect("read");
        assert_eq!((chain.problem(), chain.torn), (None, 0));
        let lines = lines_of(&path);
        let count = |record: &str| lines.iter().filter(|line| line["record"] == record).count();
        assert_eq!((count("begun"), count("completed")), (begun.len(), begun.len() - 1), "the last one has not ended");
    });
}

#[test]
fn without_space_no_write_begins_and_one_that_has_begun_ends() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("audit.jsonl").display().to_string();
    let (audit, _) = open_file(&path, None).expect("opens");
    audit.begin(&intent("a"), Value::Null).expect("written");
    drop(audit);
    let place =
        AuditPlace { file: Some(path.clone()), min_free_space: MinFreeSpace { bytes: u64::MAX, name: "LEAST" } };
    let (audit, left_open) = AuditLog::open(&place, None).expect("opens");
    assert_eq!(left_open.len(), 1);
    let refused = audit.begin(&intent("b"), Value::Null).expect_err("refused").to_string();
    assert!(refused.contains(&format!("less than LEAST={}", u64::MAX)), "{refused}");
    audit.complete("a", end("included"));
    assert_eq!(lines_of(&path).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn requests_without_a_token_make_a_line_a_minute() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("audit.jsonl").display().to_string();
    let (audit, _) = open_file(&path, None).expect("opens");
    for _ in 0..1_000 {
        audit.count_unauthorized();
    }
    tokio::time::advance(UNAUTHORIZED_INTERVAL).await;
    audit.count_unauthorized();
    let counts: Vec<Value> = lines_of(&path).into_iter().map(|line| line["count"].clone()).collect();
    assert_eq!(counts, [1, 1_000]);
}

//! Files that an import refuses: damaged ones by their authentication code, and authenticated ones that are no store.

use serde_json::{Value, json};

use super::{
    super::{
        import::{VerifiedFile, write_store},
        line_reader::{LineReader, MAX_LINE_BYTES},
    },
    *,
};
use crate::agent_store::SCHEMA_VERSION;

#[tokio::test]
async fn every_flipped_byte_is_refused_before_a_database_is_made() {
    let home = Home::new();
    let whole = export(&home.fill("first.db").await).await;
    // A few rows of the outbox are enough.
    let few: Vec<_> = lines(&whole).into_iter().filter(|line| !line.windows(6).any(|part| part == b"outbox")).collect();
    assert!(few.len() > 15 && few.len() < 40);
    let content = authenticated(&few);
    for position in 0..content.len() {
        for bit in [1, 0x80] {
            let mut damaged = content.clone();
            damaged[position] ^= bit;
            let refused = home.import(&home.url("refused.db"), &damaged).await;
            assert!(refused.is_err(), "byte {position} of {}", content.len());
            assert!(!home.path("refused.db").exists(), "byte {position} has reached a database");
        }
    }
}

#[tokio::test]
async fn damaged_files_are_refused_with_the_line_and_the_reason() {
    let home = Home::new();
    let whole = export(&home.fill("first.db").await).await;
    let all = lines(&whole);
    let last = all.len() - 1;
    let joined = |lines: &[Vec<u8>]| lines.concat();
    // Truncated at each line, and within each line.
    for end in 1..all.len() {
        let refused = home.refusal(&joined(&all[..end])).await;
        assert!(refused.contains(&format!("ends at line {end} without its authentication code")), "{refused}");
        let mut part = joined(&all[..end]);
        part.pop();
        assert!(home.refusal(&part).await.contains("incomplete"));
    }
    assert!(home.refusal(&whole[..whole.len() - 1]).await.contains("incomplete"));
    assert!(home.refusal(b"").await.contains("no export of an agent"));
    assert!(home.refusal(b"{\"did\": 1}\n").await.contains("no export of an agent"));
    assert!(home.refusal(&[0; 4_096]).await.contains("incomplete"));
    let mut exchanged = all.clone();
    exchanged.swap(2, 3);
    let mut repeated = all.clone();
    repeated.insert(2, all[2].clone());
    let mut removed = all.clone();
    removed.remove(2);
    for changed in [exchanged, repeated, removed] {
        let line = changed.len();
        let refused = home.refusal(&joined(&changed)).await;
        assert!(refused.contains(&format!("code at line {line}: it was changed")), "{refused}");
    }
    for extra in [&all[2], &all[last], &b"\n".to_vec(), &b"{".to_vec()] {
        let refused = home.refusal(&[&whole, extra.as_slice()].concat()).await;
        assert!(
            refused.contains(&format!("goes on behind its authentication code in line {}", all.len())),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn files_of_other_releases_are_refused_with_both_versions() {
    let home = Home::new();
    let all = lines(&export(&home.fill("first.db").await).await);
    let own = SCHEMA_VERSION;
    let other_tables = |other: i64| format!("migration {other}, and this release has those of migration {own}");
    for (member, value, expected) in [
        ("version", json!(2), "version 2 of the format; this release imports version 1"),
        ("version", json!(0), "version 0 of the format"),
        ("schema", json!(own + 1), other_tables(own + 1).as_str()),
        ("schema", json!(own - 1), other_tables(own - 1).as_str()),
        ("format", json!("other"), "no export of an agent"),
        ("extra", json!(1), "no export of an agent"),
        ("did", json!("did:web:other.example"), "its header names another DID"),
    ] {
        let mut changed = all.clone();
        changed[0] = edit(&all[0], |header| header[member] = value.clone());
        let refused = home.refusal(&authenticated(&changed)).await;
        assert!(refused.contains(expected), "{refused}");
    }
}

fn edit(line: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut value: Value = serde_json::from_slice(line).expect("JSON");
    change(&mut value);
    format!("{value}\n").into_bytes()
}

fn row(table: &str, row: Value) -> Vec<u8> {
    format!("{}\n", json!({"table": table, "row": row})).into_bytes()
}

#[tokio::test]
async fn authenticated_rows_that_are_no_store_are_refused_and_nothing_is_written() {
    let home = Home::new();
    let all = lines(&export(&home.fill("first.db").await).await);
    let place = |table: &str| {
        let start = format!("{{\"table\":\"{table}\"");
        all.iter().position(|line| line.starts_with(start.as_bytes())).expect("a row")
    };
    let (key, counts, cursor, outbox) = (place("private_key"), all.len() - 2, place("event_cursor"), place("outbox"));
    let at = outbox + 1;
    let replaced = |line: usize, by: Vec<u8>| {
        let mut changed = all.clone();
        changed[line] = by;
        changed
    };
    let without = |line: usize, table: &str| {
        let mut changed = all.clone();
        changed[counts] = edit(&all[counts], |line| {
            line["rows"][table] = json!(line["rows"][table].as_u64().expect("a count") - 1);
        });
        changed.remove(line);
        changed
    };
    let mut keys = all.clone();
    let sealed = |line: &[u8]| serde_json::from_slice::<Value>(line).expect("JSON")["row"][2].clone();
    keys[key] = edit(&all[key], |line| line["row"][2] = sealed(&all[key + 1]));
    keys[key + 1] = edit(&all[key + 1], |line| line["row"][2] = sealed(&all[key]));
    let mut late = all.clone();
    late.swap(counts, counts - 1);
    let mut no_counts = all.clone();
    no_counts.remove(counts);
    let short = edit(&all[counts], |line| drop(line["rows"].as_object_mut().expect("an object").remove("chain")));
    for (changed, expected) in [
        (keys, "does not open with this store key".to_owned()),
        (replaced(outbox, row("owner", json!([1]))), format!("line {at}: \"owner\" is no table of an export")),
        (
            replaced(outbox, row("outbox", json!([1]))),
            format!("line {at}: a row of outbox has 1 values; allowed are 6"),
        ),
        (
            replaced(outbox, row("outbox", json!(["1", "", "", 1, 1, ""]))),
            format!("line {at}: outbox.number: allowed is a"),
        ),
        (
            replaced(outbox, row("outbox", json!([1.5, "", "", 1, 1, ""]))),
            format!("line {at}: outbox.number: allowed is a"),
        ),
        (
            replaced(outbox, row("outbox", json!([1, 2, "", 1, 1, ""]))),
            format!("line {at}: outbox.id: allowed is a text"),
        ),
        (replaced(outbox, row("outbox", json!([1, null, "", 1, 1, ""]))), format!("line {at}: outbox.id: null is not")),
        (replaced(outbox, b"{}\n".to_vec()), format!("line {at}: missing field")),
        (replaced(outbox, b"\xff\n".to_vec()), format!("line {at}: expected value")),
        (replaced(outbox, all[outbox + 1].clone()), "the rows of outbox up to line".to_owned()),
        (replaced(counts, short), "the number of rows of chain is missing".to_owned()),
        (
            replaced(counts, edit(&all[counts], |line| line["rows"]["outbox"] = json!(1))),
            "300 rows of outbox and states 1".to_owned(),
        ),
        (late, "it is behind the numbers of rows".to_owned()),
        (no_counts, "incomplete".to_owned()),
        (without(cursor, "event_cursor"), "event_cursor has not one row".to_owned()),
        (without(place("identity"), "identity"), "identity has not one row".to_owned()),
        (without(place("document_version"), "document_version"), "a version of the document is missing".to_owned()),
    ] {
        let refused = home.refusal(&authenticated(&changed)).await;
        assert!(refused.contains(&expected), "{expected:?} in {refused:?}");
    }
    home.import(&home.url("refused.db"), &all.concat()).await.expect("the store is as empty as before");
}

#[tokio::test]
async fn a_file_that_changes_after_its_verification_is_refused() {
    let home = Home::new();
    let whole = export(&home.fill("first.db").await).await;
    let mut other = lines(&whole);
    other[1] = row("identity", json!([1, DID, "https://other.example.com"]));
    let tampered = other.concat();
    for changed in [authenticated(&other), tampered] {
        let mut file = home.write("import.jsonl", &whole);
        let settings = settings(&home.url("second.db"), 1, None);
        let verified = VerifiedFile::read(&mut file, &settings.keys).expect("as it was exported");
        // The open file has the other bytes now.
        std::fs::write(home.path("import.jsonl"), &changed).expect("written");
        let store = AgentStore::open(settings).await.expect("opens");
        let refused = write_store(&store, file, &verified, None).await.expect_err("refused");
        assert!(matches!(refused, ImportError::Changed { .. }), "{refused}");
        assert_eq!(store.identity().await.expect("read"), None);
        store.close().await;
    }
}

#[test]
fn a_line_above_the_bound_is_refused_by_its_number() {
    let source = std::io::Read::chain(&b"first\n"[..], std::io::Read::take(std::io::repeat(b'a'), 1 << 40));
    let mut reader = LineReader::new(source);
    assert_eq!(reader.next_line().expect("read"), Some(&b"first\n"[..]));
    let refused = reader.next_line().expect_err("too long").to_string();
    assert_eq!(refused, format!("line 2 is longer than {MAX_LINE_BYTES} bytes"));
}

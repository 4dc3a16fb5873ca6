//! Curves: the time of each read, and of a block, over tables of ten thousand to a million rows.
// `make bench` runs it and reads its table.
#![allow(clippy::print_stdout)]

use std::time::Instant;

use svc_test_support::postgres_server::PostgresServer;

use super::plans::{ENTITIES, filled_store, take_statistics};
use crate::{
    derive::stats::StatsScope,
    store::{
        BlockWrite, EntityActivity, EntityChange, EntityFilter, EntityKind, EventCursor, EventQuery, IdRange,
        IndexStore,
    },
};

const SIZES: [u64; 3] = [10_000, 100_000, 1_000_000];
/// Calls of each read.
const CALLS: u64 = 300;
/// Rows of a page.
const PAGE: usize = 16;
const READS: [&str; 9] = [
    "an entity at a height",
    "entities by DID at a height",
    "entities of a corporation at a height",
    "a page of all entities at a height",
    "a page of an entity's activity",
    "a page of a DID's events",
    "measures of three scopes",
    "measures before an instant",
    "the newest block",
];

/// A number that looks like any other below a bound.
fn scatter(call: u64, bound: u64) -> u64 {
    call.wrapping_mul(6_364_136_223_846_793_005).rotate_left(29) % bound
}

async fn read(store: &IndexStore, read: usize, call: u64, rows: u64) {
    let kind = EntityKind::Participant;
    let id = scatter(call, ENTITIES);
    // Entities have their versions below a twentieth of the heights.
    let version_height = 2 + scatter(call + 7, rows / 20);
    // Each page has as many rows below and above these heights as it can show, at each size.
    let height = rows / 2 + scatter(call + 7, rows / 10);
    let by = |filter: EntityFilter| async move {
        store.list_page(kind, version_height, &filter, IdRange::default(), PAGE).await.expect("reads").len()
    };
    match read {
        0 => drop(store.entity(kind, id + 1, version_height).await.expect("reads")),
        1 => drop(by(EntityFilter { did: Some(id.to_string()), ..EntityFilter::default() }).await),
        2 => drop(by(EntityFilter { corporation_id: Some(id % 7 + 1), ..EntityFilter::default() }).await),
        3 => drop(by(EntityFilter::default()).await),
        4 => {
            let range = IdRange { is_descending: true, ..IdRange::default() };
            drop(store.list_activity("Participant", &id.to_string(), height, range, PAGE).await.expect("reads"));
        }
        5 => {
            let after = EventCursor { height, position: Some(0) };
            let dids = vec![id.to_string()];
            // The bodies are no events: the rows are found all the same.
            drop(store.list_events(&EventQuery { dids, corporation_id: None, after, limit: PAGE }).await);
        }
        6 => drop(store.measures_of(StatsScope::Corporation, &[id, id / 2, id / 3], height).await),
        7 => drop(store.measures_before(StatsScope::Corporation(id), i128::from(height) * 1_000_000_000, rows).await),
        _ => drop(store.checkpoint().await.expect("reads")),
    }
}

/// Microseconds: the median, and the 99th percentile.
fn percentiles(mut times: Vec<f64>) -> (f64, f64) {
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], times[times.len() * 99 / 100])
}

async fn measure(store: &IndexStore, rows: u64) -> Vec<(f64, f64)> {
    let mut measured = Vec::new();
    for kind in 0..READS.len() {
        let mut times = Vec::new();
        for call in 0..CALLS {
            let begun = Instant::now();
            read(store, kind, call, rows).await;
            times.push(begun.elapsed().as_secs_f64() * 1e6);
        }
        measured.push(percentiles(times));
    }
    let (writing, mut times) = (store.with_write_pool(), Vec::new());
    for call in 0..CALLS {
        let id = scatter(call, ENTITIES);
        let change = EntityChange {
            corporation_id: Some(id % 7 + 1),
            did: Some(id.to_string()),
            ..EntityChange::new(EntityKind::Participant, Some(id + 1), Some(serde_json::json!({"call": call})))
        };
        let activity = EntityActivity {
            entity_type: "Participant",
            entity_key: id.to_string(),
            message: "A".to_owned(),
            account: None,
            changes: None,
        };
        let height = rows + call;
        let time = i128::from(height) * 1_000_000_000;
        let block =
            BlockWrite { height, time, changes: vec![change], activity: vec![activity], ..BlockWrite::default() };
        let begun = Instant::now();
        writing.write_block(&block).await.expect("writes");
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    measured.push(percentiles(times));
    measured
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "fills tables for minutes; make bench runs it"]
async fn the_time_of_reads_and_blocks_over_growing_tables() {
    println!("| median and 99th percentile, µs | 10,000 rows | 100,000 rows | 1,000,000 rows | ratio of the medians |");
    println!("|---|---|---|---|---|");
    for database in ["SQLite", "PostgreSQL"] {
        let mut columns = Vec::new();
        for rows in SIZES {
            let directory = tempfile::tempdir().expect("a directory");
            let server = if database == "SQLite" { None } else { PostgresServer::start(None) };
            let url = match &server {
                Some(server) => server.url(),
                None if database == "SQLite" => {
                    format!("sqlite://{}?mode=rwc", directory.path().join("index.db").display())
                }
                None => return,
            };
            let store = filled_store(&url, rows).await;
            if database == "PostgreSQL" {
                take_statistics(&store).await;
            }
            columns.push(measure(&store, rows).await);
            store.close().await;
        }
        for (row, name) in READS.iter().copied().chain(["a block with one change"]).enumerate() {
            let shown: Vec<String> =
                columns.iter().map(|column| format!("{:.0}, {:.0}", column[row].0, column[row].1)).collect();
            let ratio = columns[2][row].0 / columns[0][row].0;
            println!("| {name}, {database} | {} | {ratio:.1} |", shown.join(" | "));
        }
    }
}

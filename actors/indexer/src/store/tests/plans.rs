//! The plans of all statements, on tables of many versions: none of them scans a table that grows with history.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use sqlx::{AnyConnection, AssertSqlSafe, Connection, Row};
use svc_store::migrate;
use svc_test_support::{own_process, postgres_server::PostgresServer};
use tracing::{Event, Metadata, Subscriber, field::Visit, span};

use crate::{
    derive::stats::{StatsMetric, StatsScope},
    store::{
        BlockWrite, EntityActivity, EntityChange, EntityFilter, EntityKind, EventCursor, EventQuery, Granularity,
        IdRange, IndexStore, ScheduledChange, TrustChangeQuery, TrustWrite, VerdictWrite, index_store::MIGRATIONS,
    },
};

/// Rows of each table that grows with the chain.
const ROWS: u64 = 20_000;
/// Entities; each has a hundred versions.
pub const ENTITIES: u64 = 200;
const GROWING_TABLES: [&str; 10] = [
    "entity",
    "entity_lookup",
    "schedule",
    "event",
    "event_route",
    "activity",
    "measure",
    "block",
    "bucket",
    "trust_change",
];

/// Statements in the subset of both databases. Heights grow with the number of the row.
const FILLING: [&str; 9] = [
    "INSERT INTO entity SELECT 'participant', i % $E + 1, i / $E * 10 + 2, CASE WHEN i / $E = $R / $E - 1 THEN NULL ELSE i / $E * 10 + 12 END, \
     i % $E % 7 + 1, i % $E % 11 + 1, CAST(i % $E AS TEXT), CAST(i % $E AS TEXT), '{}' FROM n",
    "INSERT INTO schedule SELECT i, 'participant', i % $E FROM n",
    "INSERT INTO event SELECT i, 0, '{}' FROM n",
    "INSERT INTO event_route SELECT 'did ' || CAST(i % $E AS TEXT), i, 0 FROM n",
    "INSERT INTO activity SELECT i, i, 'Participant', CAST(i % $E AS TEXT), 'TriggerResolver', NULL, NULL FROM n",
    "INSERT INTO measure SELECT 4, i % $E, i, i * 1000000000, '0' FROM n",
    "INSERT INTO block SELECT i, i * 1000000000 FROM n",
    "INSERT INTO bucket SELECT i, 'DAY', i, 4, i % $E, i FROM n",
    "INSERT INTO trust_change SELECT i, CAST(i % $E AS TEXT), i % 7, NULL, '{}' FROM n",
];

async fn run(connection: &mut AnyConnection, sql: String) {
    sqlx::raw_sql(AssertSqlSafe(sql.clone()))
        .execute(connection)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// A store of an earlier schema, filled with a number of rows in each table, and then brought to the newest one.
pub async fn filled_store(url: &str, rows: u64) -> IndexStore {
    sqlx::any::install_default_drivers();
    let pool = sqlx::any::AnyPoolOptions::new().max_connections(1).connect(url).await.expect("connects");
    migrate(&pool, &MIGRATIONS[..3]).await.expect("migrates");
    let mut connection = pool.acquire().await.expect("a connection");
    for sql in FILLING {
        let (insert, select) = sql.split_once(" SELECT ").expect("a selection");
        let numbers = format!(
            "WITH RECURSIVE n(i) AS (SELECT CAST(0 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < {rows} - 1)"
        );
        // SQLite takes the numbers before the insertion, PostgreSQL too.
        let sql = format!("{numbers} {insert} SELECT {select}");
        run(&mut connection, sql.replace("$E", &ENTITIES.to_string()).replace("$R", &rows.to_string())).await;
    }
    drop(connection);
    pool.close().await;
    IndexStore::open(url, "c").await.expect("opens")
}

/// Takes the statistics from which a database chooses its plans. PostgreSQL does so by itself, SQLite never.
pub async fn take_statistics(store: &IndexStore) {
    run(&mut store.connection().await.expect("a connection"), "ANALYZE".to_owned()).await;
}

/// Runs every statement of the store, on the newest state and on a past one.
async fn run_all_statements(store: &IndexStore) {
    let kind = EntityKind::Participant;
    let text = || Some("7".to_owned());
    let filters = [
        EntityFilter::default(),
        EntityFilter { corporation_id: Some(3), ..EntityFilter::default() },
        EntityFilter { parent_id: Some(3), corporation_id: Some(3), ..EntityFilter::default() },
        EntityFilter { name: text(), ..EntityFilter::default() },
        EntityFilter { did: text(), ..EntityFilter::default() },
    ];
    for height in [ROWS - 1, 500] {
        assert!(store.entity(kind, 7, height).await.expect("reads").is_some());
        for filter in &filters {
            for is_descending in [false, true] {
                let range = IdRange { is_descending, ..IdRange::default() };
                assert!(
                    !store.list_page(kind, height, filter, range, 10).await.expect("reads").is_empty(),
                    "{filter:?}"
                );
            }
        }
        store.list_due(5, 9).await.expect("reads");
        store.next_change_after(height - 1).await.expect("reads");
        store
            .list_activity("Participant", "7", height, IdRange { is_descending: true, ..IdRange::default() }, 5)
            .await
            .expect("reads");
        store.list_activity("Participant", "7", height, IdRange::default(), 5).await.expect("reads");
        store.list_block_activity(height).await.expect("reads");
        store.block_time(height).await.expect("reads");
        store.block_before(i128::from(height) * 1_000_000_000, height).await.expect("reads");
        store.list_block_times(height - 3, height).await.expect("reads");
        store.measures(StatsScope::Corporation(7), height).await.expect("reads");
        store.measures_of(StatsScope::Corporation, &[7, 8, 9], height).await.expect("reads");
        store.bucket(7, height).await.expect("reads");
        let _ = store.buckets(StatsScope::Corporation(7), Granularity::Day, (0, 9), height).await;
        store.list_changed_heights(height - 3, height).await.expect("reads");
        let _ = store.list_touched_entities(height).await;
        store.list_refresh_requests(height).await.expect("reads");
        let _ = store.list_changed_scopes(height).await;
        store.find_owner("7", height).await.expect("reads");
        store.verdict("7", height).await.expect("reads");
        let after = EventCursor { height, position: Some(0) };
        for (dids, corporation_id) in [
            (vec![], None),
            (vec![], Some(7)),
            (vec!["7".to_owned()], None),
            (vec!["7".to_owned(), "8".to_owned()], Some(7)),
        ] {
            let _ = store.list_events(&EventQuery { dids: dids.clone(), corporation_id, after, limit: 5 }).await;
            let changes = TrustChangeQuery { dids, corporation_id, from: height, until: height + 5, limit: 5 };
            let _ = store.list_trust_changes(&changes).await;
        }
        let _ = store.block_messages(height - 3, height).await;
    }
    store.oldest_and_newest_block().await.expect("reads");
    store.trust_checkpoint().await.expect("reads");
    store.list_dependents(&["a".to_owned()]).await.expect("reads");
    store.find_evidence("a").await.expect("reads");
    let mut deltas = crate::derive::stats::StatsDeltas::default();
    deltas.add(StatsScope::Ecosystem(3), StatsMetric::Participants, 1);
    let change = |id: Option<u64>| EntityChange {
        corporation_id: Some(3),
        parent_id: Some(3),
        name: text(),
        did: text(),
        ..EntityChange::new(if id.is_some() { kind } else { EntityKind::FeeGrant }, id, Some(serde_json::json!({})))
    };
    let activity = EntityActivity {
        entity_type: "Participant",
        entity_key: "7".to_owned(),
        message: "A".to_owned(),
        account: None,
        changes: None,
    };
    let block = BlockWrite {
        height: ROWS,
        time: i128::from(ROWS) * 1_000_000_000,
        hash: None,
        changes: vec![change(Some(7)), change(None)],
        events: Vec::new(),
        activity: vec![activity],
        deltas,
        schedule: vec![ScheduledChange { due: 1, kind, id: 7 }],
    };
    let writing = store.with_write_pool();
    writing.write_block(&block).await.expect("writes");
    let verdict = VerdictWrite {
        did: "7".to_owned(),
        corporation_id: 3,
        body: Some(serde_json::json!({})),
        evidence_keys: vec!["a".to_owned()],
        fetched_keys: vec!["b".to_owned()],
    };
    let round = TrustWrite { height: ROWS, verdicts: vec![verdict], ..TrustWrite::default() };
    writing.write_trust(&round).await.expect("writes");
}

/// Collects the statements that the database library reports.
#[derive(Default)]
struct StatementRecorder(Arc<Mutex<BTreeSet<String>>>);

struct StatementVisit(String);

impl Visit for StatementVisit {
    fn record_str(&mut self, field: &tracing::field::Field, value: &str) {
        // The summary has at most four words.
        if field.name() == "db.statement" && !value.is_empty() {
            value.trim().clone_into(&mut self.0);
        }
    }

    fn record_debug(&mut self, _: &tracing::field::Field, _: &dyn std::fmt::Debug) {}
}

impl Subscriber for StatementRecorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "sqlx::query"
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut visit = StatementVisit(String::new());
        event.record(&mut visit);
        let is_statement = ["SELECT", "WITH wanted", "UPDATE", "DELETE"].iter().any(|word| visit.0.starts_with(word))
            && GROWING_TABLES.iter().any(|table| visit.0.contains(table))
            && !visit.0.contains("_sqlx_migrations");
        if is_statement {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(visit.0);
        }
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// Words that name a table that grows: `SCAN e` in the plan of a statement with `entity e`.
fn grows(statement: &str, name: &str) -> bool {
    let is_alias = |table: &&&str| {
        [format!("{table} {name} "), format!("{table} {name})"), format!("{table} AS {name} ")]
            .iter()
            .any(|text| statement.contains(text))
    };
    GROWING_TABLES.contains(&name) || GROWING_TABLES.iter().any(|table| is_alias(&table))
}

async fn lite_scans(connection: &mut AnyConnection, statement: &str) -> Vec<String> {
    let rows = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"))).fetch_all(connection).await;
    let rows = rows.unwrap_or_else(|error| panic!("{statement}: {error}"));
    let details = rows.iter().map(|row| row.try_get::<String, _>("detail").expect("a plan"));
    let table = |detail: &String| {
        detail.strip_prefix("SCAN ").map(|rest| rest.split(' ').next().unwrap_or_default().to_owned())
    };
    details.filter(|detail| table(detail).is_some_and(|table| grows(statement, &table))).collect()
}

async fn postgres_scans(connection: &mut AnyConnection, statement: &str) -> Vec<String> {
    let count = (1..30).rev().find(|number| statement.contains(&format!("${number}"))).unwrap_or(0);
    let nulls = vec!["NULL"; count].join(", ");
    let arguments = if count == 0 { String::new() } else { format!("({nulls})") };
    run(connection, format!("PREPARE plan AS {statement}")).await;
    let rows =
        sqlx::raw_sql(AssertSqlSafe(format!("EXPLAIN EXECUTE plan{arguments}"))).fetch_all(&mut *connection).await;
    let rows = rows.unwrap_or_else(|error| panic!("{statement}: {error}"));
    run(connection, "DEALLOCATE plan".to_owned()).await;
    let lines: Vec<String> = rows.iter().map(|row| row.try_get::<String, _>(0).expect("a plan")).collect();
    let is_scan = |(index, line): &(usize, &String)| {
        let Some((_, table)) = line.split_once(" on ") else { return false };
        let table = table.split(' ').next().unwrap_or_default();
        let is_growing = GROWING_TABLES.contains(&table);
        // An index that is read without a condition is read as far as the limit above it goes.
        let has_condition = lines.get(index + 1).is_some_and(|next| next.contains("Index Cond"));
        let is_limited = *index > 0 && lines[index - 1].contains("Limit ");
        is_growing
            && (line.contains("Seq Scan")
                || (line.contains("Index") && !has_condition && !is_limited && !line.contains("Bitmap Index")))
    };
    let found = lines.iter().enumerate().filter(is_scan).map(|(_, line)| line.trim().to_owned());
    found.collect()
}

#[test]
fn no_statement_scans_a_table_that_grows() {
    // The recorder sees every statement of the process, and other tests have statements that the product has not.
    own_process::run("store::tests::plans::no_statement_scans_a_table_that_grows", || {
        tokio::runtime::Runtime::new().expect("a runtime").block_on(find_scans());
    });
}

async fn find_scans() {
    let recorder = StatementRecorder::default();
    let statements = Arc::clone(&recorder.0);
    tracing::subscriber::set_global_default(recorder).expect("the only one of this program");
    let directory = tempfile::tempdir().expect("a directory");
    let lite = filled_store(&format!("sqlite://{}?mode=rwc", directory.path().join("index.db").display()), ROWS).await;
    run_all_statements(&lite).await;
    let all: Vec<String> = statements.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect();
    assert!(all.len() > 45, "{} statements were seen", all.len());

    let postgres = PostgresServer::start(None);
    let mut other = match &postgres {
        Some(server) => {
            let store = filled_store(&server.url(), ROWS).await;
            take_statistics(&store).await;
            run_all_statements(&store).await;
            let mut connection = AnyConnection::connect(&server.url()).await.expect("connects");
            run(&mut connection, "SET plan_cache_mode = force_generic_plan".to_owned()).await;
            Some(connection)
        }
        None => None,
    };
    let mut found = Vec::new();
    for has_statistics in [false, true] {
        if has_statistics {
            take_statistics(&lite).await;
        }
        for statement in &all {
            let scans = lite_scans(&mut lite.connection().await.expect("a connection"), statement).await;
            found.extend(scans.into_iter().map(|scan| format!("SQLite: {scan}: {statement}")));
        }
    }
    for statement in &all {
        if let Some(connection) = &mut other {
            let scans = postgres_scans(connection, statement).await;
            found.extend(scans.into_iter().map(|scan| format!("PostgreSQL: {scan}: {statement}")));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

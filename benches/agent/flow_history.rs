//! An agent with flows at rest: its start, its memory, a page and a single flow, beside an agent with few. A thousand applicants wait for a
//! person in each.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use sqlx::{Connection, Row, sqlite::SqliteConnection};
use svc_agent::FlowFilter;
use svc_didcomm::flow::FlowState;
use tempfile::TempDir;

use super::launch;
use crate::{BenchRow, median, resident_bytes};

/// Applicants that wait for a person.
const PENDING: usize = 1_000;
/// Flows at rest.
const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
const PAGE: usize = 100;
const ROUNDS: usize = 9;
const READS: usize = 50;
const ENDING: Duration = Duration::from_secs(5);

/// A completed flow of a validator, as its columns.
pub(super) struct SampleFlow {
    id: String,
    session: String,
    record: String,
    schema_id: i64,
    updated_at: i64,
}

impl SampleFlow {
    /// Reads one from the store of an agent that has ended.
    pub async fn read(store: &Path) -> Self {
        let mut connection = connect(store).await;
        let sql = "SELECT id, session_id, record, schema_id, updated_at FROM flow WHERE state = 'COMPLETED' \
                   ORDER BY side DESC LIMIT 1";
        let row = sqlx::query(sql).fetch_one(&mut connection).await.expect("a flow");
        let (record, updated_at) = (row.get(2), row.get(4));
        Self { id: row.get(0), session: row.get(1), record, schema_id: row.get(3), updated_at }
    }

    /// The record of another flow like it.
    fn record_of(&self, number: usize, state: &str) -> (String, String, String) {
        let (id, session) = (format!("01900000-0000-7000-8000-{number:012}"), format!("session-{number}"));
        let record = self.record.replace(&self.id, &id).replace(&self.session, &session);
        (id, session, record.replace("\"COMPLETED\"", &format!("\"{state}\"")))
    }
}

async fn connect(store: &Path) -> SqliteConnection {
    SqliteConnection::connect(&format!("sqlite://{}", store.display())).await.expect("opens")
}

/// Fills the store of an agent.
async fn fill(store: &Path, sample: &SampleFlow, at_rest: usize) {
    let mut connection = connect(store).await;
    sqlx::query("BEGIN").execute(&mut connection).await.expect("begun");
    for number in 0..at_rest + PENDING {
        // Those that wait are among the others.
        let is_live = number < PENDING;
        let state = if is_live { "VALIDATING" } else { "COMPLETED" };
        let (id, session, record) = sample.record_of(number, state);
        let sql = "INSERT INTO flow (id, side, peer_did, connection_id, connection_state, thread_id, exchange_thread, schema_id, \
                   applicant_participant_id, validator_participant_id, session_id, state, is_live, due_at, record, updated_at) \
                   VALUES ($1, 'validator', $2, $3, 'ESTABLISHED', $4, NULL, $5, $6, 1, $7, $8, $9, NULL, $10, $11)";
        let number = i64::try_from(number).expect("few");
        sqlx::query(sql)
            .bind(&id)
            .bind(format!("did:web:peer-{number}.example"))
            .bind(format!("connection-{number}"))
            .bind(format!("thread-{number}"))
            .bind(sample.schema_id)
            .bind(number)
            .bind(&session)
            .bind(state)
            .bind(i64::from(is_live))
            .bind(record)
            .bind(sample.updated_at)
            .execute(&mut connection)
            .await
            .expect("inserted");
        let sql = "INSERT INTO flow_session (session_id, flow_id) VALUES ($1, $2)";
        sqlx::query(sql).bind(session).bind(id).execute(&mut connection).await.expect("inserted");
    }
    sqlx::query("COMMIT").execute(&mut connection).await.expect("committed");
}

/// Figures of an agent.
struct Figures {
    boot: f64,
    memory: f64,
    page: f64,
    single: f64,
}

async fn measure(sample: &SampleFlow, at_rest: usize) -> Figures {
    let home: TempDir = tempfile::tempdir().expect("a directory");
    launch(home.path(), None).await.shutdown(ENDING).await;
    fill(&home.path().join("agent.db"), sample, at_rest).await;
    let (mut boots, mut grown) = (Vec::new(), Vec::new());
    let (mut pages, mut singles) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let before = resident_bytes("self");
        let begun = Instant::now();
        let agent = launch(home.path(), None).await;
        boots.push(begun.elapsed().as_secs_f64() * 1e3);
        let flows = agent.flows();
        let completed = FlowFilter { state: Some(FlowState::Completed), ..FlowFilter::default() };
        for number in 0..READS {
            let at = PENDING + (at_rest - PAGE) * number / READS;
            let (behind, session, _) = sample.record_of(at, "COMPLETED");
            let begun = Instant::now();
            let page = flows.list(&completed, Some(&behind), PAGE).await.expect("a page");
            pages.push(begun.elapsed().as_secs_f64() * 1e3);
            assert_eq!(page.len(), PAGE.min(at_rest + PENDING - at - 1));
            let begun = Instant::now();
            flows.get(&session).await.expect("a flow");
            singles.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        assert_eq!(flows.session_count(), 0, "those that wait for people have no actor");
        grown.push(resident_bytes("self").saturating_sub(before) as f64 / 1e6);
        agent.shutdown(ENDING).await;
    }
    Figures { boot: median(boots), memory: median(grown), page: median(pages), single: median(singles) }
}

/// The lines of the table.
pub(super) async fn rows(sample: &SampleFlow) -> Vec<BenchRow> {
    let few = measure(sample, SIZES[0]).await;
    let mut rows = Vec::new();
    for at_rest in &SIZES[1..] {
        let many = measure(sample, *at_rest).await;
        let mut row = |measure: &str, unit: &str, many: f64, few: f64| {
            let measure = format!("{measure}, {at_rest} flows at rest and {PENDING} that wait");
            let floor = format!("{few:.2} {unit}, {} at rest", SIZES[0]);
            rows.push(BenchRow::new(measure, format!("{many:.2} {unit}"), floor, many / few.max(0.01)));
        };
        row("boot of an agent", "ms", many.boot, few.boot);
        row("memory of a boot and its reads", "MB", many.memory, few.memory);
        row(&format!("a page of {PAGE} flows in a state"), "ms", many.page, few.page);
        row("a flow by its session", "ms", many.single, few.single);
    }
    rows
}

//! Records of flows: reads by everything that a message, an event of the registry or a caller may name.

use sqlx::{AssertSqlSafe, Row, any::AnyRow};
use svc_agent_core::flows::{ContentKind, FlowBefore, FlowQuery, FlowRows, HeardMessage};
use svc_didcomm::flow::{ConnectionState, FlowRecord, FlowState, Side};
use svc_store::StatementBatch;

use super::contents;
use crate::{
    agent_store::AgentStore,
    columns::{from_column, to_column},
    decision::StoredDecision,
    error::AgentStoreError,
    peer_rows::Conditions,
    sealing::ContentKey,
};

/// Flows of one participant that are read at once, the newest first.
const MAX_OF_PARTICIPANT: i64 = 100;

/// A selection of flows.
#[derive(Debug, Clone, Default)]
pub struct FlowFilter {
    /// Side of this agent.
    pub side: Option<Side>,
    /// State of the connection.
    pub connection_state: Option<ConnectionState>,
    /// State.
    pub state: Option<FlowState>,
    /// DID by which the peer is known.
    pub peer_did: Option<String>,
    /// The applicant's participant.
    pub applicant_participant_id: Option<u64>,
    /// The validator's participant.
    pub validator_participant_id: Option<u64>,
    /// Schema.
    pub schema_id: Option<u64>,
    /// A session, also one of before.
    pub session_id: Option<String>,
    /// Whether it has not ended.
    pub is_live: Option<bool>,
}

/// The columns that a record is read from.
pub(crate) const COLUMNS: &str = "record, connection_id, connection_state";

/// A flow as it was read, with the time of its next step.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowAtTime {
    /// The record.
    pub record: FlowRecord,
    /// The time, in milliseconds since the epoch; none while nothing is to be done.
    pub due_at: Option<i64>,
}

/// Reads a record from its row.
pub(crate) fn read(row: &AnyRow) -> Result<FlowRecord, AgentStoreError> {
    let corrupt = || AgentStoreError::CorruptRow("a flow".to_owned());
    let (record, state): (String, String) = (row.try_get("record")?, row.try_get("connection_state")?);
    let record: FlowRecord = serde_json::from_str(&record).map_err(|_| corrupt())?;
    let connection_state = ConnectionState::parse(&state).ok_or_else(corrupt)?;
    Ok(FlowRecord { connection_id: row.try_get("connection_id")?, connection_state, ..record })
}

/// Stores a record; its first statement returns no row where the flow is not as it was before. `due_at` is the time of its next step, in
/// milliseconds since the epoch.
pub(crate) fn put(
    batch: &mut StatementBatch,
    record: &FlowRecord,
    before: &FlowBefore,
    due_at: Option<i64>,
) -> Result<(), AgentStoreError> {
    let body = serde_json::to_string(record).map_err(|_| AgentStoreError::CorruptRow("a flow".to_owned()))?;
    let (sql, before) = match before {
        FlowBefore::New { live } => (
            "INSERT INTO flow (id, side, peer_did, connection_id, connection_state, thread_id, exchange_thread, schema_id, \
             applicant_participant_id, validator_participant_id, session_id, state, is_live, due_at, record, updated_at) \
             SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16 \
             WHERE (SELECT COUNT(*) FROM flow WHERE peer_did = $3 AND is_live = 1) = $17 RETURNING id",
            to_column(*live),
        ),
        FlowBefore::Loaded { updated_at, .. } => (
            "UPDATE flow SET connection_id = $4, connection_state = $5, thread_id = $6, exchange_thread = $7, \
             validator_participant_id = $10, session_id = $11, state = $12, is_live = $13, due_at = $14, record = $15, \
             updated_at = $16 WHERE id = $1 AND side = $2 AND peer_did = $3 AND schema_id = $8 \
             AND COALESCE(applicant_participant_id, -1) = COALESCE($9, -1) AND updated_at = $17 RETURNING id",
            *updated_at,
        ),
    };
    batch.add(
        sql,
        [
            record.id.as_str().into(),
            record.side.as_str().into(),
            record.peer_did.as_str().into(),
            record.connection_id.clone().into(),
            record.connection_state.as_str().into(),
            record.thread_id.clone().into(),
            record.exchange.as_ref().map(|exchange| exchange.thread.clone()).into(),
            to_column(record.schema_id).into(),
            record.applicant_participant_id.map(to_column).into(),
            record.validator_participant_id.map(to_column).into(),
            record.session_id.as_str().into(),
            record.state.as_str().into(),
            i64::from(!record.state.is_terminal()).into(),
            due_at.into(),
            body.into(),
            record.updated_at.into(),
            before.into(),
        ],
    );
    let sql = "INSERT INTO flow_session (session_id, flow_id) VALUES ($1, $2) ON CONFLICT (session_id) DO NOTHING";
    batch.add(sql, [record.session_id.as_str().into(), record.id.as_str().into()]);
    Ok(())
}

/// Asks for the flow of an id, whose row [`read`] takes.
pub(super) fn ask_of_id(batch: &mut StatementBatch, id: &str) {
    batch.add(format!("SELECT {COLUMNS} FROM flow WHERE id = $1"), [id.into()]);
}

/// Asks for the flow of a session, its present one or one of before.
pub(super) fn ask_of_session(batch: &mut StatementBatch, session_id: &str) {
    let sql = format!("SELECT {COLUMNS} FROM flow WHERE id = (SELECT flow_id FROM flow_session WHERE session_id = $1)");
    batch.add(sql, [session_id.into()]);
}

/// Asks for the newest flow of a peer with this thread: the one of its opening message, or the one of its exchange.
fn ask_of_thread(batch: &mut StatementBatch, peer_did: &str, thread: &str) {
    let sql = format!(
        "SELECT {COLUMNS} FROM flow WHERE id IN (SELECT id FROM flow WHERE thread_id = $1 UNION ALL \
         SELECT id FROM flow WHERE exchange_thread = $1) AND peer_did = $2 ORDER BY id DESC LIMIT 1"
    );
    batch.add(sql, [thread.into(), peer_did.into()]);
}

/// Asks for the flows of an applicant's participant on one side, the newest first.
pub(super) fn ask_of_applicant(batch: &mut StatementBatch, side: Side, participant_id: u64) {
    let sql = format!(
        "SELECT {COLUMNS} FROM flow WHERE applicant_participant_id = $1 AND side = $2 ORDER BY id DESC LIMIT $3"
    );
    batch.add(sql, [to_column(participant_id).into(), side.as_str().into(), MAX_OF_PARTICIPANT.into()]);
}

/// Asks for the number of flows of a peer that have not ended, whose row [`read_live`] takes.
pub(super) fn ask_live(batch: &mut StatementBatch, peer_did: &str) {
    batch.add("SELECT COUNT(*) AS live FROM flow WHERE peer_did = $1 AND is_live = 1", [peer_did.into()]);
}

/// Reads the number of flows.
pub(super) fn read_live(rows: &[AnyRow]) -> Result<u64, AgentStoreError> {
    let row = rows.first().ok_or_else(|| AgentStoreError::CorruptRow("the flows of a peer".to_owned()))?;
    Ok(from_column(row.try_get("live")?))
}

/// Reads all flows of these rows.
pub(super) fn read_all(rows: &[Vec<AnyRow>]) -> Result<Vec<FlowRecord>, AgentStoreError> {
    rows.iter().flatten().map(read).collect()
}

impl StoredDecision for HeardMessage {
    type Key = ContentKey;

    fn ask(query: &FlowQuery, batch: &mut StatementBatch) {
        match query {
            FlowQuery::OfSession(session_id) => ask_of_session(batch, session_id),
            FlowQuery::OfThreads { peer_did, threads } => {
                threads.iter().for_each(|thread| ask_of_thread(batch, peer_did, thread));
            }
            FlowQuery::OfParticipant { participant_id, peer_did } => {
                ask_live(batch, peer_did);
                if let Some(id) = participant_id {
                    ask_of_applicant(batch, Side::Validator, *id);
                }
            }
            FlowQuery::Offer { flow_id, round } => contents::ask(batch, flow_id, ContentKind::Offered, *round),
        }
    }

    fn read(query: &FlowQuery, rows: &[Vec<AnyRow>], key: &ContentKey) -> Result<FlowRows, AgentStoreError> {
        Ok(match (query, rows) {
            (FlowQuery::OfParticipant { .. }, [live, flows @ ..]) => {
                FlowRows { flows: read_all(flows)?, live: read_live(live)?, offer: None }
            }
            (FlowQuery::Offer { flow_id, round }, _) => {
                let place = (flow_id.as_str(), ContentKind::Offered, *round);
                let offer = rows.iter().flatten().next().map(|row| contents::read(row, key, place)).transpose()?;
                FlowRows { offer, ..FlowRows::default() }
            }
            _ => FlowRows { flows: read_all(rows)?, ..FlowRows::default() },
        })
    }
}

impl AgentStore {
    async fn read_flows(&self, ask: impl FnOnce(&mut StatementBatch)) -> Result<Vec<FlowRecord>, AgentStoreError> {
        let mut batch = StatementBatch::default();
        ask(&mut batch);
        read_all(&batch.run(&mut *self.reader().acquire().await?).await?)
    }

    /// Returns the flow of a session, its present one or one of before.
    pub async fn flow_of_session(&self, session_id: &str) -> Result<Option<FlowRecord>, AgentStoreError> {
        Ok(self.read_flows(|batch| ask_of_session(batch, session_id)).await?.into_iter().next())
    }

    /// Returns the flows of an applicant's participant on one side, the newest first.
    pub async fn flows_of_applicant(
        &self,
        side: Side,
        participant_id: u64,
    ) -> Result<Vec<FlowRecord>, AgentStoreError> {
        self.read_flows(|batch| ask_of_applicant(batch, side, participant_id)).await
    }

    /// Returns flows in the order of their ids, which is that of their beginnings, behind one of them.
    pub async fn flows(
        &self,
        filter: &FlowFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<FlowRecord>, AgentStoreError> {
        let mut conditions = Conditions::default();
        conditions.add("id > ?", after);
        conditions.add("side = ?", filter.side.map(Side::as_str));
        conditions.add("connection_state = ?", filter.connection_state.map(ConnectionState::as_str));
        conditions.add("state = ?", filter.state.map(FlowState::as_str));
        conditions.add("peer_did = ?", filter.peer_did.as_deref());
        conditions.add("id = (SELECT flow_id FROM flow_session WHERE session_id = ?)", filter.session_id.as_deref());
        for (column, number) in [
            ("applicant_participant_id", filter.applicant_participant_id),
            ("validator_participant_id", filter.validator_participant_id),
            ("schema_id", filter.schema_id),
        ] {
            if let Some(number) = number {
                conditions.add_fixed(&format!("{column} = {}", to_column(number)));
            }
        }
        if let Some(is_live) = filter.is_live {
            conditions.add_fixed(if is_live { "is_live = 1" } else { "is_live = 0" });
        }
        let sql = format!("SELECT {COLUMNS} FROM flow WHERE {} ORDER BY id LIMIT {limit}", conditions.to_sql());
        let rows = conditions.bind(sqlx::query(AssertSqlSafe(sql))).fetch_all(self.reader()).await?;
        rows.iter().map(read).collect()
    }

    /// Returns a flow.
    pub async fn flow(&self, id: &str) -> Result<Option<FlowRecord>, AgentStoreError> {
        Ok(self.read_flows(|batch| ask_of_id(batch, id)).await?.into_iter().next())
    }

    /// Returns the newest flow of a peer that has a thread.
    pub async fn flow_of_thread(&self, peer_did: &str, thread: &str) -> Result<Option<FlowRecord>, AgentStoreError> {
        Ok(self.read_flows(|batch| ask_of_thread(batch, peer_did, thread)).await?.into_iter().next())
    }

    /// Returns the ids of flows whose next step is due, the longest due first.
    pub async fn due_flows(&self, now: i64, limit: usize) -> Result<Vec<String>, AgentStoreError> {
        let query = sqlx::query_scalar("SELECT id FROM flow WHERE due_at <= $1 ORDER BY due_at, id LIMIT $2");
        Ok(query.bind(now).bind(to_column(limit as u64)).fetch_all(self.reader()).await?)
    }

    /// Returns a flow with the time of its next step.
    pub async fn flow_with_time(&self, id: &str) -> Result<Option<FlowAtTime>, AgentStoreError> {
        let sql = format!("SELECT {COLUMNS}, due_at FROM flow WHERE id = $1");
        let query = sqlx::query(AssertSqlSafe(sql)).bind(id.to_owned());
        let Some(row) = query.fetch_optional(self.reader()).await? else { return Ok(None) };
        Ok(Some(FlowAtTime { record: read(&row)?, due_at: row.try_get("due_at")? }))
    }

    /// Moves the next step of a flow to another time, or leaves it without one. False where the flow was changed or woken since it was
    /// read: then its time stays.
    pub async fn postpone_flow(&self, seen: &FlowAtTime, due_at: Option<i64>) -> Result<bool, AgentStoreError> {
        let mut transaction = self.begin().await?;
        // No time is before the epoch.
        let sql = "UPDATE flow SET due_at = $2 WHERE id = $1 AND updated_at = $3 AND COALESCE(due_at, -1) = $4";
        let query = sqlx::query(sql).bind(seen.record.id.clone()).bind(due_at).bind(seen.record.updated_at);
        let moved = query.bind(seen.due_at.unwrap_or(-1)).execute(&mut *transaction).await?.rows_affected();
        transaction.commit().await?;
        Ok(moved == 1)
    }

    /// Has a flow looked at by a time, unless it is looked at before.
    pub async fn look_at_flow_by(&self, id: &str, due_at: i64) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        let sql = "UPDATE flow SET due_at = $2 WHERE id = $1 AND (due_at IS NULL OR due_at > $2)";
        sqlx::query(sql).bind(id.to_owned()).bind(due_at).execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }

    /// Makes the flows due that are to be looked at later.
    pub async fn wake_waiting_flows(&self, now: i64) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        sqlx::query("UPDATE flow SET due_at = $1 WHERE due_at > $1").bind(now).execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }

    /// Returns the number of flows in each state.
    pub async fn count_flows(&self) -> Result<Vec<(String, u64)>, AgentStoreError> {
        let rows =
            sqlx::query("SELECT state, COUNT(*) AS flows FROM flow GROUP BY state").fetch_all(self.reader()).await?;
        rows.iter().map(|row| Ok((row.try_get("state")?, from_column(row.try_get("flows")?)))).collect()
    }

    /// Returns the time of the first step of any flow.
    pub async fn next_flow_due(&self) -> Result<Option<i64>, AgentStoreError> {
        Ok(sqlx::query_scalar("SELECT MIN(due_at) FROM flow").fetch_one(self.reader()).await?)
    }
}

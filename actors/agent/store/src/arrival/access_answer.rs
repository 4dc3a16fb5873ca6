//! The rows for the answer to a request for access.

use sqlx::any::AnyRow;
use svc_agent_core::peers::{AccessDecision, GrantQuery, GrantRows};
use svc_store::StatementBatch;

use crate::{
    access_rows::{ask_grants, read_grants},
    decision::StoredDecision,
    error::AgentStoreError,
};

impl StoredDecision for AccessDecision {
    fn ask(query: &GrantQuery, batch: &mut StatementBatch) {
        ask_grants(query, batch);
    }

    fn read(rows: &[Vec<AnyRow>]) -> Result<GrantRows, AgentStoreError> {
        read_grants(rows)
    }
}

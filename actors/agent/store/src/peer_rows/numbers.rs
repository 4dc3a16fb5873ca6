//! The numbers that are kept beside the rows, so that a list and a limit need no count.

use crate::{agent_store::AgentStore, error::AgentStoreError};

impl AgentStore {
    /// Whether every number is that of its rows. It counts all of them: for tests and models.
    pub async fn has_true_numbers(&self) -> Result<bool, AgentStoreError> {
        let of_connections = "SELECT COUNT(*) FROM peer_connection AS one WHERE \
            waiting <> (SELECT COUNT(*) FROM peer_message WHERE connection_id = one.id AND unknown_since IS NULL) OR \
            unanswered <> (SELECT COUNT(*) FROM peer_message WHERE connection_id = one.id AND unknown_since IS NOT NULL) OR \
            basic_messages <> (SELECT COUNT(*) FROM basic_message WHERE connection_id = one.id)";
        let of_all = "SELECT COUNT(*) FROM peer_total WHERE waiting <> (SELECT COUNT(*) FROM peer_message) OR \
            seen <> (SELECT COUNT(*) FROM seen_message) OR seen <> (SELECT COALESCE(SUM(count), 0) FROM seen_sender)";
        for sql in [of_connections, of_all] {
            let wrong: i64 = sqlx::query_scalar(sql).fetch_one(self.reader()).await?;
            if wrong != 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

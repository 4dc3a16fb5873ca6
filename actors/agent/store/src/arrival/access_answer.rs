//! The rows that decide about a request for access, in the transaction of its message.

use sqlx::{Row, any::AnyRow};
use svc_agent_core::peers::{AccessDecision, GrantQuery, GrantRows};
use svc_store::StatementBatch;

use crate::{
    access_rows::{COLUMNS, read_grant},
    columns::{from_column, to_column},
    decision::StoredDecision,
    error::AgentStoreError,
};

impl StoredDecision for AccessDecision {
    type Key = ();

    fn ask(query: &GrantQuery, batch: &mut StatementBatch) {
        let GrantQuery { peer, request_id, endpoint, now, max_counted } = query;
        let sql = format!("SELECT {COLUMNS} FROM access_grant WHERE peer = $1 AND request_id = $2");
        batch.add(sql, [peer.as_str().into(), request_id.as_str().into()]);
        let sql = "SELECT COUNT(*) AS of_peer, MIN(expires_at) AS first_end FROM access_grant \
               WHERE peer = $1 AND endpoint = $2 AND expires_at > $3 AND revoked_at IS NULL";
        batch.add(sql, [peer.as_str().into(), endpoint.as_str().into(), (*now).into()]);
        // The bound itself bounds the rows that are counted.
        let sql = "SELECT COUNT(*) AS valid FROM \
               (SELECT 1 AS one FROM access_grant WHERE expires_at > $1 AND revoked_at IS NULL LIMIT $2) AS counted";
        batch.add(sql, [(*now).into(), to_column(*max_counted).into()]);
        batch.add("SELECT valid_from FROM access_validity WHERE one = 1", []);
    }

    fn read(_query: &GrantQuery, rows: &[Vec<AnyRow>], _key: &()) -> Result<GrantRows, AgentStoreError> {
        let corrupt = || AgentStoreError::CorruptRow("the answers about grants".to_owned());
        let [known, of_peer, all, validity] = rows else { return Err(corrupt()) };
        let (Some(of_peer), Some(all), Some(validity)) = (of_peer.first(), all.first(), validity.first()) else {
            return Err(corrupt());
        };
        Ok(GrantRows {
            known: known.first().map(read_grant).transpose()?,
            of_peer: from_column(of_peer.try_get("of_peer")?),
            first_end: of_peer.try_get("first_end")?,
            all: from_column(all.try_get("valid")?),
            valid_from: validity.try_get("valid_from")?,
        })
    }
}

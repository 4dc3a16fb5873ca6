//! Credentials of flows, encrypted.

use sqlx::{Row, any::AnyRow};
use svc_agent_core::flows::{ContentKind, FlowContent};
use svc_store::StatementBatch;
use zeroize::Zeroizing;

use crate::{
    agent_store::AgentStore,
    columns::to_column,
    error::AgentStoreError,
    sealing::{ContentKey, PrivateKey, SealingError},
};

/// Name of the key of the contents among the private keys.
const KEY_NAME: &str = "flow-content";

/// The place of a content, which is authenticated with it: a row is of no use at another place.
fn place(flow_id: &str, kind: ContentKind, round: u32, format: &str) -> String {
    format!("{flow_id}\n{}\n{round}\n{format}", kind.as_str())
}

/// Stores a content in the place of an earlier one.
pub(super) fn put(
    batch: &mut StatementBatch,
    key: &ContentKey,
    flow_id: &str,
    content: &FlowContent,
) -> Result<(), AgentStoreError> {
    let FlowContent { kind, round, format, body } = content;
    let sealed = key.seal(&place(flow_id, *kind, *round, format), body.as_bytes())?;
    let sql = "INSERT INTO flow_content (flow_id, kind, round, format, sealed) VALUES ($1, $2, $3, $4, $5) \
               ON CONFLICT (flow_id, kind, round) DO UPDATE SET format = $4, sealed = $5";
    let round = i64::from(*round);
    batch.add(sql, [flow_id.into(), kind.as_str().into(), round.into(), format.as_str().into(), sealed.into()]);
    Ok(())
}

/// Asks for a content.
pub(super) fn ask(batch: &mut StatementBatch, flow_id: &str, kind: ContentKind, round: u32) {
    let sql = "SELECT format, sealed FROM flow_content WHERE flow_id = $1 AND kind = $2 AND round = $3";
    batch.add(sql, [flow_id.into(), kind.as_str().into(), i64::from(round).into()]);
}

/// Reads the row of [`ask`].
pub(super) fn read(
    row: &AnyRow,
    key: &ContentKey,
    (flow_id, kind, round): (&str, ContentKind, u32),
) -> Result<FlowContent, AgentStoreError> {
    let (format, sealed): (String, String) = (row.try_get("format")?, row.try_get("sealed")?);
    let body = key.open(&place(flow_id, kind, round, &format), &sealed)?;
    let corrupt = |_| AgentStoreError::CorruptRow("the content of a flow".to_owned());
    let body = std::str::from_utf8(&body).map_err(corrupt)?.to_owned();
    Ok(FlowContent { kind, round, format, body })
}

impl AgentStore {
    /// Returns the key of the contents, which is made where there is none.
    pub async fn content_key(&self, did: &str) -> Result<ContentKey, AgentStoreError> {
        let mut transaction = self.begin().await?;
        let sql = "SELECT sealed FROM private_key WHERE name = $1 AND version = 1";
        let sealed: Option<String> = sqlx::query_scalar(sql).bind(KEY_NAME).fetch_optional(&mut *transaction).await?;
        if let Some(sealed) = sealed {
            return Ok(self.keys().open(did, KEY_NAME, 1, &sealed)?.into());
        }
        let mut secret = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *secret).map_err(|error| SealingError::NoRandom(error.to_string()))?;
        let key = PrivateKey { name: KEY_NAME.to_owned(), version: 1, secret };
        let sql = "INSERT INTO private_key (name, version, sealed) VALUES ($1, 1, $2)";
        let sealed = self.keys().seal(did, &key)?;
        sqlx::query(sql).bind(KEY_NAME).bind(sealed).execute(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(key.into())
    }

    /// Returns a content of a flow.
    pub async fn flow_content(
        &self,
        key: &ContentKey,
        flow_id: &str,
        kind: ContentKind,
        round: u32,
    ) -> Result<Option<FlowContent>, AgentStoreError> {
        let mut batch = StatementBatch::default();
        ask(&mut batch, flow_id, kind, round);
        let rows = batch.run(&mut *self.reader().acquire().await?).await?;
        rows.iter().flatten().next().map(|row| read(row, key, (flow_id, kind, round))).transpose()
    }

    /// Forgets a content of a flow.
    pub async fn forget_flow_content(
        &self,
        flow_id: &str,
        kind: ContentKind,
        round: u32,
    ) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        let sql = "DELETE FROM flow_content WHERE flow_id = $1 AND kind = $2 AND round = $3";
        let query = sqlx::query(sql).bind(flow_id.to_owned()).bind(kind.as_str());
        query.bind(to_column(u64::from(round))).execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }
}

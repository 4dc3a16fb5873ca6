//! Credentials of flows, encrypted.

use std::fmt;

use sqlx::{AnyConnection, Row};
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

/// The kind of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentKind {
    /// Offered by this agent: the credential without its proof.
    Offered,
    /// Signed by this agent.
    Signed,
    /// Come from the issuer, and not checked.
    Received,
    /// Come from the issuer, and checked.
    Held,
}

impl ContentKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Offered => "offered",
            Self::Signed => "signed",
            Self::Received => "received",
            Self::Held => "held",
        }
    }
}

/// A content of a flow.
#[derive(Clone, PartialEq, Eq)]
pub struct FlowContent {
    /// Kind.
    pub kind: ContentKind,
    /// Round that it belongs to.
    pub round: u32,
    /// Name of its format, as that of an attachment.
    pub format: String,
    /// The credential as JSON; nothing where one has come in a format that is not taken.
    pub body: String,
}

impl fmt::Debug for FlowContent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The credential is nothing for a log.
        let Self { kind, round, format, body } = self;
        write!(formatter, "{} of round {round}, {format:?}, {} bytes", kind.as_str(), body.len())
    }
}

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

/// Reads a content.
pub(super) async fn read(
    connection: &mut AnyConnection,
    key: &ContentKey,
    flow_id: &str,
    kind: ContentKind,
    round: u32,
) -> Result<Option<FlowContent>, AgentStoreError> {
    let sql = "SELECT format, sealed FROM flow_content WHERE flow_id = $1 AND kind = $2 AND round = $3";
    let query = sqlx::query(sql).bind(flow_id.to_owned()).bind(kind.as_str()).bind(to_column(u64::from(round)));
    let Some(row) = query.fetch_optional(connection).await? else { return Ok(None) };
    let (format, sealed): (String, String) = (row.try_get("format")?, row.try_get("sealed")?);
    let body = key.open(&place(flow_id, kind, round, &format), &sealed)?;
    let corrupt = |_| AgentStoreError::CorruptRow("the content of a flow".to_owned());
    let body = std::str::from_utf8(&body).map_err(corrupt)?.to_owned();
    Ok(Some(FlowContent { kind, round, format, body }))
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
        read(&mut *self.reader().acquire().await?, key, flow_id, kind, round).await
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

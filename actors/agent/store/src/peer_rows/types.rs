//! The rows as values.

use sqlx::{Row, any::AnyRow};
use svc_agent_core::peers::{
    ConnectionRole, ExchangeState, MessageRole, StoredBasicMessage, StoredConnection, StoredExchange, Verdict,
};
use svc_didcomm::{connection::Connection, delivery::DeliveryState};

use super::super::error::AgentStoreError;
use crate::columns::from_column;

/// The value of a word in a column.
fn word<T>(text: &str, from_word: impl Fn(&str) -> Option<T>) -> Result<T, AgentStoreError> {
    from_word(text).ok_or_else(|| AgentStoreError::CorruptRow(format!("the word {text:?}")))
}

/// A connection's columns, in the order of [`read_connection`].
pub(crate) const CONNECTION_COLUMNS: &str = "id, role, our_did, their_did, public_did, previous, has_ended, thread_id, \
     out_of_band_id, parent_id, trusted, judged_at, last_seen_at, waiting, unanswered, created_at, updated_at";

pub(crate) fn read_connection(row: &AnyRow) -> Result<StoredConnection, AgentStoreError> {
    let text = |column: &str| row.try_get::<String, _>(column);
    let previous = text("previous")?;
    let previous = serde_json::from_str(&previous)
        .map_err(|_| AgentStoreError::CorruptRow("the DIDs of a connection".to_owned()))?;
    let (trusted, judged_at): (Option<i64>, Option<i64>) = (row.try_get("trusted")?, row.try_get("judged_at")?);
    Ok(StoredConnection {
        connection: Connection {
            id: text("id")?,
            our_did: text("our_did")?,
            their_did: text("their_did")?,
            previous,
            public_did: text("public_did")?,
            has_ended: row.try_get::<i64, _>("has_ended")? != 0,
        },
        role: word(&text("role")?, ConnectionRole::from_word)?,
        thread_id: row.try_get("thread_id")?,
        out_of_band_id: row.try_get("out_of_band_id")?,
        parent_id: row.try_get("parent_id")?,
        verdict: trusted.zip(judged_at).map(|(trusted, at)| Verdict { is_trusted: trusted != 0, at }),
        last_seen_at: row.try_get("last_seen_at")?,
        waiting: from_column(row.try_get("waiting")?),
        unanswered: from_column(row.try_get("unanswered")?),
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
    })
}

pub(crate) fn read_basic_message(row: &AnyRow) -> Result<StoredBasicMessage, AgentStoreError> {
    let delivery: Option<String> = row.try_get("delivery")?;
    let corrupt = || AgentStoreError::CorruptRow("the delivery of a basic message".to_owned());
    Ok(StoredBasicMessage {
        id: row.try_get("id")?,
        connection_id: row.try_get("connection_id")?,
        role: word(&row.try_get::<String, _>("role")?, MessageRole::from_word)?,
        content: row.try_get("content")?,
        sent_at: row.try_get("sent_at")?,
        created_at: row.try_get("created_at")?,
        delivery: delivery.map(|word| DeliveryState::from_word(&word).ok_or_else(corrupt)).transpose()?,
    })
}

pub(crate) fn read_exchange(row: &AnyRow) -> Result<StoredExchange, AgentStoreError> {
    let json = |text: &str| {
        serde_json::from_str(text).map_err(|_| AgentStoreError::CorruptRow("the credential of an exchange".to_owned()))
    };
    let credential: Option<String> = row.try_get("credential")?;
    let schema_id: Option<i64> = row.try_get("schema_id")?;
    Ok(StoredExchange {
        id: row.try_get("id")?,
        connection_id: row.try_get("connection_id")?,
        thread_id: row.try_get("thread_id")?,
        parent_thread_id: row.try_get("parent_thread_id")?,
        state: word(&row.try_get::<String, _>("state")?, ExchangeState::from_word)?,
        format: row.try_get("format")?,
        offer: json(&row.try_get::<String, _>("offer")?)?,
        credential: credential.map(|text| json(&text)).transpose()?,
        error: row.try_get("error")?,
        schema_id: schema_id.map(from_column),
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
    })
}

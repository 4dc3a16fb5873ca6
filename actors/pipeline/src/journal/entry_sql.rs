//! The SQL that stores an entry. A repetition changes nothing.

use sqlx::SqliteConnection;

use super::{
    columns::to_sql_integer,
    core::{JournalEntry, RestoredEntry, SignedTxEntry},
    store::PRUNE_EVERY,
};

/// Writes one entry; true when the database is due for pruning.
pub(super) async fn write_entry(connection: &mut SqliteConnection, entry: &JournalEntry) -> Result<bool, sqlx::Error> {
    match entry {
        JournalEntry::Signed(signed) => return insert_signed(connection, signed).await,
        JournalEntry::Unsent { hash } => {
            let sql = "UPDATE transactions SET state = 'refused', bytes = NULL, message = NULL WHERE tx_hash = ? AND state = 'open'";
            sqlx::query(sql).bind(hash).execute(connection).await?;
        }
        JournalEntry::Refused { hash, refusal } => {
            let sql = "UPDATE transactions SET state = 'open_refused', block_height = ?, code = ?, codespace = ?, raw_log = ?, \
                       bytes = NULL WHERE tx_hash = ? AND state = 'open'";
            sqlx::query(sql)
                .bind(refusal.block_height.map(to_sql_integer))
                .bind(refusal.error.code)
                .bind(&refusal.error.codespace)
                .bind(&refusal.error.raw_log)
                .bind(hash)
                .execute(connection)
                .await?;
        }
        JournalEntry::Decided { hash, state, result, decided_at: at } => {
            // A refused transaction that never executed keeps the reason of its refusal.
            let sql = "UPDATE transactions SET state = ?, decided_at = ?, block_height = COALESCE(?, block_height), \
                       code = COALESCE(?, code), codespace = COALESCE(?, codespace), raw_log = COALESCE(?, raw_log), gas_used = ?, \
                       gas_wanted = ?, uses_sequence = ?, bytes = NULL, message = NULL \
                       WHERE tx_hash = ? AND state IN ('open', 'open_refused')";
            let result = result.as_deref();
            sqlx::query(sql)
                .bind(*state)
                .bind(at)
                .bind(result.map(|result| to_sql_integer(result.height)))
                .bind(result.map(|result| result.code))
                .bind(result.map(|result| result.codespace.as_str()))
                .bind(result.map(|result| result.raw_log.as_str()))
                .bind(result.map(|result| to_sql_integer(result.gas_used)))
                .bind(result.map(|result| to_sql_integer(result.gas_wanted)))
                .bind(result.is_some_and(|result| result.uses_sequence))
                .bind(hash)
                .execute(connection)
                .await?;
        }
        JournalEntry::AuditHead { hash } => {
            sqlx::query("UPDATE head SET audit_head = ?").bind(hash).execute(connection).await?;
        }
        JournalEntry::Restored(restored) => insert_restored(connection, restored).await?,
        JournalEntry::CallerTimedOut { hash } => {
            sqlx::query("UPDATE transactions SET is_late = 1 WHERE tx_hash = ?").bind(hash).execute(connection).await?;
        }
        JournalEntry::Answered { hash, answer } => {
            let sql = "UPDATE transactions SET answer = ? WHERE tx_hash = ?";
            sqlx::query(sql).bind(answer).bind(hash).execute(connection).await?;
        }
    }
    Ok(false)
}

async fn insert_restored(connection: &mut SqliteConnection, restored: &RestoredEntry) -> Result<(), sqlx::Error> {
    let sql = "INSERT INTO transactions (tx_hash, write_id, state, sequence, signed_height, timeout_height, msg_type, needs_grant, \
               tool, session, client, verdict, message_digest, is_fee_granted, signed_at, decided_at, block_height, code, codespace, \
               raw_log, gas_used, gas_wanted, uses_sequence, restored_at, fee) \
               VALUES (?1, ?1, ?2, ?3, 0, ?4, ?5, 0, '', '', '', 'restored', ?6, 0, ?7, ?7, ?8, ?9, ?10, ?11, ?12, ?13, 1, ?7, ?14) \
               ON CONFLICT (tx_hash) DO UPDATE SET state = excluded.state, decided_at = excluded.decided_at, \
               block_height = excluded.block_height, code = excluded.code, codespace = excluded.codespace, raw_log = excluded.raw_log, \
               gas_used = excluded.gas_used, gas_wanted = excluded.gas_wanted, uses_sequence = 1, restored_at = excluded.restored_at \
               WHERE uses_sequence = 0 AND state NOT IN ('open', 'open_refused')";
    let result = &restored.result;
    sqlx::query(sql)
        .bind(&restored.hash)
        .bind(if result.code == 0 { "included" } else { "failed" })
        .bind(to_sql_integer(restored.sequence))
        .bind(to_sql_integer(restored.timeout_height))
        .bind(restored.message.msg_type())
        .bind(restored.message.digest())
        .bind(&restored.restored_at)
        .bind(to_sql_integer(result.height))
        .bind(result.code)
        .bind(&result.codespace)
        .bind(&result.raw_log)
        .bind(to_sql_integer(result.gas_used))
        .bind(to_sql_integer(result.gas_wanted))
        .bind(i64::try_from(restored.fee).unwrap_or(i64::MAX))
        .execute(connection)
        .await
        .map(drop)
}

async fn insert_signed(connection: &mut SqliteConnection, signed: &SignedTxEntry) -> Result<bool, sqlx::Error> {
    let (tx, intent) = (&signed.tx, &signed.tx.intent);
    // The signer may sign the same bytes again after a refusal, also for another write of the same message.
    let sql = "INSERT INTO transactions (tx_hash, write_id, sequence, signed_height, timeout_height, bytes, msg_type, \
               message, needs_grant, tool, session, client, verdict, idempotency_key, message_digest, is_fee_granted, \
               traceparent, signed_at, fee, principal) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (tx_hash) DO UPDATE SET \
               state = 'open', write_id = excluded.write_id, signed_height = excluded.signed_height, bytes = excluded.bytes, \
               message = excluded.message, needs_grant = excluded.needs_grant, tool = excluded.tool, session = excluded.session, \
               client = excluded.client, verdict = excluded.verdict, idempotency_key = excluded.idempotency_key, \
               traceparent = excluded.traceparent, signed_at = excluded.signed_at, principal = excluded.principal \
               WHERE state = 'refused' OR (state = 'failed' AND uses_sequence = 0)";
    let inserted = sqlx::query(sql)
        .bind(&tx.hash)
        .bind(&intent.id)
        .bind(to_sql_integer(tx.sequence))
        .bind(to_sql_integer(tx.signed_height))
        .bind(to_sql_integer(tx.timeout_height))
        .bind(&tx.bytes)
        .bind(intent.encoded.msg_type())
        .bind(&intent.encoded.message.value)
        .bind(intent.encoded.needs_grant)
        .bind(&*intent.origin.tool)
        .bind(&*intent.origin.session)
        .bind(&*intent.origin.client)
        .bind(&*intent.origin.verdict)
        .bind(&intent.idempotency_key)
        .bind(intent.encoded.digest())
        .bind(tx.has_granter)
        .bind(&intent.traceparent)
        .bind(&signed.signed_at)
        .bind(i64::try_from(tx.fee).unwrap_or(i64::MAX))
        .bind(&*intent.origin.principal)
        .execute(connection)
        .await?;
    Ok(u64::try_from(inserted.last_insert_rowid()).is_ok_and(|number| number % PRUNE_EVERY == 0))
}

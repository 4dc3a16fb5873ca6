//! Executes decisions of the core: answers their questions, and writes their changes. It knows no rule.

use sqlx::{AnyConnection, any::AnyRow};
use svc_agent_core::{
    decision::{Decision, First, Second, Step},
    peers::{Changes, PeerLimits, RowChange},
};
use svc_store::{GroupTransaction, StatementBatch};

use crate::{
    access_rows::insert_grant, agent_store::AgentStore, error::AgentStoreError, outbox::queue_peer_events,
    peer_rows::connections::end_connection,
};

/// A decision whose questions the store can answer.
pub(crate) trait StoredDecision: Decision {
    /// The key of its sealed rows.
    type Key: Sync;

    /// Adds the statements of a question.
    fn ask(query: &Self::Query, batch: &mut StatementBatch);

    /// Reads the rows of these statements.
    fn read(query: &Self::Query, rows: &[Vec<AnyRow>], key: &Self::Key) -> Result<Self::Rows, AgentStoreError>;
}

/// The end of a decision that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decided<O> {
    /// Its outcome.
    pub outcome: O,
    /// Whether an event was queued.
    pub has_event: bool,
}

impl AgentStore {
    /// Decides, and writes the changes, in one transaction. `now` is in seconds since the epoch.
    pub(crate) async fn decide<O, D: StoredDecision<Key = (), Changes = Changes<O>>>(
        &self,
        step: Step<D, First>,
        now: i64,
        limits: &PeerLimits,
    ) -> Result<Decided<O>, AgentStoreError> {
        let (transaction, changes) = self.load(step).await?;
        write_changes(transaction, changes, now, limits).await
    }

    /// Begins a transaction, and answers the questions of a decision in it. The first one goes with the beginning.
    async fn load<D: StoredDecision<Key = ()>>(
        &self,
        step: Step<D, First>,
    ) -> Result<(GroupTransaction, D::Changes), AgentStoreError> {
        let (query, then) = match step {
            Step::Done(changes) => return Ok((self.begin().await?, changes)),
            Step::Load(query, then) => (query, then),
        };
        let mut batch = StatementBatch::default();
        D::ask(&query, &mut batch);
        let (mut transaction, rows) = self.begin_with(&mut batch).await?;
        let changes = go_on(&mut transaction, then(D::read(&query, &rows, &())?), &()).await?;
        Ok((transaction, changes))
    }
}

/// Answers the questions of a decision in a transaction that has begun.
pub(crate) async fn decide_in<D: StoredDecision>(
    connection: &mut AnyConnection,
    step: Step<D, First>,
    key: &D::Key,
) -> Result<D::Changes, AgentStoreError> {
    let second = match step {
        Step::Done(changes) => return Ok(changes),
        Step::Load(query, then) => then(answer::<D>(connection, query, key).await?),
    };
    go_on(connection, second, key).await
}

/// Answers the questions after the first one.
async fn go_on<D: StoredDecision>(
    connection: &mut AnyConnection,
    step: Step<D, Second>,
    key: &D::Key,
) -> Result<D::Changes, AgentStoreError> {
    let third = match step {
        Step::Done(changes) => return Ok(changes),
        Step::Load(query, then) => then(answer::<D>(connection, query, key).await?),
    };
    Ok(match third {
        Step::Done(changes) => changes,
        Step::Load(query, then) => then(answer::<D>(connection, query, key).await?),
    })
}

async fn answer<D: StoredDecision>(
    connection: &mut AnyConnection,
    query: D::Query,
    key: &D::Key,
) -> Result<D::Rows, AgentStoreError> {
    let mut batch = StatementBatch::default();
    D::ask(&query, &mut batch);
    D::read(&query, &batch.run(connection).await?, key)
}

/// Writes changes and commits them. Where a guarded statement finds other rows than those of the decision, nothing is written: the transaction
/// is dropped, as that of a decision without changes is.
async fn write_changes<O>(
    mut transaction: GroupTransaction,
    changes: Changes<O>,
    now: i64,
    limits: &PeerLimits,
) -> Result<Decided<O>, AgentStoreError> {
    let Changes { rows, events, outcome } = changes;
    if rows.is_empty() && events.is_empty() {
        return Ok(Decided { outcome, has_event: false });
    }
    write_rows(&mut transaction, &rows).await?;
    queue_peer_events(&mut transaction, &events, now, limits.max_events).await?;
    transaction.commit().await?;
    Ok(Decided { outcome, has_event: limits.max_events.is_some() && !events.is_empty() })
}

/// Writes rows. Fails where a guarded statement finds other rows than those of the decision: the transaction is to be dropped then.
pub(crate) async fn write_rows(connection: &mut AnyConnection, rows: &[RowChange]) -> Result<(), AgentStoreError> {
    let mut batch = StatementBatch::default();
    for change in rows {
        match change {
            RowChange::EndConnection { id, loaded_at, at } => end_connection(&mut batch, id, *loaded_at, *at),
            RowChange::InsertGrant { grant, counted_at, of_peer, all, max_counted } => {
                insert_grant(&mut batch, grant, *counted_at, *of_peer, (*all, *max_counted));
            }
        }
    }
    // Each change is one statement, which returns a row where it has found its own.
    let written = batch.run(connection).await?;
    if written.iter().any(Vec::is_empty) { Err(AgentStoreError::WrongFacts) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use svc_agent_core::peers::{ConnectionEnd, ConnectionFilter, EndOutcome, StoredConnection};
    use svc_didcomm::{
        Refusal,
        from_prior::{FromPrior, make_from_prior},
        peer_did::comparable,
    };

    use super::*;
    use crate::peer_rows::testing::{LIMITS, NOW, OURS, SECONDS, THEIRS, connect, on_both};

    const LATER: i64 = NOW + 5_000;

    fn end_of(issuer: &str, recipient: &str, age: i64) -> ConnectionEnd {
        let key = ed25519_dalek::SigningKey::from_bytes(&[3; 32]);
        let prior = make_from_prior(&key, &format!("{issuer}#k"), issuer, None, SECONDS - age);
        let prior = FromPrior::read(&prior).expect("a from_prior");
        ConnectionEnd { recipient: recipient.to_owned(), prior, now: LATER }
    }

    async fn all(store: &AgentStore) -> Vec<StoredConnection> {
        store.connections(&ConnectionFilter::default(), None, 100).await.expect("read")
    }

    async fn event_count(store: &AgentStore) -> usize {
        store.next_events(0, 100).await.expect("read").len()
    }

    /// The rows of a store in memory, changed by a decision.
    fn after(mut rows: Vec<StoredConnection>, changes: &[RowChange]) -> Vec<StoredConnection> {
        for change in changes {
            let RowChange::EndConnection { id, at, .. } = change else { panic!("{change:?}") };
            for row in rows.iter_mut().filter(|row| row.connection.id == *id) {
                row.connection.has_ended = true;
                (row.updated_at, row.last_seen_at) = (*at, Some(*at));
            }
        }
        rows
    }

    #[tokio::test]
    async fn the_store_ends_connections_as_the_decision_does_on_rows_in_memory() {
        on_both(async |store: AgentStore| {
            connect(&store, THEIRS).await;
            connect(&store, "did:web:other").await;
            for (facts, outcome) in [
                (end_of(THEIRS, "did:web:z", 0), EndOutcome::Refused(Refusal::FromPriorIssuer)),
                (end_of("did:web:foreign", OURS, 0), EndOutcome::Refused(Refusal::FromPriorIssuer)),
                (end_of(THEIRS, OURS, 700), EndOutcome::Refused(Refusal::FromPriorClaims)),
                (end_of(THEIRS, OURS, 0), EndOutcome::Ended),
                (end_of(THEIRS, OURS, 0), EndOutcome::EndedBefore),
                (end_of("did:web:other", OURS, 0), EndOutcome::Ended),
            ] {
                let (before, events) = (all(&store).await, event_count(&store).await);
                let changes = facts.clone().start().decide(|query| {
                    let knows = |row: &&StoredConnection| row.connection.known_dids().contains(&comparable(&query.did));
                    before.iter().filter(knows).cloned().collect()
                });
                assert_eq!(changes.outcome, outcome, "{facts:?}");
                let decided = store.decide(facts.start(), SECONDS, &LIMITS).await.expect("works");
                assert_eq!(decided, Decided { outcome, has_event: !changes.events.is_empty() });
                assert_eq!(all(&store).await, after(before, &changes.rows));
                assert_eq!(event_count(&store).await, events + changes.events.len());
            }
        })
        .await;
    }

    #[tokio::test]
    async fn nothing_is_written_of_a_decision_by_wrong_facts() {
        on_both(async |store: AgentStore| {
            connect(&store, THEIRS).await;
            connect(&store, "did:web:other").await;
            let (rows, events) = (all(&store).await, event_count(&store).await);
            let decide = |did: &str, change: fn(&mut StoredConnection)| {
                end_of(did, OURS, 0).start().decide(|query| {
                    let of_did = rows.iter().filter(|row| row.connection.their_did == query.did);
                    let mut found: Vec<StoredConnection> = of_did.cloned().collect();
                    found.iter_mut().for_each(change);
                    found
                })
            };
            let right = decide("did:web:other", |_| {});
            for wrong in [
                decide(THEIRS, |row| row.updated_at += 1),
                decide(THEIRS, |row| row.connection.id = "unknown".to_owned()),
            ] {
                let mut both = right.clone();
                both.rows.extend(wrong.rows.iter().cloned());
                both.events.extend(wrong.events.iter().cloned());
                for changes in [wrong, both] {
                    let transaction = store.begin().await.expect("begins");
                    let refused = write_changes(transaction, changes, SECONDS, &LIMITS).await;
                    assert!(matches!(refused, Err(AgentStoreError::WrongFacts)), "{refused:?}");
                    assert_eq!((all(&store).await, event_count(&store).await), (rows.clone(), events));
                }
            }
            // The connection ended after it was loaded: the guard finds another row.
            let live = decide(THEIRS, |_| {});
            let transaction = store.begin().await.expect("begins");
            write_changes(transaction, live.clone(), SECONDS, &LIMITS).await.expect("written");
            let transaction = store.begin().await.expect("begins");
            let refused = write_changes(transaction, live, SECONDS, &LIMITS).await;
            assert!(matches!(refused, Err(AgentStoreError::WrongFacts)), "{refused:?}");
            assert_eq!(event_count(&store).await, events + 1);
        })
        .await;
    }
}

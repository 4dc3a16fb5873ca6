//! The rows of peers on both databases.

use serde_json::{Value, json};
use svc_agent_core::peers::{
    BasicMessageFilter, ConnectionFilter, ConnectionRole, MessageRole, PeerLimits, StoredBasicMessage, StoredConnection,
};
use svc_didcomm::{
    Message, Refusal,
    delivery::{Attempt, DeliveryState, Next, after_attempt},
    from_prior::{FromPrior, make_from_prior},
};
use svc_store::StatementBatch;

use super::{testing::*, *};
use crate::{AgentStore, ArrivalError, OutboxEvent, QueueError, TakenMessage};

async fn all_connections(store: &AgentStore) -> Vec<StoredConnection> {
    store.connections(&ConnectionFilter::default(), None, 100).await.expect("read")
}

async fn all_records(store: &AgentStore) -> Vec<StoredBasicMessage> {
    store.basic_messages(&BasicMessageFilter::default(), None, 100).await.expect("read")
}

async fn event_kinds(store: &AgentStore) -> Vec<String> {
    let events: Vec<OutboxEvent> = store.next_events(0, 100).await.expect("read");
    events.into_iter().map(|event| event.kind).collect()
}

#[tokio::test]
async fn a_message_its_record_its_answer_and_its_events_are_one_write_and_happen_once() {
    on_both(async |store: AgentStore| {
        let message = text("1", THEIRS);
        let TakenMessage::New { connection_id, has_answer: false, has_event: true, has_record: true, .. } =
            take(&store, &message).await
        else {
            panic!("it is new");
        };
        let repeated = TakenMessage::Repeated { connection_id: connection_id.clone(), has_answer: false };
        assert_eq!(take(&store, &message).await, repeated);
        let kinds = ["didcomm.connections.state-updated", "didcomm.basic-messages.message-received"];
        assert_eq!(event_kinds(&store).await, kinds);
        let body: Value = serde_json::from_str(&store.next_events(1, 1).await.expect("read")[0].body).expect("JSON");
        assert_eq!((&body["type"], &body["data"]["content"]), (&json!(kinds[1]), &json!("1")));
        assert_eq!(all_records(&store).await.len(), 1);
        // A message that is not understood is answered, and its repetition gets the same answer once more.
        let unknown = Message { from: Some(THEIRS.into()), ..Message::new("2", "https://x.example/1.0/x", json!({})) };
        assert!(matches!(take(&store, &unknown).await, TakenMessage::New { has_answer: true, .. }));
        let queued = store.take_next_message(&connection_id, None, SECONDS).await.expect("read").expect("an answer");
        assert_eq!(take(&store, &unknown).await, repeated, "the answer is still in the outbox");
        let sent = SentMessage { number: queued.number, next: Next::Delivered };
        assert_eq!(store.take_next_message(&connection_id, Some(sent), SECONDS).await.expect("read"), None);
        assert_eq!(
            take(&store, &unknown).await,
            TakenMessage::Repeated { connection_id: connection_id.clone(), has_answer: true }
        );
        let again = store.take_next_message(&connection_id, None, SECONDS).await.expect("read").expect("the answer");
        assert_eq!(again.message.id, queued.message.id);
    })
    .await;
}

#[tokio::test]
async fn a_full_memory_refuses_the_peer_that_filled_it_and_forgets_the_oldest() {
    on_both(async |store: AgentStore| {
        let limits = PeerLimits { replay_max: 4, ..LIMITS };
        let taken =
            async |id: &str, sender: &str| take_with(&store, &text(id, sender), None, &limits).await.expect("taken");
        for id in ["1", "2", "3"] {
            taken(id, THEIRS).await;
        }
        taken("1", "did:web:quiet").await;
        assert_eq!(taken("4", THEIRS).await, TakenMessage::MemoryFull);
        assert!(matches!(taken("2", "did:web:quiet").await, TakenMessage::New { .. }), "others go on");
        assert!(matches!(taken("3", THEIRS).await, TakenMessage::Repeated { .. }), "it remembers");
        assert!(!store.forget_seen(SECONDS).await.expect("nothing is older"));
        assert_eq!(taken("4", THEIRS).await, TakenMessage::MemoryFull);
        store.forget_seen(SECONDS + 1).await.expect("forgotten");
        assert!(matches!(taken("4", THEIRS).await, TakenMessage::New { .. }));
    })
    .await;
}

#[tokio::test]
async fn connections_rotate_merge_end_and_are_found_by_every_filter() {
    on_both(async |store: AgentStore| {
        let key = ed25519_dalek::SigningKey::from_bytes(&[3; 32]);
        let prior = |from: &str, to: Option<&str>| {
            FromPrior::read(&make_from_prior(&key, &format!("{from}#k"), from, to, SECONDS)).expect("a from_prior")
        };
        let first = connect(&store, THEIRS).await;
        let rotation = prior(THEIRS, Some("did:web:next"));
        let rotated = take_with(&store, &text("2", "did:web:next"), Some(&rotation), &LIMITS).await;
        assert!(matches!(rotated, Ok(TakenMessage::New { connection_id, .. }) if connection_id == first));
        // Under a further DID the peer was a stranger, until it proves its rotation.
        let second = connect(&store, "did:web:third").await;
        assert_eq!(all_connections(&store).await.len(), 2);
        let rotation = prior("did:web:next", Some("did:web:third"));
        let merged = take_with(&store, &text("3", "did:web:third"), Some(&rotation), &LIMITS).await;
        assert!(matches!(merged, Ok(TakenMessage::New { connection_id, .. }) if connection_id == first));
        let [merged] = <[StoredConnection; 1]>::try_from(all_connections(&store).await).expect("one");
        assert_eq!(
            (merged.connection.public_did.as_str(), merged.connection.their_did.as_str()),
            (THEIRS, "did:web:third")
        );
        assert!(
            all_records(&store)
                .await
                .iter()
                .all(|record| record.connection_id == first && record.connection_id != second)
        );
        // A rotation of another DID changes nothing.
        let foreign = prior("did:web:foreign", Some("did:web:third"));
        let refused = take_with(&store, &text("4", "did:web:third"), Some(&foreign), &LIMITS).await;
        assert!(matches!(refused, Err(ArrivalError::Refused(Refusal::FromPriorIssuer))), "{refused:?}");
        assert_eq!(all_connections(&store).await, std::slice::from_ref(&merged));
        let other = connect(&store, "did:web:other").await;
        let found = async |filter: ConnectionFilter| {
            let found = store.connections(&filter, None, 100).await.expect("read");
            found.into_iter().map(|one| one.connection.id).collect::<Vec<_>>()
        };
        let (all, thread) = (ConnectionFilter::default, merged.thread_id.clone());
        for (filter, expected) in [
            (ConnectionFilter { their_did: Some("did:web:third".into()), ..all() }, vec![&first]),
            (ConnectionFilter { their_did: Some(THEIRS.into()), ..all() }, vec![&first]),
            (ConnectionFilter { their_did: Some("did:web:next".into()), ..all() }, vec![]),
            (ConnectionFilter { thread_id: thread, ..all() }, vec![&first]),
            (ConnectionFilter { role: Some(ConnectionRole::Requester), ..all() }, vec![]),
            (ConnectionFilter { did: Some("did:web:z".into()), ..all() }, vec![]),
            (ConnectionFilter { invitation_did: Some(OURS.into()), ..all() }, vec![]),
            (ConnectionFilter { parent_id: Some("x".into()), ..all() }, vec![]),
            (ConnectionFilter { out_of_band_id: Some("x".into()), ..all() }, vec![]),
            (ConnectionFilter { has_ended: Some(true), ..all() }, vec![]),
        ] {
            assert_eq!(found(filter.clone()).await.iter().collect::<Vec<_>>(), expected, "{filter:?}");
        }
        assert_eq!(found(ConnectionFilter { did: Some(OURS.into()), has_ended: Some(false), ..all() }).await.len(), 2);
        let end = prior("did:web:third", None);
        assert!(store.end_connection(OURS, &end, NOW, &LIMITS).await.expect("works"));
        assert!(!store.end_connection(OURS, &end, NOW, &LIMITS).await.expect("works"), "it has ended");
        assert_eq!(found(ConnectionFilter { has_ended: Some(true), ..all() }).await, std::slice::from_ref(&first));
        let queued = store.queue_message(&first, &text("x", OURS), SECONDS, &LIMITS).await;
        assert_eq!(refusal_of(queued), Some(QueueRefusal::Ended));
        let queue_record = async || refusal_of(store.queue_basic_message(&own_record(&first, "x"), &LIMITS).await);
        assert_eq!(queue_record().await, Some(QueueRefusal::Ended));
        assert!(
            store.remove_connection(&first).await.expect("works")
                && !store.remove_connection(&first).await.expect("works")
        );
        assert_eq!(queue_record().await, Some(QueueRefusal::Ended), "it is gone");
        assert!(all_records(&store).await.iter().all(|record| record.connection_id == other));
        assert_eq!((store.queued_messages().await.expect("read"), store.next_due().await.expect("read")), (0, None));
    })
    .await;
}

/// The refusal of a message; none when it was queued.
fn refusal_of<T>(queued: Result<T, QueueError>) -> Option<QueueRefusal> {
    match queued {
        Ok(_) => None,
        Err(QueueError::Refused(refusal)) => Some(refusal),
        Err(QueueError::Store(error)) => panic!("{error}"),
    }
}

fn own_record(connection_id: &str, content: &str) -> StoredBasicMessage {
    StoredBasicMessage {
        id: uuid::Uuid::now_v7().to_string(),
        connection_id: connection_id.to_owned(),
        role: MessageRole::Sender,
        content: content.to_owned(),
        sent_at: NOW,
        created_at: NOW,
        delivery: Some(svc_didcomm::delivery::DeliveryState::Waiting),
    }
}

#[tokio::test]
async fn the_outbox_goes_in_order_and_only_what_was_not_sent_holds_it_up() {
    on_both(async |store: AgentStore| {
        let connection = connect(&store, THEIRS).await;
        let records: Vec<_> = ["a", "b", "c", "d"].iter().map(|content| own_record(&connection, content)).collect();
        for record in &records {
            let limits = PeerLimits { records_per_connection: 10, ..LIMITS };
            assert_eq!(store.queue_basic_message(record, &limits).await.expect("there is room"), THEIRS);
        }
        let full = store.queue_basic_message(&own_record(&connection, "e"), &LIMITS).await;
        assert_eq!(refusal_of(full), Some(QueueRefusal::PeerFull));
        let other = connect(&store, "did:web:other").await;
        for id in ["x", "y"] {
            store.queue_message(&other, &text(id, OURS), SECONDS, &LIMITS).await.expect("there is room");
        }
        let full = store.queue_message(&other, &text("z", OURS), SECONDS, &LIMITS).await;
        assert_eq!((refusal_of(full), store.queued_messages().await.expect("read")), (Some(QueueRefusal::Full), 6));
        let due = store.due_connections(SECONDS, 10).await.expect("read");
        assert_eq!(due.len(), 2);

        let next = async |sent: Option<SentMessage>, now: i64| {
            store.take_next_message(&connection, sent, now).await.expect("works")
        };
        let after = |queued: &QueuedMessage, attempt, now| SentMessage {
            number: queued.number,
            next: after_attempt(queued.waiting, attempt, now, DAY, 0.0),
        };
        let content = |queued: &QueuedMessage| queued.message.body["content"].clone();
        let a = next(None, SECONDS).await.expect("a message");
        assert_eq!(content(&a), "a");
        assert_eq!(
            next(Some(after(&a, Attempt::NotSent, SECONDS)), SECONDS).await,
            None,
            "the first holds up the others"
        );
        assert_eq!(store.next_due().await.expect("read"), Some(SECONDS), "of the other connection");
        let a = next(None, SECONDS + 1).await.expect("its time has come");
        assert_eq!(content(&a), "a");
        let b = next(Some(after(&a, Attempt::Unknown, SECONDS + 1)), SECONDS + 1).await.expect("the next");
        assert_eq!(content(&b), "b", "one without an answer holds up nothing");
        let c = next(Some(after(&b, Attempt::Rejected, SECONDS + 1)), SECONDS + 1).await.expect("the next");
        assert_eq!(content(&c), "c");
        // The process ends here. It is not known whether c has arrived, so it is not sent again.
        store.settle_interrupted(None, SECONDS + 2, DAY).await.expect("settled");
        let d = next(None, SECONDS + 2).await.expect("the last");
        assert_eq!(content(&d), "d");
        assert_eq!(next(Some(after(&d, Attempt::Done, SECONDS + 2)), SECONDS + 2).await, None);
        let own = BasicMessageFilter { connection_id: Some(connection.clone()), role: Some(MessageRole::Sender) };
        let stored = store.basic_messages(&own, None, 10);
        let deliveries: Vec<_> =
            stored.await.expect("read").iter().map(|one| one.delivery.expect("its own").as_str()).collect();
        assert_eq!(deliveries, ["unanswered", "undeliverable", "unanswered", "delivered"]);
        let found = store.connection(&connection).await.expect("read").expect("there");
        assert_eq!((found.waiting, found.unanswered), (0, 2));
        // A later message of the thread shows that the first has arrived.
        let answer = Message { thid: Some(a.message.id.clone()), ..text("answer", THEIRS) };
        take(&store, &answer).await;
        assert_eq!(next(None, SECONDS + 2).await, None);
        assert!(!store.due_connections(SECONDS + 2, 10).await.expect("read").iter().any(|(id, _)| *id == connection));
        let found = store.connection(&connection).await.expect("read").expect("there");
        assert_eq!((found.waiting, found.unanswered), (0, 1));
        store.forget_unanswered(SECONDS + 1).await.expect("forgotten");
        let found = store.connection(&connection).await.expect("read").expect("there");
        assert_eq!((found.unanswered, store.queued_messages().await.expect("read")), (0, 2));
    })
    .await;
}

#[tokio::test]
async fn the_oldest_records_of_a_connection_go_and_pages_follow_each_other() {
    on_both(async |store: AgentStore| {
        let connection = connect(&store, THEIRS).await;
        for id in ["1", "2", "3", "4"] {
            take(&store, &text(id, THEIRS)).await;
        }
        let kept = all_records(&store).await;
        assert_eq!(kept.iter().map(|one| one.content.as_str()).collect::<Vec<_>>(), ["2", "3", "4"]);
        let filter = BasicMessageFilter { connection_id: Some(connection), role: Some(MessageRole::Receiver) };
        let page = store.basic_messages(&filter, Some(&kept[0].id), 1).await.expect("read");
        assert_eq!(page, [kept[1].clone()]);
        let none = BasicMessageFilter { role: Some(MessageRole::Sender), ..filter };
        assert_eq!(store.basic_messages(&none, None, 10).await.expect("read"), []);
    })
    .await;
}

#[tokio::test]
async fn a_message_over_an_ended_connection_is_looked_after_while_it_is_being_sent() {
    on_both(async |store: AgentStore| {
        let connection = connect(&store, THEIRS).await;
        let record = own_record(&connection, "a");
        store.queue_basic_message(&record, &LIMITS).await.expect("there is room");
        let mut batch = StatementBatch::default();
        batch.add("UPDATE peer_connection SET has_ended = 1 WHERE id = $1", [connection.as_str().into()]);
        store.write(&mut batch).await.expect("ended");
        let queued = store.take_next_message(&connection, None, SECONDS).await.expect("works").expect("it waits");
        assert!(queued.route.has_ended);
        assert_eq!(store.next_due().await.expect("read"), Some(SECONDS + 900), "should its session die");
        let sent = SentMessage { number: queued.number, next: Next::Undeliverable };
        assert_eq!(store.take_next_message(&connection, Some(sent), SECONDS).await.expect("works"), None);
        assert_eq!(store.next_due().await.expect("read"), None);
        let stored = all_records(&store).await.into_iter().find(|one| one.id == record.id);
        assert_eq!(stored.and_then(|one| one.delivery), Some(DeliveryState::Undeliverable));
    })
    .await;
}

//! A model of two agents with their stores, over a channel that loses, doubles and reorders messages, while either side restarts.

use std::collections::BTreeSet;

use fastrand::Rng;
use svc_agent_core::{
    flows::HeardFacts,
    peers::{BasicMessageFilter, ConnectionFilter, MessageRole, PeerLimits, StoredBasicMessage},
};
use svc_agent_store::{
    AgentStore, ArrivedMessage, ContentKey, FlowPart, PrivateKey, QueuedMessage, SentMessage, StoreKey, StoreKeys,
    StoreSettings, TakenMessage,
};
use svc_didcomm::{
    Message,
    delivery::{Attempt, DeliveryState, after_attempt},
    protocol::Content,
};
use uuid::Uuid;
use zeroize::Zeroizing;

const MAX_AGE: i64 = 24 * 3600;
const LIMITS: PeerLimits = PeerLimits {
    outbox_per_peer: 1_000,
    outbox_max: 1_000,
    replay_max: 100_000,
    records_per_connection: 10_000,
    max_events: Some(100_000),
};

struct Side {
    did: &'static str,
    store: AgentStore,
    connection: String,
    /// A message that is being sent; a restart forgets it.
    sending: Option<QueuedMessage>,
    said: usize,
}

/// A message on its way to a side.
struct InFlight {
    to: usize,
    message: Message,
}

struct Model {
    sides: [Side; 2],
    channel: Vec<InFlight>,
    now: i64,
    random: Rng,
}

async fn open() -> AgentStore {
    let keys = StoreKeys { current: StoreKey::from_bytes([1; 32]), previous: None };
    AgentStore::open(StoreSettings { url: "sqlite::memory:".to_owned(), keys }).await.expect("opens")
}

impl Model {
    async fn new(seed: u64) -> Self {
        let side = async |did| Side { did, store: open().await, connection: String::new(), sending: None, said: 0 };
        let sides = [side("did:web:one").await, side("did:web:two").await];
        let mut model = Self { sides, channel: Vec::new(), now: 1_800_000_000, random: Rng::with_seed(seed) };
        for to in [0, 1] {
            let hello = model.text(1 - to, "hello");
            model.take(to, &hello).await;
            let known = model.sides[to].store.connections(&ConnectionFilter::default(), None, 10).await.expect("read");
            model.sides[to].connection.clone_from(&known[0].connection.id);
        }
        model
    }

    fn text(&self, from: usize, content: &str) -> Message {
        let id = Uuid::now_v7().to_string();
        let body = serde_json::json!({"content": content});
        let message = Message::new(id, svc_didcomm::protocol::basic_message::MESSAGE, body);
        Message { from: Some(self.sides[from].did.to_owned()), ..message }
    }

    async fn take(&self, to: usize, message: &Message) -> TakenMessage {
        let content = Content::read(message);
        let key = PrivateKey { name: "flow-content".to_owned(), version: 1, secret: Zeroizing::new([3; 32]) };
        let key = ContentKey::from(key);
        let arrived = ArrivedMessage {
            message,
            content: &content,
            sender: self.sides[1 - to].did,
            recipient: self.sides[to].did,
            invitation: None,
            prior: None,
            verdict: None,
            flows: FlowPart { key: &key, heard: HeardFacts::default(), max_per_peer: 100, answers_unknown: false },
            access: None,
            now: self.now * 1000,
        };
        let taken = self.sides[to].store.take_message(&arrived, &LIMITS).await;
        taken.expect("the store works, without a from_prior")
    }

    /// A caller says something, or a message is queued that the other side does not understand, and answers.
    async fn say(&mut self, from: usize) {
        self.sides[from].said += 1;
        let side = &self.sides[from];
        if self.random.u8(..4) == 0 {
            let odd = Message::new(Uuid::now_v7().to_string(), "https://x.example/1.0/odd", serde_json::json!({}));
            let queued = side.store.queue_message(&side.connection, &odd, self.now, &LIMITS).await;
            queued.expect("there is room");
            return;
        }
        let record = StoredBasicMessage {
            id: Uuid::now_v7().to_string(),
            connection_id: side.connection.clone(),
            role: MessageRole::Sender,
            content: format!("{} {}", side.did, side.said),
            sent_at: self.now * 1000,
            created_at: self.now * 1000,
            delivery: Some(DeliveryState::Waiting),
        };
        side.store.queue_basic_message(&record, &LIMITS).await.expect("there is room");
    }

    /// Takes the next message of a side, or the result of the one that is being sent.
    async fn send(&mut self, from: usize, is_fair: bool) {
        let max_age = MAX_AGE;
        let Some(queued) = self.sides[from].sending.take() else {
            let side = &self.sides[from];
            let next = side.store.take_next_message(&side.connection, None, self.now).await.expect("works");
            self.sides[from].sending = next;
            return;
        };
        let attempt = match self.random.u8(..10) {
            0..3 if !is_fair => Attempt::NotSent,
            3..6 if !is_fair => {
                for _ in 0..self.random.u8(..3) {
                    self.channel.push(InFlight { to: 1 - from, message: queued.message.clone() });
                }
                Attempt::Unknown
            }
            _ => {
                self.take(1 - from, &queued.message).await;
                if self.random.u8(..4) == 0 {
                    self.channel.push(InFlight { to: 1 - from, message: queued.message.clone() });
                }
                Attempt::Done
            }
        };
        let next = after_attempt(queued.waiting, attempt, self.now, max_age, 0.0);
        let sent = SentMessage { number: queued.number, next };
        let side = &self.sides[from];
        let next = side.store.take_next_message(&side.connection, Some(sent), self.now).await.expect("works");
        self.sides[from].sending = next;
    }

    /// A process ends and starts again: it knows its store and nothing else.
    async fn restart(&mut self, side: usize) {
        // The message may have got out before the end.
        if let Some(queued) = self.sides[side].sending.take()
            && self.random.bool()
        {
            self.channel.push(InFlight { to: 1 - side, message: queued.message });
        }
        self.sides[side].store.settle_interrupted(None, self.now, MAX_AGE).await.expect("works");
    }

    async fn step(&mut self) {
        let side = self.random.usize(..2);
        match self.random.u8(..12) {
            0..2 => self.say(side).await,
            2..7 => self.send(side, false).await,
            7..9 if !self.channel.is_empty() => {
                let place = self.random.usize(..self.channel.len());
                let arrived = self.channel.swap_remove(place);
                self.take(arrived.to, &arrived.message).await;
            }
            9 => self.restart(side).await,
            10 => self.now += self.random.i64(1..120),
            _ => self.now += self.random.i64(1..4 * 3600),
        }
    }

    async fn records(&self, side: usize, role: MessageRole) -> Vec<StoredBasicMessage> {
        let filter = BasicMessageFilter { connection_id: None, role: Some(role) };
        self.sides[side].store.basic_messages(&filter, None, 10_000).await.expect("read")
    }

    async fn check(&self, seed: u64) {
        for from in [0, 1] {
            assert!(
                self.sides[from].store.has_true_numbers().await.expect("counted"),
                "seed {seed}: a number is not that of its rows"
            );
            let received = self.records(1 - from, MessageRole::Receiver).await;
            let texts: BTreeSet<&str> = received.iter().map(|one| one.content.as_str()).collect();
            assert_eq!(texts.len(), received.len(), "seed {seed}: a message was handled twice");
            for sent in self.records(from, MessageRole::Sender).await {
                let (has_arrived, content) = (texts.contains(sent.content.as_str()), &sent.content);
                match sent.delivery.expect("its own") {
                    DeliveryState::Delivered => assert!(has_arrived, "seed {seed}: {content} was lost"),
                    DeliveryState::Undeliverable => assert!(!has_arrived, "seed {seed}: {content} has arrived"),
                    DeliveryState::Waiting | DeliveryState::Unanswered => {}
                }
            }
        }
    }

    /// Lets everything arrive, and time pass.
    async fn settle(&mut self, seed: u64) {
        for _ in 0..10_000 {
            for side in [0, 1] {
                self.send(side, true).await;
            }
            // A message of the second side may have made an answer of the first one.
            let mut is_done = true;
            for side in &self.sides {
                let due = side.store.next_due().await.expect("read");
                is_done &= side.sending.is_none() && due.is_none();
            }
            if is_done {
                return;
            }
            self.now += 1;
            let next = [&self.sides[0], &self.sides[1]].map(|side| side.store.next_due());
            let [one, other] = next;
            let due = [one.await.expect("read"), other.await.expect("read")].into_iter().flatten().min();
            if self.sides.iter().all(|side| side.sending.is_none()) {
                self.now = self.now.max(due.unwrap_or(self.now));
            }
        }
        panic!("seed {seed}: a fair channel does not empty the outboxes");
    }
}

async fn run(seeds: std::ops::Range<u64>, steps: usize) {
    for seed in seeds {
        let mut model = Model::new(seed).await;
        for _ in 0..steps {
            model.step().await;
        }
        model.check(seed).await;
        for arrived in std::mem::take(&mut model.channel) {
            model.take(arrived.to, &arrived.message).await;
        }
        model.settle(seed).await;
        model.check(seed).await;
        for side in &model.sides {
            let found = side.store.connection(&side.connection).await.expect("read").expect("there");
            assert_eq!(found.waiting, 0, "seed {seed}");
        }
    }
}

#[tokio::test]
async fn nothing_is_handled_twice_or_called_delivered_and_lost() {
    run(0..25, 150).await;
}

#[tokio::test]
#[ignore = "takes minutes: make model"]
async fn the_model_of_two_agents_with_many_seeds() {
    run(1_000..2_000, 300).await;
}

//! Readers of the event log that others build: without a cursor, and with one event for each message.

use std::collections::{BTreeMap, BTreeSet};

use proptest::{collection::vec, prelude::*};
use prost::Message;
use prost_types::Any;
use serde_json::{Value, json};
use svc_wire::proto::cosmos::{authz::v1beta1::MsgExec, group::v1::MsgSubmitProposal};

use super::test_ingest::{TestIndex, TestTx, event};

/// The chain's own event of a registry message, the attribute of its entity, and its event type for subscribers.
const OWN: [(&str, &str, &str); 5] = [
    ("start_participant_op", "participant_id", "StartParticipantOP"),
    ("renew_participant_op", "participant_id", "RenewParticipantOP"),
    ("slash_trust_deposit", "corporation_id", "SlashTrustDeposit"),
    ("grant_operator_authorization", "authz_id", "GrantOperatorAuthorization"),
    ("store_digest", "digest", "StoreDigest"),
];

/// Events that messages cause, in the order in which the chain emits them: ahead of the own event. An authorization or a digest is caused by
/// participants alone.
const EFFECTS: [(&str, &str); 4] = [
    ("adjust_trust_deposit", "corporation_id"),
    ("grant_fee_allowance", "grantee"),
    ("grant_vs_operator_authorization", "vsoa_id"),
    ("store_digest", "digest"),
];

/// A registry message.
#[derive(Debug, Clone)]
struct RegistryMessage {
    kind: usize,
    entity: u8,
    effects: Vec<usize>,
}

impl RegistryMessage {
    /// Its events, and its own one as a reader shall find it.
    fn emit(&self, message_index: &str) -> (Vec<Value>, Found) {
        let (kind, key, event_type) = OWN[self.kind];
        let id = self.entity.to_string();
        let is_participant = key == "participant_id";
        let effects = self.effects.iter().map(|effect| EFFECTS[*effect]);
        let mut events: Vec<Value> = effects
            .filter(|(_, key)| is_participant || ["corporation_id", "grantee"].contains(key))
            .map(|(kind, key)| event(kind, &[(key, "9"), ("msg_index", message_index)]))
            .collect();
        // An authorization belongs to the corporation with its number.
        events.push(event(kind, &[(key, &id), ("corporation_id", &id), ("msg_index", message_index)]));
        (events, (event_type.to_owned(), id))
    }
}

/// A message of a transaction.
#[derive(Debug, Clone)]
enum TxMessage {
    /// A registry message of its own.
    Registry(RegistryMessage),
    /// A message without an event.
    Silent,
    /// A vote.
    Vote,
    /// An execution, with or without a vote by the same message.
    Execution { is_vote: bool, messages: Vec<RegistryMessage> },
    /// Messages inside a MsgExec of x/authz; some of them are not known to this version.
    Authorized { messages: Vec<RegistryMessage>, unknown: usize },
    /// A proposal that is executed at once; some of its messages are not known to this version.
    Submission { messages: Vec<RegistryMessage>, unknown: usize },
}

/// Event type and entity.
type Found = (String, String);

/// Proposals are numbered, so that their events differ.
#[derive(Debug, Default)]
struct Chain {
    proposals: u32,
    /// The own event of each message, those inside of proposals included, by number.
    own: BTreeMap<Found, usize>,
}

impl Chain {
    fn expect(&mut self, event_type: &str, entity: String) {
        *self.own.entry((event_type.to_owned(), entity)).or_default() += 1;
    }

    fn run(&mut self, messages: &[TxMessage]) -> TestTx {
        let mut tx = TestTx::default();
        for (message, index) in messages.iter().zip(0u32..) {
            let index = index.to_string();
            let of_group = |name: &str, proposal: &str| {
                let attributes =
                    [("proposal_id", proposal), ("result", "PROPOSAL_EXECUTOR_RESULT_SUCCESS"), ("msg_index", &index)];
                event(&format!("cosmos.group.v1.{name}"), &attributes)
            };
            let invented = || Any { type_url: "/svc.pp.v1.MsgInventNewThing".to_owned(), value: Vec::new() };
            let (inner, first, content) = match message {
                TxMessage::Registry(one) => (std::slice::from_ref(one), None, Vec::new()),
                TxMessage::Silent => (&[][..], None, Vec::new()),
                TxMessage::Vote => (&[][..], Some(("EventVote", "Vote")), Vec::new()),
                TxMessage::Execution { is_vote, messages } => {
                    (messages.as_slice(), is_vote.then_some(("EventVote", "Vote")), Vec::new())
                }
                TxMessage::Submission { messages, unknown } => {
                    (messages.as_slice(), Some(("EventSubmitProposal", "SubmitProposal")), vec![invented(); *unknown])
                }
                TxMessage::Authorized { messages, unknown } => {
                    let silent = Any { type_url: "/cosmos.bank.v1beta1.MsgSend".to_owned(), value: Vec::new() };
                    let content = [vec![silent; messages.len()], vec![invented(); *unknown]].concat();
                    (messages.as_slice(), None, content)
                }
            };
            let is_run = matches!(message, TxMessage::Execution { .. } | TxMessage::Submission { .. });
            self.proposals += 1;
            let proposal = self.proposals.to_string();
            if let Some((kind, event_type)) = first {
                tx.events.push(of_group(kind, &proposal));
                self.expect(event_type, proposal.clone());
            }
            let is_authorized = matches!(message, TxMessage::Authorized { .. });
            for (one, place) in inner.iter().zip(0..) {
                let (mut events, (event_type, entity)) = one.emit(&index);
                for event in events.iter_mut().filter(|_| is_authorized) {
                    let place = json!({"key": "authz_msg_index", "value": place.to_string()});
                    event["attributes"].as_array_mut().expect("attributes").push(place);
                }
                tx.events.extend(events);
                self.expect(&event_type, entity);
            }
            for _ in content.iter().filter(|one| one.type_url.contains("Invent")) {
                self.expect("InventNewThing", String::new());
            }
            if is_run {
                tx.events.push(of_group("EventExec", &proposal));
                self.expect("Exec", proposal);
            }
            tx.messages.push(match message {
                TxMessage::Submission { .. } => Any {
                    type_url: "/cosmos.group.v1.MsgSubmitProposal".to_owned(),
                    value: MsgSubmitProposal { messages: content, ..Default::default() }.encode_to_vec(),
                },
                TxMessage::Authorized { .. } => Any {
                    type_url: "/cosmos.authz.v1beta1.MsgExec".to_owned(),
                    value: MsgExec { msgs: content, ..Default::default() }.encode_to_vec(),
                },
                _ => Any { type_url: "/cosmos.bank.v1beta1.MsgSend".to_owned(), value: Vec::new() },
            });
        }
        tx
    }
}

fn registry_messages() -> impl Strategy<Value = RegistryMessage> {
    (0..OWN.len(), 1_u8..4, vec(0..EFFECTS.len(), 0..4)).prop_map(|(kind, entity, effects)| RegistryMessage {
        kind,
        entity,
        effects,
    })
}

fn tx_messages() -> impl Strategy<Value = TxMessage> {
    let proposal = || vec(registry_messages(), 0..6);
    prop_oneof![
        4 => registry_messages().prop_map(TxMessage::Registry),
        1 => Just(TxMessage::Silent),
        1 => Just(TxMessage::Vote),
        2 => (any::<bool>(), proposal()).prop_map(|(is_vote, messages)| TxMessage::Execution { is_vote, messages }),
        1 => (proposal(), 0_usize..3).prop_map(|(messages, unknown)| TxMessage::Submission { messages, unknown }),
        2 => (proposal(), 0_usize..3).prop_map(|(messages, unknown)| TxMessage::Authorized { messages, unknown }),
    ]
}

/// Transactions of a block, and whether the reader reads after it.
type TestBlock = (Vec<Vec<TxMessage>>, bool);

fn blocks() -> impl Strategy<Value = Vec<TestBlock>> {
    vec((vec(vec(tx_messages(), 1..4), 0..4), any::<bool>()), 1..6)
}

/// Takes a page that is shorter than its limit for the end, goes on after the highest height that it has received, and takes a second event of a
/// transaction and a message index for a repetition.
struct Reader {
    filter: &'static str,
    limit: usize,
    height: u64,
    known: BTreeSet<(String, u64)>,
    found: BTreeMap<Found, usize>,
}

impl Reader {
    fn new(filter: &'static str, limit: usize) -> Self {
        Self { filter, limit, height: 0, known: BTreeSet::new(), found: BTreeMap::new() }
    }

    async fn read(&mut self, index: &TestIndex) {
        loop {
            let query = format!("limit={}&after_block_height={}{}", self.limit, self.height, self.filter);
            let page = index.read("indexer.listEvents", &query).await;
            let mut events = page["events"].as_array().expect("events").clone();
            let number = |event: &Value, member: &str| event["payload"][member].as_u64().expect("a number");
            events.sort_by_key(|event| {
                (event["block_height"].as_u64(), number(event, "tx_index"), number(event, "message_index"))
            });
            self.height = events.iter().filter_map(|event| event["block_height"].as_u64()).fold(self.height, u64::max);
            for event in &events {
                let hash = event["tx_hash"].as_str().expect("a hash").to_owned();
                if self.known.insert((hash, number(event, "message_index"))) {
                    *self.found.entry(key(event)).or_default() += 1;
                }
            }
            if events.len() < self.limit {
                return;
            }
        }
    }
}

fn key(event: &Value) -> Found {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&event["event_type"]), text(&event["payload"]["entity_id"]))
}

async fn assert_nothing_is_lost(blocks: Vec<TestBlock>, limit: usize) {
    let mut index = TestIndex::new().await;
    let mut chain = Chain::default();
    let mut readers = [Reader::new("", limit), Reader::new("&corporation_id=1", limit)];
    let mut message_counts = Vec::new();
    for (txs, is_read) in &blocks {
        let txs: Vec<TestTx> = txs.iter().map(|messages| chain.run(messages)).collect();
        // The events of one message of a MsgExec share its index: such a transaction does not count below.
        let counts = txs.iter().map(|tx| {
            let has_authorized = tx.messages.iter().any(|one| one.type_url.contains("authz"));
            if has_authorized { u64::MAX } else { tx.messages.len() as u64 }
        });
        message_counts.push(counts.collect::<Vec<_>>());
        index.ingest(&txs, BTreeMap::new()).await;
        for reader in readers.iter_mut().filter(|_| *is_read) {
            reader.read(&index).await;
        }
    }
    for reader in &mut readers {
        reader.read(&index).await;
    }
    let [all, of_corporation] = readers;
    for (own, times) in &chain.own {
        assert!(all.found.get(own) >= Some(times), "{own:?}: {:?} of {times} in pages of {limit}", all.found.get(own));
        let is_its_own = ["SlashTrustDeposit", "GrantOperatorAuthorization"].contains(&own.0.as_str()) && own.1 == "1";
        assert!(!is_its_own || of_corporation.found.get(own) >= Some(times), "{own:?} of the corporation");
    }
    // The whole log has each event once, in order; no message index is that of another message of the transaction.
    let (mut log, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = index.read("indexer.listEvents", &format!("limit={limit}{cursor}")).await;
        log.extend(page["events"].as_array().expect("events").iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let place = |event: &Value| {
        let number = |member: &str| event["payload"][member].as_u64().expect("a number");
        (event["block_height"].as_u64().expect("a height"), number("tx_index"), number("message_index"))
    };
    assert!(log.is_sorted_by_key(place));
    let of_proposals = log.iter().filter(|event| {
        let (height, tx, message) = place(event);
        message >= message_counts[height as usize - 1][tx as usize]
    });
    let of_proposals: Vec<_> = of_proposals.map(place).collect();
    assert_eq!(of_proposals.iter().collect::<BTreeSet<_>>().len(), of_proposals.len(), "one event an index");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_reader_with_one_event_for_each_message_index_loses_no_message_whatever_its_pages(
        blocks in blocks(), limit in 1_usize..12,
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        runtime.block_on(assert_nothing_is_lost(blocks, limit));
    }
}

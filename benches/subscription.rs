//! The block subscription: fan-out against a plain broadcast and against the `ws` package, memory of idle subscribers, and the
//! way from block to subscriber.
//!
//! Servers run as processes of their own. Clients are bare sockets of this process that discard their messages, so that the
//! figures are those of the server.

mod clients;
pub mod servers;

use std::time::{Duration, Instant};

use serde_json::json;
use svc_devnet::{Devnet, DevnetConfig};
use svc_indexer::{Indexer, IndexerConfig};
use svc_wire::event_stream::{BlockMessage, EventPayload, IndexerEvent, IndexerEventTag, StreamMessage};

use crate::{BenchRow, median};
use clients::SubscriberPool;
use servers::FanOutServer;
pub use servers::{record_requests, serve};

/// The marketplace without the services that the shipped one adds.
pub const MARKETPLACE_SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/devnet/scenarios/marketplace.toml");
const CLIENTS: usize = 5_000;
const EVENTS: usize = 100;
const ROUNDS: usize = 7;

/// A participant's event of a usual length, for one of a hundred corporations.
fn event(number: usize) -> IndexerEvent {
    let did = format!("did:web:service-{number}.participants.example");
    IndexerEvent {
        type_tag: IndexerEventTag::IndexerEvent,
        event_type: "SetParticipantOPToValidated".into(),
        did: Some(did.clone()),
        block_height: 902_113,
        tx_hash: format!("{number:064X}"),
        timestamp: "2026-04-03T07:45:41Z".into(),
        payload: EventPayload {
            module: "pp".into(),
            action: "set_participant_op_to_validated".into(),
            message_type: "MsgSetParticipantOPToValidated".into(),
            tx_index: 2,
            sender: "svc1operatorxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx".into(),
            related_dids: vec![did, "did:web:guild.example".into(), "did:web:pilots.example".into()],
            entity_type: Some("Participant".into()),
            entity_id: Some(number.to_string()),
            ecosystem_id: Some("4".into()),
            schema_id: Some("9".into()),
            participant_id: Some(number.to_string()),
            corporation_id: Some(number as u64 % 100 + 1),
            related_corporation_ids: vec![1_000_007],
            ..EventPayload::default()
        },
    }
}

/// The events that a subscriber asks for.
#[derive(Clone, Copy)]
enum SubscriberFilter {
    AllEvents,
    /// One of so many corporations; those from 101 on have no events.
    Corporations(usize),
}

impl SubscriberFilter {
    fn corporation(self, client: usize) -> Option<u64> {
        match self {
            Self::AllEvents => None,
            Self::Corporations(count) => Some((client % count) as u64 + 1),
        }
    }

    fn message(self, client: usize) -> String {
        match self.corporation(client) {
            None => json!({"action": "subscribe"}).to_string(),
            Some(id) => json!({"action": "subscribe", "corporationId": id}).to_string(),
        }
    }
}

fn block(height: u64, events: usize) -> BlockMessage {
    BlockMessage {
        block: height,
        block_time: "2026-04-03T07:45:41.000Z".into(),
        events: (0..events).map(event).collect(),
    }
}

/// Bytes of the frame a client gets.
fn frame_length(block: &BlockMessage, corporation: Option<u64>) -> usize {
    let mut own = block.clone();
    own.events.retain(|event| corporation.is_none_or(|id| event.payload.corporation_id == Some(id)));
    let length = serde_json::to_string(&StreamMessage::Block(own)).expect("JSON").len();
    length
        + if length < 126 {
            2
        } else if length < 65_536 {
            4
        } else {
            10
        }
}

/// Milliseconds until the last client has a block; clients beyond `reading` never read.
fn fan_out(server: &mut FanOutServer, want: SubscriberFilter, clients: usize, stalled: usize, events: usize) -> f64 {
    let silent = SubscriberPool::connect(server.port, stalled, |client| want.message(client));
    let mut reading = SubscriberPool::connect(server.port, clients, |client| want.message(client));
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let block = block(server.next_height(), events);
        let mut lengths = std::collections::HashMap::new();
        let expected: Vec<usize> = (0..clients)
            .map(|client| {
                let corporation = want.corporation(client);
                *lengths.entry(corporation).or_insert_with(|| frame_length(&block, corporation))
            })
            .collect();
        let order = serde_json::to_string(&block).expect("JSON");
        let begun = Instant::now();
        server.send_block(&order);
        reading.receive(&expected);
        times.push(begun.elapsed().as_secs_f64() * 1_000.0);
    }
    drop((reading, silent));
    median(times)
}

fn fan_outs(rows: &mut Vec<BenchRow>) {
    for (what, want) in
        [("everything", SubscriberFilter::AllEvents), ("one corporation each", SubscriberFilter::Corporations(100))]
    {
        let ours = fan_out(&mut FanOutServer::ours(), want, CLIENTS, 0, EVENTS);
        let peer = fan_out(&mut FanOutServer::node_ws(), want, CLIENTS, 0, EVENTS);
        let measure = format!("fan-out, {CLIENTS} clients, {EVENTS} events, {what}, to the last client");
        rows.push(BenchRow::new(
            &measure,
            format!("{ours:.0} ms"),
            format!("{peer:.0} ms, `ws` of npm, filter and message per client"),
            ours / peer,
        ));
        if let SubscriberFilter::AllEvents = want {
            let plain = fan_out(&mut FanOutServer::plain(), want, CLIENTS, 0, EVENTS);
            rows.push(BenchRow::new(
                &measure,
                format!("{ours:.0} ms"),
                format!("{plain:.0} ms, plain broadcast of the same bytes"),
                ours / plain,
            ));
        }
    }
    let mut server = FanOutServer::ours();
    let one = fan_out(&mut server, SubscriberFilter::Corporations(1), CLIENTS, 0, EVENTS);
    for filters in [100, CLIENTS] {
        let time = fan_out(&mut server, SubscriberFilter::Corporations(filters), CLIENTS, 0, EVENTS);
        let measure = format!("fan-out, {CLIENTS} clients, {EVENTS} events, {filters} distinct filters");
        rows.push(BenchRow::new(measure, format!("{time:.0} ms"), format!("{one:.0} ms, one filter"), time / one));
    }
    let few = fan_out(&mut server, SubscriberFilter::Corporations(100), CLIENTS / 10, 0, EVENTS);
    let none = fan_out(&mut server, SubscriberFilter::Corporations(100), CLIENTS, 0, 0);
    rows.push(BenchRow::new(
        format!("fan-out, {} clients, {EVENTS} events, 100 filters", CLIENTS / 10),
        format!("{few:.1} ms"),
        format!("{none:.1} ms, {CLIENTS} clients, empty block"),
        few / none,
    ));
    let alone = fan_out(&mut server, SubscriberFilter::AllEvents, 600, 0, EVENTS);
    let beside = fan_out(&mut server, SubscriberFilter::AllEvents, 500, 100, EVENTS);
    rows.push(BenchRow::new(
        "fan-out, 500 clients, 100 events, beside 100 that never read",
        format!("{beside:.0} ms"),
        format!("{alone:.0} ms, 600 that read"),
        beside / alone,
    ));
}

/// Resident bytes of the server for each idle subscriber.
fn idle(rows: &mut Vec<BenchRow>) {
    const MANY: usize = 18_000;
    let cost = |mut server: FanOutServer, warm: usize| {
        // The first connections pay for the state that all share.
        let first =
            SubscriberPool::connect(server.port, warm, |client| SubscriberFilter::Corporations(50).message(client));
        let before = server.resident();
        let rest = SubscriberPool::connect(server.port, MANY - warm, |client| {
            SubscriberFilter::Corporations(50).message(client)
        });
        let after = server.resident();
        server.kill();
        drop((first, rest));
        (after.saturating_sub(before)) as f64 / (MANY - warm) as f64 / 1024.0
    };
    let (ours, plain) = (cost(FanOutServer::ours(), 500), cost(FanOutServer::plain(), 500));
    rows.push(BenchRow::new(
        format!("memory of an idle subscriber, of {MANY}"),
        format!("{ours:.1} KiB"),
        format!("{plain:.1} KiB, plain broadcast"),
        ours / plain,
    ));
}

/// Milliseconds from the node's own event to a subscriber's socket, ours and a process that only forwards the node's message.
async fn block_to_subscriber(rows: &mut Vec<BenchRow>) {
    let config = DevnetConfig {
        block_time: Some(Duration::from_millis(50)),
        scenario: "corporation".into(),
        ..DevnetConfig::default()
    };
    let devnet = Devnet::launch(config).await.expect("a devnet");
    let indexer =
        Indexer::launch(IndexerConfig::new(devnet.node.origin(), "sqlite::memory:")).await.expect("an indexer");
    let listener = svc::listener::bind_listener(([127, 0, 0, 1], 0).into()).expect("a port");
    let origin = format!("ws://{}/v4/indexer/subscribe", listener.local_addr().expect("an address"));
    tokio::spawn(svc::indexer::serve(
        listener,
        svc::indexer::IndexerApi::new(&indexer),
        svc::listener::ListenerConfig::for_local_network(),
    ));
    let node = devnet.node.origin().replace("http", "ws") + "/websocket";
    let forwarder = servers::forward(node.clone()).await;
    let [direct, forwarded, ours] = [
        servers::subscribe_heights(node, Some(servers::NODE_SUBSCRIBE)).await,
        servers::subscribe_heights(forwarder, None).await,
        servers::subscribe_heights(origin, Some(r#"{"action":"subscribe"}"#)).await,
    ];
    let (mut forward_times, mut our_times) = (Vec::new(), Vec::new());
    let [direct, forwarded, ours] = servers::collect_heights([direct, forwarded, ours], 200).await;
    for (height, at) in &direct {
        let after = |other: &std::collections::HashMap<u64, Instant>| {
            other.get(height).map(|then| then.saturating_duration_since(*at).as_secs_f64() * 1_000.0)
        };
        if let (Some(forwarded), Some(ours)) = (after(&forwarded), after(&ours)) {
            forward_times.push(forwarded);
            our_times.push(ours);
        }
    }
    let (forwarded, ours) = (median(forward_times), median(our_times));
    rows.push(BenchRow::new(
        "node's block event to subscriber, median",
        format!("{ours:.2} ms"),
        format!("{forwarded:.2} ms, a process that forwards the node's message"),
        ours / forwarded,
    ));
}

pub async fn rows() -> Vec<BenchRow> {
    let rows = tokio::task::spawn_blocking(|| {
        let mut rows = Vec::new();
        fan_outs(&mut rows);
        idle(&mut rows);
        rows
    });
    let mut rows = rows.await.expect("measured");
    block_to_subscriber(&mut rows).await;
    rows
}

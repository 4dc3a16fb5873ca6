//! A subscriber that follows the catch-up rules receives every event once and in order, despite interrupted
//! connections.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::SinkExt;
use serde_json::Value;
use svc::{
    mcp_client::McpClient,
    network::{LocalNetwork, LocalNetworkConfig},
};
use tokio::sync::watch;
use tokio_tungstenite::{connect_async, tungstenite::Message};

use super::{
    super::harness::{self, CREATE_ECOSYSTEM, TEST_TIMEOUT, ecosystem_arguments, into_arguments, pause},
    IndexerReplica, await_indexed, connect, event_key, next_message, read_ok,
};

/// A subscriber that follows the contract: it connects, subscribes, catches up over REST, then continues with the
/// stream and skips known events.
struct CatchUpSubscriber {
    origin: String,
    http: reqwest::Client,
    height: u64,
    seen: HashSet<String>,
    events: Vec<Value>,
    /// Number of connections so far.
    connections: watch::Sender<u64>,
}

impl CatchUpSubscriber {
    fn take(&mut self, events: &[Value]) {
        for event in events {
            if self.seen.insert(event_key(event)) {
                self.events.push(event.clone());
            }
        }
    }

    /// Follows one connection until it ends or is cut at any point. True when it has reached the last height.
    async fn follow(&mut self, until: &mut watch::Receiver<Option<u64>>, cut: &mut watch::Receiver<u32>) -> bool {
        tokio::select! {
            is_done = self.follow_connection(until) => is_done,
            _ = cut.changed() => false,
        }
    }

    async fn follow_connection(&mut self, until: &mut watch::Receiver<Option<u64>>) -> bool {
        let url = self.origin.replace("http", "ws") + "/v4/indexer/subscribe";
        let Ok((mut socket, _)) = connect_async(url).await else {
            // The indexer is down.
            pause().await;
            return false;
        };
        self.connections.send_modify(|count| *count += 1);
        let Some(ready) = next_message(&mut socket).await else { return false };
        assert_eq!(ready["type"], "ready");
        if socket.send(Message::text(r#"{"action":"subscribe"}"#)).await.is_err() {
            return false;
        }
        let Some(subscribed) = next_message(&mut socket).await else { return false };
        assert_eq!(subscribed["type"], "subscribed");
        if !self.catch_up(subscribed["block"].as_u64().expect("a height") - 1).await {
            return false;
        }
        loop {
            if until.borrow().is_some_and(|until| self.height >= until) {
                return true;
            }
            let message = tokio::select! {
                message = next_message(&mut socket) => message,
                _ = until.changed() => continue,
            };
            let Some(block) = message else { return false };
            let height = block["block"].as_u64().expect("a height");
            if height > self.height {
                assert_eq!(height, self.height + 1, "no gap while a connection lives");
                self.height = height;
            }
            self.take(block["events"].as_array().expect("events"));
        }
    }

    /// Reads all events after the last height up to `promised`. Later events arrive over the socket.
    async fn catch_up(&mut self, promised: u64) -> bool {
        let mut cursor = String::new();
        loop {
            let url = format!("{}/v4/indexer/events?limit=3&after_block_height={}{cursor}", self.origin, self.height);
            let Ok(response) = self.http.get(url).send().await else { return false };
            let Ok(page) = response.json::<Value>().await else { return false };
            self.take(page["events"].as_array().expect("events"));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        self.height = self.height.max(promised);
        true
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_interruptions_neither_lose_nor_repeat_events() {
    let home = tempfile::tempdir().expect("a directory");
    let config = LocalNetworkConfig {
        database: format!("sqlite://{}?mode=rwc", home.path().join("indexer.db").display()),
        indexer_timeout: Duration::from_millis(10),
        ..harness::network_config(50)
    };
    let mut network = LocalNetwork::launch(config).await.expect("the network starts");
    let origin = network.indexer_origin();
    let (stop, cuts) = (Arc::new(AtomicBool::new(false)), watch::channel(0_u32).0);
    let (tell_end, end) = watch::channel(None);
    let (count_connections, mut connections) = watch::channel(0);

    let subscriber = tokio::spawn({
        let (origin, mut end, mut cut) = (origin.clone(), end.clone(), cuts.subscribe());
        async move {
            let (http, seen, events) = (reqwest::Client::new(), HashSet::new(), Vec::new());
            let mut subscriber =
                CatchUpSubscriber { origin, http, height: 0, seen, events, connections: count_connections };
            while !subscriber.follow(&mut end, &mut cut).await {}
            subscriber
        }
    });
    let writers: Vec<_> = (0..6)
        .map(|writer| {
            let (url, bearer, stop) = (network.mcp_url(), network.bearer_token.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut client = McpClient::connect(&url, &bearer).await.expect("connects");
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    number += 1;
                    // A write may fail while the node is down: the test compares the events with the chain.
                    let arguments = into_arguments(ecosystem_arguments(format!("w{writer}n{number}")));
                    if client.call_tool(CREATE_ECOSYSTEM, arguments).await.is_err() {
                        // A client without a server answers at once and for ever; this loop would never yield.
                        pause().await;
                        if let Ok(connected) = McpClient::connect(&url, &bearer).await {
                            client = connected;
                        }
                    }
                }
            })
        })
        .collect();

    let mut random = fastrand::Rng::with_seed(7);
    let mut heights = network.devnet.node.watch_heights();
    for cut in 1..=100 {
        let earlier_connections = *connections.borrow_and_update();
        let interruption = random.u32(0..4);
        match interruption {
            0 => network.devnet.node.cut_websockets(),
            1 => {
                network.devnet.node.stop();
                network.devnet.node.start().expect("the node starts again");
            }
            2 => {
                network.kill_indexer();
                network.restart_indexer().await.expect("the indexer starts again");
            }
            _ => drop(cuts.send(cut)),
        }
        // Some interruptions of the subscriber's own connection strike before it has connected again, some after, on a slow machine
        // too.
        if interruption >= 2 && cut % 2 == 0 {
            let connected = connections.wait_for(|count| *count > earlier_connections);
            tokio::time::timeout(TEST_TIMEOUT, connected).await.expect("connects again").expect("the subscriber lives");
        }
        for _ in 0..random.u32(1..5) {
            let next = tokio::time::timeout(TEST_TIMEOUT, heights.changed());
            next.await.expect("blocks go on").expect("the node lives");
        }
    }
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.expect("the writer ends");
    }
    let last = *heights.borrow_and_update() + 1;
    await_indexed(&origin, last).await;
    tell_end.send(Some(last)).expect("the subscriber listens");
    let subscriber =
        tokio::time::timeout(TEST_TIMEOUT, subscriber).await.expect("in time").expect("the subscriber ends");

    let on_chain = network.devnet.node.read_core(|core| {
        let mut found = Vec::new();
        for block in core.blocks().iter().filter(|block| block.height <= last) {
            for outcome in block.tx_outcomes.iter() {
                for event in outcome.events.iter().filter(|event| event.kind == "create_ecosystem") {
                    let did = event.attributes.iter().find(|(key, _)| key == "did").expect("a did");
                    found.push((block.height, did.1.clone()));
                }
            }
        }
        found
    });
    let heard: Vec<(u64, String)> = subscriber
        .events
        .iter()
        .filter(|event| event["event_type"] == "CreateNewEcosystem")
        .map(|event| {
            (event["block_height"].as_u64().expect("a height"), event["did"].as_str().expect("a DID").to_owned())
        })
        .filter(|(height, _)| *height <= last)
        .collect();
    let connections = *connections.borrow();
    assert!(heard.len() > 20 && connections > 20, "{} events, {connections} connections", heard.len());
    assert_eq!(heard, on_chain, "every event once, in the order of the chain");
    let places: Vec<_> = subscriber.events.iter().map(|event| event["block_height"].as_u64()).collect();
    assert!(places.is_sorted(), "in order");

    // A replica that starts now has the same events and entities from the chain alone.
    let config = svc_indexer::IndexerConfig::new(network.devnet.node.origin(), "sqlite::memory:");
    let replica = IndexerReplica::launch(config).await;
    await_indexed(&replica.origin, last).await;
    for path in [
        "/v4/indexer/events?limit=500",
        "/v4/ecosystem/list?limit=1024",
        "/v4/stats/snapshot",
        "/v4/corporation/history/1",
    ] {
        let at = format!("{path}{}", if path.contains('?') { "" } else { "?" });
        let [own, other] = [
            super::read_ok_at(&origin, &at, Some(last)).await,
            super::read_ok_at(&replica.origin, &at, Some(last)).await,
        ];
        let until = |mut body: Value| {
            if let Some(events) = body["events"].as_array_mut() {
                events.retain(|event| event["block_height"].as_u64() <= Some(last));
            }
            body.as_object_mut().expect("an object").retain(|key, _| key != "count" && key != "next_cursor");
            body
        };
        assert_eq!(until(own), until(other), "{path}");
    }
    // Restarts did not change the activity.
    for height in (1..=last).step_by(5) {
        let [own, other] = [
            super::read_ok_at(&origin, "/v4/indexer/changes", Some(height)).await,
            super::read_ok_at(&replica.origin, "/v4/indexer/changes", Some(height)).await,
        ];
        assert_eq!(own["activity"], other["activity"], "at {height}");
    }
}

/// Ten thousand subscriptions of one client do not delay others: each connection has at most one message in the hub's
/// mailbox.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_subscribes_without_end_does_not_delay_others() {
    let grounds = super::start_chain_and_indexer("empty").await;
    let origin = grounds.indexer_origin();
    let mut quiet = connect(&origin).await;
    quiet.send(Message::text(r#"{"action":"subscribe"}"#)).await.expect("sent");
    for expected in ["ready", "subscribed"] {
        assert_eq!(next_message(&mut quiet).await.expect("open")["type"], expected);
    }
    let noisy = connect(&origin).await;
    let (mut say, mut hear) = futures::StreamExt::split(noisy);
    let saying = tokio::spawn(async move {
        for number in 0..10_000 {
            let message = format!(r#"{{"action":"subscribe","corporationId":{}}}"#, number + 1);
            say.send(Message::text(message)).await.expect("sent");
        }
        say
    });
    let mut acknowledged = 0;
    while acknowledged < 10_000 {
        let message = tokio::time::timeout(TEST_TIMEOUT, futures::StreamExt::next(&mut hear)).await.expect("in time");
        let Message::Text(text) = message.expect("open").expect("a frame") else { continue };
        acknowledged += usize::from(text.contains(r#""type":"subscribed""#));
    }
    drop(saying.await.expect("said"));
    let height = super::produce_blocks(&grounds, 3).await;
    let mut last = 0;
    while last < height {
        last = next_message(&mut quiet).await.expect("open")["block"].as_u64().expect("a height");
    }
    let filters = read_ok(&origin, "/v4/indexer/block-height").await["height"].as_u64();
    assert_eq!(filters, Some(height));
}

/// A full queue closes its own connection; other subscribers receive every block.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_closes_only_its_own_connection() {
    use svc_indexer::{ControlMessage, Indexer, IndexerConfig, SubscriptionFilter};
    use svc_wire::event_stream::BlockMessage;
    let grounds = super::start_chain_and_indexer("empty").await;
    let config = IndexerConfig {
        max_buffered_bytes: 65_536,
        ..IndexerConfig::new(grounds.devnet.node.origin(), "sqlite::memory:")
    };
    let indexer = Indexer::launch(config).await.expect("starts");
    let first = *grounds.devnet.node.watch_heights().borrow() + 1;
    let indexed = async {
        while indexer.reader.checkpoint().await.expect("a checkpoint").height + 1 < first {
            pause().await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, indexed).await.expect("in time");
    let [mut idle, mut busy] = [indexer.hub.join().await.expect("joins"), indexer.hub.join().await.expect("joins")];
    for join in [&idle, &busy] {
        indexer
            .hub
            .send_control(join.id, ControlMessage::Subscribe(SubscriptionFilter::default()))
            .await
            .expect("subscribes");
    }
    let tell = |height| {
        let block = BlockMessage { block: height, block_time: "t".repeat(1_000), events: Vec::new() };
        indexer.hub.publish_block(block).expect("told");
    };
    let mut heard = 0;
    for height in first..first + 300 {
        tell(height);
        while heard < height {
            let frame = busy.frames.next().await.expect("open");
            busy.frames.mark_sent(&frame);
            let text = String::from_utf8_lossy(&frame);
            // The follower may publish its last block after the test has read the checkpoint.
            let body: Value = serde_json::from_str(&text[text.find('{').expect("JSON")..]).expect("JSON");
            let block = body["block"].as_u64().filter(|block| body["type"] == "block" && *block >= first);
            if let Some(block) = block {
                heard += if heard == 0 { height } else { 1 };
                assert_eq!(block, heard, "{text}");
            }
        }
    }
    let mut left = 0;
    while idle.frames.next().await.is_some() {
        left += 1;
    }
    // 64 KiB in frames of a kilobyte, `ready` and `subscribed`, and at most one more.
    assert!((60..=70).contains(&left), "{left} frames were kept");
    indexer.shutdown(Duration::from_secs(1)).await;
}

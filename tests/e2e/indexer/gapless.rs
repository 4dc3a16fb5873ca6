//! A subscriber that follows the catch-up rules sees every event exactly once and in order, whatever is cut.

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
    client::Client,
    network::{Network, NetworkConfig},
};
use tokio::sync::watch;
use tokio_tungstenite::{connect_async, tungstenite::Message};

use super::{
    super::harness::{self, CREATE, PATIENCE, arguments, ecosystem},
    Replica, connect, key, next, ok, wait_for,
};

/// A subscriber as the contract wants it: connect, subscribe, catch up over REST, then go on live without what was seen.
struct Subscriber {
    origin: String,
    height: u64,
    seen: HashSet<String>,
    events: Vec<Value>,
    connections: usize,
}

impl Subscriber {
    fn take(&mut self, events: &[Value]) {
        for event in events {
            if self.seen.insert(key(event)) {
                self.events.push(event.clone());
            }
        }
    }

    /// One connection: ends when it is cut, or when told to at a height that was reached.
    async fn follow(&mut self, until: &mut watch::Receiver<Option<u64>>, cut: &mut watch::Receiver<u32>) -> bool {
        let url = self.origin.replace("http", "ws") + "/v4/indexer/subscribe";
        let Ok((mut socket, _)) = connect_async(url).await else {
            // The indexer is down: whoever cut it says when to look again.
            tokio::task::yield_now().await;
            return false;
        };
        self.connections += 1;
        let Some(ready) = next(&mut socket).await else { return false };
        assert_eq!(ready["type"], "ready");
        if socket.send(Message::text(r#"{"action":"subscribe"}"#)).await.is_err() {
            return false;
        }
        let Some(subscribed) = next(&mut socket).await else { return false };
        assert_eq!(subscribed["type"], "subscribed");
        if !self.catch_up(subscribed["block"].as_u64().expect("a height") - 1).await {
            return false;
        }
        loop {
            if until.borrow().is_some_and(|until| self.height >= until) {
                return true;
            }
            let message = tokio::select! {
                message = next(&mut socket) => message,
                _ = until.changed() => continue,
                _ = cut.changed() => return false,
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

    /// Reads everything behind the last height up to `promised`: what comes later comes over the socket.
    async fn catch_up(&mut self, promised: u64) -> bool {
        let mut cursor = String::new();
        loop {
            let url = format!("{}/v4/indexer/events?limit=3&after_block_height={}{cursor}", self.origin, self.height);
            let Ok(response) = reqwest::get(url).await else { return false };
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
async fn a_hundred_cuts_lose_nothing_and_repeat_nothing() {
    let home = tempfile::tempdir().expect("a directory");
    let config = NetworkConfig {
        database: format!("sqlite://{}?mode=rwc", home.path().join("indexer.db").display()),
        indexer_timeout: Duration::from_millis(10),
        ..harness::config(50)
    };
    let mut network = Network::launch(config).await.expect("the network starts");
    let origin = network.indexer_origin();
    let (stop, cuts) = (Arc::new(AtomicBool::new(false)), watch::channel(0_u32).0);
    let (tell_end, end) = watch::channel(None);

    let subscriber = tokio::spawn({
        let (origin, mut end, mut cut) = (origin.clone(), end.clone(), cuts.subscribe());
        async move {
            let (seen, events) = (HashSet::new(), Vec::new());
            let mut subscriber = Subscriber { origin, height: 0, seen, events, connections: 0 };
            while !subscriber.follow(&mut end, &mut cut).await {}
            subscriber
        }
    });
    let writers: Vec<_> = (0..6)
        .map(|writer| {
            let (url, bearer, stop) = (network.mcp_url(), network.bearer.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                let client = Client::connect(&url, &bearer).await.expect("connects");
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    number += 1;
                    // A write that fails because the node is down is no matter: what the chain holds is what counts.
                    let _ = client.call(CREATE, arguments(ecosystem(format!("w{writer}n{number}")))).await;
                }
            })
        })
        .collect();

    let mut random = fastrand::Rng::with_seed(7);
    let mut heights = network.devnet.node.heights();
    for cut in 1..=100 {
        match random.u32(0..4) {
            0 => network.devnet.node.cut_websockets(),
            1 => {
                network.devnet.node.stop();
                network.devnet.node.start().expect("the node starts again");
            }
            2 => {
                network.stop_indexer();
                network.start_indexer().await.expect("the indexer starts again");
            }
            _ => drop(cuts.send(cut)),
        }
        for _ in 0..random.u32(1..5) {
            let next = tokio::time::timeout(PATIENCE, heights.changed());
            next.await.expect("blocks go on").expect("the node lives");
        }
    }
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.expect("the writer ends");
    }
    let last = *heights.borrow_and_update() + 1;
    wait_for(&origin, last).await;
    tell_end.send(Some(last)).expect("the subscriber listens");
    let subscriber = tokio::time::timeout(PATIENCE, subscriber).await.expect("in time").expect("the subscriber ends");

    let on_chain = network.devnet.node.inspect(|core| {
        let mut found = Vec::new();
        for block in core.blocks().iter().filter(|block| block.height <= last) {
            for outcome in block.outcomes.iter() {
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
    assert!(
        heard.len() > 20 && subscriber.connections > 20,
        "{} events, {} connections",
        heard.len(),
        subscriber.connections
    );
    assert_eq!(heard, on_chain, "every event once, in the order of the chain");
    let places: Vec<_> = subscriber.events.iter().map(|event| event["block_height"].as_u64()).collect();
    assert!(places.is_sorted(), "in order");

    // A replica that starts now reads the same events and entities from the chain alone.
    let config = svc_indexer::IndexerConfig::new(network.devnet.node.origin(), "sqlite::memory:");
    let replica = Replica::launch(config).await;
    wait_for(&replica.origin, last).await;
    for path in [
        "/v4/indexer/events?limit=500",
        "/v4/ecosystem/list?limit=1024",
        "/v4/stats/snapshot",
        "/v4/corporation/history/1",
    ] {
        let at = format!("{path}{}", if path.contains('?') { "" } else { "?" });
        let [own, other] =
            [super::ok_at(&origin, &at, Some(last)).await, super::ok_at(&replica.origin, &at, Some(last)).await];
        let until = |mut body: Value| {
            if let Some(events) = body["events"].as_array_mut() {
                events.retain(|event| event["block_height"].as_u64() <= Some(last));
            }
            body.as_object_mut().expect("an object").retain(|key, _| key != "count" && key != "next_cursor");
            body
        };
        assert_eq!(until(own), until(other), "{path}");
    }
    // Restarts left no trace in what was done to whom.
    for height in (1..=last).step_by(5) {
        let [own, other] = [
            super::ok_at(&origin, "/v4/indexer/changes", Some(height)).await,
            super::ok_at(&replica.origin, "/v4/indexer/changes", Some(height)).await,
        ];
        assert_eq!(own["activity"], other["activity"], "at {height}");
    }
}

/// Ten thousand subscribes from one client cost the others nothing: each connection has one message at the hub at most.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_subscribes_without_end_harms_nobody() {
    let grounds = super::grounds("empty").await;
    let origin = grounds.indexer_origin();
    let mut quiet = connect(&origin).await;
    quiet.send(Message::text(r#"{"action":"subscribe"}"#)).await.expect("sent");
    for expected in ["ready", "subscribed"] {
        assert_eq!(next(&mut quiet).await.expect("open")["type"], expected);
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
        let message = tokio::time::timeout(PATIENCE, futures::StreamExt::next(&mut hear)).await.expect("in time");
        let Message::Text(text) = message.expect("open").expect("a frame") else { continue };
        acknowledged += usize::from(text.contains(r#""type":"subscribed""#));
    }
    drop(saying.await.expect("said"));
    let height = super::produce(&grounds, 3).await;
    let mut last = 0;
    while last < height {
        last = next(&mut quiet).await.expect("open")["block"].as_u64().expect("a height");
    }
    let filters = ok(&origin, "/v4/indexer/block-height").await["height"].as_u64();
    assert_eq!(filters, Some(height));
}

/// A subscriber that takes nothing is given up when its queue is full, by itself; the others hear every block.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_that_takes_nothing_is_given_up_alone() {
    use svc_indexer::{Control, Filter, Indexer, IndexerConfig};
    use svc_wire::event::BlockMessage;
    let grounds = super::grounds("empty").await;
    let config = IndexerConfig {
        max_buffered_bytes: 65_536,
        ..IndexerConfig::new(grounds.devnet.node.origin(), "sqlite::memory:")
    };
    let indexer = Indexer::launch(config).await.expect("starts");
    let first = *grounds.devnet.node.heights().borrow() + 1;
    let indexed = async {
        while indexer.reader.checkpoint().await.expect("a checkpoint").height + 1 < first {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, indexed).await.expect("in time");
    let [mut idle, mut busy] = [indexer.hub.join().await.expect("joins"), indexer.hub.join().await.expect("joins")];
    for join in [&idle, &busy] {
        indexer.hub.control(join.id, Control::Subscribe(Filter::default())).await.expect("subscribes");
    }
    let tell = |height| {
        let block = BlockMessage { block: height, block_time: "t".repeat(1_000), events: Vec::new() };
        indexer.hub.processed(block).expect("told");
    };
    let mut heard = 0;
    for height in first..first + 300 {
        tell(height);
        while heard < height {
            let frame = busy.queue.next().await.expect("open");
            busy.queue.sent(&frame);
            let text = String::from_utf8_lossy(&frame);
            // The follower may tell its own last block after the checkpoint is written.
            let body: Value = serde_json::from_str(&text[text.find('{').expect("JSON")..]).expect("JSON");
            let block = body["block"].as_u64().filter(|block| body["type"] == "block" && *block >= first);
            if let Some(block) = block {
                heard += if heard == 0 { height } else { 1 };
                assert_eq!(block, heard, "{text}");
            }
        }
    }
    let mut left = 0;
    while idle.queue.next().await.is_some() {
        left += 1;
    }
    // 64 KiB of frames of a kilobyte, `ready` and `subscribed`, and at most one more.
    assert!((60..=70).contains(&left), "{left} frames were kept");
    indexer.shutdown(Duration::from_secs(1)).await;
}

//! Histories of nodes: disputes, chains that went back, and the rebase.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use svc_net::upstream::UpstreamOrigins;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::*;
use crate::{
    journal::{
        core::JournalEntry,
        inspection::verify_journal,
        store::JournalPlace,
        tests::{decided, signed},
    },
    known_history::RebaseRefusal,
    rebase::{JournalRebase, RebaseError, rebase_journal},
    write::intent::DEFAULT_PRINCIPAL,
};

/// A node whose block hashes begin with a name, from the fork on with another one. At first it is at height 7 and has no fork.
struct NamedNode {
    origin: String,
    state: Arc<NodeState>,
}

struct NodeState {
    name: &'static str,
    is_away: AtomicBool,
    height: AtomicU64,
    fork: AtomicU64,
}

impl NodeState {
    fn hash(&self, height: u64) -> String {
        let name = if height >= self.fork.load(Ordering::SeqCst) { "F" } else { self.name };
        format!("{name}{height}")
    }
}

impl NamedNode {
    async fn start(name: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let origin = format!("http://{}", listener.local_addr().expect("an address"));
        let state = NodeState {
            name,
            is_away: AtomicBool::new(false),
            height: AtomicU64::new(7),
            fork: AtomicU64::new(u64::MAX),
        };
        let state = Arc::new(state);
        let answering = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if !answering.is_away.load(Ordering::SeqCst) {
                    tokio::spawn(answer(stream, Arc::clone(&answering)));
                }
            }
        });
        Self { origin, state }
    }

    /// Has the newest block at a height, and other blocks from the fork on.
    fn stand(&self, height: u64, fork: u64) {
        self.state.height.store(height, Ordering::SeqCst);
        self.state.fork.store(fork, Ordering::SeqCst);
    }
}

/// The transaction of a block of a node.
fn tx_of(block: &str) -> Vec<u8> {
    block.as_bytes().to_vec()
}

async fn answer(mut stream: TcpStream, node: Arc<NodeState>) {
    let mut request = Vec::new();
    let body: Value = loop {
        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return;
        }
        let Some(end) = request.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        if let Ok(body) = serde_json::from_slice(&request[end + 4..]) {
            break body;
        }
    };
    let newest = node.height.load(Ordering::SeqCst);
    let answer = match body["method"].as_str() {
        Some("status") => json!({"result": {
            "node_info": {"network": "c", "version": "1"},
            "sync_info": {
                "latest_block_height": newest.to_string(), "latest_block_time": "1970-01-01T00:00:07Z",
                "latest_block_hash": node.hash(newest), "earliest_block_height": "1", "catching_up": false,
            },
        }}),
        _ => {
            let height = body["params"]["height"].as_str().expect("a height");
            let number: u64 = height.parse().expect("a number");
            let header = json!({
                "chain_id": "c", "height": height, "time": "1970-01-01T00:00:07Z", "last_block_id": {"hash": ""},
            });
            let hash = node.hash(number);
            let block = json!({"header": header, "data": {"txs": [STANDARD.encode(tx_of(&hash))]}});
            if number > newest {
                let data = "height must be less than or equal to the current blockchain height";
                json!({"error": {"code": -32603, "message": "Internal error", "data": data}})
            } else {
                json!({"result": {"block_id": {"hash": hash}, "block": block}})
            }
        }
    };
    let mut response = answer;
    response["jsonrpc"] = "2.0".into();
    response["id"] = body["id"].clone();
    let response = response.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        response.len()
    );
    let _ = stream.write_all((head + &response).as_bytes()).await;
}

async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_node_goes_on_alone_only_with_the_pinned_block_and_after_ten_minutes() {
    for (pinned, goes_on) in [(Some("A5"), true), (Some("B5"), false), (None, false)] {
        let directory = tempfile::tempdir().expect("a folder");
        let file = directory.path().join("journal").to_str().map(str::to_owned);
        let store = JournalStore::open(&JournalPlace { file, min_free_space: 0.into() }, "owner").await.expect("opens");
        let (journal, _args) = JournalHandle::new(store.clone(), HistoryState::default(), 10);
        if let Some(hash) = pinned {
            store.pin_block(&BlockPin { height: 5, hash: hash.to_owned() }).await.expect("pinned");
        }
        let (first, second) = (NamedNode::start("A").await, NamedNode::start("B").await);
        let node = NodeClient::new(UpstreamOrigins::from(&first.origin).with_origin(&second.origin)).expect("a client");
        let compare = async || {
            node.select_current(None).await;
            settle_dispute(&node, &journal).await;
            node.dispute().is_some()
        };
        assert!(compare().await, "the blocks differ");
        second.state.is_away.store(true, Ordering::SeqCst);
        pass(Duration::from_secs(590)).await;
        assert!(compare().await, "ten minutes are not over");
        pass(Duration::from_secs(11)).await;
        assert_eq!(compare().await, !goes_on, "{pinned:?}");
        // The other node has other blocks still.
        second.state.is_away.store(false, Ordering::SeqCst);
        pass(Duration::from_secs(60)).await;
        assert!(compare().await, "it answers again");
    }
}

fn pin(height: u64) -> BlockPin {
    BlockPin { height, hash: format!("A{height}") }
}

async fn open_file(directory: &tempfile::TempDir) -> (String, JournalStore) {
    let file = directory.path().join("journal").display().to_string();
    let place = JournalPlace { file: Some(file.clone()), min_free_space: 0.into() };
    (file, JournalStore::open(&place, "c/account").await.expect("opens"))
}

/// A journal with a transaction in each of the blocks, and pinned blocks.
async fn write_journal(store: &JournalStore, blocks: &[u64], pins: &[u64]) {
    for (sequence, height) in (1_u64..).zip(blocks) {
        let (hash, key) = (tx_hash(&tx_of(&format!("A{height}"))), format!("key {height}"));
        let entries: [JournalEntry; 2] =
            [signed(&hash, sequence, Some(&key)), decided(&hash, "included", Some(*height))];
        store.write(&entries).await.expect("written");
    }
    for height in pins {
        store.pin_block(&pin(*height)).await.expect("pinned");
    }
}

#[tokio::test]
async fn a_boot_notices_another_history_by_a_block_or_by_a_transaction_and_not_a_node_that_is_behind() {
    let shown = |height: u64, agreed| Some((height, agreed));
    for (blocks, pins, height, fork, expected) in [
        (&[3, 8][..], &[1, 8][..], 9, u64::MAX, None),
        (&[3, 8], &[1, 8], 9, 9, None),
        (&[3, 8], &[1, 8], 9, 8, shown(8, Some(1))),
        (&[3, 8], &[1, 5, 8], 9, 6, shown(8, Some(5))),
        (&[3, 8], &[1, 5, 8], 9, 5, shown(5, Some(1))),
        (&[3, 8], &[2, 8], 9, 1, shown(2, None)),
        // The process was killed before the block of its last transaction was pinned.
        (&[3, 8], &[1, 5], 9, 8, shown(8, Some(5))),
        (&[3, 8], &[1, 5], 9, 7, shown(8, Some(5))),
        (&[6, 8], &[1, 5], 9, 6, shown(6, Some(5))),
        (&[3, 8], &[], 9, 8, shown(8, None)),
        // The node is only behind.
        (&[3, 8], &[1, 5, 8], 7, u64::MAX, None),
        (&[3, 8], &[5, 8], 4, u64::MAX, None),
        // It is behind, and has another block all the same.
        (&[3, 8], &[1, 5, 8], 7, 5, shown(5, Some(1))),
    ] {
        let directory = tempfile::tempdir().expect("a folder");
        let (_, store) = open_file(&directory).await;
        write_journal(&store, blocks, pins).await;
        let fake = NamedNode::start("A").await;
        fake.stand(height, fork);
        let node = NodeClient::new(UpstreamOrigins::from(&fake.origin)).expect("a client");
        let state = check_history(&store, &node, None).await.expect("compared");
        let found = state.change().map(|change| (change.height, change.agreed));
        assert_eq!(found, expected, "{blocks:?} {pins:?} {height} {fork}");
        // A block is pinned only where the node has the same history and is not behind.
        let is_behind = height < 8;
        let newest = store.pins().await.expect("read").pop().map(|pin| pin.height);
        assert_eq!(newest == Some(height), expected.is_none() && !is_behind, "{blocks:?} {pins:?} {height} {fork}");
    }
}

#[tokio::test]
async fn a_running_pipeline_notices_a_chain_that_went_back_at_its_first_other_block() {
    let directory = tempfile::tempdir().expect("a folder");
    let (_, store) = open_file(&directory).await;
    let fake = NamedNode::start("A").await;
    let node = NodeClient::new(UpstreamOrigins::from(&fake.origin)).expect("a client");
    let boot = check_history(&store, &node, None).await.expect("compared");
    let (journal, _args) = JournalHandle::new(store.clone(), boot, 10);
    let check = async |height: u64, fork: u64, parent: &str| {
        fake.stand(height, fork);
        let is_continued = journal.is_continued_by(height, parent);
        let heard = HeardBlock { height: Some(height), is_continued };
        let check = check_running(&journal, &node, heard, u64::MAX).await;
        (is_continued, journal.record_check(check), journal.known_block().map(|known| known.height))
    };
    assert_eq!(check(8, u64::MAX, "A7").await, (true, false, Some(8)));
    // Headers were lost.
    assert_eq!(check(20, u64::MAX, "A19").await, (false, false, Some(20)));
    assert_eq!(check(21, u64::MAX, "A20").await, (true, false, Some(21)));
    // A node that is behind shows nothing.
    assert_eq!(check(19, u64::MAX, "A18").await, (false, false, Some(21)));
    assert_eq!(journal.chain_change(), None);
    // The chain went back to 20, and makes other blocks.
    assert_eq!(check(21, 21, "A20").await, (false, true, Some(21)));
    let change = journal.chain_change().expect("another history");
    assert_eq!((change.height, change.pinned.as_deref(), change.found.as_str()), (21, Some("A21"), "F21"));
    assert_eq!(change.agreed, Some(20));
    // The next process finds it too, with the same height.
    journal.pin_known().await;
    let next = check_history(&store, &node, None).await.expect("compared");
    assert_eq!(next.change(), Some(&change));
    // Another node has the known blocks: the first one was wrong.
    assert_eq!(check(22, u64::MAX, "A21").await, (true, true, Some(22)));
    assert_eq!(journal.chain_change(), None);
}

#[tokio::test]
async fn while_another_node_has_the_block_of_the_journal_no_history_has_ended() {
    let directory = tempfile::tempdir().expect("a folder");
    let (file, store) = open_file(&directory).await;
    write_journal(&store, &[3], &[1, 5]).await;
    let (first, second) = (NamedNode::start("A").await, NamedNode::start("A").await);
    first.stand(9, 4);
    second.stand(9, u64::MAX);
    let node = NodeClient::new(UpstreamOrigins::from(&first.origin).with_origin(&second.origin)).expect("a client");
    assert_eq!(check_history(&store, &node, None).await.expect("compared").change(), None);
    store.close().await;
    let refused = rebase_journal(&file, &node, 3).await.expect_err("refused").to_string();
    assert!(refused.contains(&second.origin) && refused.contains("A5 of the journal at height 5"), "{refused}");
}

#[tokio::test]
async fn a_rebase_abandons_what_is_above_it_once_and_is_refused_where_it_would_be_wrong() {
    let directory = tempfile::tempdir().expect("a folder");
    let (file, store) = open_file(&directory).await;
    write_journal(&store, &[3, 6, 8], &[1, 5, 8]).await;
    let fake = NamedNode::start("A").await;
    let node = NodeClient::new(UpstreamOrigins::from(&fake.origin)).expect("a client");
    let rebase = async |height: u64, fork: u64, to: u64| {
        fake.stand(height, fork);
        rebase_journal(&file, &node, to).await
    };
    assert!(matches!(rebase(9, 7, 6).await, Err(RebaseError::Journal(JournalError::InUse(_)))), "a server runs");
    store.close().await;
    let refusal = async |height, fork, to| match rebase(height, fork, to).await {
        Err(RebaseError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    assert_eq!(refusal(9, 7, 10).await, RebaseRefusal::AboveNode { to: 10, node_height: 9 });
    assert!(refusal(9, 7, 8).await.to_string().ends_with("--to must lie below 8"));
    // Block 6 is another one, and no block of the journal says so: its transaction does.
    assert!(refusal(9, 6, 6).await.to_string().ends_with("--to must lie below 6"));
    assert_eq!(refusal(7, u64::MAX, 6).await, RebaseRefusal::NodeBehind { node_height: 7, newest: 8 });
    let unchanged = rebase(9, u64::MAX, 6).await.expect("nothing is to be done");
    assert_eq!((unchanged.is_changed, unchanged.abandoned), (false, 0));

    let done = rebase(9, 7, 6).await.expect("rebased");
    let expected = JournalRebase {
        file: file.clone(),
        owner: "c/account".to_owned(),
        height: 6,
        hash: Some("A6".to_owned()),
        abandoned: 1,
        is_changed: true,
    };
    assert_eq!(done, expected);
    let again = rebase(9, 7, 6).await.expect("repeated");
    assert_eq!(again, JournalRebase { abandoned: 0, is_changed: false, ..expected });
    verify_journal(&file).await.expect("whole");
    let (_, store) = open_file(&directory).await;
    assert_eq!(check_history(&store, &node, None).await.expect("compared").change(), None);
    for (key, state) in [("key 3", "included"), ("key 6", "included"), ("key 8", "abandoned")] {
        let found = store.find_by_key(DEFAULT_PRINCIPAL, key).await.expect("read").map(|record| record.state);
        assert_eq!(found.as_deref(), Some(state), "{key}");
    }
    store.close().await;
    // The chain is started once more, and is below the newest known block.
    let done = rebase(8, 1, 0).await.expect("rebased");
    assert_eq!((done.hash, done.abandoned), (None, 2));
}

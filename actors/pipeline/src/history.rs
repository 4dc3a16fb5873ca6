//! The history that a journal belongs to, by two pinned blocks. Two chains may have one chain id, and a chain may be started a second time.

use svc_net::upstream::NodeClient;

use tokio::time::Instant;

use crate::journal::{
    JournalHandle,
    error::RecoveryError,
    store::{BlockPin, HistoryPins, JournalStore},
};

/// Compares the blocks that the journal has pinned with those of the node, then pins the newest block of the node.
///
/// The first pinned block decides, or the newest where the node no longer has the first one. A node that has neither, or does not
/// answer, proves nothing.
///
/// # Errors
/// When the node has another block at a pinned height, and when the journal fails.
pub(crate) async fn check_history(store: &JournalStore, node: &NodeClient) -> Result<(), RecoveryError> {
    let Ok(status) = node.status().await else { return Ok(()) };
    let newest = BlockPin { height: status.sync_info.latest_block_height, hash: status.sync_info.latest_block_hash };
    if let Some(HistoryPins { first, newest }) = store.history_pins().await? {
        let is_first_known = compare(store, node, &first).await?;
        let is_newest_known = first == newest || compare(store, node, &newest).await?;
        match (is_first_known, is_newest_known) {
            (true, _) => {}
            (false, true) if first != newest => {
                let (first, newest) = (first.height, newest.height);
                tracing::info!(
                    first,
                    newest,
                    "the node no longer has the first block of the journal; the newest one agrees"
                );
            }
            (false, _) => {
                let (first, newest) = (first.height, newest.height);
                tracing::warn!(
                    first,
                    newest,
                    "the node has no block that the journal knows: its history is not compared"
                );
            }
        }
    }
    if newest.height > 0 && !newest.hash.is_empty() {
        // A journal that cannot be written does not keep the server from starting: reads go on.
        if let Err(error) = store.pin_block(&newest).await {
            tracing::error!(%error, "the newest block cannot be pinned in the journal");
        }
    }
    Ok(())
}

/// Ends a dispute of the nodes after one side has answered nothing for a while, when the other side has the newest pinned block. While
/// nodes have different blocks nothing is pinned, so that the pin is older than the discovery of the dispute: a node that follows it goes on, and
/// one that does not is refused until a person decides.
pub(crate) async fn settle_dispute(node: &NodeClient, journal: &JournalHandle) {
    let Some(remaining) = node.remaining_disputant(Instant::now()) else { return };
    let Some(pin) = journal.newest_pin().await else { return };
    match remaining.block(pin.height).await {
        Ok(block) if block.block_id.hash == pin.hash => node.end_dispute_with(remaining.origin()),
        Ok(block) => {
            let (origin, found) = (remaining.origin(), block.block_id.hash);
            tracing::error!(
                origin,
                height = pin.height,
                pinned = pin.hash,
                found,
                "the only node of the dispute that answers has another block than the journal: nothing is written"
            );
        }
        Err(error) => tracing::warn!(%error, height = pin.height, "the pinned block cannot be compared with the node"),
    }
}

/// Whether the node has the block; an error when it has another one at that height.
async fn compare(store: &JournalStore, node: &NodeClient, pin: &BlockPin) -> Result<bool, RecoveryError> {
    match node.block(pin.height).await {
        Ok(block) if block.block_id.hash == pin.hash => Ok(true),
        Ok(block) => Err(RecoveryError::OtherHistory {
            location: store.location().to_owned(),
            height: pin.height,
            pinned: pin.hash.clone(),
            found: block.block_id.hash,
        }),
        Err(_) => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
        time::Duration,
    };

    use serde_json::{Value, json};
    use svc_net::upstream::UpstreamOrigins;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };

    use super::*;
    use crate::journal::store::JournalPlace;

    /// A node at height 7 whose block hashes begin with a name.
    struct NamedNode {
        origin: String,
        is_away: Arc<AtomicBool>,
    }

    impl NamedNode {
        async fn start(name: &'static str) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let origin = format!("http://{}", listener.local_addr().expect("an address"));
            let is_away = Arc::new(AtomicBool::new(false));
            let away = Arc::clone(&is_away);
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    if !away.load(Ordering::SeqCst) {
                        tokio::spawn(answer(stream, name));
                    }
                }
            });
            Self { origin, is_away }
        }
    }

    async fn answer(mut stream: TcpStream, name: &str) {
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
        let result = match body["method"].as_str() {
            Some("status") => json!({
                "node_info": {"network": "c", "version": "1"},
                "sync_info": {
                    "latest_block_height": "7", "latest_block_time": "1970-01-01T00:00:07Z",
                    "latest_block_hash": format!("{name}7"), "earliest_block_height": "1", "catching_up": false,
                },
            }),
            _ => {
                let height = body["params"]["height"].as_str().expect("a height");
                let header = json!({
                    "chain_id": "c", "height": height, "time": "1970-01-01T00:00:07Z", "last_block_id": {"hash": ""},
                });
                let block = json!({"header": header, "data": {"txs": []}});
                json!({"block_id": {"hash": format!("{name}{height}")}, "block": block})
            }
        };
        let response = json!({"jsonrpc": "2.0", "id": body["id"], "result": result}).to_string();
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
            let store =
                JournalStore::open(&JournalPlace { file, min_free_space: 0.into() }, "owner").await.expect("opens");
            let (journal, _args) = JournalHandle::new(store.clone(), 10);
            if let Some(hash) = pinned {
                store.pin_block(&BlockPin { height: 5, hash: hash.to_owned() }).await.expect("pinned");
            }
            let (first, second) = (NamedNode::start("A").await, NamedNode::start("B").await);
            let node =
                NodeClient::new(UpstreamOrigins::from(&first.origin).with_origin(&second.origin)).expect("a client");
            let compare = async || {
                node.select_current(None).await;
                settle_dispute(&node, &journal).await;
                node.dispute().is_some()
            };
            assert!(compare().await, "the blocks differ");
            second.is_away.store(true, Ordering::SeqCst);
            pass(Duration::from_secs(590)).await;
            assert!(compare().await, "ten minutes are not over");
            pass(Duration::from_secs(11)).await;
            assert_eq!(compare().await, !goes_on, "{pinned:?}");
            // The other node has other blocks still.
            second.is_away.store(false, Ordering::SeqCst);
            pass(Duration::from_secs(60)).await;
            assert!(compare().await, "it answers again");
        }
    }
}

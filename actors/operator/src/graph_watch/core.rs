//! The meaning of the graph's messages. Pure.

use std::time::Duration;

use serde::Deserialize;
use svc_net::websocket::{Patience, Reading, StreamProtocol};

/// A message of the graph. Other types are ignored.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum GraphMessage {
    Ready {
        block: i64,
        #[serde(rename = "blockIntervalMs")]
        interval_ms: Option<u64>,
    },
    Block {
        block: i64,
    },
    #[serde(other)]
    Unknown,
}

/// Silence that ends a connection before the pace of the graph is known, and the least that does afterwards: the graph processes
/// blocks in batches.
pub const MIN_LIVENESS: Duration = Duration::from_secs(60);

/// The protocol of the graph: it speaks unasked, and its frames are the heights that it has processed.
#[derive(Debug, Clone)]
pub struct GraphStream;

impl StreamProtocol for GraphStream {
    type Frame = u64;

    /// Reads a text of the graph. Before its first block a graph states height -1.
    fn read(&mut self, text: &str) -> Result<Reading<u64>, String> {
        let reached = |block: i64| Reading { is_confirmed: true, ..u64::try_from(block).unwrap_or(0).into() };
        match serde_json::from_str::<GraphMessage>(text) {
            Ok(GraphMessage::Ready { block, interval_ms }) => {
                let silence = Duration::from_millis(interval_ms.unwrap_or(0).saturating_mul(2)).max(MIN_LIVENESS);
                Ok(Reading { patience: Some(Patience::Socket(silence)), ..reached(block) })
            }
            Ok(GraphMessage::Block { block }) => Ok(reached(block)),
            Ok(GraphMessage::Unknown) => Ok(Reading::default()),
            Err(_) => Err("the graph sent a message outside its contract".to_owned()),
        }
    }
}

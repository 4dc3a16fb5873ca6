//! The meaning of the graph's messages. Pure.

use std::time::Duration;

use serde::Deserialize;

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

/// The meaning of a text of the graph.
#[derive(Debug, PartialEq, Eq)]
pub enum GraphProgress {
    /// The graph has processed the chain up to a height. On connection it states the silence that ends the connection.
    Reached { height: u64, liveness: Option<Duration> },
    /// A message of another type.
    Ignored,
    /// The text breaks the contract.
    Broken,
}

/// Reads a text of the graph. Before its first block a graph states height -1.
pub fn read_message(text: &str) -> GraphProgress {
    let height = |block: i64| u64::try_from(block).unwrap_or(0);
    match serde_json::from_str::<GraphMessage>(text) {
        Ok(GraphMessage::Ready { block, interval_ms }) => {
            let silence = Duration::from_millis(interval_ms.unwrap_or(0).saturating_mul(2));
            GraphProgress::Reached { height: height(block), liveness: Some(silence.max(MIN_LIVENESS)) }
        }
        Ok(GraphMessage::Block { block }) => GraphProgress::Reached { height: height(block), liveness: None },
        Ok(GraphMessage::Unknown) => GraphProgress::Ignored,
        Err(_) => GraphProgress::Broken,
    }
}

//! CometBFT 0.38 RPC as JSON: requests, answers, subscription messages. Numbers travel as text, bytes as base64.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Value, json};

use crate::chain_error::ChainError;

/// A JSON-RPC request.
pub fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A JSON-RPC answer, also the frame of a subscription message.
#[derive(Debug, Clone, Deserialize)]
pub struct Response {
    /// Echo of the request's id; the subscription's id in event frames.
    #[serde(default)]
    pub id: Value,
    /// Present on success.
    pub result: Option<Value>,
    /// Present on failure.
    pub error: Option<RpcError>,
}

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} ({code}): {data}")]
pub struct RpcError {
    /// JSON-RPC code.
    pub code: i64,
    /// Generic sentence.
    pub message: String,
    /// The node's own sentence.
    #[serde(default)]
    pub data: String,
}

fn number<'de, D: Deserializer<'de>, T: std::str::FromStr>(deserializer: D) -> Result<T, D::Error> {
    let text = match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        Value::Null => "0".to_owned(),
        other => return Err(D::Error::custom(format!("expected a number, got {other}"))),
    };
    text.parse().map_err(|_| D::Error::custom(format!("{text:?} is not a number of the expected range")))
}

fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    match Option::<String>::deserialize(deserializer)? {
        Some(text) => STANDARD.decode(text).map_err(D::Error::custom),
        None => Ok(Vec::new()),
    }
}

fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// `status`
#[derive(Debug, Clone, Deserialize)]
pub struct Status {
    /// The node.
    pub node_info: NodeInfo,
    /// How far it is.
    pub sync_info: SyncInfo,
}

/// Part of [`Status`].
#[derive(Debug, Clone, Deserialize)]
pub struct NodeInfo {
    /// Chain id.
    pub network: String,
    /// CometBFT version.
    #[serde(default)]
    pub version: String,
}

/// Part of [`Status`].
#[derive(Debug, Clone, Deserialize)]
pub struct SyncInfo {
    /// Newest committed height.
    #[serde(deserialize_with = "number")]
    pub latest_block_height: u64,
    /// Its header time, RFC 3339.
    pub latest_block_time: String,
    /// Oldest height the node still has.
    #[serde(deserialize_with = "number", default)]
    pub earliest_block_height: u64,
    /// Whether the node is still syncing.
    #[serde(default)]
    pub catching_up: bool,
}

/// `abci_query`
#[derive(Debug, Clone, Deserialize)]
pub struct AbciQuery {
    /// The answer.
    pub response: AbciQueryResponse,
}

/// Part of [`AbciQuery`].
#[derive(Debug, Clone, Deserialize)]
pub struct AbciQueryResponse {
    /// 0 on success.
    #[serde(default)]
    pub code: u32,
    /// Codespace of the code.
    #[serde(default)]
    pub codespace: String,
    /// Text of a failure.
    #[serde(default)]
    pub log: String,
    /// The reply message.
    #[serde(deserialize_with = "bytes", default)]
    pub value: Vec<u8>,
    /// Height the state was read at.
    #[serde(deserialize_with = "number", default)]
    pub height: u64,
}

impl AbciQueryResponse {
    /// The reply, or the chain's refusal.
    pub fn into_result(self) -> Result<Vec<u8>, ChainError> {
        if self.code == 0 {
            return Ok(self.value);
        }
        Err(ChainError { codespace: self.codespace, code: self.code, raw_log: self.log })
    }
}

/// `broadcast_tx_sync`
#[derive(Debug, Clone, Deserialize)]
pub struct BroadcastSync {
    /// CheckTx code.
    pub code: u32,
    /// Codespace of the code.
    #[serde(default)]
    pub codespace: String,
    /// CheckTx text.
    #[serde(default)]
    pub log: String,
    /// Hash, upper-case hex.
    pub hash: String,
}

/// Result of one transaction in a block.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct TxResult {
    /// 0 on success.
    #[serde(default)]
    pub code: u32,
    /// Codespace of the code.
    #[serde(default)]
    pub codespace: String,
    /// `TxMsgData`.
    #[serde(deserialize_with = "bytes", default)]
    pub data: Vec<u8>,
    /// Text of a failure.
    #[serde(default)]
    pub log: String,
    /// Gas limit.
    #[serde(deserialize_with = "number", default)]
    pub gas_wanted: u64,
    /// Gas used.
    #[serde(deserialize_with = "number", default)]
    pub gas_used: u64,
    /// Events in order.
    #[serde(deserialize_with = "nullable", default)]
    pub events: Vec<AbciEvent>,
}

/// An ABCI event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbciEvent {
    /// Type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Attributes in order; keys may repeat.
    #[serde(deserialize_with = "nullable", default)]
    pub attributes: Vec<Attribute>,
}

/// Attribute of an [`AbciEvent`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attribute {
    /// Key.
    pub key: String,
    /// Value; empty when absent.
    #[serde(deserialize_with = "nullable", default)]
    pub value: String,
    /// Whether the node indexes it.
    #[serde(default)]
    pub index: bool,
}

impl AbciEvent {
    /// First value under `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.attributes.iter().find(|attribute| attribute.key == key).map(|attribute| attribute.value.as_str())
    }

    /// Position of the message that emitted it, if a message did.
    pub fn message_index(&self) -> Option<u32> {
        self.get("msg_index")?.parse().ok()
    }
}

/// `tx`
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Tx {
    /// Upper-case hex.
    pub hash: String,
    /// Height it was included at.
    #[serde(deserialize_with = "number")]
    pub height: u64,
    /// Position in the block.
    #[serde(default)]
    pub index: u32,
    /// Outcome.
    pub tx_result: TxResult,
    /// `TxRaw` bytes.
    #[serde(deserialize_with = "bytes", default)]
    pub tx: Vec<u8>,
}

/// `block`
#[derive(Debug, Clone, Deserialize)]
pub struct Block {
    /// What names it.
    #[serde(default)]
    pub block_id: BlockId,
    /// The block.
    pub block: BlockBody,
}

/// Part of [`Block`].
#[derive(Debug, Clone, Default, Deserialize)]
pub struct BlockId {
    /// Upper-case hex.
    pub hash: String,
}

/// Part of [`Block`].
#[derive(Debug, Clone, Deserialize)]
pub struct BlockBody {
    /// Header.
    pub header: Header,
    /// Transactions.
    pub data: BlockData,
}

/// Part of a block and of new-block events.
#[derive(Debug, Clone, Deserialize)]
pub struct Header {
    /// Chain id.
    pub chain_id: String,
    /// Height.
    #[serde(deserialize_with = "number")]
    pub height: u64,
    /// RFC 3339 with nanoseconds.
    pub time: String,
}

/// Part of [`BlockBody`].
#[derive(Debug, Clone, Deserialize)]
pub struct BlockData {
    /// Base64 of each transaction.
    #[serde(deserialize_with = "nullable", default)]
    pub txs: Vec<String>,
}

impl BlockData {
    /// Transaction bytes; a text that is not base64 gives empty bytes, which decode to nothing.
    pub fn decoded(&self) -> Vec<Vec<u8>> {
        self.txs.iter().map(|text| STANDARD.decode(text).unwrap_or_default()).collect()
    }
}

/// `block_results`
#[derive(Debug, Clone, Deserialize)]
pub struct BlockResults {
    /// Height.
    #[serde(deserialize_with = "number")]
    pub height: u64,
    /// One per transaction.
    #[serde(deserialize_with = "nullable", default)]
    pub txs_results: Vec<TxResult>,
    /// Events outside transactions.
    #[serde(deserialize_with = "nullable", default)]
    pub finalize_block_events: Vec<AbciEvent>,
}

/// What a subscription of ours brings.
#[derive(Debug, Clone)]
pub enum Notification {
    /// `tendermint/event/Tx`
    Tx {
        /// Height.
        height: u64,
        /// Hash of the bytes, upper-case hex.
        hash: String,
        /// Outcome.
        result: TxResult,
    },
    /// `tendermint/event/NewBlockHeader` or `NewBlock`
    NewBlock {
        /// Header.
        header: Header,
    },
}

impl Notification {
    /// Reads `result` of an event frame; `None` for the empty acknowledgement and for types not asked for.
    pub fn read(result: &Value) -> Option<Self> {
        let data = result.get("data")?;
        let value = data.get("value")?;
        match data.get("type")?.as_str()? {
            "tendermint/event/Tx" => {
                let tx = value.get("TxResult")?;
                let bytes = STANDARD.decode(tx.get("tx")?.as_str()?).ok()?;
                Some(Self::Tx {
                    height: tx.get("height")?.as_str()?.parse().ok()?,
                    hash: crate::tx::hash(&bytes),
                    result: serde_json::from_value(tx.get("result")?.clone()).ok()?,
                })
            }
            "tendermint/event/NewBlockHeader" => {
                Some(Self::NewBlock { header: serde_json::from_value(value.get("header")?.clone()).ok()? })
            }
            "tendermint/event/NewBlock" => Some(Self::NewBlock {
                header: serde_json::from_value(value.get("block")?.get("header")?.clone()).ok()?,
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_text_and_nulls_for_empty_lists_are_read() {
        let results: BlockResults = serde_json::from_value(json!({
            "height": "7", "finalize_block_events": null,
            "txs_results": [{"code": 5, "data": null, "log": "x", "gas_wanted": "10", "gas_used": "9", "codespace": "sdk",
                "events": [{"type": "t", "attributes": [{"key": "msg_index", "value": "2", "index": true}, {"key": "k", "value": null}]}]}],
        }))
        .expect("parses");
        assert_eq!(results.height, 7);
        assert_eq!(results.txs_results[0].events[0].message_index(), Some(2));
        assert_eq!(results.txs_results[0].events[0].get("k"), Some(""));
    }

    #[test]
    fn a_height_that_is_no_number_is_an_error_not_a_zero() {
        let status =
            json!({"node_info": {"network": "n"}, "sync_info": {"latest_block_height": "x", "latest_block_time": ""}});
        assert!(serde_json::from_value::<Status>(status).is_err());
    }

    #[test]
    fn the_empty_acknowledgement_is_not_a_notification() {
        assert!(Notification::read(&json!({})).is_none());
        let header = json!({"data": {"type": "tendermint/event/NewBlockHeader", "value": {"header": {"chain_id": "c", "height": "9", "time": "t"}}}});
        assert!(matches!(Notification::read(&header), Some(Notification::NewBlock { header }) if header.height == 9));
    }
}

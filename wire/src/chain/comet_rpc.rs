//! JSON of the CometBFT 0.38 RPC: requests, answers, subscription events. Numbers are texts, bytes are base64.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Value, json};

use crate::chain_error::ChainError;

/// A JSON-RPC request.
pub fn build_request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A JSON-RPC answer. Subscription events come in the same frame.
#[derive(Debug, Clone, Deserialize)]
pub struct RpcResponse {
    /// Id of the request; in an event frame, id of the subscription.
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
    /// Sentence of the JSON-RPC code.
    pub message: String,
    /// Sentence of the node.
    #[serde(default)]
    pub data: String,
}

fn deserialize_number<'de, D: Deserializer<'de>, T: std::str::FromStr>(deserializer: D) -> Result<T, D::Error> {
    let text = match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        Value::Null => "0".to_owned(),
        other => return Err(D::Error::custom(format!("expected a number, got {other}"))),
    };
    text.parse().map_err(|_| D::Error::custom(format!("{text:?} is not a number of the expected range")))
}

fn deserialize_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    match Option::<String>::deserialize(deserializer)? {
        Some(text) => STANDARD.decode(text).map_err(D::Error::custom),
        None => Ok(Vec::new()),
    }
}

fn deserialize_or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Answer of `status`.
#[derive(Debug, Clone, Deserialize)]
pub struct NodeStatus {
    /// Identity of the node.
    pub node_info: NodeInfo,
    /// Height of the node.
    pub sync_info: SyncInfo,
}

/// Part of [`NodeStatus`].
#[derive(Debug, Clone, Default, Deserialize)]
pub struct NodeInfo {
    /// Chain id.
    pub network: String,
    /// CometBFT version.
    #[serde(default)]
    pub version: String,
    /// Further properties.
    #[serde(default)]
    pub other: NodeProperties,
}

impl NodeInfo {
    /// Whether the node has no transaction index.
    pub fn is_index_off(&self) -> bool {
        self.other.tx_index == "off"
    }
}

/// Part of [`NodeInfo`].
#[derive(Debug, Clone, Default, Deserialize)]
pub struct NodeProperties {
    /// `on` or `off`: the transaction index.
    #[serde(default)]
    pub tx_index: String,
}

/// Part of [`NodeStatus`].
#[derive(Debug, Clone, Deserialize)]
pub struct SyncInfo {
    /// Newest committed height.
    #[serde(deserialize_with = "deserialize_number")]
    pub latest_block_height: u64,
    /// Its hash, upper-case hex.
    #[serde(default)]
    pub latest_block_hash: String,
    /// Its header time, RFC 3339.
    pub latest_block_time: String,
    /// Oldest height the node still has.
    #[serde(deserialize_with = "deserialize_number", default)]
    pub earliest_block_height: u64,
    /// Whether the node is still syncing.
    #[serde(default)]
    pub catching_up: bool,
}

/// Answer of `abci_query`.
#[derive(Debug, Clone, Deserialize)]
pub struct AbciQueryResult {
    /// Answer of the application.
    pub response: AbciQueryResponse,
}

/// Part of [`AbciQueryResult`].
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
    #[serde(deserialize_with = "deserialize_bytes", default)]
    pub value: Vec<u8>,
    /// Height the state was read at.
    #[serde(deserialize_with = "deserialize_number", default)]
    pub height: u64,
}

impl AbciQueryResponse {
    /// The reply message. Fails with the error of the chain when the code is not 0.
    pub fn into_result(self) -> Result<Vec<u8>, ChainError> {
        if self.code == 0 {
            return Ok(self.value);
        }
        Err(ChainError { codespace: self.codespace, code: self.code, raw_log: self.log })
    }
}

/// Answer of `broadcast_tx_sync`.
#[derive(Debug, Clone, Deserialize)]
pub struct BroadcastTxResult {
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct ExecTxResult {
    /// 0 on success.
    #[serde(default)]
    pub code: u32,
    /// Codespace of the code.
    #[serde(default)]
    pub codespace: String,
    /// `TxMsgData`.
    #[serde(deserialize_with = "deserialize_bytes", default)]
    pub data: Vec<u8>,
    /// Text of a failure.
    #[serde(default)]
    pub log: String,
    /// Gas limit.
    #[serde(deserialize_with = "deserialize_number", default)]
    pub gas_wanted: u64,
    /// Gas used.
    #[serde(deserialize_with = "deserialize_number", default)]
    pub gas_used: u64,
    /// Events in order.
    #[serde(deserialize_with = "deserialize_or_default", default)]
    pub events: Vec<AbciEvent>,
}

/// An ABCI event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbciEvent {
    /// Type of the event.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Attributes in order; keys may repeat.
    #[serde(deserialize_with = "deserialize_or_default", default)]
    pub attributes: Vec<EventAttribute>,
}

/// One attribute of an [`AbciEvent`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventAttribute {
    /// Key.
    pub key: String,
    /// Value; empty when absent.
    #[serde(deserialize_with = "deserialize_or_default", default)]
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

    /// Position of the message that emitted the event; none for an event outside of messages.
    pub fn message_index(&self) -> Option<u32> {
        self.get("msg_index")?.parse().ok()
    }
}

/// Answer of `tx`.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct IncludedTx {
    /// Upper-case hex.
    pub hash: String,
    /// Height it was included at.
    #[serde(deserialize_with = "deserialize_number")]
    pub height: u64,
    /// Position in the block.
    #[serde(default)]
    pub index: u32,
    /// Result.
    pub tx_result: ExecTxResult,
    /// `TxRaw` bytes.
    #[serde(deserialize_with = "deserialize_bytes", default)]
    pub tx: Vec<u8>,
}

/// Answer of `block`.
#[derive(Debug, Clone, Deserialize)]
pub struct CommittedBlock {
    /// Identity of the block.
    #[serde(default)]
    pub block_id: BlockId,
    /// Header and transactions.
    pub block: BlockBody,
}

/// Part of [`CommittedBlock`].
#[derive(Debug, Clone, Default, Deserialize)]
pub struct BlockId {
    /// Upper-case hex.
    #[serde(default)]
    pub hash: String,
}

/// Part of [`CommittedBlock`].
#[derive(Debug, Clone, Deserialize)]
pub struct BlockBody {
    /// Header.
    pub header: BlockHeader,
    /// Transactions.
    pub data: BlockData,
}

/// Part of a block and of new-block events.
#[derive(Debug, Clone, Deserialize)]
pub struct BlockHeader {
    /// Chain id.
    pub chain_id: String,
    /// Height.
    #[serde(deserialize_with = "deserialize_number")]
    pub height: u64,
    /// RFC 3339 with nanoseconds.
    pub time: String,
    /// Identity of the block before; without a hash in the first block.
    #[serde(deserialize_with = "deserialize_or_default", default)]
    pub last_block_id: BlockId,
}

/// Part of [`BlockBody`].
#[derive(Debug, Clone, Deserialize)]
pub struct BlockData {
    /// Base64 of each transaction.
    #[serde(deserialize_with = "deserialize_or_default", default)]
    pub txs: Vec<String>,
}

impl BlockData {
    /// Bytes of each transaction. A text that is not base64 gives empty bytes: positions in the block stay, and empty bytes
    /// decode to no transaction.
    pub fn decode_txs(&self) -> Vec<Vec<u8>> {
        self.txs.iter().map(|text| STANDARD.decode(text).unwrap_or_default()).collect()
    }
}

/// Answer of `block_results`.
#[derive(Debug, Clone, Deserialize)]
pub struct BlockResults {
    /// Height.
    #[serde(deserialize_with = "deserialize_number")]
    pub height: u64,
    /// One per transaction.
    #[serde(deserialize_with = "deserialize_or_default", default)]
    pub txs_results: Vec<ExecTxResult>,
    /// Events outside transactions.
    #[serde(deserialize_with = "deserialize_or_default", default)]
    pub finalize_block_events: Vec<AbciEvent>,
}

/// Event of a node subscription.
#[derive(Debug, Clone)]
pub enum CometEvent {
    /// `tendermint/event/Tx`
    Tx {
        /// Height.
        height: u64,
        /// Hash of the bytes, upper-case hex.
        hash: String,
        /// Result.
        result: ExecTxResult,
    },
    /// `tendermint/event/NewBlockHeader` or `NewBlock`
    NewBlock {
        /// Header.
        header: BlockHeader,
    },
}

impl CometEvent {
    /// Parses the `result` of an event frame. None for the empty acknowledgement and for events of other types.
    pub fn parse(result: &Value) -> Option<Self> {
        let data = result.get("data")?;
        let value = data.get("value")?;
        match data.get("type")?.as_str()? {
            "tendermint/event/Tx" => {
                let tx = value.get("TxResult")?;
                let bytes = STANDARD.decode(tx.get("tx")?.as_str()?).ok()?;
                Some(Self::Tx {
                    height: tx.get("height")?.as_str()?.parse().ok()?,
                    hash: crate::tx::tx_hash(&bytes),
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
    fn numbers_as_text_and_null_lists_parse() {
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
    fn a_height_that_is_no_number_is_an_error() {
        let status =
            json!({"node_info": {"network": "n"}, "sync_info": {"latest_block_height": "x", "latest_block_time": ""}});
        assert!(serde_json::from_value::<NodeStatus>(status).is_err());
    }

    #[test]
    fn the_empty_acknowledgement_is_no_event() {
        assert!(CometEvent::parse(&json!({})).is_none());
        let header = json!({"data": {"type": "tendermint/event/NewBlockHeader", "value": {"header": {"chain_id": "c", "height": "9", "time": "t"}}}});
        assert!(matches!(CometEvent::parse(&header), Some(CometEvent::NewBlock { header }) if header.height == 9));
    }
}

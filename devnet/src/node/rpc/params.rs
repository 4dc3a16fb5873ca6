//! Methods with their parameters, and the errors of JSON-RPC.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};
use svc_wire::comet_rpc::RpcError;

/// All methods with the names of their parameters, in the order of their positions.
const METHODS: [(&str, &[&str]); 28] = [
    ("abci_info", &[]),
    ("abci_query", &["path", "data", "height", "prove"]),
    ("block", &["height"]),
    ("block_by_hash", &["hash"]),
    ("block_results", &["height"]),
    ("block_search", &["query", "page", "per_page", "order_by"]),
    ("blockchain", &["minHeight", "maxHeight"]),
    ("broadcast_tx_async", &["tx"]),
    ("broadcast_tx_commit", &["tx"]),
    ("broadcast_tx_sync", &["tx"]),
    ("check_tx", &["tx"]),
    ("commit", &["height"]),
    ("consensus_params", &["height"]),
    ("genesis", &[]),
    ("genesis_chunked", &["chunk"]),
    ("header", &["height"]),
    ("header_by_hash", &["hash"]),
    ("health", &[]),
    ("net_info", &[]),
    ("num_unconfirmed_txs", &[]),
    ("status", &[]),
    ("subscribe", &["query"]),
    ("tx", &["hash", "prove"]),
    ("tx_search", &["query", "prove", "page", "per_page", "order_by"]),
    ("unconfirmed_txs", &["limit"]),
    ("unsubscribe", &["query"]),
    ("unsubscribe_all", &[]),
    ("validators", &["height", "page", "per_page"]),
];

/// Returns the names of the parameters of a method; `None` for an unknown method.
pub fn parameter_names(method: &str) -> Option<&'static [&'static str]> {
    METHODS.iter().find(|(name, _)| *name == method).map(|(_, names)| *names)
}

/// Returns all methods, for the index page.
pub fn methods() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    METHODS.into_iter()
}

/// The parameters that are bytes, and those that are texts. `data` is bytes in hex, and the others are numbers and flags.
pub const BYTES: [&str; 2] = ["tx", "hash"];
pub const TEXTS: [&str; 3] = ["query", "path", "order_by"];

pub fn invalid_params(data: impl Into<String>) -> RpcError {
    RpcError { code: -32602, message: "Invalid params".to_owned(), data: data.into() }
}

pub fn internal_error(data: impl Into<String>) -> RpcError {
    RpcError { code: -32603, message: "Internal error".to_owned(), data: data.into() }
}

pub fn method_not_found() -> RpcError {
    RpcError { code: -32601, message: "Method not found".to_owned(), data: String::new() }
}

/// Parameters of a call by name, the same for every transport.
#[derive(Debug, Default)]
pub struct RpcParams(pub Map<String, Value>);

impl RpcParams {
    /// Parses the parameters of JSON-RPC: an object by name, an array by position, or none. Fails for too many positions.
    pub fn parse(method: &str, params: Option<&Value>) -> Result<Self, RpcError> {
        match params {
            None | Some(Value::Null) => Ok(Self::default()),
            Some(Value::Object(named)) => Ok(Self(named.clone())),
            Some(Value::Array(values)) => {
                let names = parameter_names(method).unwrap_or_default();
                if values.len() > names.len() {
                    let text = format!("expected {} parameters ({names:?}), got {}", names.len(), values.len());
                    return Err(invalid_params(format!("error converting json params to arguments: {text}")));
                }
                let named = names.iter().map(|name| (*name).to_owned()).zip(values.iter().cloned());
                Ok(Self(named.collect()))
            }
            Some(other) => {
                let text = format!("unknown type for JSON params: {other}");
                Err(invalid_params(format!("error converting json params to arguments: {text}")))
            }
        }
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    pub fn number(&self, name: &str) -> Result<Option<u64>, RpcError> {
        let text = match self.0.get(name) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) if text.is_empty() => return Ok(None),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        text.parse()
            .map(Some)
            .map_err(|_| invalid_params(format!("error converting json params to arguments: {name}: {text:?}")))
    }

    pub fn flag(&self, name: &str) -> bool {
        matches!(self.0.get(name), Some(Value::Bool(true))) || self.text(name) == Some("true")
    }

    /// Decodes bytes, which are base64: a text that begins with `0x` is base64 too.
    pub fn bytes(&self, name: &str) -> Result<Vec<u8>, RpcError> {
        let Some(text) = self.text(name) else {
            return Err(invalid_params(format!("error converting json params to arguments: {name} is missing")));
        };
        STANDARD
            .decode(text)
            .map_err(|_| invalid_params(format!("error converting json params to arguments: {name} is not base64")))
    }

    /// Decodes hex, the encoding of `data` in `abci_query`.
    pub fn hex(&self, name: &str) -> Result<Vec<u8>, RpcError> {
        let text = self.text(name).unwrap_or_default();
        hex::decode(text.trim_start_matches("0x"))
            .map_err(|error| invalid_params(format!("error converting json params to arguments: {name}: {error}")))
    }
}

//! RPC methods, the same for HTTP and WebSocket.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};
use svc_wire::comet::RpcError;

use super::{
    core::{Checked, Core},
    encode,
    events::{self, Query},
};

/// Named parameters, whatever the transport.
pub struct Params(pub Map<String, Value>);

fn invalid_params(data: impl Into<String>) -> RpcError {
    RpcError { code: -32602, message: "Invalid params".to_owned(), data: data.into() }
}

pub fn internal(data: impl Into<String>) -> RpcError {
    RpcError { code: -32603, message: "Internal error".to_owned(), data: data.into() }
}

impl Params {
    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    fn number(&self, name: &str) -> Result<Option<u64>, RpcError> {
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

    /// Bytes travel as base64 in JSON, as 0x-hex in a URI.
    fn bytes(&self, name: &str) -> Result<Vec<u8>, RpcError> {
        let Some(text) = self.text(name) else {
            return Err(invalid_params(format!("error converting json params to arguments: {name} is missing")));
        };
        let decoded = match text.strip_prefix("0x") {
            Some(digits) => hex::decode(digits).ok(),
            None => STANDARD.decode(text).ok(),
        };
        decoded
            .ok_or_else(|| invalid_params(format!("error converting json params to arguments: {name} is not base64")))
    }

    /// `data` of `abci_query` travels as hex.
    fn hex(&self, name: &str) -> Result<Vec<u8>, RpcError> {
        let text = self.text(name).unwrap_or_default();
        hex::decode(text.trim_start_matches("0x"))
            .map_err(|error| invalid_params(format!("error converting json params to arguments: {name}: {error}")))
    }
}

/// Answers a method that needs no connection.
pub fn call(core: &mut Core, method: &str, params: &Params) -> Result<Value, RpcError> {
    match method {
        "health" => Ok(json!({})),
        "status" => Ok(encode::status(core)),
        "abci_info" => Ok(json!({"response": {
            "data": "svc devnet", "version": env!("CARGO_PKG_VERSION"), "app_version": "0",
            "last_block_height": core.height().to_string(),
            "last_block_app_hash": STANDARD.encode(hex::decode(core.app_hash_hex()).unwrap_or_default()),
        }})),
        "abci_query" => abci_query(core, params),
        "broadcast_tx_sync" | "broadcast_tx_async" => broadcast(core, params),
        "tx" => tx(core, params),
        "tx_search" => tx_search(core, params),
        "block" => at_height(core, params, encode::block),
        "header" => at_height(core, params, |core, block| json!({"header": encode::header(core, block)})),
        "block_results" => at_height(core, params, |_, block| encode::block_results(block)),
        "num_unconfirmed_txs" | "unconfirmed_txs" => {
            let txs: Vec<String> = core.waiting().map(|bytes| STANDARD.encode(bytes)).collect();
            let bytes: usize = core.waiting().map(Vec::len).sum();
            let count = txs.len().to_string();
            let listed = if method == "unconfirmed_txs" { json!(txs) } else { Value::Null };
            Ok(json!({"n_txs": count, "total": count, "total_bytes": bytes.to_string(), "txs": listed}))
        }
        _ => Err(RpcError { code: -32601, message: "Method not found".to_owned(), data: String::new() }),
    }
}

fn abci_query(core: &mut Core, params: &Params) -> Result<Value, RpcError> {
    let (path, data) = (params.text("path").unwrap_or_default(), params.hex("data")?);
    let (height, answer) = core.query(path, &data, params.number("height")?.unwrap_or(0));
    let response = match answer {
        Ok(value) => json!({
            "code": 0, "log": "", "info": "", "index": "0", "key": null, "value": STANDARD.encode(value),
            "proofOps": null, "height": height.to_string(), "codespace": "",
        }),
        Err(error) => json!({
            "code": error.code, "log": error.text, "info": "", "index": "0", "key": null, "value": null,
            "proofOps": null, "height": height.to_string(), "codespace": error.codespace,
        }),
    };
    Ok(json!({ "response": response }))
}

fn broadcast(core: &mut Core, params: &Params) -> Result<Value, RpcError> {
    let bytes = params.bytes("tx")?;
    let hash = svc_wire::tx::hash(&bytes);
    match core.check_tx(bytes) {
        Checked::Answer(outcome) => Ok(json!({
            "code": outcome.code, "data": "", "log": outcome.log, "codespace": outcome.codespace, "hash": hash,
        })),
        Checked::Mempool(text) => Err(internal(text)),
    }
}

fn tx(core: &Core, params: &Params) -> Result<Value, RpcError> {
    let hash = hex::encode_upper(params.bytes("hash")?);
    let (block, position) = core.locate(&hash).ok_or_else(|| internal(format!("tx ({hash}) not found")))?;
    Ok(encode::tx(block, position))
}

fn tx_search(core: &Core, params: &Params) -> Result<Value, RpcError> {
    let query = Query::parse(params.text("query").unwrap_or_default()).map_err(internal)?;
    let page = params.number("page")?.unwrap_or(1).max(1);
    let per_page = params.number("per_page")?.unwrap_or(30).clamp(1, 100);
    let mut found: Vec<(&super::BlockRecord, usize)> = core
        .blocks()
        .iter()
        .flat_map(|block| (0..block.txs.len()).map(move |position| (&**block, position)))
        .filter(|(block, position)| {
            let mut attributes = events::of_tx(block, *position);
            attributes.remove("tm.event");
            query.matches(&attributes)
        })
        .collect();
    if params.text("order_by") == Some("desc") {
        found.reverse();
    }
    let skipped = usize::try_from((page - 1) * per_page).unwrap_or(usize::MAX);
    let size = usize::try_from(per_page).unwrap_or(100);
    let txs: Vec<Value> =
        found.iter().skip(skipped).take(size).map(|(block, position)| encode::tx(block, *position)).collect();
    Ok(json!({"txs": txs, "total_count": found.len().to_string()}))
}

fn at_height(
    core: &Core,
    params: &Params,
    answer: impl Fn(&Core, &super::BlockRecord) -> Value,
) -> Result<Value, RpcError> {
    let newest = core.height();
    let height = params.number("height")?.unwrap_or(newest);
    if height == 0 {
        return Err(internal("height must be greater than 0, but got 0"));
    }
    let block = core.block(height).ok_or_else(|| {
        internal(format!("height {height} must be less than or equal to the current blockchain height {newest}"))
    })?;
    Ok(answer(core, block))
}

//! RPC methods, the same for HTTP and WebSocket.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};
use svc_wire::comet::RpcError;

use super::{
    core::{BlockRecord, Checked, Core},
    encode, search,
};
use crate::ledger::{LedgerError, TxOutcome};

/// Block metas of one `blockchain` answer.
const MAX_METAS: u64 = 20;
const UNCONFIRMED: u64 = 30;

/// Names of the parameters of every method, in the order of their positions.
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

/// Names of a method's parameters; `None` for an unknown method.
pub fn parameters(method: &str) -> Option<&'static [&'static str]> {
    METHODS.iter().find(|(name, _)| *name == method).map(|(_, names)| *names)
}

/// All methods, for the page at the root.
pub fn methods() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    METHODS.into_iter()
}

/// Named parameters, whatever the transport.
#[derive(Debug, Default)]
pub struct Params(pub Map<String, Value>);

fn invalid_params(data: impl Into<String>) -> RpcError {
    RpcError { code: -32602, message: "Invalid params".to_owned(), data: data.into() }
}

pub fn internal(data: impl Into<String>) -> RpcError {
    RpcError { code: -32603, message: "Internal error".to_owned(), data: data.into() }
}

pub fn not_found() -> RpcError {
    RpcError { code: -32601, message: "Method not found".to_owned(), data: String::new() }
}

impl Params {
    /// From JSON-RPC: an object by name, an array by position, or nothing.
    pub fn read(method: &str, params: Option<&Value>) -> Result<Self, RpcError> {
        match params {
            None | Some(Value::Null) => Ok(Self::default()),
            Some(Value::Object(named)) => Ok(Self(named.clone())),
            Some(Value::Array(values)) => {
                let names = parameters(method).unwrap_or_default();
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

    fn flag(&self, name: &str) -> bool {
        matches!(self.0.get(name), Some(Value::Bool(true))) || self.text(name) == Some("true")
    }

    /// Bytes travel as base64 in JSON, as 0x-hex in a URI.
    pub fn bytes(&self, name: &str) -> Result<Vec<u8>, RpcError> {
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

/// Answers a method that needs neither a connection nor a wait.
pub fn call(core: &mut Core, method: &str, params: &Params) -> Result<Value, RpcError> {
    match method {
        "health" => Ok(json!({})),
        "status" => Ok(encode::status(core)),
        "net_info" => Ok(encode::net_info()),
        "genesis" => Ok(json!({"genesis": encode::genesis(core)})),
        "genesis_chunked" => genesis_chunked(core, params),
        "abci_info" => Ok(json!({"response": {
            "data": "svc devnet", "version": env!("CARGO_PKG_VERSION"), "app_version": "0",
            "last_block_height": core.height().to_string(),
            "last_block_app_hash": STANDARD.encode(hex::decode(core.app_hash_hex()).unwrap_or_default()),
        }})),
        "abci_query" => abci_query(core, params),
        "broadcast_tx_sync" => broadcast(core, params).map(|(answer, _)| answer),
        "broadcast_tx_async" => {
            let hash = svc_wire::tx::hash(&params.bytes("tx")?);
            // The answer does not wait for CheckTx; only the mempool's own refusal is told.
            broadcast(core, params)?;
            Ok(json!({"code": 0, "data": "", "log": "", "codespace": "", "hash": hash}))
        }
        "check_tx" => Ok(check_result(&core.check_only(&params.bytes("tx")?))),
        "tx" => tx(core, params),
        "tx_search" => search::tx_search(core, params),
        "block_search" => search::block_search(core, params),
        "block" => at_height(core, params, encode::block),
        "header" => at_height(core, params, |_, block| json!({"header": encode::header(block)})),
        "commit" => at_height(core, params, encode::signed_header),
        "block_results" => at_height(core, params, |_, block| encode::block_results(block)),
        "block_by_hash" => {
            let hash = hex::encode_upper(params.bytes("hash")?);
            Ok(core.block_by_hash(&hash).map_or_else(encode::no_block, |block| encode::block(core, block)))
        }
        "header_by_hash" => {
            let hash = hex::encode_upper(params.bytes("hash")?);
            Ok(json!({"header": core.block_by_hash(&hash).map(|block| encode::header(block))}))
        }
        "blockchain" => blockchain(core, params),
        "validators" => {
            search::page(vec![()], params)?;
            at_height(core, params, |core, block| encode::validators(core, block.height))
        }
        "consensus_params" => at_height(core, params, |_, block| encode::consensus_params(block.height)),
        "num_unconfirmed_txs" => Ok(unconfirmed(core, None)),
        "unconfirmed_txs" => Ok(unconfirmed(core, Some(params.number("limit")?.unwrap_or(UNCONFIRMED).clamp(1, 100)))),
        _ => Err(not_found()),
    }
}

fn genesis_chunked(core: &Core, params: &Params) -> Result<Value, RpcError> {
    match params.number("chunk")?.unwrap_or(0) {
        0 => Ok(json!({"chunk": "0", "total": "1", "data": STANDARD.encode(encode::genesis(core).to_string())})),
        id => Err(internal(format!("there are 1 chunks, {id} is invalid"))),
    }
}

fn unconfirmed(core: &Core, listed: Option<u64>) -> Value {
    let bytes: usize = core.waiting().map(Vec::len).sum();
    let total = core.waiting().len();
    let limit = usize::try_from(listed.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let txs: Vec<String> = core.waiting().take(limit).map(|bytes| STANDARD.encode(bytes)).collect();
    let count = txs.len().to_string();
    let txs = if listed.is_some() { json!(txs) } else { Value::Null };
    json!({"n_txs": count, "total": total.to_string(), "total_bytes": bytes.to_string(), "txs": txs})
}

fn abci_query(core: &mut Core, params: &Params) -> Result<Value, RpcError> {
    let (path, data) = (params.text("path").unwrap_or_default(), params.hex("data")?);
    let is_negative = params.text("height").is_some_and(|height| height.starts_with('-'));
    let (height, answer) = if is_negative {
        (0, Err(LedgerError::sdk(18, "cannot query with height < 0; please provide a valid height")))
    } else {
        core.query(path, &data, params.number("height")?.unwrap_or(0))
    };
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

/// The answer of `broadcast_tx_sync`, and what CheckTx said.
pub fn broadcast(core: &mut Core, params: &Params) -> Result<(Value, TxOutcome), RpcError> {
    let bytes = params.bytes("tx")?;
    let hash = svc_wire::tx::hash(&bytes);
    match core.check_tx(bytes) {
        Checked::Answer(outcome) => {
            let answer = json!({
                "code": outcome.code, "data": "", "log": outcome.log, "codespace": outcome.codespace, "hash": hash,
            });
            Ok((answer, outcome))
        }
        Checked::Mempool(text) => Err(internal(text)),
    }
}

/// CheckTx's own result.
pub fn check_result(outcome: &TxOutcome) -> Value {
    json!({
        "code": outcome.code, "data": null, "log": outcome.log, "info": "",
        "gas_wanted": outcome.gas_wanted.to_string(), "gas_used": outcome.gas_used.to_string(),
        "events": encode::events(&outcome.events), "codespace": outcome.codespace,
    })
}

fn tx(core: &Core, params: &Params) -> Result<Value, RpcError> {
    let hash = hex::encode_upper(params.bytes("hash")?);
    if params.flag("prove") {
        return Err(internal("proofs are not available on this node: ask with prove=false"));
    }
    let (block, position) = core.locate(&hash).ok_or_else(|| internal(format!("tx ({hash}) not found")))?;
    Ok(encode::tx(block, position))
}

/// Newest first, at most twenty.
fn blockchain(core: &Core, params: &Params) -> Result<Value, RpcError> {
    let newest = core.height();
    let given = |name| params.number(name).map(|height| height.unwrap_or(0));
    let (asked_first, asked_last) = (given("minHeight")?, given("maxHeight")?);
    let last = if asked_last == 0 { newest } else { asked_last.min(newest) };
    let first = asked_first.max(1).max((last + 1).saturating_sub(MAX_METAS));
    if first > last {
        return Err(internal(format!("min height {first} can't be greater than max height {last}")));
    }
    let metas: Vec<Value> =
        (first..=last).rev().filter_map(|height| core.block(height)).map(|block| encode::block_meta(block)).collect();
    Ok(json!({"last_height": newest.to_string(), "block_metas": metas}))
}

fn at_height(core: &Core, params: &Params, answer: impl Fn(&Core, &BlockRecord) -> Value) -> Result<Value, RpcError> {
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

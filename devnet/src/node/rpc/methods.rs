//! The methods of the RPC that read the chain or the mempool.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use svc_wire::comet_rpc::RpcError;

use super::{
    encode,
    params::{RpcParams, internal_error, method_not_found},
    search,
};
use crate::node::chain::{BlockRecord, CheckTxOutcome, NodeCore};
use svc_ledger::{LedgerError, TxOutcome};

/// Maximum number of block metas in an answer of `blockchain`.
const MAX_BLOCK_METAS: u64 = 20;
const DEFAULT_UNCONFIRMED_LIMIT: u64 = 30;

/// Answers a method that needs no connection and no wait.
pub fn dispatch_method(core: &mut NodeCore, method: &str, params: &RpcParams) -> Result<Value, RpcError> {
    match method {
        "health" => Ok(json!({})),
        "status" => Ok(encode::status(core)),
        "net_info" => Ok(encode::net_info()),
        "genesis" => Ok(json!({"genesis": encode::genesis(core)})),
        "genesis_chunked" => genesis_chunked(core, params),
        "abci_info" => Ok(json!({"response": {
            "data": "svc devnet", "version": core.application_version(), "app_version": "0",
            "last_block_height": core.height().to_string(),
            "last_block_app_hash": STANDARD.encode(hex::decode(core.app_hash_hex()).unwrap_or_default()),
        }})),
        "abci_query" => abci_query(core, params),
        "broadcast_tx_sync" => broadcast_tx(core, params).map(|(answer, _)| answer),
        "broadcast_tx_async" => {
            let hash = svc_wire::tx::tx_hash(&params.bytes("tx")?);
            // The answer ignores the result of CheckTx; a refusal of the mempool is an error.
            broadcast_tx(core, params)?;
            Ok(json!({"code": 0, "data": "", "log": "", "codespace": "", "hash": hash}))
        }
        "check_tx" => Ok(encode_check_result(&core.dry_run_check_tx(&params.bytes("tx")?))),
        "tx" | "tx_search" if core.faults.index_off => Err(internal_error("transaction indexing is disabled")),
        "tx" => tx(core, params),
        "tx_search" => search::tx_search(core, params),
        "block_search" => search::block_search(core, params),
        "block" => answer_at_height(core, params, encode::block),
        "header" => answer_at_height(core, params, |_, block| json!({"header": encode::header(block)})),
        "commit" => answer_at_height(core, params, encode::signed_header),
        "block_results" => {
            let height = params.number("height")?.unwrap_or(core.height());
            if core.lacks_results(height) {
                return Err(internal_error(format!("could not find results for height #{height}")));
            }
            answer_at_height(core, params, |_, block| encode::block_results(block))
        }
        "block_by_hash" => {
            let hash = hex::encode_upper(params.bytes("hash")?);
            Ok(core.block_by_hash(&hash).map_or_else(encode::empty_block, |block| encode::block(core, block)))
        }
        "header_by_hash" => {
            let hash = hex::encode_upper(params.bytes("hash")?);
            Ok(json!({"header": core.block_by_hash(&hash).map(|block| encode::header(block))}))
        }
        "blockchain" => blockchain(core, params),
        "validators" => {
            search::paginate(vec![()], params)?;
            answer_at_height(core, params, |core, block| encode::validators(core, block.height))
        }
        "consensus_params" => answer_at_height(core, params, |_, block| encode::consensus_params(block.height)),
        "num_unconfirmed_txs" => Ok(unconfirmed(core, None)),
        "unconfirmed_txs" => {
            Ok(unconfirmed(core, Some(params.number("limit")?.unwrap_or(DEFAULT_UNCONFIRMED_LIMIT).clamp(1, 100))))
        }
        _ => Err(method_not_found()),
    }
}

fn genesis_chunked(core: &NodeCore, params: &RpcParams) -> Result<Value, RpcError> {
    match params.number("chunk")?.unwrap_or(0) {
        0 => Ok(json!({"chunk": "0", "total": "1", "data": STANDARD.encode(encode::genesis(core).to_string())})),
        id => Err(internal_error(format!("there are 1 chunks, {id} is invalid"))),
    }
}

fn unconfirmed(core: &NodeCore, listed: Option<u64>) -> Value {
    let bytes: usize = core.mempool_txs().map(Vec::len).sum();
    let total = core.mempool_txs().len();
    let limit = usize::try_from(listed.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let txs: Vec<String> = core.mempool_txs().take(limit).map(|bytes| STANDARD.encode(bytes)).collect();
    let count = txs.len().to_string();
    let txs = if listed.is_some() { json!(txs) } else { Value::Null };
    json!({"n_txs": count, "total": total.to_string(), "total_bytes": bytes.to_string(), "txs": txs})
}

fn abci_query(core: &mut NodeCore, params: &RpcParams) -> Result<Value, RpcError> {
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

/// Broadcasts a transaction; returns the answer of `broadcast_tx_sync` and the outcome of CheckTx.
pub fn broadcast_tx(core: &mut NodeCore, params: &RpcParams) -> Result<(Value, TxOutcome), RpcError> {
    let bytes = params.bytes("tx")?;
    let hash = svc_wire::tx::tx_hash(&bytes);
    match core.check_tx(bytes) {
        CheckTxOutcome::Response(outcome) => {
            let answer = json!({
                "code": outcome.code, "data": "", "log": outcome.log, "codespace": outcome.codespace, "hash": hash,
            });
            Ok((answer, outcome))
        }
        CheckTxOutcome::MempoolRejection(text) => Err(internal_error(text)),
    }
}

/// Encodes the outcome of CheckTx.
pub fn encode_check_result(outcome: &TxOutcome) -> Value {
    json!({
        "code": outcome.code, "data": null, "log": outcome.log, "info": "",
        "gas_wanted": outcome.gas_wanted.to_string(), "gas_used": outcome.gas_used.to_string(),
        "events": encode::events(&outcome.events), "codespace": outcome.codespace,
    })
}

fn tx(core: &NodeCore, params: &RpcParams) -> Result<Value, RpcError> {
    let hash = hex::encode_upper(params.bytes("hash")?);
    let (block, position) =
        core.find_indexed_tx(&hash).ok_or_else(|| internal_error(format!("tx ({hash}) not found")))?;
    Ok(encode::tx(block, position, params.flag("prove")))
}

/// Returns block metas, newest first, at most twenty.
fn blockchain(core: &NodeCore, params: &RpcParams) -> Result<Value, RpcError> {
    let newest = core.height();
    let given = |name| params.number(name).map(|height| height.unwrap_or(0));
    let (asked_first, asked_last) = (given("minHeight")?, given("maxHeight")?);
    let last = if asked_last == 0 { newest } else { asked_last.min(newest) };
    let first = asked_first.max(1).max((last + 1).saturating_sub(MAX_BLOCK_METAS));
    if first > last {
        return Err(internal_error(format!("min height {first} can't be greater than max height {last}")));
    }
    let metas: Vec<Value> =
        (first..=last).rev().filter_map(|height| core.block(height)).map(|block| encode::block_meta(block)).collect();
    Ok(json!({"last_height": newest.to_string(), "block_metas": metas}))
}

fn answer_at_height(
    core: &NodeCore,
    params: &RpcParams,
    answer: impl Fn(&NodeCore, &BlockRecord) -> Value,
) -> Result<Value, RpcError> {
    let newest = core.height();
    let height = params.number("height")?.unwrap_or(newest);
    if height == 0 {
        return Err(internal_error("height must be greater than 0, but got 0"));
    }
    let lowest = core.earliest_height();
    if height < lowest {
        return Err(internal_error(format!("height {height} is not available, lowest height is {lowest}")));
    }
    let block = core.block(height).ok_or_else(|| {
        internal_error(format!("height {height} must be less than or equal to the current blockchain height {newest}"))
    })?;
    Ok(answer(core, block))
}

//! Calls: a request is parsed, its method is run, its response is encoded.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use svc_wire::comet_rpc::RpcError;

use super::{
    encode, methods,
    params::{RpcParams, internal_error, method_not_found, parameter_names},
};
use crate::node::shared::SharedChain;

/// Time limit of `broadcast_tx_commit` for the block of its transaction.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(10);

pub fn rpc_response(id: Option<&Value>, outcome: Result<Value, RpcError>) -> Value {
    let mut answer = match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "result": result}),
        Err(error) => json!({"jsonrpc": "2.0", "error": error}),
    };
    if let Some(id) = id {
        answer["id"] = id.clone();
    }
    answer
}

pub fn parse_error(data: String) -> RpcError {
    RpcError { code: -32700, message: "Parse error. Invalid JSON".to_owned(), data }
}

/// Answers one request; `None` for a notification, which has no id.
pub async fn answer_request(shared: &Arc<SharedChain>, request: &Value) -> Option<Value> {
    let Some(object) = request.as_object() else {
        return Some(rpc_response(None, Err(parse_error("a request is an object".to_owned()))));
    };
    let id = object.get("id").filter(|id| !id.is_null())?;
    if !id.is_string() && !id.is_number() {
        return Some(rpc_response(None, Err(parse_error("id must be a text or a number".to_owned()))));
    }
    let Some(method) = object.get("method").and_then(Value::as_str).filter(|method| parameter_names(method).is_some())
    else {
        return Some(rpc_response(Some(id), Err(method_not_found())));
    };
    let outcome = match RpcParams::parse(method, object.get("params")) {
        Ok(params) => call_method(shared, method, &params).await,
        Err(error) => Err(error),
    };
    Some(rpc_response(Some(id), outcome))
}

pub async fn call_method(shared: &Arc<SharedChain>, method: &str, params: &RpcParams) -> Result<Value, RpcError> {
    let [before, after] = shared.core().faults.method_delays(method);
    pause(before).await;
    let answer = match method {
        "broadcast_tx_commit" => broadcast_commit(shared, params).await,
        _ => shared.run_and_gossip(|core| {
            if let Some(error) = core.faults.take_rpc_error(method) {
                return Err(error);
            }
            let mut result = methods::dispatch_method(core, method, params)?;
            core.faults.lies.apply(method, params.text("path"), &mut result);
            Ok(result)
        }),
    };
    pause(after).await;
    answer
}

async fn pause(delay: Duration) {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}

/// Broadcasts a transaction and answers once it is in a block or refused.
async fn broadcast_commit(shared: &Arc<SharedChain>, params: &RpcParams) -> Result<Value, RpcError> {
    let mut heights = shared.height.subscribe();
    let hash = svc_wire::tx::tx_hash(&params.bytes("tx")?);
    let (_, checked) = shared.run_and_gossip(|core| methods::broadcast_tx(core, params))?;
    let answer = |result: Value, height: u64| {
        json!({
            "check_tx": methods::encode_check_result(&checked), "tx_result": result, "hash": hash, "height": height.to_string(),
        })
    };
    if checked.code != 0 {
        let nothing = json!({
            "code": 0, "data": null, "log": "", "info": "", "gas_wanted": "0", "gas_used": "0", "events": [], "codespace": "",
        });
        return Ok(answer(nothing, 0));
    }
    let included = async {
        loop {
            if let Some((block, position)) = shared.core().find_tx(&hash) {
                return Some((encode::tx_result(&block.tx_outcomes[position]), block.height));
            }
            heights.changed().await.ok()?;
        }
    };
    match tokio::time::timeout(COMMIT_TIMEOUT, included).await {
        Ok(Some((result, height))) => Ok(answer(result, height)),
        _ => Err(internal_error("timed out waiting for tx to be included in a block")),
    }
}

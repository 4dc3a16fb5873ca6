//! Feeds random answers of a node to every type that one is read as. None may panic, also not when its content is used.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::de::DeserializeOwned;
use serde_json::Value;
use svc_wire::comet_rpc::{
    AbciQueryResult, BlockResults, BroadcastTxResult, CometEvent, CommittedBlock, IncludedTx, NodeStatus, RpcResponse,
};

fn read<T: DeserializeOwned>(data: &[u8], value: &Value) -> Option<T> {
    let _ = serde_json::from_slice::<T>(data);
    serde_json::from_value(value.clone()).ok()
}

fuzz_target!(|data: &[u8]| {
    let _ = serde_json::from_slice::<RpcResponse>(data);
    let Ok(value) = serde_json::from_slice::<Value>(data) else { return };
    let _ = read::<BroadcastTxResult>(data, &value);
    let _ = read::<BlockResults>(data, &value);
    let _ = read::<IncludedTx>(data, &value);
    if let Some(status) = read::<NodeStatus>(data, &value) {
        let _ = status.node_info.is_index_off();
    }
    if let Some(block) = read::<CommittedBlock>(data, &value) {
        let _ = block.block.data.decode_txs();
    }
    if let Some(answer) = read::<AbciQueryResult>(data, &value) {
        let _ = answer.response.into_result();
    }
    let _ = CometEvent::parse(&value);
});

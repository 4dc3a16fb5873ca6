//! What the RPC answers, as CometBFT 0.38 encodes it: numbers as text, bytes as base64, hashes as upper-case hex.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use svc_wire::{instant::rfc3339_nanos, tx};

use super::core::{BlockRecord, Core};
use crate::ledger::{Event, TxOutcome};

/// CometBFT version this face imitates; clients choose their dialect by it.
const COMET_VERSION: &str = "0.38.17";

/// Key of the only validator. Nothing is signed with it: the devnet reaches consensus with itself.
const VALIDATOR_KEY: [u8; 32] = [7; 32];

fn digest(text: &str) -> String {
    hex::encode_upper(Sha256::digest(text.as_bytes()))
}

fn validator_address() -> String {
    hex::encode_upper(&Sha256::digest(VALIDATOR_KEY)[..20])
}

pub fn events(events: &[Event]) -> Value {
    events
        .iter()
        .map(|event| {
            let attributes: Vec<Value> = event
                .attributes
                .iter()
                .map(|(key, value)| json!({"key": key, "value": value, "index": true}))
                .collect();
            json!({"type": event.kind, "attributes": attributes})
        })
        .collect()
}

pub fn tx_result(outcome: &TxOutcome) -> Value {
    let data = if outcome.data.is_empty() { Value::Null } else { STANDARD.encode(&outcome.data).into() };
    json!({
        "code": outcome.code, "data": data, "log": outcome.log, "info": "",
        "gas_wanted": outcome.gas_wanted.to_string(), "gas_used": outcome.gas_used.to_string(),
        "events": events(&outcome.events), "codespace": outcome.codespace,
    })
}

pub fn status(core: &Core) -> Value {
    let (time, hash) =
        core.latest().map_or((String::new(), String::new()), |block| (rfc3339_nanos(&block.time), block.hash.clone()));
    let earliest = core.block(1);
    json!({
        "node_info": {
            "protocol_version": {"p2p": "8", "block": "11", "app": "0"},
            "id": digest("node")[..40].to_lowercase(), "listen_addr": "tcp://0.0.0.0:0", "network": core.chain.chain_id,
            "version": COMET_VERSION, "channels": "40202122233038606100", "moniker": "devnet",
            "other": {"tx_index": "on", "rpc_address": "tcp://127.0.0.1:0"},
        },
        "sync_info": {
            "latest_block_hash": hash, "latest_app_hash": core.app_hash_hex(),
            "latest_block_height": core.height().to_string(), "latest_block_time": time,
            "earliest_block_hash": earliest.map(|block| block.hash.clone()).unwrap_or_default(),
            "earliest_app_hash": "", "earliest_block_height": "1",
            "earliest_block_time": earliest.map(|block| rfc3339_nanos(&block.time)).unwrap_or_default(),
            "catching_up": false,
        },
        "validator_info": {
            "address": validator_address(),
            "pub_key": {"type": "tendermint/PubKeyEd25519", "value": STANDARD.encode(VALIDATOR_KEY)},
            "voting_power": "1",
        },
    })
}

fn block_id(hash: &str) -> Value {
    let part = if hash.is_empty() { String::new() } else { digest(hash) };
    json!({"hash": hash, "parts": {"total": u8::from(!hash.is_empty()), "hash": part}})
}

pub fn header(core: &Core, block: &BlockRecord) -> Value {
    let validators = digest("validators");
    let transactions: String = block.txs.iter().map(|bytes| tx::hash(bytes)).collect();
    let results: String =
        block.outcomes.iter().map(|outcome| format!("{}/{}", outcome.code, outcome.gas_used)).collect();
    json!({
        "version": {"block": "11"}, "chain_id": core.chain.chain_id, "height": block.height.to_string(),
        "time": rfc3339_nanos(&block.time), "last_block_id": block_id(&block.last_hash),
        "last_commit_hash": digest(&block.last_hash), "data_hash": digest(&transactions),
        "validators_hash": validators, "next_validators_hash": validators, "consensus_hash": digest("consensus"),
        "app_hash": block.app_hash, "last_results_hash": digest(&results), "evidence_hash": digest(""),
        "proposer_address": validator_address(),
    })
}

pub fn block_body(core: &Core, block: &BlockRecord) -> Value {
    let txs: Vec<String> = block.txs.iter().map(|bytes| STANDARD.encode(bytes)).collect();
    json!({
        "header": header(core, block), "data": {"txs": txs}, "evidence": {"evidence": []},
        "last_commit": {
            "height": (block.height - 1).to_string(), "round": 0, "block_id": block_id(&block.last_hash), "signatures": [],
        },
    })
}

pub fn block(core: &Core, block: &BlockRecord) -> Value {
    json!({"block_id": block_id(&block.hash), "block": block_body(core, block)})
}

pub fn block_results(block: &BlockRecord) -> Value {
    let results: Vec<Value> = block.outcomes.iter().map(tx_result).collect();
    json!({
        "height": block.height.to_string(), "txs_results": if results.is_empty() { Value::Null } else { results.into() },
        "finalize_block_events": [], "validator_updates": null, "consensus_param_updates": null, "app_hash": block.app_hash,
    })
}

pub fn tx(block: &BlockRecord, position: usize) -> Value {
    json!({
        "hash": tx::hash(&block.txs[position]), "height": block.height.to_string(), "index": position,
        "tx_result": tx_result(&block.outcomes[position]), "tx": STANDARD.encode(&block.txs[position]),
    })
}

/// `data` of a `Tx` event.
pub fn tx_event(block: &BlockRecord, position: usize) -> Value {
    json!({"type": "tendermint/event/Tx", "value": {"TxResult": {
        "height": block.height.to_string(), "index": position, "tx": STANDARD.encode(&block.txs[position]),
        "result": tx_result(&block.outcomes[position]),
    }}})
}

//! JSON answers as CometBFT 0.38 encodes them: numbers as text, bytes as base64, hashes as upper-case hex.

use base64::{Engine, engine::general_purpose::STANDARD};
use prost_types::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use svc_wire::{timestamp::rfc3339_nanos, tx};
use tendermint::{
    Hash, Time,
    block::{self, CommitSig},
};

use super::tx_proof::tx_proof;
use crate::node::chain::{
    BlockRecord, NodeCore,
    seal::{BLOCK_MAX_BYTES, BLOCK_MAX_GAS, VOTING_POWER},
};
use svc_ledger::{LedgerEvent, TxOutcome};

/// CometBFT version of the answers; clients choose their dialect by it.
const COMET_VERSION: &str = "0.38.17";

fn upper_hex(bytes: impl AsRef<[u8]>) -> String {
    hex::encode_upper(bytes)
}

fn optional_hash(hash: Option<Hash>) -> String {
    hash.map(upper_hex).unwrap_or_default()
}

fn time_text(time: Time) -> String {
    let moment = time.unix_timestamp_nanos();
    rfc3339_nanos(&svc_wire::timestamp::from_unix_nanos(moment))
}

pub fn events(events: &[LedgerEvent]) -> Value {
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

fn node_id(core: &NodeCore) -> String {
    hex::encode(&Sha256::digest(core.chain.chain_id.as_bytes())[..20])
}

fn public_key(core: &NodeCore) -> Value {
    let key = core.validator().info.pub_key;
    json!({"type": "tendermint/PubKeyEd25519", "value": STANDARD.encode(key.to_bytes())})
}

fn validator_address(core: &NodeCore) -> String {
    upper_hex(core.validator().info.address)
}

pub fn status(core: &NodeCore) -> Value {
    let latest = core.latest();
    let earliest = core.block(core.earliest_height());
    let tx_index = if core.faults.index_off { "off" } else { "on" };
    let time = |block: Option<&std::sync::Arc<BlockRecord>>| match block {
        Some(block) => rfc3339_nanos(&block.time),
        None => rfc3339_nanos(&core.genesis().time),
    };
    let hash = |block: Option<&std::sync::Arc<BlockRecord>>| block.map(|block| block.hash.clone()).unwrap_or_default();
    json!({
        "node_info": {
            "protocol_version": {"p2p": "8", "block": "11", "app": "0"},
            "id": node_id(core), "listen_addr": "tcp://0.0.0.0:26656", "network": core.chain.chain_id,
            "version": COMET_VERSION, "channels": "40202122233038606100", "moniker": "devnet",
            "other": {"tx_index": tx_index, "rpc_address": "tcp://127.0.0.1:26657"},
        },
        "sync_info": {
            "latest_block_hash": hash(latest), "latest_app_hash": core.app_hash_hex(),
            "latest_block_height": core.height().to_string(), "latest_block_time": time(latest),
            "earliest_block_hash": hash(earliest),
            "earliest_app_hash": earliest.map(|block| upper_hex(block.seal.header.app_hash.as_bytes())).unwrap_or_default(),
            "earliest_block_height": core.earliest_height().to_string(), "earliest_block_time": time(earliest),
            "catching_up": core.is_catching_up(),
        },
        "validator_info": {
            "address": validator_address(core), "pub_key": public_key(core), "voting_power": VOTING_POWER.to_string(),
        },
    })
}

pub fn net_info() -> Value {
    json!({"listening": true, "listeners": ["Listener(@)"], "n_peers": "0", "peers": []})
}

fn block_id(id: Option<&block::Id>) -> Value {
    match id {
        Some(id) => json!({
            "hash": upper_hex(id.hash),
            "parts": {"total": id.part_set_header.total, "hash": upper_hex(id.part_set_header.hash)},
        }),
        None => json!({"hash": "", "parts": {"total": 0, "hash": ""}}),
    }
}

pub fn header(block: &BlockRecord) -> Value {
    let header = &block.seal.header;
    json!({
        "version": {"block": header.version.block.to_string()}, "chain_id": header.chain_id,
        "height": block.height.to_string(), "time": time_text(header.time),
        "last_block_id": block_id(header.last_block_id.as_ref()),
        "last_commit_hash": optional_hash(header.last_commit_hash), "data_hash": optional_hash(header.data_hash),
        "validators_hash": upper_hex(header.validators_hash), "next_validators_hash": upper_hex(header.next_validators_hash),
        "consensus_hash": upper_hex(header.consensus_hash), "app_hash": upper_hex(header.app_hash.as_bytes()),
        "last_results_hash": optional_hash(header.last_results_hash), "evidence_hash": optional_hash(header.evidence_hash),
        "proposer_address": upper_hex(header.proposer_address),
    })
}

/// Encodes the commit with the validator's signature; empty for the block before the first one.
fn commit(block: Option<&BlockRecord>) -> Value {
    let Some(block) = block else {
        return json!({"height": "0", "round": 0, "block_id": block_id(None), "signatures": []});
    };
    let commit = &block.seal.commit;
    let signatures: Vec<Value> = commit
        .signatures
        .iter()
        .filter_map(|one| match one {
            CommitSig::BlockIdFlagCommit { validator_address, timestamp, signature } => Some(json!({
                "block_id_flag": 2, "validator_address": upper_hex(validator_address), "timestamp": time_text(*timestamp),
                "signature": signature.as_ref().map(|signature| STANDARD.encode(signature.as_bytes())),
            })),
            _ => None,
        })
        .collect();
    json!({
        "height": block.height.to_string(), "round": 0, "block_id": block_id(Some(&block.seal.id)),
        "signatures": signatures,
    })
}

fn previous_block<'a>(core: &'a NodeCore, block: &BlockRecord) -> Option<&'a BlockRecord> {
    core.block(block.height - 1).map(|last| &**last)
}

pub fn block_body(core: &NodeCore, block: &BlockRecord) -> Value {
    let txs: Vec<String> = block.txs.iter().map(|bytes| STANDARD.encode(bytes)).collect();
    json!({
        "header": header(block), "data": {"txs": txs}, "evidence": {"evidence": []},
        "last_commit": commit(previous_block(core, block)),
    })
}

pub fn block(core: &NodeCore, block: &BlockRecord) -> Value {
    json!({"block_id": block_id(Some(&block.seal.id)), "block": block_body(core, block)})
}

/// Returns the answer for an unknown hash.
pub fn empty_block() -> Value {
    json!({"block_id": block_id(None), "block": null})
}

pub fn signed_header(core: &NodeCore, block: &BlockRecord) -> Value {
    // The newest commit is in no block yet.
    let is_canonical = block.height < core.height();
    json!({"signed_header": {"header": header(block), "commit": commit(Some(block))}, "canonical": is_canonical})
}

pub fn block_meta(block: &BlockRecord) -> Value {
    json!({
        "block_id": block_id(Some(&block.seal.id)), "block_size": block.seal.size.to_string(),
        "header": header(block), "num_txs": block.txs.len().to_string(),
    })
}

pub fn block_results(block: &BlockRecord) -> Value {
    let results: Vec<Value> = block.tx_outcomes.iter().map(tx_result).collect();
    json!({
        "height": block.height.to_string(), "txs_results": if results.is_empty() { Value::Null } else { results.into() },
        "finalize_block_events": events(&block.events), "validator_updates": null, "consensus_param_updates": null,
        "app_hash": STANDARD.encode(hex::decode(&block.app_hash).unwrap_or_default()),
    })
}

/// Encodes a transaction, with the proof that its block has it where that is asked for.
pub fn tx(block: &BlockRecord, position: usize, is_proven: bool) -> Value {
    let mut found = json!({
        "hash": tx::tx_hash(&block.txs[position]), "height": block.height.to_string(), "index": position,
        "tx_result": tx_result(&block.tx_outcomes[position]), "tx": STANDARD.encode(&block.txs[position]),
    });
    if is_proven {
        found["proof"] = tx_proof(&block.txs, position);
    }
    found
}

pub fn validators(core: &NodeCore, height: u64) -> Value {
    json!({
        "block_height": height.to_string(),
        "validators": [{
            "address": validator_address(core), "pub_key": public_key(core),
            "voting_power": VOTING_POWER.to_string(), "proposer_priority": "0",
        }],
        "count": "1", "total": "1",
    })
}

fn params() -> Value {
    json!({
        "block": {"max_bytes": BLOCK_MAX_BYTES.to_string(), "max_gas": BLOCK_MAX_GAS.to_string()},
        "evidence": {"max_age_num_blocks": "100000", "max_age_duration": "172800000000000", "max_bytes": "1048576"},
        "validator": {"pub_key_types": ["ed25519"]},
        "version": {"app": "0"},
        "abci": {"vote_extensions_enable_height": "0"},
    })
}

pub fn consensus_params(height: u64) -> Value {
    json!({"block_height": height.to_string(), "consensus_params": params()})
}

pub fn genesis(core: &NodeCore) -> Value {
    genesis_document(core, &core.genesis().time, &core.genesis().app_state)
}

/// Encodes a genesis document with which a chain begins at a time with a state.
pub fn genesis_document(core: &NodeCore, time: &Timestamp, app_state: &Value) -> Value {
    json!({
        "genesis_time": rfc3339_nanos(time), "chain_id": core.chain.chain_id,
        "initial_height": "1", "consensus_params": params(),
        "validators": [{
            "address": validator_address(core), "pub_key": public_key(core), "power": VOTING_POWER.to_string(),
            "name": "devnet",
        }],
        "app_hash": "", "app_state": app_state,
    })
}

/// Encodes the `data` of a `Tx` event.
pub fn tx_event(block: &BlockRecord, position: usize) -> Value {
    json!({"type": "tendermint/event/Tx", "value": {"TxResult": {
        "height": block.height.to_string(), "index": position, "tx": STANDARD.encode(&block.txs[position]),
        "result": tx_result(&block.tx_outcomes[position]),
    }}})
}

/// Encodes the `data` of one of the three events of a block.
pub fn block_event(core: &NodeCore, block: &BlockRecord, kind: &str) -> Value {
    let value = match kind {
        "NewBlock" => json!({
            "block": block_body(core, block), "block_id": block_id(Some(&block.seal.id)),
            "result_finalize_block": {
                "events": events(&block.events),
                "tx_results": block.tx_outcomes.iter().map(tx_result).collect::<Vec<_>>(),
                "validator_updates": [],
                "app_hash": STANDARD.encode(hex::decode(&block.app_hash).unwrap_or_default()),
            },
        }),
        "NewBlockHeader" => json!({"header": header(block)}),
        _ => json!({
            "height": block.height.to_string(), "events": events(&block.events),
            "num_txs": block.txs.len().to_string(),
        }),
    };
    json!({"type": format!("tendermint/event/{kind}"), "value": value})
}

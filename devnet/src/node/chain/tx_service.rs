//! The answers of `abci_query`: queries of the ledger at any height, and the transaction service of the SDK.

use std::sync::Arc;

use prost::Message;
use svc_wire::{
    proto::{
        cosmos::{
            base::{
                abci::v1beta1::{GasInfo, Result as SimulationResult, TxResponse},
                query::v1beta1::PageResponse,
            },
            tx::v1beta1::{
                AuthInfo, BroadcastTxRequest, BroadcastTxResponse, GetTxRequest, GetTxResponse, GetTxsEventRequest,
                GetTxsEventResponse, OrderBy, SimulateRequest, SimulateResponse, Tx, TxBody, TxRaw,
            },
        },
        tendermint,
    },
    timestamp, tx,
};

use super::{
    base_service::BASE_SERVICE,
    core::{CheckTxOutcome, NodeCore},
    history::BlockRecord,
    pubsub_query::{self, PubsubQuery},
};
use crate::node::faults::{QueryRefusal, take_one};
use svc_ledger::{LedgerError, LedgerEvent};

const TX_SERVICE: &str = "/cosmos.tx.v1beta1.Service/";
/// Place in the SDK at which the error of a message is wrapped, as a node's text names it.
const WRAPPED_AT: &str = "cosmos/cosmos-sdk@v0.53.4/baseapp/baseapp.go:1051";
const DEFAULT_PAGE_SIZE: u64 = 100;

impl NodeCore {
    /// Answers `abci_query`; height 0 means the newest. Returns the height of the answer and the answer.
    pub fn query(&mut self, path: &str, data: &[u8], height: u64) -> (u64, Result<Vec<u8>, LedgerError>) {
        if let Some(method) = path.strip_prefix(TX_SERVICE) {
            let answer = match method {
                "BroadcastTx" => self.broadcast(data),
                "Simulate" => self.simulate(data),
                "GetTx" => self.get_tx(data),
                "GetTxsEvent" => self.get_txs(data),
                _ => Err(LedgerError::sdk(6, format!("unknown query path: {path}"))),
            };
            return (self.height(), answer);
        }
        if let Some(method) = path.strip_prefix(BASE_SERVICE) {
            return (self.height(), self.base_service(method, data));
        }
        let is_failed = |refusal: &&QueryRefusal| height == 0 && path.ends_with(&refusal.path);
        if let Some(refusal) = self.faults.fail_queries.as_ref().filter(is_failed) {
            return (self.height(), Err(LedgerError::sdk(refusal.code, refusal.log.clone())));
        }
        let height = if height == 0 { self.height() } else { height };
        let Some(state) = self.history.state_at(height) else {
            let newest = self.height();
            let text =
                format!("cannot query with height in the future; please provide a valid height (newest is {newest})");
            return (height, Err(LedgerError::sdk(18, text)));
        };
        if self.faults.kept_states > 0 && height + self.faults.kept_states <= self.height() {
            let newest = self.height();
            let text = format!(
                "failed to load state at height {height}; version mismatch on immutable IAVL tree; version does not exist. Version \
                 has either been pruned, or is for a future block height (latest height: {newest}): not found"
            );
            return (height, Err(LedgerError::sdk(38, text)));
        }
        let time = self.history.block(height).map_or(self.genesis.time, |block| block.time);
        (height, svc_ledger::query(state, &self.chain, svc_ledger::BlockContext { height, time }, path, data))
    }

    fn simulate(&mut self, data: &[u8]) -> Result<Vec<u8>, LedgerError> {
        if let Some((left, text)) = &mut self.faults.fail_simulations
            && take_one(left)
        {
            return Err(LedgerError::new("sdk", 6, text.clone()));
        }
        let request = SimulateRequest::decode(data).map_err(|error| LedgerError::sdk(18, error))?;
        let bytes = match request.tx {
            // The deprecated field.
            Some(tx) => tx.encode_to_vec(),
            None => request.tx_bytes,
        };
        if bytes.is_empty() {
            return Err(LedgerError::sdk(18, "empty txBytes is not allowed"));
        }
        let outcome = svc_ledger::simulate(&self.check_state, &self.chain, self.block_context(), &bytes);
        if outcome.code != 0 {
            // The SDK turns every failure into a gRPC status of kind Unknown; the code is lost.
            let text = format!(
                "rpc error: code = Unknown desc = {} [{WRAPPED_AT}] with gas used: '{}'",
                outcome.log, outcome.gas_used
            );
            return Err(LedgerError::sdk(6, text));
        }
        let result = SimulationResult {
            data: outcome.data.clone(),
            log: String::new(),
            events: outcome.events.iter().map(abci_event).collect(),
            msg_responses: tx::decode_message_responses(&outcome.data),
        };
        let gas_info = GasInfo { gas_wanted: outcome.gas_wanted, gas_used: self.faults.reported_gas(outcome.gas_used) };
        Ok(SimulateResponse { gas_info: Some(gas_info), result: Some(result) }.encode_to_vec())
    }

    /// Offers a transaction to the mempool, and answers with the outcome of CheckTx.
    fn broadcast(&mut self, data: &[u8]) -> Result<Vec<u8>, LedgerError> {
        let request = BroadcastTxRequest::decode(data).map_err(|error| LedgerError::sdk(18, error))?;
        if request.tx_bytes.is_empty() {
            return Err(LedgerError::sdk(18, "invalid empty tx"));
        }
        let txhash = tx::tx_hash(&request.tx_bytes);
        let response = match self.check_tx(request.tx_bytes) {
            CheckTxOutcome::Response(outcome) => TxResponse {
                txhash,
                codespace: outcome.codespace,
                code: outcome.code,
                raw_log: outcome.log,
                ..TxResponse::default()
            },
            CheckTxOutcome::MempoolRejection(text) => return Err(LedgerError::sdk(6, text)),
        };
        Ok(BroadcastTxResponse { tx_response: Some(response) }.encode_to_vec())
    }

    fn get_tx(&self, data: &[u8]) -> Result<Vec<u8>, LedgerError> {
        let request = GetTxRequest::decode(data).map_err(|error| LedgerError::sdk(18, error))?;
        if request.hash.is_empty() {
            return Err(LedgerError::sdk(18, "tx hash cannot be empty"));
        }
        let (block, position) = self
            .find_indexed_tx(&request.hash.to_uppercase())
            .ok_or_else(|| LedgerError::sdk(22, format!("tx not found: {}", request.hash)))?;
        let (tx, response) = encode_tx_response(block, position);
        Ok(GetTxResponse { tx: Some(tx), tx_response: Some(response) }.encode_to_vec())
    }

    /// Returns the transactions that match an event query, as (block, position), oldest first.
    pub(in crate::node) fn matching_txs(&self, query: &PubsubQuery) -> Vec<(&Arc<BlockRecord>, usize)> {
        let indexed = self.blocks().iter().filter(|block| self.is_indexed(block.height));
        indexed
            .flat_map(|block| (0..block.txs.len()).map(move |position| (block, position)))
            .filter(|(block, position)| query.matches(&pubsub_query::indexed_tx_attributes(block, *position)))
            .collect()
    }

    fn get_txs(&self, data: &[u8]) -> Result<Vec<u8>, LedgerError> {
        let request = GetTxsEventRequest::decode(data).map_err(|error| LedgerError::sdk(18, error))?;
        let text = if request.query.is_empty() { request.events.join(" AND ") } else { request.query.clone() };
        let query = PubsubQuery::parse(&text).map_err(|error| LedgerError::sdk(18, error))?;
        let mut found = self.matching_txs(&query);
        if request.order_by() == OrderBy::Desc {
            found.reverse();
        }
        let limit = if request.limit == 0 { DEFAULT_PAGE_SIZE } else { request.limit.min(DEFAULT_PAGE_SIZE) };
        let skipped = usize::try_from(request.page.saturating_sub(1).saturating_mul(limit)).unwrap_or(usize::MAX);
        let total = found.len() as u64;
        let page = found.into_iter().skip(skipped).take(usize::try_from(limit).unwrap_or(100));
        let (txs, tx_responses) = page.map(|(block, position)| encode_tx_response(block, position)).unzip();
        let pagination = Some(PageResponse { next_key: Vec::new(), total });
        Ok(GetTxsEventResponse { txs, tx_responses, pagination, total }.encode_to_vec())
    }
}

fn abci_event(event: &LedgerEvent) -> tendermint::abci::Event {
    let attribute = |(key, value): &(String, String)| tendermint::abci::EventAttribute {
        key: key.clone(),
        value: value.clone(),
        index: true,
    };
    tendermint::abci::Event { r#type: event.kind.clone(), attributes: event.attributes.iter().map(attribute).collect() }
}

/// Encodes a transaction of a block as the SDK's service does. The bytes are valid: CheckTx decoded them.
fn encode_tx_response(block: &BlockRecord, position: usize) -> (Tx, TxResponse) {
    let (bytes, outcome) = (&block.txs[position], &block.tx_outcomes[position]);
    let raw = TxRaw::decode(bytes.as_slice()).unwrap_or_default();
    let tx = Tx {
        body: TxBody::decode(raw.body_bytes.as_slice()).ok(),
        auth_info: AuthInfo::decode(raw.auth_info_bytes.as_slice()).ok(),
        signatures: raw.signatures,
    };
    let packed = prost_types::Any { type_url: "/cosmos.tx.v1beta1.Tx".to_owned(), value: tx.encode_to_vec() };
    let response = TxResponse {
        height: block.height.cast_signed(),
        txhash: tx::tx_hash(bytes),
        codespace: outcome.codespace.clone(),
        code: outcome.code,
        data: hex::encode_upper(&outcome.data),
        raw_log: outcome.log.clone(),
        info: String::new(),
        gas_wanted: outcome.gas_wanted.cast_signed(),
        gas_used: outcome.gas_used.cast_signed(),
        tx: Some(packed),
        timestamp: timestamp::iso_seconds(&block.time),
        events: outcome.events.iter().map(abci_event).collect(),
    };
    (tx, response)
}

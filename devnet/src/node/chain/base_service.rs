//! The SDK's service about the node and its blocks (`cosmos.base.tendermint.v1beta1`).

use prost::Message;
use prost_comet::Message as CometMessage;
use svc_wire::{
    address::Address,
    proto::{
        cosmos::{
            base::{
                query::v1beta1::PageResponse,
                tendermint::v1beta1::{
                    Block, GetBlockByHeightRequest, GetBlockByHeightResponse, GetLatestBlockResponse,
                    GetLatestValidatorSetResponse, GetNodeInfoResponse, GetSyncingResponse,
                    GetValidatorSetByHeightRequest, GetValidatorSetByHeightResponse, Header, Validator, VersionInfo,
                },
            },
            crypto::ed25519,
        },
        tendermint::{
            p2p::{DefaultNodeInfo, DefaultNodeInfoOther, ProtocolVersion},
            types as comet,
        },
    },
};
use tendermint_proto::v0_38::types as raw;

use super::{core::NodeCore, history::BlockRecord, seal::VOTING_POWER};
use svc_ledger::LedgerError;

/// Path of the service.
pub(super) const BASE_SERVICE: &str = "/cosmos.base.tendermint.v1beta1.Service/";
const CONSENSUS_ADDRESS: &str = "valcons";

/// A block in both forms, with its id.
type ShownBlock = (Option<comet::BlockId>, Option<comet::Block>, Option<Block>);

impl NodeCore {
    /// Answers a method of the service.
    pub(super) fn base_service(&self, method: &str, data: &[u8]) -> Result<Vec<u8>, LedgerError> {
        let unreadable = |error: prost::DecodeError| LedgerError::sdk(18, error);
        Ok(match method {
            "GetNodeInfo" => self.node_info().encode_to_vec(),
            "GetSyncing" => GetSyncingResponse { syncing: self.is_catching_up() }.encode_to_vec(),
            "GetLatestBlock" => {
                let (block_id, block, sdk_block) = self.shown_block(self.height())?;
                GetLatestBlockResponse { block_id, block, sdk_block }.encode_to_vec()
            }
            "GetBlockByHeight" => {
                let height = GetBlockByHeightRequest::decode(data).map_err(unreadable)?.height;
                let (block_id, block, sdk_block) = self.shown_block(u64::try_from(height).unwrap_or_default())?;
                GetBlockByHeightResponse { block_id, block, sdk_block }.encode_to_vec()
            }
            "GetLatestValidatorSet" => {
                let (block_height, validators, pagination) = self.validator_set(self.height());
                GetLatestValidatorSetResponse { block_height, validators, pagination }.encode_to_vec()
            }
            "GetValidatorSetByHeight" => {
                let height = GetValidatorSetByHeightRequest::decode(data).map_err(unreadable)?.height;
                let record = self.block_at(u64::try_from(height).unwrap_or_default())?;
                let (block_height, validators, pagination) = self.validator_set(record.height);
                GetValidatorSetByHeightResponse { block_height, validators, pagination }.encode_to_vec()
            }
            _ => return Err(LedgerError::sdk(6, format!("unknown query path: {BASE_SERVICE}{method}"))),
        })
    }

    fn block_at(&self, height: u64) -> Result<&BlockRecord, LedgerError> {
        let found = self.block(height).filter(|_| height >= self.earliest_height());
        found.map(|block| &**block).ok_or_else(|| {
            LedgerError::sdk(18, "requested block height is bigger then the chain length, or was pruned")
        })
    }

    fn shown_block(&self, height: u64) -> Result<ShownBlock, LedgerError> {
        let record = self.block_at(height)?;
        let last = self.block(record.height.saturating_sub(1));
        let id: comet::BlockId = converted(&raw::BlockId::from(record.seal.id))?;
        let header: comet::Header = converted(&raw::Header::from(record.seal.header.clone()))?;
        let commit = last.map(|last| converted(&raw::Commit::from(last.seal.commit.clone()))).transpose()?;
        let data = comet::Data { txs: record.txs.clone() };
        let evidence = comet::EvidenceList::default();
        let own = Header {
            version: header.version,
            chain_id: header.chain_id.clone(),
            height: header.height,
            time: header.time,
            last_block_id: header.last_block_id.clone(),
            last_commit_hash: header.last_commit_hash.clone(),
            data_hash: header.data_hash.clone(),
            validators_hash: header.validators_hash.clone(),
            next_validators_hash: header.next_validators_hash.clone(),
            consensus_hash: header.consensus_hash.clone(),
            app_hash: header.app_hash.clone(),
            last_results_hash: header.last_results_hash.clone(),
            evidence_hash: header.evidence_hash.clone(),
            proposer_address: self.consensus_address(),
        };
        let sdk_block = Block {
            header: Some(own),
            data: Some(data.clone()),
            evidence: Some(evidence.clone()),
            last_commit: commit.clone(),
        };
        let block =
            comet::Block { header: Some(header), data: Some(data), evidence: Some(evidence), last_commit: commit };
        Ok((Some(id), Some(block), Some(sdk_block)))
    }

    /// Address of the validator, with the prefix that the SDK has for it.
    fn consensus_address(&self) -> String {
        let prefix = format!("{}{CONSENSUS_ADDRESS}", self.chain.prefix);
        let bytes = self.validator().info.address;
        Address::from_bytes(&prefix, bytes.as_bytes()).map(|address| address.to_string()).unwrap_or_default()
    }

    fn validator_set(&self, height: u64) -> (i64, Vec<Validator>, Option<PageResponse>) {
        let key = ed25519::PubKey { key: self.validator().info.pub_key.to_bytes() };
        let packed =
            prost_types::Any { type_url: "/cosmos.crypto.ed25519.PubKey".to_owned(), value: key.encode_to_vec() };
        let validator = Validator {
            address: self.consensus_address(),
            pub_key: Some(packed),
            voting_power: VOTING_POWER.into(),
            proposer_priority: 0,
        };
        (height.cast_signed(), vec![validator], Some(PageResponse { next_key: Vec::new(), total: 1 }))
    }

    fn node_info(&self) -> GetNodeInfoResponse {
        let index = if self.faults.index_off { "off" } else { "on" };
        GetNodeInfoResponse {
            default_node_info: Some(DefaultNodeInfo {
                protocol_version: Some(ProtocolVersion { p2p: 8, block: 11, app: 0 }),
                default_node_id: String::new(),
                listen_addr: "tcp://0.0.0.0:26656".to_owned(),
                network: self.chain.chain_id.clone(),
                version: "0.38.17".to_owned(),
                channels: Vec::new(),
                moniker: "devnet".to_owned(),
                other: Some(DefaultNodeInfoOther {
                    tx_index: index.to_owned(),
                    rpc_address: "tcp://127.0.0.1:26657".to_owned(),
                }),
            }),
            application_version: Some(VersionInfo {
                name: "svc".to_owned(),
                app_name: "svc devnet".to_owned(),
                version: self.application_version(),
                cosmos_sdk_version: "v0.53.4".to_owned(),
                ..VersionInfo::default()
            }),
        }
    }
}

/// The same message in the types of this workspace.
fn converted<M: Message + Default>(raw: &impl CometMessage) -> Result<M, LedgerError> {
    M::decode(raw.encode_to_vec().as_slice()).map_err(|error| LedgerError::sdk(6, error))
}

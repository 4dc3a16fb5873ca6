//! Headers, hashes and commits as CometBFT computes them; a light client accepts them.

use ed25519_consensus::SigningKey;
use prost_comet::Message as _;
use prost_types::Timestamp;
use sha2::{Digest, Sha256 as Sha2};
use tendermint::{
    AppHash, Hash, Signature, Time, account,
    block::{self, CommitSig, Header, Height, Round, header::Version, parts},
    chain,
    crypto::default::Sha256,
    evidence, merkle,
    validator::{Info, Set},
    vote::{self, Vote},
};
use tendermint_proto::v0_38::{
    abci::ExecTxResult,
    types::{Block as RawBlock, CommitSig as RawCommitSig, HashedParams},
};

use svc_ledger::TxOutcome;

/// Consensus parameters of the chain.
pub const BLOCK_MAX_BYTES: i64 = 22_020_096;
pub const BLOCK_MAX_GAS: i64 = -1;
const BLOCK_PROTOCOL: u64 = 11;
const PART_BYTES: usize = 65_536;
pub const VOTING_POWER: u32 = 1;

/// The only validator of the chain. Its key is derived from the chain id, so that a replay has the same signatures.
pub struct Validator {
    chain_id: chain::Id,
    key: SigningKey,
    /// The entry of the validator in the answer of `validators`.
    pub info: Info,
}

/// A block cannot be sealed.
#[derive(Debug, thiserror::Error)]
#[error("block {height} cannot be sealed: {reason}")]
pub struct SealError {
    height: u64,
    reason: String,
}

/// Header and id of a block, and the commit with the validator's signature.
#[derive(Debug, Clone)]
pub struct BlockSeal {
    pub header: Header,
    pub id: block::Id,
    pub commit: block::Commit,
    /// Size of the encoded block.
    pub size: usize,
}

/// The content of a block to be sealed.
pub struct BlockProposal<'a> {
    pub height: u64,
    pub time: Timestamp,
    pub txs: &'a [Vec<u8>],
    /// Seal of the previous block.
    pub last_seal: Option<&'a BlockSeal>,
    /// Application hash after the previous block.
    pub app_hash: [u8; 32],
    /// Results of the previous block.
    pub last_results: &'a [TxOutcome],
}

fn merkle_root(leaves: &[Vec<u8>]) -> Hash {
    Hash::Sha256(merkle::simple_hash_from_byte_vectors::<Sha256>(leaves))
}

/// Returns the Merkle root of the results, without the fields that can differ between nodes.
fn results_hash(outcomes: &[TxOutcome]) -> Hash {
    let leaves: Vec<Vec<u8>> = outcomes
        .iter()
        .map(|outcome| {
            let result = ExecTxResult {
                code: outcome.code,
                data: outcome.data.clone().into(),
                gas_wanted: outcome.gas_wanted.cast_signed(),
                gas_used: outcome.gas_used.cast_signed(),
                ..ExecTxResult::default()
            };
            result.encode_to_vec()
        })
        .collect();
    merkle_root(&leaves)
}

impl Validator {
    pub fn new(chain_id: &str) -> Result<Self, SealError> {
        let failed = |reason: String| SealError { height: 0, reason };
        let seed: [u8; 32] = Sha2::digest(chain_id.as_bytes()).into();
        let key = SigningKey::from(seed);
        let public = tendermint::PublicKey::from_raw_ed25519(key.verification_key().as_ref());
        let public = public.ok_or_else(|| failed("the validator's key is not usable".to_owned()))?;
        let info = Info::new(public, vote::Power::from(VOTING_POWER));
        let chain_id = chain::Id::try_from(chain_id).map_err(|error| failed(error.to_string()))?;
        Ok(Self { chain_id, key, info })
    }

    fn address(&self) -> account::Id {
        self.info.address
    }

    /// Computes header, hash, parts and commit of a block.
    pub fn seal(&self, content: &BlockProposal<'_>) -> Result<BlockSeal, SealError> {
        let failed = |reason: &dyn std::fmt::Display| SealError { height: content.height, reason: reason.to_string() };
        let nanos = u32::try_from(content.time.nanos).map_err(|error| failed(&error))?;
        let time = Time::from_unix_timestamp(content.time.seconds, nanos).map_err(|error| failed(&error))?;
        let height = Height::try_from(content.height).map_err(|error| failed(&error))?;
        let validators_hash = Set::without_proposer(vec![self.info.clone()]).hash();
        let params = HashedParams { block_max_bytes: BLOCK_MAX_BYTES, block_max_gas: BLOCK_MAX_GAS };
        let params = params.encode_to_vec();
        let hashes: Vec<Vec<u8>> = content.txs.iter().map(|tx| Sha2::digest(tx).to_vec()).collect();
        let signatures = content.last_seal.map(|last| last.commit.signatures.clone()).unwrap_or_default();
        let signatures: Vec<Vec<u8>> =
            signatures.into_iter().map(|one| RawCommitSig::from(one).encode_to_vec()).collect();
        let header = Header {
            version: Version { block: BLOCK_PROTOCOL, app: 0 },
            chain_id: self.chain_id.clone(),
            height,
            time,
            last_block_id: content.last_seal.map(|last| last.id),
            last_commit_hash: Some(merkle_root(&signatures)),
            data_hash: Some(merkle_root(&hashes)),
            validators_hash,
            next_validators_hash: validators_hash,
            consensus_hash: Hash::Sha256(Sha2::digest(params).into()),
            app_hash: AppHash::try_from(content.app_hash.to_vec()).map_err(|error| failed(&error))?,
            last_results_hash: Some(results_hash(content.last_results)),
            evidence_hash: Some(merkle_root(&[])),
            proposer_address: self.address(),
        };
        let last_commit = content.last_seal.map(|last| last.commit.clone());
        let block =
            tendermint::Block::new(header.clone(), content.txs.to_vec(), evidence::List::default(), last_commit);
        let bytes = RawBlock::from(block).encode_to_vec();
        let chunks: Vec<Vec<u8>> = bytes.chunks(PART_BYTES).map(<[u8]>::to_vec).collect();
        let total = u32::try_from(chunks.len()).map_err(|error| failed(&error))?;
        let part_set_header = parts::Header::new(total, merkle_root(&chunks)).map_err(|error| failed(&error))?;
        let id = block::Id { hash: header.hash(), part_set_header };
        let commit = self.sign_commit(height, time, id).map_err(|error| failed(&error))?;
        Ok(BlockSeal { header, id, commit, size: bytes.len() })
    }

    fn sign_commit(&self, height: Height, time: Time, id: block::Id) -> Result<block::Commit, tendermint::Error> {
        let vote = Vote {
            vote_type: vote::Type::Precommit,
            height,
            round: Round::default(),
            block_id: Some(id),
            timestamp: Some(time),
            validator_address: self.address(),
            validator_index: vote::ValidatorIndex::try_from(0u32)?,
            signature: None,
            extension: Vec::new(),
            extension_signature: None,
        };
        let bytes = vote.into_signable_vec(self.chain_id.clone());
        let signature = Signature::try_from(self.key.sign(&bytes).to_bytes().as_slice())?;
        let signature = CommitSig::BlockIdFlagCommit {
            validator_address: self.address(),
            timestamp: time,
            signature: Some(signature),
        };
        Ok(block::Commit { height, round: Round::default(), block_id: id, signatures: vec![signature] })
    }
}

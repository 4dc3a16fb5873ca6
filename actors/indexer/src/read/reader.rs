//! The reader: finds the height of a read, dispatches it, and returns its answer.

use std::{any::Any, sync::Arc};

use serde_json::Value;
use svc_kit::RetainedState;
use svc_wire::{
    comet_rpc::NodeInfo,
    indexer_reads::{ReadEndpoint, ResponseLayout},
    proto_registry::Namespace,
};

use super::{
    arguments::params::ReadArguments,
    error::ReadError,
    trust::trqp::{profile, registry_id::RegistryId},
};
use crate::{
    follower::{FollowerHandle, FollowerState, LastError},
    ingest::DigestLookup,
    store::{Checkpoint, IndexStore},
};
use svc_wire::indexer_reads::ReadTableError;

/// The parameters and the height of a read.
pub(super) struct ReadRequest<'a> {
    pub params: &'a ReadArguments,
    pub height: u64,
    /// Time of the block at the height, nanoseconds since the epoch.
    pub block_time: i128,
}

/// An answer, with the height that it is about.
#[derive(Debug)]
pub struct ReadAnswer {
    /// The answer as JSON.
    pub body: Value,
    /// Height of the answer.
    pub height: u64,
    /// Newest height of the indexer.
    pub newest_height: u64,
    /// Time of the newest block, nanoseconds since the epoch.
    pub newest_time: i128,
}

/// The chain that the answers are about, and the node that serves it.
#[derive(Clone)]
pub struct ReadSubject {
    pub node: NodeInfo,
    pub namespace: Namespace,
    /// Denom of trust deposits.
    pub denom: String,
    /// Origin of the node's RPC.
    pub rpc: String,
}

/// The reads of one indexer. The indexer runs at least as long as one of its readers exists.
#[derive(Clone)]
pub struct IndexReader {
    pub(super) store: IndexStore,
    pub(super) digests: DigestLookup,
    follower: FollowerHandle,
    last_error: RetainedState<Option<LastError>>,
    pub(super) subject: Arc<ReadSubject>,
    /// The profile document of TRQP.
    pub(super) profile: Arc<Value>,
    _indexer: Arc<dyn Any + Send + Sync>,
}

impl IndexReader {
    /// Creates a reader that keeps `indexer` alive. Fails when the table of reads lacks an endpoint of the TRQP
    /// profile.
    pub(crate) fn new(
        digests: DigestLookup,
        follower: FollowerHandle,
        last_error: RetainedState<Option<LastError>>,
        subject: ReadSubject,
        indexer: Arc<dyn Any + Send + Sync>,
    ) -> Result<Self, ReadTableError> {
        let registry = RegistryId { namespace: subject.namespace.as_str(), chain_id: &subject.node.network };
        let profile = Arc::new(profile::document(&registry)?);
        let store = digests.store().clone();
        Ok(Self { store, digests, follower, last_error, subject: Arc::new(subject), profile, _indexer: indexer })
    }

    /// Returns the newest block. Fails when the store fails.
    pub async fn checkpoint(&self) -> Result<Checkpoint, ReadError> {
        Ok(self.store.checkpoint().await?)
    }

    /// Returns the failure of the follower's last attempt; `None` after a success.
    pub fn last_error(&self) -> Option<LastError> {
        self.last_error.with(|error| error.clone())
    }

    /// Returns the state of the follower; `None` while it is not running.
    pub async fn follower_state(&self) -> Option<FollowerState> {
        self.follower.state().await
    }

    /// Returns the oldest block of an index that begins in the middle of its chain; `None` when the index has the whole chain, or no block
    /// yet.
    pub(super) async fn late_start(&self) -> Result<Option<Checkpoint>, ReadError> {
        let oldest = self.store.oldest_and_newest_block().await?.first().copied();
        Ok(oldest.filter(|(height, _)| *height > 1).map(|(height, time)| Checkpoint { height, time }))
    }

    /// Fails for a height below the oldest one of the index: the index does not know the state there. Before the first block of a chain there
    /// was no registry.
    pub(super) async fn require_indexed(&self, height: u64) -> Result<(), ReadError> {
        match self.late_start().await? {
            Some(oldest) if height < oldest.height => Err(ReadError::block_not_indexed(height, oldest.height)),
            _ => Ok(()),
        }
    }

    /// Answers a read at the height `at`, or at the newest height. Fails when a parameter is invalid, when the entity
    /// does not exist, when the answer lies below the oldest height, or when the store fails.
    pub async fn answer_read(
        &self,
        endpoint: &'static ReadEndpoint,
        params: &ReadArguments,
        at: Option<u64>,
    ) -> Result<ReadAnswer, ReadError> {
        // Verdicts have a checkpoint of their own, which follows the block checkpoint.
        let (checkpoint, action) = match endpoint.module() {
            "vt" => (self.store.trust_checkpoint().await?, "judged"),
            _ => (self.store.checkpoint().await?, "indexed"),
        };
        let Checkpoint { height: newest, time: newest_time } = checkpoint;
        let height = match at {
            Some(height) if height > newest => {
                let text = format!("At-Block-Height: {height} is above the newest {action} height {newest}");
                return Err(ReadError::InvalidParameter(text));
            }
            Some(height) => {
                if endpoint.has_height() {
                    self.require_indexed(height).await?;
                }
                height
            }
            None => newest,
        };
        let block_time = if height == newest { newest_time } else { self.store.block_time(height).await?.unwrap_or(0) };
        let request = ReadRequest { params, height, block_time };
        let mut body = self.dispatch(&endpoint.operation, &request).await?;
        self.fill_trust_slots(&request, &mut body).await?;
        // Every answer about the state of the registry names its height, unless it is a list.
        let is_about_state = endpoint.response.kind == ResponseLayout::Object
            || (endpoint.response.kind == ResponseLayout::Flat && !endpoint.operation.starts_with("indexer."));
        if is_about_state && let Some(object) = body.as_object_mut() {
            object.entry("block_height").or_insert_with(|| height.into());
        }
        Ok(ReadAnswer { body, height, newest_height: newest, newest_time })
    }

    async fn dispatch(&self, operation: &str, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        match operation {
            "co.getCorporation" => self.corporation(request).await,
            "co.listCorporations" => self.corporations(request).await,
            "co.getCorporationHistory" => self.history(request, "Corporation", "id").await,
            "co.getCorporationParams" => self.parameters(request, "co").await,
            "es.getEcosystem" => self.ecosystem(request).await,
            "es.listEcosystems" => self.ecosystems(request).await,
            "es.getEcosystemHistory" => self.history(request, "Ecosystem", "id").await,
            "es.getEcosystemParams" => self.parameters(request, "ec").await,
            "gf.getGovernanceFrameworkVersion" => self.framework_version(request).await,
            "gf.listGovernanceFrameworkVersions" => self.framework_versions(request).await,
            "cs.getCredentialSchema" => self.schema(request).await,
            "cs.listCredentialSchemas" => self.schemas(request).await,
            "cs.getJsonSchema" => self.json_schema(request).await,
            "cs.getCredentialSchemaHistory" => self.history(request, "CredentialSchema", "id").await,
            "cs.getCredentialSchemaParams" => self.parameters(request, "cs").await,
            "pp.getParticipant" => self.participant(request).await,
            "pp.listParticipants" => self.participants(request).await,
            "pp.pendingFlat" => self.pending_participants(request).await,
            "pp.findBeneficiaries" => self.beneficiaries(request).await,
            "pp.getParticipantSession" => self.session(request).await,
            "pp.getParticipantHistory" => self.history(request, "Participant", "id").await,
            "pp.getParticipantSessionHistory" => self.history(request, "ParticipantSession", "id").await,
            "pp.getParticipantParams" => self.parameters(request, "pp").await,
            "td.getTrustDeposit" => self.trust_deposit(request).await,
            "td.getTrustDepositHistory" => self.history(request, "TrustDeposit", "corporation_id").await,
            "td.getTrustDepositParams" => self.parameters(request, "td").await,
            "de.listOperatorAuthorizations" => self.operator_authorizations(request).await,
            "de.getOperatorAuthorization" => self.operator_authorization(request).await,
            "de.listVSOperatorAuthorizations" => self.vs_operator_authorizations(request).await,
            "de.getVSOperatorAuthorization" => self.vs_operator_authorization(request).await,
            "de.listFeeGrants" => self.fee_grants(request).await,
            "gr.getCorporationGroup" => self.group(request).await,
            "gr.listCorporationsByMember" => self.memberships(request).await,
            "gr.listProposals" => self.proposals(request).await,
            "gr.getProposal" => self.proposal(request).await,
            "gr.listVotes" => self.votes(request).await,
            "di.getDigest" => self.digest(request).await,
            "xr.getExchangeRate" => self.exchange_rate(request).await,
            "xr.listExchangeRates" => self.exchange_rates(request).await,
            "xr.getPrice" => self.price(request).await,
            "stats.getStats" => self.bucket(request).await,
            "stats.getStatsRange" => self.bucket_range(request).await,
            "stats.countParticipants" => self.count_participants(request).await,
            "stats.getStatsSnapshot" => self.stats_snapshot(request).await,
            "stats.getMetrics" => self.metrics(request).await,
            "indexer.getBlockHeight" => self.block_height().await,
            "indexer.getStatus" => self.status().await,
            "indexer.getVersion" => self.version(request).await,
            "indexer.getSnapshot" => self.did_snapshot(request).await,
            "indexer.listChanges" => self.block_changes(request).await,
            "indexer.listEvents" => self.events(request).await,
            "vt.resolve" => self.resolve(request).await,
            "vt.listIndexedDids" => self.indexed_dids(request).await,
            "vt.listChanges" => self.trust_changes(request).await,
            "trqp.authorize" => self.authorize(request).await,
            "trqp.recognize" => self.recognize(request).await,
            "trqp.getProfile" => Ok(self.profile()),
            _ => Err(ReadError::NotFound("operation")),
        }
    }
}

//! The reads, by the names of their operations, at the newest or any past height. JSON out; how it travels is the front
//! end's business.

mod body;
mod delegation;
#[cfg(test)]
mod fixture;
mod framework;
mod group;
mod holdings;
mod log;
mod market;
mod openapi;
mod own;
mod params;
mod scan;
mod stats;
mod trqp;
mod trust;
mod trust_sections;

use std::sync::Arc;

use serde_json::{Map, Value};
use svc_kit::{Handle, Retained};
use svc_wire::{
    comet::NodeInfo,
    reads::{Endpoint, Wrapping},
    schema::Namespace,
};

use crate::{
    follower::{self, LastError},
    store::{Checkpoint, Store, StoreError},
};
pub use body::MAX_BODY_BYTES;
pub use openapi::document as openapi;
pub use params::Params;
pub use svc_wire::reads::endpoints;

/// A read that cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A parameter is not usable; the text names it.
    #[error("{0}")]
    Parameter(String),
    /// There is no such thing.
    #[error("{0} not found")]
    NotFound(&'static str),
    /// There was such a thing, and it is over.
    #[error("{0}")]
    Gone(String),
    /// The indexer itself is not there to answer.
    #[error("the indexer is not running")]
    NotRunning,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a read is asked with.
struct Ask<'a> {
    params: &'a Params,
    height: u64,
    /// Time of the block at that height, nanoseconds since the epoch.
    now: i128,
}

/// An answer, and the state it is about.
#[derive(Debug)]
pub struct Answer {
    /// JSON.
    pub body: Value,
    /// Height the answer is about.
    pub height: u64,
    /// Newest height the indexer has.
    pub newest: u64,
    /// Time of that newest block, nanoseconds since the epoch.
    pub newest_time: i128,
}

/// The reads of one indexer.
#[derive(Clone)]
pub struct Reader {
    store: Store,
    follower: Handle<follower::Msg>,
    last_error: Retained<Option<LastError>>,
    node: Arc<NodeInfo>,
    namespace: Namespace,
    denom: Arc<str>,
    rpc: Arc<str>,
}

impl Reader {
    pub(crate) fn new(
        store: Store,
        follower: Handle<follower::Msg>,
        last_error: Retained<Option<LastError>>,
        node: NodeInfo,
        namespace: Namespace,
        denom: String,
        rpc: String,
    ) -> Self {
        Self { store, follower, last_error, node: node.into(), namespace, denom: denom.into(), rpc: rpc.into() }
    }

    /// Newest block.
    pub async fn checkpoint(&self) -> Result<Checkpoint, ReadError> {
        Ok(self.store.checkpoint().await?)
    }

    /// Answers an operation with its parameters, at a height or at the newest.
    pub async fn answer(
        &self,
        endpoint: &'static Endpoint,
        params: &Params,
        at: Option<u64>,
    ) -> Result<Answer, ReadError> {
        // Verdicts follow the blocks with a checkpoint of their own.
        let (known, what) = match endpoint.module() {
            "vt" => (self.store.trust_checkpoint().await?, "judged"),
            _ => (self.store.checkpoint().await?, "indexed"),
        };
        let Checkpoint { height: newest, time: newest_time } = known;
        let height = match at {
            Some(height) if height > newest => {
                let text = format!("At-Block-Height: {height} is above the newest {what} height {newest}");
                return Err(ReadError::Parameter(text));
            }
            Some(height) => height,
            None => newest,
        };
        let now = if height == newest { newest_time } else { self.store.block_time(height).await?.unwrap_or(0) };
        let ask = Ask { params, height, now };
        let mut body = self.dispatch(&endpoint.operation, &ask).await?;
        self.fill_trust(&ask, &mut body).await?;
        // Every answer that is no list says which height it is about.
        let is_about_state = endpoint.response.kind == Wrapping::Object
            || (endpoint.response.kind == Wrapping::Flat && !endpoint.operation.starts_with("indexer."));
        if is_about_state && let Some(object) = body.as_object_mut() {
            object.entry("block_height").or_insert_with(|| height.into());
        }
        Ok(Answer { body, height, newest, newest_time })
    }

    async fn dispatch(&self, operation: &str, ask: &Ask<'_>) -> Result<Value, ReadError> {
        match operation {
            "co.getCorporation" => self.corporation(ask).await,
            "co.listCorporations" => self.corporations(ask).await,
            "co.getCorporationHistory" => self.history(ask, "Corporation", "id").await,
            "co.getCorporationParams" => self.parameters(ask, "co").await,
            "es.getEcosystem" => self.ecosystem(ask).await,
            "es.listEcosystems" => self.ecosystems(ask).await,
            "es.getEcosystemHistory" => self.history(ask, "Ecosystem", "id").await,
            "es.getEcosystemParams" => self.parameters(ask, "ec").await,
            "gf.getGovernanceFrameworkVersion" => self.framework_version(ask).await,
            "gf.listGovernanceFrameworkVersions" => self.framework_versions(ask).await,
            "cs.getCredentialSchema" => self.schema(ask).await,
            "cs.listCredentialSchemas" => self.schemas(ask).await,
            "cs.getJsonSchema" => self.json_schema(ask).await,
            "cs.getCredentialSchemaHistory" => self.history(ask, "CredentialSchema", "id").await,
            "cs.getCredentialSchemaParams" => self.parameters(ask, "cs").await,
            "pp.getParticipant" => self.participant(ask).await,
            "pp.listParticipants" => self.participants(ask).await,
            "pp.pendingFlat" => self.pending(ask).await,
            "pp.findBeneficiaries" => self.beneficiaries(ask).await,
            "pp.getParticipantSession" => self.session(ask).await,
            "pp.getParticipantHistory" => self.history(ask, "Participant", "id").await,
            "pp.getParticipantSessionHistory" => self.history(ask, "ParticipantSession", "id").await,
            "pp.getParticipantParams" => self.parameters(ask, "pp").await,
            "td.getTrustDeposit" => self.trust_deposit(ask).await,
            "td.getTrustDepositHistory" => self.history(ask, "TrustDeposit", "corporation_id").await,
            "td.getTrustDepositParams" => self.parameters(ask, "td").await,
            "de.listOperatorAuthorizations" => self.operator_authorizations(ask).await,
            "de.getOperatorAuthorization" => self.operator_authorization(ask).await,
            "de.listVSOperatorAuthorizations" => self.vs_operator_authorizations(ask).await,
            "de.getVSOperatorAuthorization" => self.vs_operator_authorization(ask).await,
            "de.listFeeGrants" => self.fee_grants(ask).await,
            "gr.getCorporationGroup" => self.group(ask).await,
            "gr.listCorporationsByMember" => self.memberships(ask).await,
            "gr.listProposals" => self.proposals(ask).await,
            "gr.getProposal" => self.proposal(ask).await,
            "gr.listVotes" => self.votes(ask).await,
            "di.getDigest" => self.digest(ask).await,
            "xr.getExchangeRate" => self.exchange_rate(ask).await,
            "xr.listExchangeRates" => self.exchange_rates(ask).await,
            "xr.getPrice" => self.price(ask).await,
            "stats.getStats" => self.bucket(ask).await,
            "stats.getStatsRange" => self.bucket_range(ask).await,
            "stats.countParticipants" => self.count_participants(ask).await,
            "stats.getStatsSnapshot" => self.stats_snapshot(ask).await,
            "stats.getMetrics" => self.metrics(ask).await,
            "indexer.getBlockHeight" => self.block_height().await,
            "indexer.getStatus" => self.status().await,
            "indexer.getVersion" => Ok(self.version()),
            "indexer.getSnapshot" => self.did_snapshot(ask).await,
            "indexer.listChanges" => self.changes(ask).await,
            "indexer.listEvents" => self.events(ask).await,
            "vt.resolve" => self.resolve(ask).await,
            "vt.listIndexedDids" => self.dids(ask).await,
            "vt.listChanges" => self.trust_changes(ask).await,
            "trqp.authorize" => self.authorize(ask).await,
            "trqp.recognize" => self.recognize(ask).await,
            "trqp.getProfile" => Ok(self.profile()),
            _ => Err(ReadError::NotFound("operation")),
        }
    }
}

/// One entity or list under its key.
fn wrapped(key: &str, value: impl Into<Value>) -> Value {
    Value::Object(Map::from_iter([(key.to_owned(), value.into())]))
}

/// An amount of a coin as trust answers tell it: `<amount><denom>`.
fn coin(amount: impl std::fmt::Display, denom: &str) -> String {
    format!("{amount}{denom}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_and_each_operation_is_there_once() {
        assert_eq!(endpoints().len(), 57);
        let names: std::collections::BTreeSet<_> = endpoints().iter().map(|endpoint| &endpoint.operation).collect();
        let paths: std::collections::BTreeSet<_> = endpoints().iter().map(|endpoint| &endpoint.path).collect();
        assert_eq!((names.len(), paths.len()), (57, 57));
    }
}

//! The read of one snapshot, from the indexer and the node.

use std::collections::BTreeMap;

use serde_json::Value;
use svc_kit::wall_clock;
use svc_net::upstream::{NodeClient, NodeClientError, UpstreamError, read_indexed_height};
use svc_wire::{
    proto::svc::co::v1::{QueryGetCorporationRequest, QueryGetCorporationResponse},
    timestamp,
};

use svc_pipeline::{AccountIdentity, RegistryChain, query_account, query_fee_allowance};

use super::index_lists::read_list;
use crate::{
    clients::indexer::IndexerClient,
    snapshot::{CorporationAgent, CorporationSnapshot, KnownAllowance, OperatorAuthorization, UnknownPayer},
};

/// Sources of a snapshot.
#[derive(Clone)]
pub struct SnapshotSources {
    /// The corporation.
    pub corporation_id: u64,
    /// The operator's account.
    pub identity: AccountIdentity,
    /// The chain and its messages.
    pub chain: RegistryChain,
    /// The node, or one of several.
    pub node: NodeClient,
    /// The indexer, or one of several.
    pub indexer: IndexerClient,
}

/// Operation, path and key of the authorizations.
const OPERATOR_AUTHORIZATIONS: (&str, &str, &str) =
    ("operator_authorizations", "/v4/delegation/operator-authorizations", "authorizations");
/// The same of the VS operators' authorizations.
const VS_OPERATOR_AUTHORIZATIONS: (&str, &str, &str) =
    ("vs_operator_authorizations", "/v4/delegation/vs-operator-authorizations", "authorizations");

fn query_pair(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

/// Reads a snapshot from one indexer; `last` is the one before. The corporation must exist.
pub async fn read_snapshot(
    sources: &SnapshotSources,
    last: &CorporationSnapshot,
) -> Result<CorporationSnapshot, NodeClientError> {
    let read = |indexer| async move { read_at_one(&SnapshotSources { indexer, ..sources.clone() }, last).await };
    sources.indexer.read_from_one(read).await
}

async fn read_at_one(
    sources: &SnapshotSources,
    last: &CorporationSnapshot,
) -> Result<CorporationSnapshot, NodeClientError> {
    // Each of the following reads shows this height or a later one.
    let as_of_height = read_indexed_height(sources.indexer.endpoints().current()).await?;
    let id = sources.corporation_id.to_string();
    let (address, indexer) = (sources.identity.address.to_string(), &sources.indexer);
    let by_corporation = [("corporation_id", id.as_str())];
    let by_operator = [("corporation_id", id.as_str()), ("operator", address.as_str())];
    let corporation_path = format!("/v4/corporation/get/{id}");
    let (corporation, ecosystems, authorizations, vs_authorizations) = tokio::try_join!(
        indexer.get("corporation", &corporation_path, &[], None),
        read_list(indexer, ("ecosystems", "/v4/ecosystem/list", "ecosystems"), &by_corporation),
        read_list(indexer, OPERATOR_AUTHORIZATIONS, &by_operator),
        read_list(indexer, VS_OPERATOR_AUTHORIZATIONS, &by_corporation),
    )
    .map_err(NodeClientError::from)?;
    let mut corporation = corporation["corporation"].clone();
    let policy_address = read_policy_address(sources).await?;
    if corporation["policy_address"] != policy_address.as_str() {
        let indexed = &corporation["policy_address"];
        tracing::warn!(%indexed, policy_address, "the node has another account of the corporation than the indexer");
        corporation["policy_address"] = policy_address.as_str().into();
    }
    let (allowance, account, agents, serves_trust) = tokio::try_join!(
        async { Ok(read_allowance(sources, &policy_address, &address).await) },
        query_account(&sources.node, &address),
        read_agents(sources, &vs_authorizations),
        read_trust_capability(sources, last.serves_trust),
    )?;
    Ok(CorporationSnapshot {
        corporation,
        ecosystems,
        authorizations: authorizations.into_iter().filter_map(parse_authorization).collect(),
        vs_authorizations,
        agents,
        operator: address,
        serves_trust,
        allowance,
        account_number: account.map(|account| account.number),
        sequence: account.map_or(0, |account| account.sequence),
        refreshed_at: wall_clock::now_rfc3339(),
        as_of_height,
    })
}

/// The account of the corporation, by the word of the node: each signed message names it.
async fn read_policy_address(sources: &SnapshotSources) -> Result<String, NodeClientError> {
    let request = QueryGetCorporationRequest {
        corporation_id: sources.corporation_id,
        active_gf_only: true,
        ..QueryGetCorporationRequest::default()
    };
    let path = sources.chain.registry.namespace().query_path("co", "GetCorporation");
    let found: QueryGetCorporationResponse = sources.node.query(&path, &request, 0).await?;
    let address = found.corporation.map(|corporation| corporation.policy_address).filter(|address| !address.is_empty());
    address.ok_or_else(|| NodeClientError::unreadable(format!("{path}: the corporation has no policy address")))
}

/// An allowance that cannot be read leaves the rest of the snapshot as it is, and stops the writes.
async fn read_allowance(sources: &SnapshotSources, granter: &str, grantee: &str) -> KnownAllowance {
    match query_fee_allowance(&sources.node, granter, grantee, &sources.chain.params.denom).await {
        Ok(None) => KnownAllowance::Absent,
        Ok(Some(allowance)) => KnownAllowance::Given(allowance),
        Err(error) => KnownAllowance::Unknown(UnknownPayer(error.to_string())),
    }
}

/// Whether an error states that the corporation does not exist.
pub fn is_unknown_corporation(error: &NodeClientError) -> bool {
    // Any server may answer 404; an indexer names the missing entity.
    matches!(error, NodeClientError::Upstream(UpstreamError::Http { status: 404, body, .. }) if body.contains("Corporation not found"))
}

fn parse_authorization(body: Value) -> Option<OperatorAuthorization> {
    Some(OperatorAuthorization {
        id: body["id"].as_u64()?,
        msg_types: body["msg_types"].as_array()?.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        expiration: body["expiration"].as_str().and_then(timestamp::parse_rfc3339),
        renews: body["period"].is_string(),
        body,
    })
}

/// Agents of the corporation: its participants with a DID whose VS operator it authorizes.
async fn read_agents(
    sources: &SnapshotSources,
    vs_authorizations: &[Value],
) -> Result<Vec<CorporationAgent>, NodeClientError> {
    let mut agents: BTreeMap<(String, String), Vec<u64>> = BTreeMap::new();
    if vs_authorizations.is_empty() {
        return Ok(Vec::new());
    }
    let (id, list) = (sources.corporation_id.to_string(), ("participants", "/v4/participant/list", "participants"));
    for row in read_list(&sources.indexer, list, &[("corporation_id", id.as_str())]).await? {
        let (did, operator, id) = (row["did"].as_str(), row["vs_operator"].as_str(), row["id"].as_u64());
        let (Some(did), Some(operator), Some(id)) = (did, operator, id) else { continue };
        if !did.is_empty() && vs_authorizations.iter().any(|one| one["vs_operator"] == operator) {
            agents.entry((did.to_owned(), operator.to_owned())).or_default().push(id);
        }
    }
    let agent = |((did, vs_operator), participants)| CorporationAgent { did, vs_operator, participants };
    Ok(agents.into_iter().map(agent).collect())
}

/// Whether the indexer answers trust reads. An indexer that evaluates trust lists its DIDs; TRQP alone needs only the registry.
async fn read_trust_capability(sources: &SnapshotSources, last: bool) -> Result<bool, NodeClientError> {
    let indexer = &sources.indexer;
    let asked = async {
        indexer.get("vt.listIndexedDids", "/v4/verifiable-trust/dids", &[query_pair("limit", "1")], None).await?;
        indexer.get("trqp.getProfile", "/v4/trqp/v2/profile", &[], None).await
    };
    match asked.await {
        Ok(_) => Ok(true),
        // A busy indexer still has its trust reads.
        Err(UpstreamError::Http { status: 429 | 500.., .. }) => Ok(last),
        Err(UpstreamError::Http { .. } | UpstreamError::Protocol { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

//! Reading one snapshot.

use std::collections::BTreeMap;

use prost::Message;
use prost_types::Any;
use serde_json::{Value, json};
use svc_kit::{
    upstream::{NodeClient, NodeError, UpstreamError},
    wall,
};
use svc_wire::{
    instant,
    proto::cosmos::{
        auth::v1beta1::{QueryAccountInfoRequest, QueryAccountInfoResponse},
        base::v1beta1::Coin,
        feegrant::v1beta1::{
            AllowedMsgAllowance, BasicAllowance, PeriodicAllowance, QueryAllowanceRequest, QueryAllowanceResponse,
        },
    },
};

use crate::{
    chain::{ChainParams, Identity},
    indexer_client::IndexerClient,
    snapshot::{Agent, Allowance, Authorization, Snapshot},
};

/// Where a snapshot is read from.
#[derive(Clone)]
pub struct Sources {
    pub corporation_id: u64,
    pub identity: Identity,
    pub chain: ChainParams,
    pub node: NodeClient,
    pub indexer: IndexerClient,
}

/// Most rows a list answers with.
const LIST_LIMIT: &str = "1024";
/// Pages of participants that are looked through for agents.
const PAGES: usize = 64;

fn pair(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

/// Reads everything anew after `last`; the corporation must exist.
pub async fn read(sources: &Sources, last: &Snapshot) -> Result<Snapshot, NodeError> {
    let id = sources.corporation_id.to_string();
    let (address, indexer) = (sources.identity.address.to_string(), &sources.indexer);
    let by_corporation = [pair("corporation_id", id.as_str()), pair("limit", LIST_LIMIT)];
    let by_operator = [&by_corporation[..], &[pair("operator", address.as_str())]].concat();
    let corporation_path = format!("/v4/corporation/get/{id}");
    let (corporation, ecosystems, authorizations, vs_authorizations) = tokio::try_join!(
        indexer.get("corporation", &corporation_path, &[], None),
        indexer.get("ecosystems", "/v4/ecosystem/list", &by_corporation, None),
        indexer.get("operator_authorizations", "/v4/delegation/operator-authorizations", &by_operator, None),
        indexer.get("vs_operator_authorizations", "/v4/delegation/vs-operator-authorizations", &by_corporation, None),
    )
    .map_err(NodeError::from)?;
    let list = |answer: &Value, key: &str| answer[key].as_array().cloned().unwrap_or_default();
    let vs_authorizations = list(&vs_authorizations, "authorizations");
    let corporation = corporation["corporation"].clone();
    let policy_address = corporation["policy_address"].as_str().unwrap_or_default().to_owned();
    let (allowance, account, agents, serves_trust) = tokio::try_join!(
        read_allowance(sources, &policy_address, &address),
        read_account(sources, &address),
        read_agents(sources, &vs_authorizations),
        read_capability(sources, last.serves_trust),
    )?;
    Ok(Snapshot {
        corporation,
        ecosystems: list(&ecosystems, "ecosystems"),
        authorizations: list(&authorizations, "authorizations").into_iter().filter_map(authorization).collect(),
        vs_authorizations,
        agents,
        operator: address,
        serves_trust,
        allowance,
        account_number: account.map(|(number, _)| number),
        sequence: account.map_or(0, |(_, sequence)| sequence),
        refreshed_at: wall::now_text(),
    })
}

/// Whether a failure says that the corporation does not exist, rather than that it could not be read.
pub fn is_unknown_corporation(error: &NodeError) -> bool {
    // Any server answers 404; only an indexer says what was not found.
    matches!(error, NodeError::Upstream(UpstreamError::Http { status: 404, body, .. }) if body.contains("Corporation not found"))
}

fn authorization(body: Value) -> Option<Authorization> {
    Some(Authorization {
        id: body["id"].as_u64()?,
        msg_types: body["msg_types"].as_array()?.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        expiration: body["expiration"].as_str().and_then(instant::parse_rfc3339),
        renews: body["period"].is_string(),
        body,
    })
}

/// Agents of the corporation: its participants with a DID whose VS operator it authorizes.
async fn read_agents(sources: &Sources, vs_authorizations: &[Value]) -> Result<Vec<Agent>, NodeError> {
    let mut agents: BTreeMap<(String, String), Vec<u64>> = BTreeMap::new();
    let mut before: Option<u64> = None;
    for _ in 0..PAGES {
        if vs_authorizations.is_empty() {
            break;
        }
        let mut query = vec![pair("corporation_id", sources.corporation_id.to_string()), pair("limit", LIST_LIMIT)];
        query.extend(before.map(|id| pair("max_id", id.to_string())));
        let answer = sources.indexer.get("participants", "/v4/participant/list", &query, None).await?;
        let rows = answer["participants"].as_array().cloned().unwrap_or_default();
        for row in &rows {
            let (did, operator, id) = (row["did"].as_str(), row["vs_operator"].as_str(), row["id"].as_u64());
            let (Some(did), Some(operator), Some(id)) = (did, operator, id) else { continue };
            if !did.is_empty() && vs_authorizations.iter().any(|one| one["vs_operator"] == operator) {
                agents.entry((did.to_owned(), operator.to_owned())).or_default().push(id);
            }
        }
        before = rows.last().and_then(|row| row["id"].as_u64());
        if rows.len().to_string() != LIST_LIMIT || before.is_none() {
            break;
        }
    }
    let agent = |((did, vs_operator), participants)| Agent { did, vs_operator, participants };
    Ok(agents.into_iter().map(agent).collect())
}

/// Whether the indexer answers trust reads. Who evaluates trust has a list of the DIDs; TRQP alone stands on the registry.
async fn read_capability(sources: &Sources, last: bool) -> Result<bool, NodeError> {
    let indexer = &sources.indexer;
    let asked = async {
        indexer.get("vt.listIndexedDids", "/v4/verifiable-trust/dids", &[pair("limit", "1")], None).await?;
        indexer.get("trqp.getProfile", "/v4/trqp/v2/profile", &[], None).await
    };
    match asked.await {
        Ok(_) => Ok(true),
        // A busy server has not lost its reads.
        Err(UpstreamError::Http { status: 429 | 500.., .. }) => Ok(last),
        Err(UpstreamError::Http { .. } | UpstreamError::Protocol { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

async fn read_account(sources: &Sources, address: &str) -> Result<Option<(u64, u64)>, NodeError> {
    let request = QueryAccountInfoRequest { address: address.to_owned() };
    let path = "/cosmos.auth.v1beta1.Query/AccountInfo";
    match sources.node.query::<_, QueryAccountInfoResponse>(path, &request, 0).await {
        Ok(reply) => Ok(reply.info.map(|info| (info.account_number, info.sequence))),
        Err(NodeError::Query { error, .. }) if error.code == 22 => Ok(None),
        Err(error) => Err(error),
    }
}

async fn read_allowance(sources: &Sources, granter: &str, grantee: &str) -> Result<Option<Allowance>, NodeError> {
    let request = QueryAllowanceRequest { granter: granter.to_owned(), grantee: grantee.to_owned() };
    let path = "/cosmos.feegrant.v1beta1.Query/Allowance";
    match sources.node.query::<_, QueryAllowanceResponse>(path, &request, 0).await {
        Ok(reply) => {
            Ok(reply.allowance.and_then(|grant| grant.allowance).and_then(|packed| allowance(&packed, sources)))
        }
        // A missing allowance is answered as sdk/6 with a sentence, not as NotFound.
        Err(NodeError::Query { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn allowance(packed: &Any, sources: &Sources) -> Option<Allowance> {
    let (msg_types, inner) = match packed.type_url.as_str() {
        "/cosmos.feegrant.v1beta1.AllowedMsgAllowance" => {
            let filter = AllowedMsgAllowance::decode(packed.value.as_slice()).ok()?;
            (Some(filter.allowed_messages), filter.allowance?)
        }
        _ => (None, packed.clone()),
    };
    let body = sources.chain.registry.decode(&packed.type_url, &packed.value).unwrap_or_else(|_| json!({}));
    let amount = |coins: &[Coin]| {
        let own = coins.iter().find(|coin| coin.denom == sources.chain.denom);
        // A limit in other denoms only leaves nothing for this one.
        (!coins.is_empty()).then(|| own.and_then(|coin| coin.amount.parse().ok()).unwrap_or(0))
    };
    match inner.type_url.as_str() {
        "/cosmos.feegrant.v1beta1.BasicAllowance" => {
            let basic = BasicAllowance::decode(inner.value.as_slice()).ok()?;
            let budget = amount(&basic.spend_limit);
            Some(Allowance { msg_types, expiration: basic.expiration, budget, refills: None, body })
        }
        "/cosmos.feegrant.v1beta1.PeriodicAllowance" => {
            let periodic = PeriodicAllowance::decode(inner.value.as_slice()).ok()?;
            let expiration = periodic.basic.as_ref().and_then(|basic| basic.expiration);
            let budget = Some(amount(&periodic.period_can_spend).unwrap_or(0));
            Some(Allowance { msg_types, expiration, budget, refills: periodic.period_reset, body })
        }
        _ => None,
    }
}

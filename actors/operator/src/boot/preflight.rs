//! The preflight check: every part that an operator depends on, each with a finding in words. Nothing is changed and nothing is signed.

use std::time::Duration;

use svc_kit::{RetainedState, wall_clock};
use svc_net::upstream::{NodeClient, NodeClientError, UpstreamError};
use svc_pipeline::{decimal_price, describe_index};
use svc_wire::account_key::AccountKey;

use super::{
    config::{BootPatience, OperatorConfig},
    discovery::{BootDiscovery, discover, indexer_height},
    error::BootSubject,
};
use crate::{
    clients::{graph::GraphClient, indexer::IndexerClient},
    snapshot::GrantStatus,
};

/// A finding of the preflight check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreflightFinding {
    /// The part that was checked.
    pub subject: BootSubject,
    /// Whether the operator can work with it.
    pub has_passed: bool,
    /// The finding in words.
    pub detail: String,
}

impl PreflightFinding {
    fn passed(subject: BootSubject, detail: impl Into<String>) -> Self {
        Self { subject, has_passed: true, detail: detail.into() }
    }

    fn failed(subject: BootSubject, detail: impl Into<String>) -> Self {
        Self { subject, has_passed: false, detail: detail.into() }
    }

    fn of<E: std::fmt::Display>(subject: BootSubject, result: Result<String, E>) -> Self {
        match result {
            Ok(detail) => Self::passed(subject, detail),
            Err(error) => Self::failed(subject, error.to_string()),
        }
    }
}

/// Checks node, indexer and graph, then the operator's account and the corporation.
pub async fn preflight(config: &OperatorConfig, key: &AccountKey) -> Vec<PreflightFinding> {
    let mut findings = vec![
        PreflightFinding::of(BootSubject::Node, check_node(config).await),
        PreflightFinding::of(BootSubject::Indexer, check_indexer(config).await),
    ];
    let has_node_and_indexer = findings.iter().all(|finding| finding.has_passed);
    if let Some(origin) = &config.graph {
        findings.push(PreflightFinding::of(BootSubject::Graph, check_graph(origin).await));
    }
    if has_node_and_indexer {
        // A check says how things are, and does not wait for them to change.
        let config = &OperatorConfig { patience: BootPatience::limited(Some(PATIENCE)), ..config.clone() };
        findings.extend(match discover(config, key).await {
            Ok(discovery) => check_operator(config, &discovery),
            Err(error) => vec![PreflightFinding::failed(error.subject(), error.to_string())],
        });
    }
    findings
}

/// The wait of a check for an indexer that has just begun.
const PATIENCE: Duration = Duration::from_secs(5);

async fn check_node(config: &OperatorConfig) -> Result<String, NodeClientError> {
    let status = NodeClient::new(&config.rpc)?.status().await?;
    let sync = if status.sync_info.catching_up { ", still catching up" } else { "" };
    let index = describe_index(&status.node_info);
    let (network, height) = (status.node_info.network, status.sync_info.latest_block_height);
    Ok(format!("{} runs {network} at block {height}{sync}; {index}", config.rpc))
}

async fn check_indexer(config: &OperatorConfig) -> Result<String, UpstreamError> {
    let indexer = IndexerClient::new(&config.indexer, RetainedState::default())?;
    let height = indexer_height(&indexer).await?;
    Ok(format!("{} is at block {height}", config.indexer))
}

/// An answer and a refusal in the graph's own envelope both prove that the server is a graph.
async fn check_graph(origin: &str) -> Result<String, UpstreamError> {
    let client = GraphClient::new(origin)?;
    match client.search(&serde_json::json!({"surface": "Ecosystem", "filters": {}, "limit": 1})).await {
        Ok(_) => Ok(format!("{origin} answers")),
        Err(UpstreamError::Http { status: 400, body, .. }) if body.contains("\"error\"") => {
            Ok(format!("{origin} answers"))
        }
        Err(error) => Err(error),
    }
}

/// Account, corporation, authorizations, fees and agents.
fn check_operator(config: &OperatorConfig, discovery: &BootDiscovery) -> Vec<PreflightFinding> {
    let (snapshot, now) = (&discovery.snapshot, wall_clock::now());
    let name = snapshot.corporation["did"].as_str().unwrap_or("without a DID");
    let types = snapshot.authorizations.iter().flat_map(|authorization| &authorization.msg_types);
    let is_granted = |msg_type: &&String| snapshot.grant_status(msg_type, &now) == GrantStatus::Granted;
    let authorizations = match types.filter(is_granted).count() {
        // A server without grants serves reads.
        0 => "none is valid: reads will work, writes will not".to_owned(),
        count => format!("{count} message types are granted to this operator"),
    };
    let fees = match (&snapshot.allowance, snapshot.account_number) {
        (Some(_), Some(_)) => "the corporation has given a fee allowance",
        (None, Some(_)) => "no fee allowance: the operator's own balance pays",
        (_, None) => "the operator's account does not exist yet: it must be sent coins before it writes",
    };
    let price = match (discovery.chain.price_problem(), discovery.chain.minimum_price) {
        (Some(problem), _) => PreflightFinding::failed(BootSubject::GasPrice, problem),
        (None, Some(minimum)) => {
            let (price, minimum) = (discovery.chain.params.fees.gas_price_micros, decimal_price(minimum));
            PreflightFinding::passed(
                BootSubject::GasPrice,
                format!("{} per gas; the node takes no fee below {minimum}", decimal_price(price)),
            )
        }
        (None, None) => PreflightFinding::passed(BootSubject::GasPrice, "the node states no minimum"),
    };
    let corporation = format!("{} is {name}, {}", config.corporation_id, snapshot.policy_address());
    vec![
        PreflightFinding::passed(BootSubject::Key, format!("is the key of {}", discovery.identity.address)),
        PreflightFinding::passed(BootSubject::Corporation, corporation),
        PreflightFinding::passed(BootSubject::Authorizations, authorizations),
        PreflightFinding::passed(BootSubject::Fees, fees),
        price,
        PreflightFinding::passed(BootSubject::Agents, format!("{} agents of the corporation", snapshot.agents.len())),
    ]
}

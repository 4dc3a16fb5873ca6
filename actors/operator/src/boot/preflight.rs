//! The preflight check: every part that an operator depends on, each with a finding in words. Nothing is changed and nothing is signed.

mod operator_account;

use std::{path::Path, time::Duration};

use svc_kit::{RetainedState, wall_clock};
use svc_net::upstream::{IndexReport, NodeClient, NodeClientError, UpstreamError};
use svc_pipeline::{ChainChange, RegistryChain, decimal_price, describe_index, find_chain_change, query_balance};
use svc_wire::{account_key::AccountKey, syntax::DELEGABLE_MESSAGES};

use super::{
    config::{BootPatience, OperatorConfig},
    discovery::{BootDiscovery, discover, indexer_height},
    error::BootSubject,
};
use crate::{
    clients::{graph::GraphClient, indexer::IndexerClient},
    error::chain_changed_error,
};
use operator_account::{Payment, USUAL_GAS, judge_authorizations, judge_fees, paying_allowance};

/// A finding of the preflight check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreflightFinding {
    /// The part that was checked.
    pub subject: BootSubject,
    /// Whether the operator can work with it.
    pub has_passed: bool,
    /// Whether a person should look at it although the operator can work.
    pub is_warning: bool,
    /// The finding in words.
    pub detail: String,
}

impl PreflightFinding {
    fn passed(subject: BootSubject, detail: impl Into<String>) -> Self {
        Self { subject, has_passed: true, is_warning: false, detail: detail.into() }
    }

    fn warning(subject: BootSubject, detail: impl Into<String>) -> Self {
        Self { is_warning: true, ..Self::passed(subject, detail) }
    }

    fn failed(subject: BootSubject, detail: impl Into<String>) -> Self {
        Self { has_passed: false, ..Self::passed(subject, detail) }
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
        check_indexers(config)
            .await
            .unwrap_or_else(|error| PreflightFinding::failed(BootSubject::Indexer, error.to_string())),
    ];
    let has_node_and_indexer = findings.iter().all(|finding| finding.has_passed);
    if let Some(origin) = &config.graph {
        findings.push(PreflightFinding::of(BootSubject::Graph, check_graph(origin).await));
    }
    if findings.first().is_some_and(|node| node.has_passed)
        && let Some(file) = config.journal.as_deref().filter(|file| Path::new(file).exists())
    {
        findings.push(check_history(config, file).await);
    }
    if has_node_and_indexer {
        // A check says how things are, and does not wait for them to change.
        let config = &OperatorConfig { patience: BootPatience::limited(Some(PATIENCE)), ..config.clone() };
        findings.extend(match discover(config, key).await {
            Ok(discovery) => check_operator(config, &discovery).await,
            Err(error) => vec![PreflightFinding::failed(error.subject(), error.to_string())],
        });
    }
    findings
}

/// Whether the chain still has the blocks of the journal.
async fn check_history(config: &OperatorConfig, file: &str) -> PreflightFinding {
    let compared = match NodeClient::new(&config.rpc) {
        Ok(node) => find_chain_change(file, &node).await.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    judge_history(file, compared)
}

fn judge_history(file: &str, compared: Result<Option<ChainChange>, String>) -> PreflightFinding {
    match compared {
        Ok(None) => PreflightFinding::passed(BootSubject::Journal, format!("the chain has the blocks of {file}")),
        Ok(Some(change)) => {
            let error = chain_changed_error(&change);
            PreflightFinding::failed(BootSubject::Journal, format!("{}; {}", error.message, error.hint))
        }
        Err(reason) => PreflightFinding::warning(
            BootSubject::Journal,
            format!("{file} is not compared with the chain of the node: {reason}"),
        ),
    }
}

/// The message that needs no grant.
const FOUNDING_MESSAGE: (&str, &str) = ("co", "MsgCreateCorporation");
/// Part of the names of the messages that can be granted and have no tool.
const WITHOUT_TOOL: &str = "SchemaAuthorizationPolic";

/// The generation of the node, and the messages that it does not take.
fn check_release(chain: &RegistryChain) -> PreflightFinding {
    let (release, namespace) = (&chain.release, chain.registry.namespace());
    let all = DELEGABLE_MESSAGES.iter().chain(&[FOUNDING_MESSAGE]);
    let all: Vec<_> = all.map(|(module, name)| (*name, namespace.type_url(module, name))).collect();
    let (without_tool, of_tools): (Vec<_>, Vec<_>) = all.into_iter().partition(|(name, _)| name.contains(WITHOUT_TOOL));
    let not_taken = of_tools.iter().filter_map(|(name, url)| Some(format!("{name}: {}", release.problem_of(url)?)));
    let not_taken: Vec<String> = not_taken.collect();
    let description = &release.description;
    if not_taken.len() == of_tools.len() {
        let first = not_taken.first().map(String::as_str).unwrap_or_default();
        let detail = format!("the node is of {description}; it takes no message of any tool: {first}");
        return PreflightFinding::failed(BootSubject::Release, detail);
    }
    let lacked = without_tool.into_iter().filter(|(_, url)| release.lacks(url));
    if !not_taken.is_empty() {
        let detail = format!("the node is of {description}; it does not take {}", not_taken.join("; "));
        return PreflightFinding::warning(BootSubject::Release, detail);
    }
    if !release.is_compared {
        let detail = format!("the node is of {description}; messages are signed without a comparison of their fields");
        return PreflightFinding::warning(BootSubject::Release, detail);
    }
    let lacked: Vec<&str> = lacked.map(|(name, _)| name).collect();
    let without = if lacked.is_empty() { String::new() } else { format!("; it has no {}", lacked.join(", ")) };
    PreflightFinding::passed(BootSubject::Release, format!("the node is of {description}{without}"))
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

/// The height of the indexers, and each one that does not follow the chain of the node, with the reason.
async fn check_indexers(config: &OperatorConfig) -> Result<PreflightFinding, UpstreamError> {
    let indexer = IndexerClient::new(&config.indexer, RetainedState::default(), NodeClient::new(&config.rpc)?)?;
    indexer.choose_endpoint(None).await;
    let others: Vec<String> = indexer.guard().reports().iter().filter_map(IndexReport::problem).collect();
    let height = match indexer_height(&indexer).await {
        Ok(height) => height,
        Err(_) if indexer.guard().has_none_left() => {
            return Ok(PreflightFinding::failed(BootSubject::Indexer, others.join("; ")));
        }
        Err(error) => return Err(error),
    };
    let detail = format!("{} is at block {height}", indexer.endpoints().current().origin());
    Ok(if others.is_empty() {
        PreflightFinding::passed(BootSubject::Indexer, format!("{} is at block {height}", config.indexer))
    } else {
        PreflightFinding::warning(BootSubject::Indexer, format!("{detail}; {}", others.join("; ")))
    })
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
async fn check_operator(config: &OperatorConfig, discovery: &BootDiscovery) -> Vec<PreflightFinding> {
    let (snapshot, now) = (&discovery.snapshot, wall_clock::now());
    let name = snapshot.corporation["did"].as_str().unwrap_or("without a DID");
    let params = &discovery.chain.params;
    let owner = match paying_allowance(snapshot, &now) {
        Some(_) => snapshot.policy_address().to_owned(),
        None => discovery.identity.address.to_string(),
    };
    let coins = query_balance(&discovery.node, &owner, &params.denom).await.map_err(|error| error.to_string());
    let payment = Payment { denom: &params.denom, usual_fee: params.fees.fee(USUAL_GAS), coins };
    let price = match (discovery.chain.prices.problem(), discovery.chain.prices.minimum()) {
        (Some(problem), _) => PreflightFinding::failed(BootSubject::GasPrice, problem),
        (None, Some(minimum)) => {
            let (price, minimum) = (params.fees.gas_price_micros, decimal_price(minimum));
            PreflightFinding::passed(
                BootSubject::GasPrice,
                format!("{} per gas; the node takes no fee below {minimum}", decimal_price(price)),
            )
        }
        (None, None) => PreflightFinding::passed(BootSubject::GasPrice, "the node states no minimum"),
    };
    let denom = match &discovery.chain.denom_doubt {
        Some(doubt) => PreflightFinding::warning(BootSubject::Denom, doubt),
        None => PreflightFinding::passed(BootSubject::Denom, format!("fees are paid in {}", params.denom)),
    };
    let corporation = format!("{} is {name}, {}", config.corporation_id, snapshot.policy_address());
    vec![
        PreflightFinding::passed(BootSubject::Key, format!("is the key of {}", discovery.identity.address)),
        PreflightFinding::passed(BootSubject::Corporation, corporation),
        judge_authorizations(snapshot, &discovery.chain.release, &now),
        judge_fees(snapshot, &payment, &now),
        denom,
        price,
        check_release(&discovery.chain),
        PreflightFinding::passed(BootSubject::Agents, format!("agents of the corporation: {}", snapshot.agents.len())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_history_fails_the_check_with_both_blocks_and_a_journal_that_is_not_compared_is_a_warning() {
        let change = ChainChange {
            height: 9,
            pinned: Some("AA".to_owned()),
            missing_tx: None,
            found: "BB".to_owned(),
            agreed: Some(7),
        };
        for (compared, has_passed, is_warning, parts) in [
            (Ok(None), true, false, &["the chain has the blocks of journal.db"] as &[&str]),
            (Ok(Some(change)), false, false, &["9", "AA", "BB", "svc journal rebase --to 7"]),
            (Err("no answer".to_owned()), true, true, &["journal.db", "no answer"]),
        ] {
            let found = judge_history("journal.db", compared);
            assert_eq!((found.has_passed, found.is_warning), (has_passed, is_warning), "{found:?}");
            assert!(parts.iter().all(|part| found.detail.contains(part)), "{found:?}");
        }
    }
}

//! An examination of everything an operator depends on, each part by itself, told in words.

use svc_kit::Retained;
use svc_kit::{
    upstream::{NodeClient, UpstreamError},
    wall,
};
use svc_wire::key::AccountKey;

use crate::{
    boot::{self, BootError},
    chain::OperatorConfig,
    graph_client::GraphClient,
    indexer_client::IndexerClient,
    snapshot::Gate,
};

/// What was found of one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at: a variable, or a part of the corporation's place.
    pub what: &'static str,
    /// Whether the server can work with it.
    pub is_good: bool,
    /// In words.
    pub found: String,
}

impl Finding {
    /// It is as it must be.
    pub fn good(what: &'static str, found: impl Into<String>) -> Self {
        Self { what, is_good: true, found: found.into() }
    }

    /// It is not.
    pub fn bad(what: &'static str, found: impl Into<String>) -> Self {
        Self { what, is_good: false, found: found.into() }
    }
}

/// Looks at node, indexer and graph, then at the corporation's place. Nothing is changed, nothing is signed.
pub async fn examine(config: &OperatorConfig, key: &AccountKey) -> Vec<Finding> {
    let mut findings = Vec::new();
    let node = NodeClient::new(&config.rpc);
    let is_node_up = match node {
        Ok(node) => match node.status().await {
            Ok(status) => {
                let sync = if status.sync_info.catching_up { ", still catching up" } else { "" };
                let text = format!(
                    "{} runs {} at block {}{sync}",
                    config.rpc, status.node_info.network, status.sync_info.latest_block_height
                );
                findings.push(Finding::good("SVC_RPC", text));
                true
            }
            Err(error) => {
                findings.push(Finding::bad("SVC_RPC", error.to_string()));
                false
            }
        },
        Err(error) => {
            findings.push(Finding::bad("SVC_RPC", error.to_string()));
            false
        }
    };
    let is_indexer_up = match indexer_height(config).await {
        Ok(height) => {
            findings.push(Finding::good("SVC_INDEXER", format!("{} is at block {height}", config.indexer)));
            true
        }
        Err(error) => {
            findings.push(Finding::bad("SVC_INDEXER", error.to_string()));
            false
        }
    };
    if let Some(origin) = &config.graph {
        findings.push(match graph(origin).await {
            Ok(()) => Finding::good("SVC_GRAPH", format!("{origin} answers")),
            Err(error) => Finding::bad("SVC_GRAPH", error.to_string()),
        });
    }
    if is_node_up && is_indexer_up {
        findings.extend(place(config, key).await);
    }
    findings
}

async fn indexer_height(config: &OperatorConfig) -> Result<u64, UpstreamError> {
    let indexer = IndexerClient::new(&config.indexer, Retained::default())?;
    let answer = indexer.get("block-height", "/v4/indexer/block-height", &[], None).await?;
    answer["height"].as_u64().ok_or_else(|| UpstreamError::Protocol {
        kind: svc_kit::upstream::Kind::Indexer,
        reason: "its block-height has no height".to_owned(),
        body: answer.to_string(),
    })
}

/// An answer and a refusal in the graph's own envelope both prove that it is one.
async fn graph(origin: &str) -> Result<(), UpstreamError> {
    let client = GraphClient::new(origin)?;
    match client.search(&serde_json::json!({"surface": "Ecosystem", "filters": {}, "limit": 1})).await {
        Ok(_) => Ok(()),
        Err(UpstreamError::Http { status: 400, body, .. }) if body.contains("\"error\"") => Ok(()),
        Err(error) => Err(error),
    }
}

/// The operator's place: account, corporation, authorizations, fees, agents.
async fn place(config: &OperatorConfig, key: &AccountKey) -> Vec<Finding> {
    let learnt = match boot::learn(config, key).await {
        Ok(learnt) => learnt,
        Err(error @ BootError::ChainId { .. }) => return vec![Finding::bad("SVC_CHAIN_ID", error.to_string())],
        Err(error @ BootError::UnknownCorporation { .. }) => {
            return vec![Finding::bad("SVC_CORPORATION", error.to_string())];
        }
        Err(error) => return vec![Finding::bad("boot", error.to_string())],
    };
    let (snapshot, now) = (&learnt.snapshot, wall::now());
    let name = snapshot.corporation["did"].as_str().unwrap_or("without a DID");
    let mut findings = vec![
        Finding::good("MCP_SVC_MNEMONIC", format!("is the key of {}", learnt.identity.address)),
        Finding::good("SVC_CORPORATION", format!("{} is {name}, {}", config.corporation_id, snapshot.policy_address())),
    ];
    let types: Vec<&String> = snapshot.authorizations.iter().flat_map(|one| &one.msg_types).collect();
    let granted = types.iter().filter(|one| snapshot.gate(one, &now) == Gate::Granted).count();
    findings.push(match granted {
        // A server without grants reads all the same.
        0 => Finding::good("authorizations", "none is valid: reads will work, writes will not"),
        count => Finding::good("authorizations", format!("{count} message types are granted to this operator")),
    });
    findings.push(match (&snapshot.allowance, snapshot.account_number) {
        (Some(_), Some(_)) => Finding::good("fees", "the corporation has given a fee allowance"),
        (None, Some(_)) => Finding::good("fees", "no fee allowance: the operator's own balance pays"),
        (_, None) => {
            Finding::good("fees", "the operator's account does not exist yet: it must be sent coins before it writes")
        }
    });
    findings.push(Finding::good("agents", format!("{} agents of the corporation", snapshot.agents.len())));
    findings
}

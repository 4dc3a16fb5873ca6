//! `svc agent rebase`: a stopped agent goes on from a height, after its chain has gone back and made other blocks.

use std::io::Write;

use anyhow::Context;
use serde_json::{Value, json};
use svc_agent::{AgentConfig, AgentRebase, ChainConfig, rebase_agent};
use svc_net::upstream::NodeClient;

use crate::config::AgentSettings;

/// Rebases the agent of these settings.
pub(super) async fn run(settings: AgentSettings, to: u64) -> anyhow::Result<Value> {
    let AgentConfig { store, chain: ChainConfig { rpc, journal, .. }, .. } = settings.agent;
    let journal = journal.file.context("the journal is in memory, and has ended with the agent")?;
    let node = NodeClient::new(&rpc)?;
    node.select_current(Some(0)).await;
    let progress = |line: &str| {
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    };
    Ok(report(&rebase_agent(store, &journal, &node, to, progress).await?))
}

fn report(rebased: &AgentRebase) -> Value {
    let AgentRebase { journal, store } = rebased;
    let events = store.events.as_ref();
    let events =
        events.map(|gap| json!({"from_height": gap.from_height, "to_height": gap.to_height, "count": gap.count}));
    json!({
        "height": journal.height, "hash": journal.hash, "is_changed": journal.is_changed, "abandoned": journal.abandoned,
        "events": events, "credentials": store.credentials, "flows": store.flows, "resolves": store.resolves,
    })
}

//! Orders to the control endpoint of a running devnet.

use anyhow::{Context, bail};
use serde_json::Value;

use super::arguments::SnapshotArgs;
use crate::cli::output::print_line;

/// Sends an order to the control endpoint of a running devnet.
async fn send_order(control: &str, method: reqwest::Method, path: &str) -> anyhow::Result<Value> {
    let url = format!("{}{path}", control.trim_end_matches('/'));
    let answer = reqwest::Client::new()
        .request(method, &url)
        .send()
        .await
        .with_context(|| format!("no devnet answers at {control}: was it started with --control-port?"))?;
    let is_done = answer.status().is_success();
    let body: Value = answer.json().await?;
    if !is_done {
        bail!("{}", body["error"].as_str().unwrap_or("refused"));
    }
    Ok(body)
}

/// Writes the newest state of the chain as a genesis document.
pub(super) async fn export_genesis(file: &std::path::Path, control: &str) -> anyhow::Result<()> {
    let document = send_order(control, reqwest::Method::GET, "/genesis").await?;
    std::fs::write(file, serde_json::to_vec_pretty(&document)?)
        .with_context(|| format!("cannot write {}", file.display()))?;
    let (id, time) = (&document["chain_id"], &document["genesis_time"]);
    print_line(format!("{}: chain {id} at {time}", file.display()));
    Ok(())
}

/// Keeps the chain under a name, or takes it back with the suffix `/load`.
pub(super) async fn request_snapshot(snapshot: &SnapshotArgs, suffix: &str) -> anyhow::Result<()> {
    let path = format!("/snapshots/{}{suffix}", snapshot.name);
    let body = send_order(&snapshot.control, reqwest::Method::POST, &path).await?;
    print_line(format!("at height {}, application hash {}", body["height"], body["app_hash"].as_str().unwrap_or("")));
    Ok(())
}

//! `svc check`: is the configuration right, and is everything there that the tool server depends on?

use std::time::Duration;

use anyhow::bail;
use serde_json::{Value, json};
use svc_operator::{Finding, examine};

use crate::{
    client::table,
    config::{ServeConfig, Transport},
    output, process,
};

/// How long the whole examination may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Examines and tells; fails when something is wrong that would keep the server from working.
pub async fn run(config: ServeConfig, as_json: bool) -> anyhow::Result<()> {
    let mut findings = vec![Finding::good("configuration", "every variable can be used")];
    if let Transport::Http(http) = &config.transport {
        let address = std::net::SocketAddr::new(http.bind, http.port);
        findings.push(match process::bind(address) {
            Ok(_) => Finding::good("MCP_HTTP_PORT", format!("{address} is free")),
            Err(error) => Finding::bad("MCP_HTTP_PORT", format!("cannot listen on {address}: {error}")),
        });
    }
    match tokio::time::timeout(PATIENCE, examine(&config.operator, &config.key)).await {
        Ok(found) => findings.extend(found),
        Err(_) => findings.push(Finding::bad("upstreams", format!("no end after {PATIENCE:?}"))),
    }
    if as_json {
        let rows: Vec<Value> =
            findings.iter().map(|one| json!({"what": one.what, "ok": one.is_good, "found": one.found})).collect();
        output::line(serde_json::to_string_pretty(&rows)?);
    } else {
        let mark = |one: &Finding| format!("{} {}", if one.is_good { "ok " } else { "BAD" }, one.what);
        let rows: Vec<_> = findings.iter().map(|one| (mark(one), one.found.clone())).collect();
        output::line(table(&rows).trim_end());
    }
    let bad = findings.iter().filter(|one| !one.is_good).count();
    if bad > 0 {
        bail!("{bad} of {} checks failed", findings.len());
    }
    Ok(())
}

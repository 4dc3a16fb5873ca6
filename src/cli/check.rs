//! `svc check`: tests the configuration of the tool server and its upstreams.

use std::time::Duration;

use anyhow::bail;
use serde_json::{Value, json};
use svc_operator::{PreflightFinding, preflight};

use super::output::{print_line, render_table};
use crate::{
    config::{ServeConfig, TransportConfig, subject_name},
    listener::bind_listener,
};

/// Longest run of all checks.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);

/// A finding with the setting, or the part of the operator, that it is about.
struct CheckFinding {
    subject: &'static str,
    has_passed: bool,
    detail: String,
}

impl From<PreflightFinding> for CheckFinding {
    fn from(finding: PreflightFinding) -> Self {
        let PreflightFinding { subject, has_passed, detail } = finding;
        Self { subject: subject_name(subject), has_passed, detail }
    }
}

/// Runs all checks and prints the findings. Fails when a finding would keep the server from working.
pub(super) async fn run(config: ServeConfig, as_json: bool) -> anyhow::Result<()> {
    let finding = |subject, has_passed, detail: &str| CheckFinding { subject, has_passed, detail: detail.to_owned() };
    let mut findings = vec![finding("configuration", true, "every variable can be used")];
    if let TransportConfig::Http(http) = &config.transport {
        let address = std::net::SocketAddr::new(http.bind, http.port);
        findings.push(match bind_listener(address) {
            Ok(_) => finding("MCP_HTTP_PORT", true, &format!("{address} is free")),
            Err(error) => finding("MCP_HTTP_PORT", false, &format!("cannot listen on {address}: {error}")),
        });
    }
    match tokio::time::timeout(CHECK_TIMEOUT, preflight(&config.operator, &config.key)).await {
        Ok(found) => findings.extend(found.into_iter().map(CheckFinding::from)),
        Err(_) => findings.push(finding("upstreams", false, &format!("no end after {CHECK_TIMEOUT:?}"))),
    }
    if as_json {
        let rows: Vec<Value> = findings
            .iter()
            .map(|one| json!({"what": one.subject, "ok": one.has_passed, "found": one.detail}))
            .collect();
        print_line(serde_json::to_string_pretty(&rows)?);
    } else {
        let mark = |one: &CheckFinding| format!("{} {}", if one.has_passed { "ok " } else { "BAD" }, one.subject);
        let rows: Vec<_> = findings.iter().map(|one| (mark(one), one.detail.clone())).collect();
        print_line(render_table(&rows).trim_end());
    }
    let bad = findings.iter().filter(|one| !one.has_passed).count();
    if bad > 0 {
        bail!("{bad} of {} checks failed", findings.len());
    }
    Ok(())
}

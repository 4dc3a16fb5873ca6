//! `svc check`: tests the configuration of the tool server and its upstreams.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use serde_json::Value;
use svc_net::client_tls::http_client_builder;
use svc_operator::{PreflightFinding, preflight};

use super::findings::{CheckFinding, Grade, report};
use crate::{
    config::{ServeConfig, TransportConfig, subject_name},
    listener::bind_listener,
    status::HealthStatus,
};

/// Longest wait for the health of a running server.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest run of all checks.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);

impl From<PreflightFinding> for CheckFinding {
    fn from(finding: PreflightFinding) -> Self {
        let PreflightFinding { subject, has_passed, is_warning, detail } = finding;
        let grade = match (has_passed, is_warning) {
            (false, _) => Grade::Bad,
            (true, true) => Grade::Warning,
            (true, false) => Grade::Good,
        };
        Self { subject: subject_name(subject), grade, detail }
    }
}

/// The health of the tool server that has the port already; `None` where another program has it.
async fn running_server(address: SocketAddr, is_encrypted: bool) -> Option<String> {
    let host = if address.ip().is_unspecified() { Ipv4Addr::LOCALHOST.into() } else { address.ip() };
    let scheme = if is_encrypted { "https" } else { "http" };
    // The certificate is for the name by which clients know the server, and nothing secret is sent.
    let builder = http_client_builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    let client = builder.danger_accept_invalid_certs(is_encrypted).build().ok()?;
    let origin = format!("{scheme}://{}", SocketAddr::new(host, address.port()));
    let ask = async |request: reqwest::RequestBuilder| -> Option<Value> {
        tokio::time::timeout(HEALTH_TIMEOUT, async { request.send().await.ok()?.json().await.ok() }).await.ok()?
    };
    let health = ask(client.get(format!("{origin}/healthz"))).await?;
    let health = HealthStatus::parse(health["status"].as_str()?)?;
    // Many programs have such a health, and refuse a caller without a token otherwise.
    let refusal = ask(client.post(format!("{origin}/mcp"))).await?;
    (refusal["error"] == "unauthorized").then(|| health.as_str().to_owned())
}

/// Runs all checks and prints the findings. Fails when a finding would keep the server from working.
pub(super) async fn run(config: ServeConfig, as_json: bool) -> anyhow::Result<()> {
    let mut findings = vec![CheckFinding::good("configuration", "every variable can be used")];
    if let TransportConfig::Http(http) = &config.transport {
        let address = SocketAddr::new(http.bind, http.port);
        findings.push(match bind_listener(address) {
            Ok(_) => CheckFinding::good("MCP_HTTP_PORT", format!("{address} is free")),
            Err(error) => match running_server(address, http.listener.tls.is_some()).await {
                Some(health) => {
                    CheckFinding::good("MCP_HTTP_PORT", format!("a tool server runs on {address}: {health}"))
                }
                None => CheckFinding::bad("MCP_HTTP_PORT", format!("cannot listen on {address}: {error}")),
            },
        });
    }
    match tokio::time::timeout(CHECK_TIMEOUT, preflight(&config.operator, &config.key)).await {
        Ok(found) => findings.extend(found.into_iter().map(CheckFinding::from)),
        Err(_) => findings.push(CheckFinding::bad("upstreams", format!("no end after {CHECK_TIMEOUT:?}"))),
    }
    report(&findings, as_json)
}

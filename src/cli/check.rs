//! `svc check`: tests the configuration of the tool server and its upstreams.

use std::{net::SocketAddr, time::Duration};

use svc_operator::{PreflightFinding, preflight};

use super::{
    findings::{CheckFinding, Grade, report},
    port_owner::{find_port_owner, judge_port},
};
use crate::{
    config::{ServeConfig, TransportConfig, subject_name},
    listener::bind_listener,
};

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

/// Runs all checks and prints the findings. Fails when a finding would keep the server from working.
pub(super) async fn run(config: ServeConfig, as_json: bool) -> anyhow::Result<()> {
    let mut findings = vec![CheckFinding::good("configuration", "every variable can be used")];
    if let TransportConfig::Http(http) = &config.transport {
        let address = SocketAddr::new(http.bind, http.port);
        findings.push(match bind_listener(address) {
            Ok(_) => CheckFinding::good("MCP_HTTP_PORT", format!("{address} is free")),
            Err(error) => {
                let tls = http.listener.tls.as_ref();
                let (address, owner) = find_port_owner(address, tls.is_some()).await;
                judge_port(address, &error, owner, tls.is_some_and(|tls| tls.demands_client_certificates()))
            }
        });
    }
    match tokio::time::timeout(CHECK_TIMEOUT, preflight(&config.operator, &config.key)).await {
        Ok(found) => findings.extend(found.into_iter().map(CheckFinding::from)),
        Err(_) => findings.push(CheckFinding::bad("upstreams", format!("no end after {CHECK_TIMEOUT:?}"))),
    }
    report(&findings, as_json)
}

//! The program that has the port of the tool server already.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use reqwest::Method;
use serde_json::Value;
use svc_net::unverified_client::{QuestionError, UnverifiedClient};

use super::findings::CheckFinding;
use crate::status::HealthStatus;

/// Longest wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
const SUBJECT: &str = "MCP_HTTP_PORT";

/// A program that has a port, as far as it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PortOwner {
    /// A tool server with its health.
    ToolServer(HealthStatus),
    /// A listener that answers nothing to a client without a certificate.
    DemandsCertificate,
    /// Another program.
    Stranger,
}

/// The answer to a question over one protocol.
enum Answer {
    Given(Value),
    CertificateDemanded,
    None,
}

async fn ask(client: &UnverifiedClient, method: Method, url: &str) -> Answer {
    let asking = async {
        match client.ask(client.request(method, url)).await {
            Ok(answer) => Answer::Given(answer.json().await.unwrap_or_default()),
            Err(QuestionError::CertificateDemanded) => Answer::CertificateDemanded,
            Err(QuestionError::Failed(_)) => Answer::None,
        }
    };
    tokio::time::timeout(ANSWER_TIMEOUT, asking).await.unwrap_or(Answer::None)
}

/// Asks the program at an address for the health of a tool server: first over the protocol that this server would speak there, and over the
/// other one when that has no answer.
pub(super) async fn find_port_owner(address: SocketAddr, is_encrypted: bool) -> PortOwner {
    let Ok(client) = UnverifiedClient::new() else { return PortOwner::Stranger };
    let host = if address.ip().is_unspecified() { Ipv4Addr::LOCALHOST.into() } else { address.ip() };
    let authority = SocketAddr::new(host, address.port());
    let schemes = if is_encrypted { ["https", "http"] } else { ["http", "https"] };
    for origin in schemes.map(|scheme| format!("{scheme}://{authority}")) {
        let health = match ask(&client, Method::GET, &format!("{origin}/healthz")).await {
            Answer::Given(health) => health,
            Answer::CertificateDemanded => return PortOwner::DemandsCertificate,
            Answer::None => continue,
        };
        let Some(health) = health["status"].as_str().and_then(HealthStatus::parse) else { break };
        // Many programs have such a health, and refuse a caller without a token otherwise.
        return match ask(&client, Method::POST, &format!("{origin}/mcp")).await {
            Answer::Given(refusal) if refusal["error"] == "unauthorized" => PortOwner::ToolServer(health),
            _ => PortOwner::Stranger,
        };
    }
    PortOwner::Stranger
}

/// The finding about a port that cannot be taken. `demands_certificates` is whether this server would demand client certificates there.
pub(super) fn judge_port(
    address: SocketAddr,
    error: &io::Error,
    owner: PortOwner,
    demands_certificates: bool,
) -> CheckFinding {
    match owner {
        PortOwner::ToolServer(health) => {
            CheckFinding::good(SUBJECT, format!("a tool server runs on {address}: {}", health.as_str()))
        }
        PortOwner::DemandsCertificate if demands_certificates => CheckFinding::warning(
            SUBJECT,
            format!(
                "{address} is taken by a listener that demands a client certificate, as SVC_TLS_CLIENT_CA has this server do: \
                 whether it is a tool server cannot be said without one"
            ),
        ),
        PortOwner::DemandsCertificate => CheckFinding::bad(
            SUBJECT,
            format!(
                "cannot listen on {address}: {error}; the listener there demands a client certificate, so that nothing can be said of \
                 what is behind it"
            ),
        ),
        PortOwner::Stranger => CheckFinding::bad(SUBJECT, format!("cannot listen on {address}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::findings::Grade;

    #[test]
    fn the_owner_of_a_port_decides_the_finding() {
        let address = SocketAddr::from(([127, 0, 0, 1], 3000));
        let error = io::Error::new(io::ErrorKind::AddrInUse, "in use");
        for (owner, demands_certificates, grade, expected) in [
            (PortOwner::ToolServer(HealthStatus::Ok), false, Grade::Good, "a tool server runs on 127.0.0.1:3000: ok"),
            (PortOwner::ToolServer(HealthStatus::Draining), true, Grade::Good, "draining"),
            (PortOwner::DemandsCertificate, true, Grade::Warning, "as SVC_TLS_CLIENT_CA has this server do"),
            (
                PortOwner::DemandsCertificate,
                false,
                Grade::Bad,
                "in use; the listener there demands a client certificate",
            ),
            (PortOwner::Stranger, false, Grade::Bad, "cannot listen on 127.0.0.1:3000: in use"),
            (PortOwner::Stranger, true, Grade::Bad, "cannot listen"),
        ] {
            let finding = judge_port(address, &error, owner, demands_certificates);
            assert_eq!((finding.subject, finding.grade), ("MCP_HTTP_PORT", grade), "{owner:?}");
            assert!(finding.detail.contains(expected), "{owner:?}: {}", finding.detail);
        }
    }
}

//! The program that has the port of the tool server already.

use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
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
/// The system's tables of sockets.
const SOCKET_TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// The state of a listener in them.
const LISTENING: &str = "0A";
/// Hosts that are asked: a port seldom has more listeners than one.
const MAX_HOSTS: usize = 4;

/// A program that has a port, as far as it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PortOwner {
    /// A tool server with its health.
    ToolServer(HealthStatus),
    /// A server of this program that starts: it answers every request so.
    Starting,
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

/// Finds the program that has an address, and its own address: the port of every address is taken by a listener on one of them.
pub(super) async fn find_port_owner(address: SocketAddr, is_encrypted: bool) -> (SocketAddr, PortOwner) {
    let Ok(client) = UnverifiedClient::new() else { return (address, PortOwner::Stranger) };
    if !address.ip().is_unspecified() {
        return (address, ask_owner(&client, address, is_encrypted).await);
    }
    let mut hosts: BTreeSet<IpAddr> = BTreeSet::new();
    for table in SOCKET_TABLES {
        hosts.extend(listening_hosts(&std::fs::read_to_string(table).unwrap_or_default(), address.port()));
    }
    // A listener of the newer protocol alone leaves the older one free.
    hosts.retain(|host| address.is_ipv6() || host.is_ipv4() || host.is_unspecified());
    // The hosts of a listener on every address, and of one that the tables do not show.
    let is_alone = hosts.iter().all(IpAddr::is_unspecified);
    let hosts = if is_alone { BTreeSet::from([Ipv4Addr::LOCALHOST.into()]) } else { hosts };
    let mut found = (address, PortOwner::Stranger);
    for host in hosts.into_iter().filter(|host| !host.is_unspecified()).take(MAX_HOSTS) {
        let asked = SocketAddr::new(host, address.port());
        let owner = ask_owner(&client, asked, is_encrypted).await;
        found = (if is_alone { address } else { asked }, owner);
        // One that another program has is in the way.
        if owner == PortOwner::Stranger {
            break;
        }
    }
    found
}

/// The addresses of the listeners on a port, by the system's table of sockets.
fn listening_hosts(table: &str, port: u16) -> Vec<IpAddr> {
    let host = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (local, state) = (words.next()?, words.nth(1)?);
        let (host, of_port) = local.split_once(':')?;
        let is_it = state == LISTENING && u16::from_str_radix(of_port, 16) == Ok(port);
        is_it.then(|| parse_host(host)).flatten()
    };
    table.lines().filter_map(host).collect()
}

/// An address as the table has it: words of 32 bits in the order of the machine.
fn parse_host(text: &str) -> Option<IpAddr> {
    let words = text.as_bytes().chunks(8).map(|word| u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok());
    let bytes: Vec<u8> = words.collect::<Option<Vec<u32>>>()?.into_iter().flat_map(u32::to_ne_bytes).collect();
    match <[u8; 4]>::try_from(bytes.as_slice()) {
        Ok(host) => Some(IpAddr::from(host)),
        Err(_) => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical()),
    }
}

/// Asks the program at an address for the health of a tool server: first over the protocol that this server would speak there, and over the
/// other one when that has no answer.
async fn ask_owner(client: &UnverifiedClient, authority: SocketAddr, is_encrypted: bool) -> PortOwner {
    let schemes = if is_encrypted { ["https", "http"] } else { ["http", "https"] };
    for origin in schemes.map(|scheme| format!("{scheme}://{authority}")) {
        let health = match ask(client, Method::GET, &format!("{origin}/healthz")).await {
            Answer::Given(health) => health,
            Answer::CertificateDemanded => return PortOwner::DemandsCertificate,
            Answer::None => continue,
        };
        let Some(health) = health["status"].as_str().and_then(HealthStatus::parse) else { break };
        // Many programs have such a health, and refuse a caller without a token otherwise.
        return match ask(client, Method::POST, &format!("{origin}/mcp")).await {
            Answer::Given(refusal) if refusal["error"] == "unauthorized" => PortOwner::ToolServer(health),
            Answer::Given(refusal) if is_of_start(&refusal) => PortOwner::Starting,
            _ => PortOwner::Stranger,
        };
    }
    PortOwner::Stranger
}

/// Whether an answer is that of a server of this program that starts.
fn is_of_start(answer: &Value) -> bool {
    answer["status"] == HealthStatus::Starting.as_str() && answer.get("waiting_for").is_some()
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
        PortOwner::Starting => CheckFinding::good(SUBJECT, format!("a server of svc starts on {address}")),
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
    fn the_listeners_of_a_port_are_read_from_the_tables_of_the_system() {
        let of = |host: &[u8]| {
            let words = host.chunks(4).map(|word| u32::from_ne_bytes(word.try_into().expect("four bytes")));
            words.map(|word| format!("{word:08X}")).collect::<String>()
        };
        let line =
            |host: &[u8], port: u16, state: &str| format!("   0: {}:{port:04X} 00000000:0000 {state} 0 0", of(host));
        let mapped = std::net::Ipv6Addr::from([0, 0, 0, 0, 0, 0xffff, 0x7f00, 3]).octets();
        let table = [
            "  sl  local_address rem_address   st tx_queue rx_queue".to_owned(),
            line(&[127, 0, 0, 2], 3000, "0A"),
            // A connection, and another port.
            line(&[127, 0, 0, 4], 3000, "01"),
            line(&[127, 0, 0, 5], 3001, "0A"),
            line(&mapped, 3000, "0A"),
            "   4: zz:0BB8 00000000:0000 0A".to_owned(),
        ];
        let expected: [IpAddr; 2] = [[127, 0, 0, 2].into(), [127, 0, 0, 3].into()];
        assert_eq!(listening_hosts(&table.join("\n"), 3000), expected);
        assert!(listening_hosts("", 3000).is_empty());
    }

    #[test]
    fn the_owner_of_a_port_decides_the_finding() {
        let address = SocketAddr::from(([127, 0, 0, 1], 3000));
        let error = io::Error::new(io::ErrorKind::AddrInUse, "in use");
        for (owner, demands_certificates, grade, expected) in [
            (PortOwner::ToolServer(HealthStatus::Ok), false, Grade::Good, "a tool server runs on 127.0.0.1:3000: ok"),
            (PortOwner::ToolServer(HealthStatus::Draining), true, Grade::Good, "draining"),
            (PortOwner::Starting, false, Grade::Good, "a server of svc starts on 127.0.0.1:3000"),
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

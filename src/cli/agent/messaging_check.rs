//! Whether peers reach the agent at the endpoints of its DID Document.

use svc_agent::{PeerSettings, PublicLocation};
use svc_net::{
    didcomm::{OutboundClient, SendResult},
    host_policy::HostPolicy,
};

use crate::cli::findings::CheckFinding;

const SUBJECT: &str = "DIDCOMM_TRANSPORTS";

/// Opens each endpoint as a peer does.
pub(super) async fn check_messaging(
    peers: &PeerSettings,
    location: &PublicLocation,
    hosts: HostPolicy,
) -> Vec<CheckFinding> {
    let client = match OutboundClient::new(hosts) {
        Ok(client) => client,
        Err(error) => return vec![CheckFinding::bad(SUBJECT, error.to_string())],
    };
    let mut findings = Vec::new();
    for uri in peers.endpoint_uris(location.base_url()) {
        let reached = if uri.starts_with("ws") { open_socket(&client, &uri).await } else { post(&client, &uri).await };
        findings.push(match reached {
            Ok(()) => CheckFinding::good(SUBJECT, format!("{uri} takes messages")),
            Err(reason) => CheckFinding::bad(SUBJECT, format!("{uri} takes no messages: {reason}")),
        });
    }
    findings
}

async fn open_socket(client: &OutboundClient, uri: &str) -> Result<(), String> {
    let mut socket = client.connect(uri).await?;
    let is_alive = socket.answers().await;
    socket.close().await;
    if is_alive { Ok(()) } else { Err("the socket does not answer a ping".to_owned()) }
}

/// An empty object is no envelope: the agent answers 400, and others 404 or 415.
async fn post(client: &OutboundClient, uri: &str) -> Result<(), String> {
    match client.post(uri, "{}").await {
        SendResult::Status { status: 400, .. } => Ok(()),
        SendResult::Status { status, .. } => {
            Err(format!("the status for what is no message is {status} instead of 400"))
        }
        SendResult::NotSent(reason) | SendResult::Unknown(reason) => Err(reason),
        SendResult::TooLarge | SendResult::Answered => Err("it is no HTTP endpoint".to_owned()),
    }
}

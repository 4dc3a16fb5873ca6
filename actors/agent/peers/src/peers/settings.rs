//! Settings of the peers.

use std::time::Duration;

use svc_agent_core::peers::PeerLimits;
use svc_net::{didcomm::InboundLimits, host_policy::HostPolicy};

/// A transport that the agent serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerTransport {
    /// One message per message of a WebSocket.
    WebSocket,
    /// One message per POST.
    Http,
}

impl PeerTransport {
    /// Returns the name in the settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WebSocket => "ws",
            Self::Http => "http",
        }
    }

    /// The transport with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::WebSocket, Self::Http].into_iter().find(|one| one.as_str() == name)
    }
}

/// The peers whose messages are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerAdmission {
    /// Trusted ones.
    Trusted,
    /// All: connections and basic messages, but no flows and no access.
    Any,
}

/// How the agent talks to peers.
#[derive(Debug, Clone)]
pub struct PeerSettings {
    /// Transports that are served, in the order of the document; none while peers are not served.
    pub transports: Vec<PeerTransport>,
    /// The peers whose messages are stored.
    pub admission: PeerAdmission,
    /// Bytes of one message.
    pub message_bytes: usize,
    /// Accepted WebSockets.
    pub sockets: usize,
    /// Bytes of all messages that are being received.
    pub inflight_bytes: usize,
    /// Messages a second of one peer, of which ten seconds may come at once.
    pub rate_per_peer: u32,
    /// Connections a minute that strangers may begin.
    pub new_peers_per_minute: u32,
    /// Time for which a decision about a peer holds.
    pub trust_ttl: Duration,
    /// Longest resolution of a DID.
    pub resolve_timeout: Duration,
    /// Silence after which a socket to a peer is closed.
    pub idle: Duration,
    /// Messages in the outbox for one peer.
    pub outbox_per_peer: u64,
    /// Messages in the outbox for all peers.
    pub outbox_max: u64,
    /// Time after which a message that could not be sent is given up.
    pub outbox_age: Duration,
    /// Time for which handled messages are remembered.
    pub replay_age: Duration,
    /// Handled messages that are remembered.
    pub replay_max: u64,
    /// Basic messages that are kept for one connection.
    pub messages_per_connection: u64,
}

const HOUR: Duration = Duration::from_secs(3600);
/// Silence after which an accepted socket is closed.
const ACCEPTED_SILENCE: Duration = Duration::from_secs(600);

impl Default for PeerSettings {
    fn default() -> Self {
        Self {
            transports: vec![PeerTransport::WebSocket, PeerTransport::Http],
            admission: PeerAdmission::Trusted,
            message_bytes: svc_didcomm::limits::MAX_MESSAGE_BYTES,
            sockets: 10_000,
            inflight_bytes: 64 * 1024 * 1024,
            rate_per_peer: 20,
            new_peers_per_minute: 60,
            trust_ttl: Duration::from_secs(60),
            resolve_timeout: Duration::from_secs(5),
            idle: Duration::from_secs(60),
            outbox_per_peer: 1_000,
            outbox_max: 100_000,
            outbox_age: 24 * HOUR,
            replay_age: 24 * HOUR,
            replay_max: 1_000_000,
            messages_per_connection: 10_000,
        }
    }
}

impl PeerSettings {
    /// Returns the endpoints at a public URL, as the DID Document has them.
    pub fn endpoint_uris(&self, base_url: &str) -> Vec<String> {
        let (scheme, rest) = base_url.split_once("://").unwrap_or(("https", base_url));
        let uri = |transport: &PeerTransport| match (transport, scheme) {
            (PeerTransport::WebSocket, "http") => format!("ws://{rest}"),
            (PeerTransport::WebSocket, _) => format!("wss://{rest}"),
            (PeerTransport::Http, scheme) => format!("{scheme}://{rest}"),
        };
        self.transports.iter().map(uri).collect()
    }

    /// Returns the limits of the receiving side.
    pub fn inbound_limits(&self) -> InboundLimits {
        InboundLimits {
            message_bytes: self.message_bytes,
            sockets: self.sockets,
            inflight_bytes: self.inflight_bytes,
            silence: ACCEPTED_SILENCE,
        }
    }

    /// The bounds of the rows that peers make, with those of the outbox of events.
    pub fn limits(&self, max_events: Option<u64>) -> PeerLimits {
        PeerLimits {
            outbox_per_peer: self.outbox_per_peer,
            outbox_max: self.outbox_max,
            replay_max: self.replay_max,
            records_per_connection: self.messages_per_connection,
            max_events,
        }
    }
}

/// Whether endpoints in clear text are used.
pub(crate) fn allows_clear_text(hosts: HostPolicy) -> bool {
    hosts == HostPolicy::AllowPrivate
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoints_are_the_public_url_and_nothing_more() {
        let settings = PeerSettings::default();
        assert_eq!(settings.endpoint_uris("https://a.example/x"), ["wss://a.example/x", "https://a.example/x"]);
        assert_eq!(settings.endpoint_uris("http://localhost:3001"), ["ws://localhost:3001", "http://localhost:3001"]);
        let http = PeerSettings { transports: vec![PeerTransport::Http], ..settings };
        assert_eq!(http.endpoint_uris("https://a.example"), ["https://a.example"]);
    }
}

//! The peers of an agent.

use std::time::Duration;

use svc_agent::{PeerAdmission, PeerSettings, PeerTransport};

use crate::{
    config::environment::{Environment, EnvironmentReader},
    settings::didcomm,
};

/// Reads the settings of peers.
pub(super) fn read_peers<E: Environment>(reader: &mut EnvironmentReader<'_, E>) -> Option<PeerSettings> {
    let transports = reader.read(didcomm::DIDCOMM_TRANSPORTS, parse_transports);
    let accepts_any = reader.read_choice(didcomm::DIDCOMM_ACCEPT, "any");
    let message_bytes = reader.read_number(didcomm::DIDCOMM_MAX_MESSAGE_BYTES);
    let sockets = reader.read_number(didcomm::DIDCOMM_MAX_SOCKETS);
    let inflight_bytes = reader.read_number(didcomm::DIDCOMM_MAX_INFLIGHT_BYTES);
    let rate = reader.read_number(didcomm::DIDCOMM_RATE_PER_PEER);
    let new_peers = reader.read_number(didcomm::DIDCOMM_NEW_PEERS_PER_MINUTE);
    let trust_ttl = reader.read_number(didcomm::DIDCOMM_TRUST_TTL_SECONDS);
    let resolve_timeout = reader.read_millis(didcomm::DIDCOMM_RESOLVE_TIMEOUT_MS);
    let idle = reader.read_number(didcomm::DIDCOMM_IDLE_SECONDS);
    let outbox_per_peer = reader.read_number(didcomm::DIDCOMM_OUTBOX_PER_PEER);
    let outbox_max = reader.read_number(didcomm::DIDCOMM_OUTBOX_MAX);
    let outbox_hours = reader.read_number(didcomm::DIDCOMM_OUTBOX_HOURS);
    let replay_hours = reader.read_number(didcomm::DIDCOMM_REPLAY_HOURS);
    let replay_max = reader.read_number(didcomm::DIDCOMM_REPLAY_MAX);
    let messages_per_connection = reader.read_number(didcomm::DIDCOMM_MESSAGES_PER_CONNECTION);
    let from_hours = |hours: u64| Duration::from_secs(hours * 3_600);
    Some(PeerSettings {
        transports: transports?,
        admission: if accepts_any? { PeerAdmission::Any } else { PeerAdmission::Trusted },
        message_bytes: message_bytes?,
        sockets: sockets?,
        inflight_bytes: inflight_bytes?,
        rate_per_peer: rate?,
        new_peers_per_minute: new_peers?,
        trust_ttl: Duration::from_secs(trust_ttl?),
        resolve_timeout: resolve_timeout?,
        idle: Duration::from_secs(idle?),
        outbox_per_peer: outbox_per_peer?,
        outbox_max: outbox_max?,
        outbox_age: from_hours(outbox_hours?),
        replay_age: from_hours(replay_hours?),
        replay_max: replay_max?,
        messages_per_connection: messages_per_connection?,
    })
}

fn parse_transports(text: &str) -> Option<Vec<PeerTransport>> {
    if text == "none" {
        return Some(Vec::new());
    }
    let mut transports = Vec::new();
    for name in text.split(',') {
        let transport = PeerTransport::from_name(name.trim())?;
        if transports.contains(&transport) {
            return None;
        }
        transports.push(transport);
    }
    Some(transports)
}

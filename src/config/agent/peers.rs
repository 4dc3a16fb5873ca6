//! The peers of an agent.

use std::time::Duration;

use svc_agent::{PeerAdmission, PeerSettings, PeerTransport};

use crate::config::environment::{Environment, EnvironmentReader};

/// Reads the settings of peers.
pub(super) fn read_peers<E: Environment>(reader: &mut EnvironmentReader<'_, E>) -> Option<PeerSettings> {
    let default = PeerSettings::default();
    let transports = reader.read_parsed(
        "DIDCOMM_TRANSPORTS",
        "ws and http, separated by a comma, each at most once; or none",
        Some(default.transports.clone()),
        parse_transports,
    );
    let admission = reader.read_parsed("DIDCOMM_ACCEPT", "trusted, any", Some(default.admission), |text| match text {
        "trusted" => Some(PeerAdmission::Trusted),
        "any" => Some(PeerAdmission::Any),
        _ => None,
    });
    let mut number = |name: &'static str, allowed: &'static str, (least, most): (u64, u64), default: u64| {
        reader.read_parsed(name, allowed, Some(default), |text| {
            text.parse().ok().filter(|number: &u64| (least..=most).contains(number))
        })
    };
    let many = (1, u64::from(u32::MAX));
    let message_bytes = number(
        "DIDCOMM_MAX_MESSAGE_BYTES",
        "bytes, from 1024 to 5242880",
        (1_024, 5_242_880),
        default.message_bytes as u64,
    );
    let sockets =
        number("DIDCOMM_MAX_SOCKETS", "a number of sockets, from 1 to 1000000", (1, 1_000_000), default.sockets as u64);
    let inflight_bytes = number(
        "DIDCOMM_MAX_INFLIGHT_BYTES",
        "bytes, 5242880 or more",
        (5_242_880, u64::from(u32::MAX)),
        default.inflight_bytes as u64,
    );
    let rate = number(
        "DIDCOMM_RATE_PER_PEER",
        "messages a second, from 1 to 10000",
        (1, 10_000),
        u64::from(default.rate_per_peer),
    );
    let new_peers = number(
        "DIDCOMM_NEW_PEERS_PER_MINUTE",
        "a number of peers, from 1 to 100000",
        (1, 100_000),
        u64::from(default.new_peers_per_minute),
    );
    let trust_ttl = number("DIDCOMM_TRUST_TTL_SECONDS", "seconds, from 1 to 60", (1, 60), default.trust_ttl.as_secs());
    let resolve_timeout = number(
        "DIDCOMM_RESOLVE_TIMEOUT_MS",
        "milliseconds, from 100 to 60000",
        (100, 60_000),
        default.resolve_timeout.as_millis() as u64,
    );
    let idle = number("DIDCOMM_IDLE_SECONDS", "seconds, from 1 to 3600", (1, 3_600), default.idle.as_secs());
    let outbox_per_peer =
        number("DIDCOMM_OUTBOX_PER_PEER", "a number of messages, 1 or more", many, default.outbox_per_peer);
    let outbox_max = number("DIDCOMM_OUTBOX_MAX", "a number of messages, 1 or more", many, default.outbox_max);
    let hours = |duration: Duration| duration.as_secs() / 3_600;
    let outbox_hours = number("DIDCOMM_OUTBOX_HOURS", "hours, from 1 to 168", (1, 168), hours(default.outbox_age));
    let replay_hours = number("DIDCOMM_REPLAY_HOURS", "hours, from 24 to 168", (24, 168), hours(default.replay_age));
    let replay_max = number("DIDCOMM_REPLAY_MAX", "a number of messages, 1 or more", many, default.replay_max);
    let messages_per_connection = number(
        "DIDCOMM_MESSAGES_PER_CONNECTION",
        "a number of messages, 1 or more",
        many,
        default.messages_per_connection,
    );
    let to_size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let to_rate = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let from_hours = |hours: u64| Duration::from_secs(hours * 3_600);
    Some(PeerSettings {
        transports: transports?,
        admission: admission?,
        message_bytes: to_size(message_bytes?),
        sockets: to_size(sockets?),
        inflight_bytes: to_size(inflight_bytes?),
        rate_per_peer: to_rate(rate?),
        new_peers_per_minute: to_rate(new_peers?),
        trust_ttl: Duration::from_secs(trust_ttl?),
        resolve_timeout: Duration::from_millis(resolve_timeout?),
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

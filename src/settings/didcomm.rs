//! Messages with peers over DIDComm.

use super::setting::{
    Process::{self, Agent},
    SettingType::{self, Choice, Text},
    number, row, rows,
};

const AGENT: &[Process] = &[Agent];
const MESSAGES: SettingType = number("a number of messages,", 1, u32::MAX as u64);

rows! {
    DIDCOMM_TRANSPORTS = row(Text("ws and http, separated by a comma, each at most once; or none"), AGENT,
        "Transports that are served, in the order of the document; `none` serves no peers").default("ws,http");
    DIDCOMM_ACCEPT = row(Choice(&["trusted", "any"]), AGENT, "`any` stores connections and basic messages of all peers")
        .default("trusted");
    DIDCOMM_MAX_MESSAGE_BYTES = row(number("bytes, from", 1_024, 5_242_880), AGENT, "Bytes of an envelope").default("5242880");
    DIDCOMM_MAX_SOCKETS = row(number("a number of sockets, from", 1, 1_000_000), AGENT,
        "Accepted WebSockets; in a full table the longest silent one makes room").default("10000");
    DIDCOMM_MAX_INFLIGHT_BYTES = row(number("bytes,", 5_242_880, u32::MAX as u64), AGENT,
        "Bytes of all envelopes that are being received").default("67108864");
    DIDCOMM_RATE_PER_PEER = row(number("messages a second, from", 1, 10_000), AGENT,
        "Messages a second of one peer, ten seconds' worth at once").default("20");
    DIDCOMM_NEW_PEERS_PER_MINUTE = row(number("a number of peers, from", 1, 100_000), AGENT,
        "Connections that strangers may begin").default("60");
    DIDCOMM_TRUST_TTL_SECONDS = row(number("seconds, from", 1, 60), AGENT, "Time for which a decision holds, 1 to 60")
        .default("60");
    DIDCOMM_RESOLVE_TIMEOUT_MS = row(number("milliseconds, from", 100, 60_000), AGENT, "Longest resolution of a peer's DID")
        .default("5000");
    DIDCOMM_IDLE_SECONDS = row(number("seconds, from", 1, 3_600), AGENT,
        "Silence after which a socket to a peer, and its session, end").default("60");
    DIDCOMM_OUTBOX_PER_PEER = row(MESSAGES, AGENT, "Messages that may wait for one peer").default("1000");
    DIDCOMM_OUTBOX_MAX = row(MESSAGES, AGENT, "Messages that may wait for all peers").default("100000");
    DIDCOMM_OUTBOX_HOURS = row(number("hours, from", 1, 168), AGENT,
        "Time after which a message that could not be sent is given up").default("24");
    DIDCOMM_REPLAY_HOURS = row(number("hours, from", 24, 168), AGENT, "Memory against repetition, in hours").default("24");
    DIDCOMM_REPLAY_MAX = row(MESSAGES, AGENT, "Memory against repetition, in messages; in a full one the peer that filled most \
        of it is refused").default("1000000");
    DIDCOMM_MESSAGES_PER_CONNECTION = row(MESSAGES, AGENT, "Basic messages that are kept; the oldest go").default("10000");
}

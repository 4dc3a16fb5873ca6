//! Access of peers to endpoints.

use super::setting::{
    Process::{self, Agent, Peer},
    SettingType::{Choice, Text},
    number, row, rows,
};

const AGENT: &[Process] = &[Agent];

rows! {
    ENDPOINT_ACCESS_FILE = row(Text("a file that exists, in TOML"), AGENT, "the conditions; without it every endpoint needs \
        nothing, and the document names no conditions");
    ENDPOINT_ACCESS_ANSWER = row(Choice(&["agent", "backend"]), AGENT, "`agent`, or `backend`: the party that answers the requests of peers").default("agent");
    ENDPOINT_ACCESS_TOKEN_SECONDS = row(number("seconds, from", 60, 900), AGENT,
        "life of a grant where the file says nothing else, 60 to 900").default("600");
    ENDPOINT_ACCESS_RATE_PER_PEER = row(number("requests a minute, from", 1, 10_000), AGENT,
        "requests of one peer in a minute").default("10");
    ENDPOINT_ACCESS_TIMEOUT_MS = row(number("milliseconds, from", 1_000, 120_000), AGENT, "wait for a peer's answer")
        .default("45000");
    SVC_PEER_AGENT = row(Text("unix:PATH, or the origin of an admin API, such as http://127.0.0.1:3000"), &[Peer],
        "of `svc peer`: the own agent").otherwise("`unix:` and SVC_AGENT_SOCKET");
}

//! The tool server: its transport, its principals and its sessions.

use super::setting::{
    Process::{Client, Devnet, Serve},
    SettingType::{self, Choice, IpAddress, Text},
    number, row, rows,
};

rows! {
    MCP_TRANSPORT = row(Choice(&["http", "stdio"]), &[Serve], "`http` or `stdio`. Over stdio a session begins before the chain is \
        known, and the server waits for node and indexer without an end").default("http").see("[tools.md](tools.md)");
    MCP_HTTP_PORT = row(SettingType::PORT, &[Serve], "port of the tool server").default("3000");
    MCP_HTTP_BIND = row(IpAddress, &[Serve], "address of the tool server").default("0.0.0.0");
    MCP_BEARER_TOKEN = row(Text("at least 32 visible ASCII characters"), &[Serve, Client, Devnet],
        "token of the first principal, which clients send").otherwise("required with http").secret();
    MCP_ALLOWED_HOSTS = row(Text("a comma-separated list of host names"), &[Serve],
        "further host names clients may use, comma-separated (ours)");
    SVC_PRINCIPALS = row(Text("a TOML file of principals that only its owner may write (docs/operating.md)"), &[Serve],
        "TOML file of further principals (ours), watched").see("[below](#principals-and-their-rights)");
    SVC_PEER_ISSUER = row(Text("the DID of the agent whose tokens are accepted, of the method web or webvh"), &[Serve],
        "DID of an agent whose tokens for peers are accepted (ours)").see("[below](#tokens-of-an-agents-peers)");
    SVC_PEER_AUDIENCE = row(Text("the URL of the MCP entry in the agent's document, such as https://svc.example/mcp"), &[Serve],
        "the URL of the MCP entry in the document of that agent (ours)");
    SVC_OAUTH_ISSUER = row(Text("the https URL of the issuer; http on this machine, with SVC_ALLOW_PRIVATE_HOSTS=true"), &[Serve],
        "issuer of access tokens (ours)").see("[below](#access-tokens-of-an-oauth-issuer)");
    SVC_OAUTH_AUDIENCE = row(Text("the URL of the MCP endpoint that tokens name as their audience, such as \
        https://svc.example/mcp"), &[Serve], "the URL of the MCP endpoint as these tokens name it (ours)");
    SVC_VSA_UNBOUND_LOGINS = row(Text("a comma-separated list of DIDs of agents, of the methods web and webvh"), &[Serve], "DIDs of agents that may ask for a \
        login signature without an audience, comma-separated (ours); another server could use such a signature");
    MCP_MAX_SESSIONS = row(number("a number,", 1, 100_000), &[Serve], "sessions at once (ours)")
        .default("1000");
    MCP_SESSION_IDLE_MS = row(SettingType::MILLIS, &[Serve], "time after which an idle session ends (ours)").default("1800000");
}

//! The listeners of every process that serves.

use super::setting::{
    Process::{self, Agent, Indexer, Serve},
    SettingType::{self, Number, Text},
    row, rows,
};

const ALL: &[Process] = &[Serve, Indexer, Agent];
const COUNT: SettingType = Number { unit: "a number,", least: 1, most: 1_000_000 };
const PEM: SettingType = Text("a file in PEM");

rows! {
    SVC_HTTP_MAX_CONNECTIONS = row(COUNT, ALL, "connections at once, without WebSockets; fewer where the process may open fewer \
        files").default("1024");
    SVC_HTTP_MAX_PER_ADDRESS = row(COUNT, ALL, "connections at once of one IPv4 address or IPv6 network of 64 bits, without those of clients with a \
        right token").default("256");
    SVC_HTTP_HEADER_TIMEOUT_MS = row(SettingType::MILLIS, ALL, "time of a head, and longest pause of a body").default("10000");
    SVC_HTTP_IDLE_TIMEOUT_MS = row(SettingType::MILLIS, ALL, "time between two requests, and longest time in which a client reads \
        nothing").default("120000");
    SVC_HTTP_PROXIES = row(Text("none, or a comma-separated list of addresses and networks such as 10.0.0.0/8"), ALL, "addresses \
        and networks of reverse proxies: the limit for one address does not apply there").default("none");
    SVC_TLS_CERT = row(PEM, ALL, "certificate chain in PEM: every connection is encrypted. SIGHUP reads it again");
    SVC_TLS_KEY = row(PEM, ALL, "private key of the certificate in PEM; both are set, or neither");
    SVC_TLS_CLIENT_CA = row(PEM, ALL, "certificates of authorities in PEM: a client without a certificate of one of them is \
        refused");
    SVC_METRICS_BIND = row(Text("an address with a port, such as 127.0.0.1:9464"), ALL, "address and port of `/metrics` alone; \
        without it each listener has the route");
    SVC_METRICS_HOSTS = row(Text("a comma-separated list of host names without ports"), ALL, "host names for `/metrics`, beside \
        loopback names and IP addresses");
}

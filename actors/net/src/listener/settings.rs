use std::{net::IpAddr, time::Duration};

use ipnet::IpNet;

/// Limits of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerSettings {
    /// Most connections at once.
    pub max_connections: usize,
    /// Most connections at once of one IPv4 address or one IPv6 network of 64 bits, without those of proven clients.
    pub max_per_address: usize,
    /// Longest time from the first byte of a head, or from the connect, to its end; longest pause of a body, and the time that all of it has
    /// beside one second for each KiB.
    pub header_timeout: Duration,
    /// Longest time between two requests of a connection, and longest time in which a client reads nothing of its answer.
    pub idle_timeout: Duration,
    /// Longest head of a request, in bytes; at least 8,192.
    pub max_head_bytes: usize,
    /// Networks of reverse proxies, to which `max_per_address` does not apply: one such address has the connections of many clients.
    pub proxies: Vec<IpNet>,
    /// Names of the settings behind the limits.
    pub names: LimitNames,
}

/// Names of the settings behind the limits of a listener, for its log. The program that has the settings knows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitNames {
    /// Connections at once.
    pub connections: &'static str,
    /// Connections of one address.
    pub per_address: &'static str,
    /// Time of a head.
    pub header_timeout: &'static str,
    /// Time between two requests.
    pub idle_timeout: &'static str,
    /// Certificates.
    pub tls: &'static str,
    /// Allowed host names.
    pub hosts: &'static str,
}

impl Default for LimitNames {
    fn default() -> Self {
        Self {
            connections: "max_connections",
            per_address: "max_per_address, proxies",
            header_timeout: "header_timeout",
            idle_timeout: "idle_timeout",
            tls: "certificate, key, client_authorities",
            hosts: "allowed hosts",
        }
    }
}

/// Slowest body that is waited for.
pub const MIN_BODY_BYTES_A_SECOND: u64 = 1_024;

impl Default for ListenerSettings {
    fn default() -> Self {
        Self {
            // Each costs a descriptor and, while its head is read, up to `max_head_bytes`.
            max_connections: 1_024,
            max_per_address: 256,
            header_timeout: Duration::from_secs(10),
            // Longer than the pools of usual clients keep a connection, so that the client closes it first.
            idle_timeout: Duration::from_secs(120),
            // Twice the largest that usual proxies pass on.
            max_head_bytes: 32 * 1024,
            proxies: Vec::new(),
            names: LimitNames::default(),
        }
    }
}

impl ListenerSettings {
    /// Limits of a listener whose clients are all on one machine, and have one address.
    pub fn for_one_machine() -> Self {
        let most = 10_000;
        Self { max_connections: most, max_per_address: most, ..Self::default() }
    }

    /// Longest time for which the rest of a body is read that the service has not asked for.
    pub(super) fn unread_body_timeout(&self) -> Duration {
        self.header_timeout / 10
    }

    /// Whether an address is that of a configured proxy.
    pub fn is_proxy(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.proxies.iter().any(|network| network.contains(&address))
    }
}

//! How far unencrypted requests to a server travel.

use std::net::IpAddr;

use url::{Host, Url};

use crate::host_policy::{is_loopback, is_public, is_public_name};

/// How far the unencrypted requests to an origin travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaintextReach {
    /// There are none: the origin is https.
    Encrypted,
    /// They stay on this machine.
    Loopback,
    /// They stay in a private network.
    PrivateNetwork,
    /// They cross public networks, where others can read and change them.
    PublicNetwork,
}

impl PlaintextReach {
    /// The reach of requests to an origin. A name is resolved; one that is not resolved now is judged by its form.
    pub async fn of_origin(origin: &str) -> Self {
        let Ok(url) = Url::parse(origin) else { return Self::PublicNetwork };
        if url.scheme() == "https" {
            return Self::Encrypted;
        }
        match url.host() {
            None => Self::PublicNetwork,
            Some(host) if is_loopback(&host) => Self::Loopback,
            Some(Host::Ipv4(address)) => Self::of_addresses(&[address.into()]),
            Some(Host::Ipv6(address)) => Self::of_addresses(&[address.into()]),
            Some(Host::Domain(name)) => {
                let port = url.port_or_known_default().unwrap_or(80);
                match tokio::net::lookup_host((name, port)).await {
                    Ok(found) => Self::of_addresses(&found.map(|address| address.ip()).collect::<Vec<_>>()),
                    Err(_) if is_public_name(name) => Self::PublicNetwork,
                    Err(_) => Self::PrivateNetwork,
                }
            }
        }
    }

    fn of_addresses(addresses: &[IpAddr]) -> Self {
        if addresses.iter().copied().any(is_public) {
            Self::PublicNetwork
        } else if addresses.iter().all(IpAddr::is_loopback) {
            Self::Loopback
        } else {
            Self::PrivateNetwork
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_reach_follows_scheme_and_address() {
        for (origin, reach) in [
            ("https://8.8.8.8", PlaintextReach::Encrypted),
            ("http://127.0.0.1:26657", PlaintextReach::Loopback),
            ("http://localhost:26657", PlaintextReach::Loopback),
            ("http://[::1]:26657", PlaintextReach::Loopback),
            ("http://10.1.2.3:26657", PlaintextReach::PrivateNetwork),
            ("http://[fd00::1]:26657", PlaintextReach::PrivateNetwork),
            ("http://8.8.8.8:26657", PlaintextReach::PublicNetwork),
            ("http://[2606:4700::1]:26657", PlaintextReach::PublicNetwork),
            ("http://no-such-node.invalid:26657", PlaintextReach::PrivateNetwork),
        ] {
            assert_eq!(PlaintextReach::of_origin(origin).await, reach, "{origin}");
        }
    }
}

//! The trust in a caller, by the address of its connection. No header makes a caller trusted. Pure.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
};

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use ipnet::IpNet;
use svc_agent::{Refusal, RefusalCode};

/// A caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    /// Served without a login.
    Trusted,
    /// Has to log in, or is refused.
    External,
}

/// The peer of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    /// The Unix socket, which only the user of the process can open.
    LocalSocket,
    /// A TCP connection.
    Address(IpAddr),
}

/// The rules of trust.
#[derive(Debug, Clone)]
pub struct CallerRules {
    /// Networks whose callers are trusted.
    pub trusted_networks: Vec<IpNet>,
    /// Host names of trusted callers, beside loopback names and the bound address.
    pub allowed_hosts: BTreeSet<String>,
    /// Host of the public URL: requests to it are external.
    pub public_host: Option<String>,
    /// Bound address.
    pub bound: SocketAddr,
}

impl CallerRules {
    /// Classifies a request. A request of a trusted network with another Host or Origin comes from a browser, and is refused.
    pub(super) fn classify(&self, peer: Peer, headers: &HeaderMap) -> Result<Caller, Refusal> {
        let address = match peer {
            Peer::LocalSocket => return Ok(Caller::Trusted),
            Peer::Address(address) => address.to_canonical(),
        };
        let is_near = self.trusted_networks.iter().any(|network| network.contains(&address));
        let hosts: Vec<String> = headers.get_all(header::HOST).iter().map(normalised_host).collect();
        let is_public =
            |host: &String| self.public_host.as_ref().is_some_and(|public| without_default_port(public) == *host);
        if !is_near || headers.keys().any(is_of_proxy) || hosts.iter().any(is_public) {
            return Ok(Caller::External);
        }
        let [host] = hosts.as_slice() else {
            return Err(Refusal::new(RefusalCode::Forbidden, "a request needs one Host"));
        };
        if !self.admits_host(host) {
            let message = format!(
                "the Host {host:?} is not allowed; allowed are loopback names, {}, and the names in ADMIN_API_ALLOWED_HOSTS",
                self.bound
            );
            return Err(Refusal::new(RefusalCode::Forbidden, message));
        }
        let origins = headers.get_all(header::ORIGIN);
        let is_own = |origin: &str| {
            origin.split_once("://").is_some_and(|(_, rest)| without_default_port(rest).eq_ignore_ascii_case(host))
        };
        if !origins.iter().all(|origin| origin.to_str().is_ok_and(is_own)) {
            let message = "requests of other web pages are not allowed: the Origin is not the Host";
            return Err(Refusal::new(RefusalCode::Forbidden, message));
        }
        Ok(Caller::Trusted)
    }

    fn admits_host(&self, host: &str) -> bool {
        let name = without_port(host);
        let is_loopback = |address: IpAddr| address.is_loopback();
        let is_bound = |address: IpAddr| address == self.bound.ip() && !address.is_unspecified();
        let address: Option<IpAddr> = name.trim_start_matches('[').trim_end_matches(']').parse().ok();
        name == "localhost"
            || address.is_some_and(|address| is_loopback(address) || is_bound(address))
            || self.allowed_hosts.contains(name)
            || self.allowed_hosts.contains(host)
    }
}

/// A Host in lower case, without a final dot of the name and without a default port.
fn normalised_host(value: &HeaderValue) -> String {
    let text = value.to_str().unwrap_or_default().to_ascii_lowercase();
    without_default_port(&text).replace(".:", ":").trim_end_matches('.').to_owned()
}

fn without_default_port(host: &str) -> &str {
    host.strip_suffix(":443").or_else(|| host.strip_suffix(":80")).unwrap_or(host)
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

/// Headers that proxies add.
fn is_of_proxy(name: &HeaderName) -> bool {
    matches!(name.as_str(), "forwarded" | "via" | "x-real-ip") || name.as_str().starts_with("x-forwarded-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> CallerRules {
        CallerRules {
            trusted_networks: ["127.0.0.0/8", "::1/128", "10.1.0.0/16"]
                .map(|text| text.parse().expect("a network"))
                .to_vec(),
            allowed_hosts: BTreeSet::from(["agent.lan".to_owned()]),
            public_host: Some("admin.example.com".to_owned()),
            bound: "10.1.0.5:3000".parse().expect("an address"),
        }
    }

    fn classify(peer: &str, headers: &[(&str, &str)]) -> Result<Caller, RefusalCode> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.parse().expect("a name");
            map.append(name, HeaderValue::from_str(value).expect("a value"));
        }
        let peer = Peer::Address(peer.parse().expect("an address"));
        rules().classify(peer, &map).map_err(|refusal| refusal.code)
    }

    #[test]
    fn the_address_of_the_connection_decides_and_no_header_makes_a_caller_trusted() {
        let local = ("host", "localhost:3000");
        for (peer, headers, expected) in [
            ("127.0.0.1", vec![local], Ok(Caller::Trusted)),
            ("::ffff:127.0.0.1", vec![local], Ok(Caller::Trusted)),
            ("::1", vec![("host", "[::1]:3000")], Ok(Caller::Trusted)),
            ("10.1.2.3", vec![("host", "10.1.0.5:3000")], Ok(Caller::Trusted)),
            ("10.1.2.3", vec![("host", "AGENT.lan")], Ok(Caller::Trusted)),
            ("10.2.0.1", vec![local], Ok(Caller::External)),
            ("203.0.113.9", vec![local, ("x-forwarded-for", "127.0.0.1")], Ok(Caller::External)),
            ("127.0.0.1", vec![local, ("x-forwarded-proto", "https")], Ok(Caller::External)),
            ("127.0.0.1", vec![local, ("forwarded", "for=127.0.0.1")], Ok(Caller::External)),
            ("127.0.0.1", vec![local, ("via", "1.1 proxy")], Ok(Caller::External)),
            ("127.0.0.1", vec![local, ("x-real-ip", "127.0.0.1")], Ok(Caller::External)),
            ("127.0.0.1", vec![("host", "admin.example.com")], Ok(Caller::External)),
            ("127.0.0.1", vec![("host", "Admin.Example.com")], Ok(Caller::External)),
            ("127.0.0.1", vec![("host", "admin.example.com.:443")], Ok(Caller::External)),
            ("127.0.0.1", vec![local, ("host", "admin.example.com")], Ok(Caller::External)),
            ("127.0.0.1", vec![local, local], Err(RefusalCode::Forbidden)),
            ("127.0.0.1", vec![], Err(RefusalCode::Forbidden)),
            ("127.0.0.1", vec![("host", "rebound.example:3000")], Err(RefusalCode::Forbidden)),
            ("127.0.0.1", vec![("host", "127.0.0.1.example")], Err(RefusalCode::Forbidden)),
            ("127.0.0.1", vec![local, ("origin", "http://localhost:3000")], Ok(Caller::Trusted)),
            ("127.0.0.1", vec![local, ("origin", "http://localhost:8080")], Err(RefusalCode::Forbidden)),
            ("127.0.0.1", vec![local, ("origin", "https://attacker.example")], Err(RefusalCode::Forbidden)),
            ("127.0.0.1", vec![local, ("origin", "null")], Err(RefusalCode::Forbidden)),
        ] {
            assert_eq!(classify(peer, &headers), expected, "{peer} {headers:?}");
        }
        assert_eq!(rules().classify(Peer::LocalSocket, &HeaderMap::new()), Ok(Caller::Trusted));
    }

    #[test]
    fn without_trusted_networks_every_address_is_external() {
        let rules = CallerRules { trusted_networks: Vec::new(), ..rules() };
        let peer = Peer::Address([127, 0, 0, 1].into());
        assert_eq!(rules.classify(peer, &HeaderMap::new()), Ok(Caller::External));
    }
}

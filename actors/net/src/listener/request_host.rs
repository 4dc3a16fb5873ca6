//! The host that a request names. A page of a browser can reach a local server under a name of its own (DNS rebinding): its requests name
//! that host.

use std::{collections::BTreeSet, net::IpAddr};

use http::{HeaderMap, Uri, header, uri::Authority};

/// The hosts that requests may name.
#[derive(Debug, Clone, Default)]
pub struct HostRule {
    /// Names and addresses without a port, in lower case. IPv6 addresses have no brackets.
    names: BTreeSet<String>,
    accepts_addresses: bool,
}

/// The reason for which a request is refused by its host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostRefusal {
    /// There is more than one header of this name, or it is no text.
    #[error("the request must have one {0} header, of ASCII text")]
    Repeated(&'static str),
    /// The target of the request and its header name different hosts.
    #[error("the request names the host {target:?} in its target and {header:?} in its Host header")]
    Differs {
        /// Authority of the request target.
        target: String,
        /// Value of the header.
        header: String,
    },
    /// There is no host.
    #[error("the request names no host")]
    Missing,
    /// The host is not served.
    #[error("the host {0:?} is not served here")]
    NotServed(String),
}

impl HostRule {
    /// The loopback names and the given ones.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let own = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let names = own.into_iter().chain(names).map(|name| bare(&name).to_ascii_lowercase()).collect();
        Self { names, accepts_addresses: false }
    }

    /// Accepts every IP address too. A page that was loaded from an address has that address as its origin, so that no name was rebound.
    #[must_use]
    pub fn with_addresses(mut self) -> Self {
        self.accepts_addresses = true;
        self
    }

    /// Checks that a request names one host that is served.
    ///
    /// # Errors
    /// When it names none, several, or another one.
    pub fn check(&self, target: &Uri, headers: &HeaderMap) -> Result<(), HostRefusal> {
        let host = named_host(target, headers)?.ok_or(HostRefusal::Missing)?;
        let name = host.parse::<Authority>().map_or_else(|_| host.clone(), |authority| authority.host().to_owned());
        let name = bare(&name).to_ascii_lowercase();
        let is_address = self.accepts_addresses && name.parse::<IpAddr>().is_ok();
        if is_address || self.names.contains(&name) { Ok(()) } else { Err(HostRefusal::NotServed(host)) }
    }

    /// Checks the form alone: at most one Host and one Origin header, and no other host in the target.
    ///
    /// # Errors
    /// When the request names several hosts or origins.
    pub fn check_form(target: &Uri, headers: &HeaderMap) -> Result<(), HostRefusal> {
        named_host(target, headers).map(drop)
    }
}

fn named_host(target: &Uri, headers: &HeaderMap) -> Result<Option<String>, HostRefusal> {
    single(headers, header::ORIGIN, "Origin")?;
    let named = single(headers, header::HOST, "Host")?;
    match (target.authority(), named) {
        (Some(target), Some(named)) if !target.as_str().eq_ignore_ascii_case(&named) => {
            Err(HostRefusal::Differs { target: target.to_string(), header: named })
        }
        (Some(target), None) => Ok(Some(target.to_string())),
        (_, named) => Ok(named),
    }
}

fn single(headers: &HeaderMap, name: header::HeaderName, shown: &'static str) -> Result<Option<String>, HostRefusal> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => {
            value.to_str().map(|text| Some(text.to_owned())).map_err(|_| HostRefusal::Repeated(shown))
        }
        (Some(_), Some(_)) => Err(HostRefusal::Repeated(shown)),
    }
}

/// An IPv6 address without its brackets.
fn bare(name: &str) -> &str {
    name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_one_host_that_is_served() {
        let rule = HostRule::new(["svc.example".to_owned(), "[2001:db8::1]".to_owned()]);
        let with_addresses = rule.clone().with_addresses();
        let not_served = |host: &str| Err(HostRefusal::NotServed(host.to_owned()));
        for (rule, target, hosts, expected) in [
            (&rule, "/mcp", &["localhost:3000"][..], Ok(())),
            (&rule, "/mcp", &["SVC.example"], Ok(())),
            (&rule, "/mcp", &["[::1]:3000"], Ok(())),
            (&rule, "/mcp", &["[2001:db8::1]:3000"], Ok(())),
            (&rule, "/mcp", &["evil.example"], not_served("evil.example")),
            (&rule, "/mcp", &["localhost.evil.example"], not_served("localhost.evil.example")),
            (&rule, "/mcp", &["localhost@evil.example"], not_served("localhost@evil.example")),
            (&rule, "/mcp", &["192.0.2.7:3000"], not_served("192.0.2.7:3000")),
            (&with_addresses, "/metrics", &["192.0.2.7:3000"], Ok(())),
            (&with_addresses, "/metrics", &["evil.example"], not_served("evil.example")),
            (&rule, "/mcp", &[], Err(HostRefusal::Missing)),
            (&rule, "/mcp", &["localhost", "evil.example"], Err(HostRefusal::Repeated("Host"))),
            (&rule, "http://localhost/mcp", &["localhost"], Ok(())),
            (&rule, "http://localhost/mcp", &[], Ok(())),
            (&rule, "http://evil.example/mcp", &[], not_served("evil.example")),
            (
                &rule,
                "http://evil.example/mcp",
                &["localhost"],
                Err(HostRefusal::Differs { target: "evil.example".to_owned(), header: "localhost".to_owned() }),
            ),
        ] {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(header::HOST, host.parse().expect("a value"));
            }
            assert_eq!(rule.check(&target.parse().expect("a target"), &headers), expected, "{target} {hosts:?}");
        }
    }

    #[test]
    fn two_origins_are_refused_everywhere() {
        let mut headers = HeaderMap::new();
        for origin in ["http://localhost", "http://evil.example"] {
            headers.append(header::ORIGIN, origin.parse().expect("a value"));
        }
        assert_eq!(HostRule::check_form(&Uri::from_static("/"), &headers), Err(HostRefusal::Repeated("Origin")));
    }
}

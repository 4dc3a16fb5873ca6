//! Which hosts a server may be sent to by somebody else's document.
//!
//! Origins from our own configuration are trusted. Origins that stand in a DID Document are not: they could name this machine or
//! its private network. They are checked as written and again after name resolution, for every connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// Hosts that documents of others may lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostPolicy {
    /// Public addresses, over https.
    #[default]
    PublicOnly,
    /// Any address, and plain http to loopback names: for development and private networks.
    AllowPrivate,
}

/// A host that must not be contacted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Not a URL of a web server.
    #[error("{0:?} is not an https URL")]
    Url(String),
    /// An address that is not public.
    #[error("{0} is not a public address; SVC_ALLOW_PRIVATE_HOSTS=true allows it")]
    Private(String),
}

impl HostPolicy {
    /// Checks a URL as it is written.
    pub fn check(self, text: &str) -> Result<Url, HostError> {
        let not_a_url = || HostError::Url(text.to_owned());
        let url = Url::parse(text).map_err(|_| not_a_url())?;
        let host = url.host().ok_or_else(not_a_url)?;
        let is_loopback = match &host {
            Host::Domain(name) => *name == "localhost" || name.ends_with(".localhost"),
            Host::Ipv4(address) => address.is_loopback(),
            Host::Ipv6(address) => address.is_loopback(),
        };
        let is_plain_allowed = self == Self::AllowPrivate && is_loopback;
        if url.scheme() != "https" && !(url.scheme() == "http" && is_plain_allowed) {
            return Err(not_a_url());
        }
        let address = match &host {
            Host::Domain(_) if is_loopback => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            Host::Domain(_) => None,
            Host::Ipv4(address) => Some(IpAddr::V4(*address)),
            Host::Ipv6(address) => Some(IpAddr::V6(*address)),
        };
        match address {
            Some(address) if !self.admits(address) => Err(HostError::Private(host.to_string())),
            Some(_) | None => Ok(url),
        }
    }

    /// Whether an address may be connected to.
    pub fn admits(self, address: IpAddr) -> bool {
        self == Self::AllowPrivate || is_public(address)
    }

    /// A client that resolves names under this policy and follows no redirect.
    pub fn client(self) -> reqwest::ClientBuilder {
        let builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy();
        match self {
            Self::AllowPrivate => builder,
            Self::PublicOnly => builder.dns_resolver(std::sync::Arc::new(PublicNames)),
        }
    }
}

/// Resolves names, and forgets every address that is not public.
struct PublicNames;

impl Resolve for PublicNames {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = found.filter(|address| is_public(address.ip())).collect();
            if public.is_empty() {
                return Err(Box::new(HostError::Private(host)) as Box<dyn std::error::Error + Send + Sync>);
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => address.to_ipv4_mapped().map_or_else(|| is_public_v6(address), is_public_v4),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    let is_shared = first == 100 && (64..128).contains(&second);
    let is_benchmark = first == 198 && (18..20).contains(&second);
    let is_protocol = (first, second, third) == (192, 0, 0);
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || first == 0
        || first >= 240
        || is_shared
        || is_benchmark
        || is_protocol)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    let is_documentation = (first, second) == (0x2001, 0xdb8);
    // 64:ff9b::/96 and 2002::/16 carry an IPv4 address that would have to be judged by itself.
    let carries_v4 = (first, second) == (0x64, 0xff9b) || first == 0x2002;
    let is_global_unicast = first & 0xe000 == 0x2000;
    is_global_unicast && !is_documentation && !carries_v4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_hosts_over_https_pass_by_default() {
        for (url, by_default, for_development) in [
            ("https://agent.example.org", true, true),
            ("https://8.8.8.8:8443/x", true, true),
            ("http://agent.example.org", false, false),
            ("https://127.0.0.1", false, true),
            ("http://127.0.0.1:3000", false, true),
            ("http://localhost:3000", false, true),
            ("https://localhost", false, true),
            ("https://10.1.2.3", false, true),
            ("http://10.1.2.3", false, false),
            ("https://169.254.169.254/latest", false, true),
            ("https://100.64.0.1", false, true),
            ("https://[::1]", false, true),
            ("https://[fd00::1]", false, true),
            ("https://[fe80::1]", false, true),
            ("https://[::ffff:127.0.0.1]", false, true),
            ("https://[2606:4700::1111]", true, true),
            ("https://0.0.0.0", false, true),
            ("https://224.0.0.1", false, true),
            ("https://2130706433", false, true),
            ("ftp://example.org", false, false),
            ("example.org", false, false),
        ] {
            assert_eq!(HostPolicy::PublicOnly.check(url).is_ok(), by_default, "{url}");
            assert_eq!(HostPolicy::AllowPrivate.check(url).is_ok(), for_development, "{url}");
        }
    }

    #[tokio::test]
    async fn a_name_that_resolves_to_this_machine_is_refused_at_the_connection() {
        use std::str::FromStr;
        let name = Name::from_str("localhost").expect("a name");
        let error = PublicNames.resolve(name).await.err().expect("refused");
        assert!(error.to_string().contains("not a public address"), "{error}");
    }
}

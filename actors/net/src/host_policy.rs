//! The hosts that untrusted URLs may lead to.
//!
//! Origins in the configuration are trusted. Origins in a DID Document are not: they could name this machine or its private
//! network. They are checked as written, and again after name resolution for every connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use crate::client_tls::http_client_builder;

/// Hosts that untrusted URLs may lead to.
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
    /// The text is no URL of a web server.
    #[error("{0:?} is not an https URL")]
    NotHttpsUrl(String),
    /// The address is not public.
    #[error("{0} is not a public address; SVC_ALLOW_PRIVATE_HOSTS=true allows it")]
    PrivateAddress(String),
    /// The name is none of public DNS.
    #[error("{0:?} is not a public host name; SVC_ALLOW_PRIVATE_HOSTS=true allows it")]
    PrivateName(String),
}

/// Domains outside of public DNS: RFC 6761, 6762 with its appendix G, 7686, 8375, 9476, and ICANN's `internal`. `arpa` is the
/// infrastructure of DNS and contains `home.arpa`.
const SPECIAL_USE_DOMAINS: [&str; 14] = [
    "localhost",
    "local",
    "internal",
    "arpa",
    "test",
    "invalid",
    "onion",
    "alt",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "localdomain",
];

impl HostPolicy {
    /// Parses and checks a URL, without name resolution.
    ///
    /// # Errors
    /// When the text is no https URL without credentials, and when its host is not public.
    pub fn check_url(self, text: &str) -> Result<Url, HostError> {
        let not_a_url = || HostError::NotHttpsUrl(text.to_owned());
        let url = Url::parse(text).map_err(|_| not_a_url())?;
        let host = url.host().ok_or_else(not_a_url)?;
        let has_credentials = !url.username().is_empty() || url.password().is_some();
        if has_credentials || url.scheme() != "https" && url.scheme() != Self::AllowPrivate.scheme(&host) {
            return Err(not_a_url());
        }
        let is_admitted = match &host {
            Host::Domain(name) if self == Self::PublicOnly && !is_loopback(&host) && !is_public_name(name) => {
                return Err(HostError::PrivateName((*name).to_owned()));
            }
            Host::Domain(_) => self == Self::AllowPrivate || !is_loopback(&host),
            Host::Ipv4(address) => self.allows_address(IpAddr::V4(*address)),
            Host::Ipv6(address) => self.allows_address(IpAddr::V6(*address)),
        };
        if is_admitted { Ok(url) } else { Err(HostError::PrivateAddress(host.to_string())) }
    }

    /// Returns the scheme for a host without a given scheme: `http` for this machine during development, `https` otherwise.
    pub(crate) fn scheme<S: AsRef<str>>(self, host: &Host<S>) -> &'static str {
        if self == Self::AllowPrivate && is_loopback(host) { "http" } else { "https" }
    }

    /// Whether a connection to the address is allowed.
    pub(crate) fn allows_address(self, address: IpAddr) -> bool {
        self == Self::AllowPrivate || is_public(address)
    }

    /// Makes an HTTP client for untrusted servers: it resolves names under this policy, follows no redirect, decodes nothing, and keeps no
    /// connection. The URL of each request is still to be checked.
    ///
    /// # Errors
    /// When the client cannot be built.
    pub fn client(self) -> Result<reqwest::Client, reqwest::Error> {
        // A decoded body could be much longer than the one that was sent; features of other crates could enable decoders.
        let client = self.client_builder().no_gzip().no_brotli().no_zstd().no_deflate().pool_max_idle_per_host(0);
        client.build()
    }

    /// Returns a client builder that resolves names under this policy and follows no redirect.
    pub(crate) fn client_builder(self) -> reqwest::ClientBuilder {
        let builder = http_client_builder().redirect(reqwest::redirect::Policy::none()).no_proxy();
        match self {
            Self::AllowPrivate => builder.dns_resolver(std::sync::Arc::new(AnyResolver)),
            Self::PublicOnly => builder.dns_resolver(std::sync::Arc::new(PublicDnsResolver)),
        }
    }
}

/// Resolves names and drops every address that is not public.
struct PublicDnsResolver;

impl Resolve for PublicDnsResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        Box::pin(async move {
            let found = lookup(&host, 0).await?.into_iter();
            let public: Vec<SocketAddr> = found.filter(|address| is_public(address.ip())).collect();
            if public.is_empty() {
                return Err(Box::new(HostError::PrivateAddress(host)) as Box<dyn std::error::Error + Send + Sync>);
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

/// Resolves names.
struct AnyResolver;

impl Resolve for AnyResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        Box::pin(async move { Ok(Box::new(lookup(&host, 0).await?.into_iter()) as Addrs) })
    }
}

/// The addresses of a host. `localhost` and every name under it are this machine, which no resolver is asked about (RFC 6761, 6.3).
pub(crate) async fn lookup(host: &str, port: u16) -> std::io::Result<Vec<SocketAddr>> {
    if is_loopback(&Host::Domain(host)) {
        let own = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
        return Ok(own.map(|address| SocketAddr::new(address, port)).into());
    }
    Ok(tokio::net::lookup_host((host, port)).await?.collect())
}

pub(crate) fn is_loopback<S: AsRef<str>>(host: &Host<S>) -> bool {
    match host {
        Host::Domain(name) => name.as_ref() == "localhost" || name.as_ref().ends_with(".localhost"),
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

/// A resolver completes a name without a dot from its search list. A name with a final dot is a second spelling of the same host,
/// which comparisons of names miss.
pub(crate) fn is_public_name(name: &str) -> bool {
    let is_below = |special: &str| name.strip_suffix(special).is_some_and(|rest| rest.ends_with('.'));
    name.contains('.') && !name.ends_with('.') && !SPECIAL_USE_DOMAINS.iter().any(|special| is_below(special))
}

pub(crate) fn is_public(address: IpAddr) -> bool {
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
    // A 6to4 relay forwards to an IPv6 address that this policy has not checked.
    let is_relay = (first, second, third) == (192, 88, 99);
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || first == 0
        || first >= 240
        || is_shared
        || is_benchmark
        || is_protocol
        || is_relay)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    // All other ranges are not routed, not unicast, or local: ::/8 with 64:ff9b::/96, 5f00::/16, fc00::/7, fe80::/10, ff00::/8.
    let is_global_unicast = first & 0xe000 == 0x2000;
    let is_documentation = (first, second) == (0x2001, 0xdb8) || first == 0x3fff && second < 0x1000;
    // 2001::/23: Teredo (2001::/32), benchmarks, ORCHID (2001:10::/28, 2001:20::/28). It contains no web servers.
    let is_protocol = first == 0x2001 && second < 0x200;
    // It contains an IPv4 address, which this policy would have to check too.
    let is_6to4 = first == 0x2002;
    is_global_unicast && !is_documentation && !is_protocol && !is_6to4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_under_localhost_are_this_machine_without_a_resolver() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        for name in ["localhost", "agent.localhost", "a.b.localhost"] {
            let found = lookup(name, 7).await.expect("addresses");
            assert_eq!(found, ["127.0.0.1:7".parse().expect("an address"), "[::1]:7".parse().expect("an address")]);
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let _ = stream.read(&mut [0; 1024]).await;
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").await;
        });
        let client = HostPolicy::AllowPrivate.client_builder().build().expect("a client");
        let answer = client.get(format!("http://no-such-name.localhost:{port}/")).send().await.expect("an answer");
        assert_eq!(answer.status(), 204);
    }

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
            ("https://user@agent.example.org", false, false),
            ("https://user:word@agent.example.org", false, false),
            ("http://sub.localhost:3000", false, true),
            ("https://intranet", false, true),
            ("https://intranet./x", false, true),
            ("https://example.org.", false, true),
            ("https://localhost.", false, true),
            ("http://localhost.", false, false),
            ("https://printer.local", false, true),
            ("https://PRINTER.LOCAL", false, true),
            ("https://metadata.google.internal", false, true),
            ("https://router.home.arpa", false, true),
            ("https://1.0.0.127.in-addr.arpa", false, true),
            ("https://x.test", false, true),
            ("https://x.onion", false, true),
            ("https://nas.lan", false, true),
            ("https://local.example.org", true, true),
            ("https://notlocal", false, true),
            ("https://example.notlocal", true, true),
            ("https://bücher.example", true, true),
            ("https://127.1", false, true),
            ("https://0x7f.0.0.1", false, true),
            ("https://１２７.0.0.1", false, true),
            ("https://127.0.0.1.", false, true),
        ] {
            assert_eq!(HostPolicy::PublicOnly.check_url(url).is_ok(), by_default, "{url}");
            assert_eq!(HostPolicy::AllowPrivate.check_url(url).is_ok(), for_development, "{url}");
        }
    }

    #[test]
    fn addresses_with_a_special_purpose_are_not_public() {
        for (address, expected) in [
            ("8.8.8.8", true),
            ("192.88.98.1", true),
            ("192.88.99.1", false),
            ("192.0.0.8", false),
            ("192.0.2.1", false),
            ("198.51.100.1", false),
            ("203.0.113.1", false),
            ("172.16.0.1", false),
            ("192.168.1.1", false),
            ("198.19.255.255", false),
            ("255.255.255.255", false),
            ("2606:4700::1111", true),
            ("2001:4860:4860::8888", true),
            ("2001:200::1", true),
            ("2001::1", false),
            ("2001:0:4136:e378:8000:63bf:3fff:fdd2", false),
            ("2001:2::1", false),
            ("2001:10::1", false),
            ("2001:20::1", false),
            ("2001:db8::1", false),
            ("2002:7f00:1::", false),
            ("3fff::1", false),
            ("3fff:fff::1", false),
            ("3fff:1000::1", true),
            ("5f00::1", false),
            ("64:ff9b::7f00:1", false),
            ("64:ff9b:1::1", false),
            ("100::1", false),
            ("::7f00:1", false),
            ("::ffff:8.8.8.8", true),
            ("::ffff:10.0.0.1", false),
            ("::", false),
            ("fec0::1", false),
            ("ff02::1", false),
        ] {
            let parsed: IpAddr = address.parse().expect("an address");
            assert_eq!(HostPolicy::PublicOnly.allows_address(parsed), expected, "{address}");
            assert!(HostPolicy::AllowPrivate.allows_address(parsed), "{address}");
        }
    }

    #[tokio::test]
    async fn a_name_of_this_machine_is_refused_by_name_resolution() {
        use std::str::FromStr;
        let name = Name::from_str("localhost").expect("a name");
        let error = PublicDnsResolver.resolve(name).await.err().expect("refused");
        assert!(error.to_string().contains("not a public address"), "{error}");
    }
}

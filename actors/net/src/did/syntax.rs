//! Syntax of DIDs: the method, and the location of the document.

use didwebvh_rs::url::WebVHURL;
use percent_encoding::percent_decode_str;
use url::Host;

use super::error::DidError;
use crate::{excerpt::excerpt, host_policy::HostPolicy};

/// Longest DID URL.
const MAX_DID_LENGTH: usize = 2048;
/// Characters of a SCID: a SHA-256 multihash in base58btc.
const SCID_LENGTH: usize = 46;

/// A DID with a known location of its document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResolvableDid {
    /// The DID, without query and fragment.
    pub text: String,
    /// The method.
    pub method: DidMethod,
    /// URL of the directory of its files, with a final slash.
    pub base_url: String,
}

/// A method that the resolver supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DidMethod {
    Web,
    WebVh { scid: String },
}

impl DidMethod {
    /// Returns the method as a bounded label.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Web => "web",
            Self::WebVh { .. } => "webvh",
        }
    }
}

impl ResolvableDid {
    /// Parses a DID, or the DID of a DID URL.
    pub fn parse(text: &str, policy: HostPolicy) -> Result<Self, DidError> {
        let wrong = |reason: &str| DidError::InvalidDid { did: excerpt(text), reason: reason.to_owned() };
        if text.len() > MAX_DID_LENGTH {
            return Err(wrong(&format!("it is longer than {MAX_DID_LENGTH} bytes")));
        }
        let bare = text.split(['#', '?']).next().unwrap_or(text);
        let (method, id) = bare
            .strip_prefix("did:")
            .and_then(|rest| rest.split_once(':'))
            .ok_or_else(|| wrong("it does not begin with did:<method>:"))?;
        if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
            return Err(wrong("its method is not made of a-z and 0-9"));
        }
        if id.contains('/') {
            return Err(wrong("it has a path, which names a resource and not a document"));
        }
        if !is_identifier(id) {
            return Err(wrong("its identifier is not made of letters, digits, '.', '-', '_', ':' and %XX"));
        }
        let (method, directory) = match method {
            "web" => (DidMethod::Web, parse_location(id, policy).map_err(wrong)?.1),
            "webvh" => {
                let (scid, location) = id.split_once(':').ok_or_else(|| wrong("it has no host after its SCID"))?;
                if !is_scid(scid) {
                    return Err(wrong("its SCID is not 46 characters of base58btc"));
                }
                let (host, directory) = parse_location(location, policy).map_err(wrong)?;
                if !matches!(host, Host::Domain(_)) {
                    return Err(wrong("its host is an address; did:webvh takes names only"));
                }
                let read = WebVHURL::parse_did_url(bare).map_err(|error| wrong(&error.to_string()))?;
                if read.to_did_base() != bare {
                    return Err(wrong(
                        "its path is one that did:webvh gives another meaning, or its port is not after %3A",
                    ));
                }
                (DidMethod::WebVh { scid: scid.to_owned() }, directory)
            }
            other => return Err(DidError::MethodNotSupported { method: format!("did:{}", excerpt(other)) }),
        };
        Ok(Self { text: bare.to_owned(), method, base_url: directory })
    }

    /// Returns the URL of a file of the DID.
    pub fn file_url(&self, name: &str) -> String {
        format!("{}{name}", self.base_url)
    }
}

/// `method-specific-id` of DID Core: segments of letters, digits, `.`, `-`, `_` and percent-encoded bytes; the last segment is not empty.
fn is_identifier(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
    let mut parts = id.split('%');
    let is_start = parts.next().is_some_and(|start| start.bytes().all(is_plain));
    let is_rest = parts.all(|part| {
        part.get(..2).is_some_and(|hex| hex.bytes().all(|digit| digit.is_ascii_hexdigit()))
            && part.get(2..).is_some_and(|rest| rest.bytes().all(is_plain))
    });
    is_start && is_rest && !id.is_empty() && !id.ends_with(':')
}

fn is_scid(text: &str) -> bool {
    let is_base58 = |byte: u8| byte.is_ascii_alphanumeric() && !b"0OIl".contains(&byte);
    text.len() == SCID_LENGTH && text.bytes().all(is_base58)
}

/// Parses a location into host and directory URL. A colon separates directories, `%3A` precedes the port, and a location without
/// a path means `.well-known`.
fn parse_location(location: &str, policy: HostPolicy) -> Result<(Host<String>, String), &'static str> {
    let (authority, path) = location.split_once(':').map_or((location, None), |(host, path)| (host, Some(path)));
    let (host, port) = parse_authority(authority)?;
    if !path.unwrap_or("x").split(':').all(is_directory_name) {
        return Err("its path has an empty segment, a dot segment, or a separator in percent encoding");
    }
    let path = path.map_or_else(|| ".well-known".to_owned(), |path| path.replace(':', "/"));
    let scheme = policy.scheme(&host);
    let url = format!("{scheme}://{host}{port}/{path}/");
    Ok((host, url))
}

/// Parses an authority into the host, and the port with its colon.
fn parse_authority(authority: &str) -> Result<(Host<String>, String), &'static str> {
    // Percent encoding is for the colon of the port and for letters outside ASCII; other uses would make a second spelling.
    let is_needed = |escape: &str| escape.get(..2).is_some_and(|hex| hex.eq_ignore_ascii_case("3a") || hex >= "8");
    if !authority.split('%').skip(1).all(is_needed) {
        return Err("its host has percent encoding where none is needed");
    }
    let decoded = percent_decode_str(authority).decode_utf8().map_err(|_| "its host is not UTF-8")?;
    let (name, port) = match decoded.split_once(':') {
        None => (&*decoded, String::new()),
        Some((name, port)) => {
            let is_number = !port.starts_with('0') && port.bytes().all(|digit| digit.is_ascii_digit());
            if !is_number || port.parse::<u16>().is_err() {
                return Err("its port is not a number from 1 to 65535");
            }
            (name, format!(":{port}"))
        }
    };
    let host = Host::parse(name).map_err(|_| "its host is not a host name")?;
    Ok((host, port))
}

/// Whether every server and every client reads the segment as one directory.
fn is_directory_name(segment: &str) -> bool {
    let decoded: Vec<u8> = percent_decode_str(segment).collect();
    let is_plain = |byte: &u8| *byte >= b' ' && *byte != 0x7f && !b"/\\".contains(byte);
    !matches!(&decoded[..], b"" | b"." | b"..") && decoded.iter().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCID: &str = "QmTYXE8TR3uLUWWrefCtFCLhdFWDBk7Eyq5DQRmiHFVAEL";

    fn document(did: &str, policy: HostPolicy) -> Result<String, DidError> {
        let did = ResolvableDid::parse(did, policy)?;
        Ok(did.file_url(if did.method == DidMethod::Web { "did.json" } else { "did.jsonl" }))
    }

    #[test]
    fn a_did_says_where_its_document_is() {
        let (public, development) = (HostPolicy::PublicOnly, HostPolicy::AllowPrivate);
        for (policy, location, directory) in [
            (public, "example.org", "https://example.org/.well-known/"),
            (public, "EXAMPLE.org", "https://example.org/.well-known/"),
            (public, "issuer.example.org", "https://issuer.example.org/.well-known/"),
            (public, "example.org%3A8443", "https://example.org:8443/.well-known/"),
            (public, "example.org:user:alice", "https://example.org/user/alice/"),
            (public, "example.org%3A3000:dids:issuer", "https://example.org:3000/dids/issuer/"),
            (public, "example.org:%E7%94%A8%E6%88%B7", "https://example.org/%E7%94%A8%E6%88%B7/"),
            (public, "jp%E7%B4%8D%E8%B1%86.%E4%BE%8B.jp", "https://xn--jp-cd2fp15c.xn--fsq.jp/.well-known/"),
            (public, "localhost%3A80", "https://localhost:80/.well-known/"),
            (development, "localhost%3A80", "http://localhost:80/.well-known/"),
            (development, "agent.localhost%3A80:x", "http://agent.localhost:80/x/"),
            (development, "example.org", "https://example.org/.well-known/"),
        ] {
            let web = format!("did:web:{location}");
            assert_eq!(document(&web, policy).expect("web"), format!("{directory}did.json"), "{location}");
            for suffix in ["#key-1", "?versionId=1", "?a=b#c/d?e", "#"] {
                assert_eq!(ResolvableDid::parse(&format!("{web}{suffix}"), policy).expect("web").text, web);
            }
            let webvh = format!("did:webvh:{SCID}:{location}");
            assert_eq!(document(&webvh, policy).expect("webvh"), format!("{directory}did.jsonl"), "{location}");
        }
        let addressed = document("did:web:127.0.0.1%3A3000", development).expect("an address");
        assert_eq!(addressed, "http://127.0.0.1:3000/.well-known/did.json");
    }

    #[test]
    fn both_methods_refuse_an_invalid_location() {
        for location in [
            "",
            ":",
            "example.org:",
            "example.org::x",
            ":example.org",
            "example.org/x",
            "example.org%2Fx",
            "user%40example.org",
            "user@example.org",
            "%65xample.org",
            "example.org%00",
            "example.org%FF",
            "example.org%3A",
            "example.org%3A0",
            "example.org%3A080",
            "example.org%3A65536",
            "example.org%3A80%3A81",
            "example.org%3Ax",
            "%3A80",
            "example%2Eorg",
            "[::1]",
            "%5B%3A%3A1%5D",
            "exa mple.org",
            "bücher.example",
            "example.org:..",
            "example.org:%2e%2E:x",
            "example.org:.:x",
            "example.org:a%2Fb",
            "example.org:a%5cb",
            "example.org:a%0ab",
            "example.org:%",
            "example.org:%4",
            "example.org:%4x",
            "example.org:a%",
            "example.org:a b",
            "1.2.3.4.5",
            "999.1.1.1",
        ] {
            for did in [format!("did:web:{location}"), format!("did:webvh:{SCID}:{location}")] {
                let error = ResolvableDid::parse(&did, HostPolicy::AllowPrivate).expect_err(&did);
                assert_eq!(error.code(), "did_syntax", "{did}: {error}");
                assert!(error.to_string().contains(&format!("{did:?}")), "{error}");
            }
        }
    }

    #[test]
    fn a_syntax_error_and_an_unsupported_method_have_different_codes() {
        let long = format!("did:web:{}", "x".repeat(MAX_DID_LENGTH));
        let short_scid = format!("did:webvh:{}:example.org", &SCID[1..]);
        let wrong_scid = format!("did:webvh:{}0:example.org", &SCID[1..]);
        let port = format!("did:webvh:{SCID}:example.org%3a80");
        let alias = format!("did:webvh:{SCID}:example.org:.well-known");
        let whois = format!("did:webvh:{SCID}:example.org:whois");
        let address = format!("did:webvh:{SCID}:127.0.0.1");
        let other_address = format!("did:webvh:{SCID}:0x7f.1");
        for (did, code) in [
            ("", "did_syntax"),
            ("did:", "did_syntax"),
            ("did:web", "did_syntax"),
            ("did::x", "did_syntax"),
            ("web:x", "did_syntax"),
            ("DID:web:x", "did_syntax"),
            ("did:Web:x", "did_syntax"),
            (" did:web:x", "did_syntax"),
            ("did:web:x ", "did_syntax"),
            ("did:key:z6Mk x", "did_syntax"),
            ("did:key:", "did_syntax"),
            ("did:webvh:example.org", "did_syntax"),
            ("did:webvh:{SCID}:example.org", "did_syntax"),
            (&long, "did_syntax"),
            (&short_scid, "did_syntax"),
            (&wrong_scid, "did_syntax"),
            (&port, "did_syntax"),
            (&alias, "did_syntax"),
            (&whois, "did_syntax"),
            (&address, "did_syntax"),
            (&other_address, "did_syntax"),
            ("did:example:1", "did_method_not_supported"),
            ("did:key:z6MkjchhfUsD6mmvni8mCdXHw216Xrm9bQe2mBH1P5RDjVJG", "did_method_not_supported"),
        ] {
            let error = ResolvableDid::parse(did, HostPolicy::AllowPrivate).expect_err(did);
            assert_eq!(error.code(), code, "{did}: {error}");
            assert!(error.to_string().len() < 600, "{error}");
        }
    }
}

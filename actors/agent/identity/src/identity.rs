//! The DID of an agent: its method, and the location that its public URL gives.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};
use url::Url;

/// The method of a DID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DidMethod {
    /// `did:webvh`: a document with a log of its versions.
    WebVh,
    /// `did:web`: a document.
    Web,
}

impl DidMethod {
    /// Returns the name in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WebVh => "webvh",
            Self::Web => "web",
        }
    }

    /// Returns the method with a name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::WebVh, Self::Web].into_iter().find(|method| method.as_str() == name)
    }
}

/// The place of a DID's files: a public URL, as a location in a DID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicLocation {
    base: String,
    path: String,
    did_location: String,
}

/// A public URL that gives no location.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidLocation(String);

/// Characters of a path segment that a DID has as they are.
const DID_CHARACTERS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'_');

impl PublicLocation {
    /// Takes the public URL of an agent. The schemes and hosts that are allowed are the caller's to check.
    pub fn parse(text: &str) -> Result<Self, InvalidLocation> {
        let refused = |reason: &str| InvalidLocation(format!("{text:?} {reason}"));
        let url = Url::parse(text).map_err(|error| refused(&format!("is no URL: {error}")))?;
        let host = url.host_str().ok_or_else(|| refused("has no host"))?;
        if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() || url.password().is_some() {
            return Err(refused("has more than a scheme, a host, a port and a path"));
        }
        if matches!(url.host(), Some(url::Host::Ipv6(_))) {
            return Err(refused("has an IPv6 address, which no DID can name"));
        }
        let mut path = String::new();
        let mut did_location = host.to_owned();
        if let Some(port) = url.port() {
            did_location.push_str(&format!("%3A{port}"));
        }
        for segment in url.path().trim_end_matches('/').split('/').skip(1) {
            let plain = percent_encoding::percent_decode_str(segment).collect::<Vec<u8>>();
            let is_separating = |byte: &u8| matches!(byte, b'/' | b'\\') || byte.is_ascii_control();
            if plain.is_empty() || plain == b".well-known" || plain.iter().any(is_separating) {
                return Err(refused("has an empty segment, .well-known, or an escaped separator in its path"));
            }
            // Resolvers request the segments as the DID writes them.
            let encoded = percent_encoding::percent_encode(&plain, DID_CHARACTERS).to_string();
            path.push_str(&format!("/{encoded}"));
            did_location.push_str(&format!(":{encoded}"));
        }
        let origin = url.origin().ascii_serialization();
        Ok(Self { base: format!("{origin}{path}"), path, did_location })
    }

    /// Returns the public URL, without a slash at its end.
    pub fn base_url(&self) -> &str {
        &self.base
    }

    /// Returns the location as DIDs contain it.
    pub fn did_location(&self) -> &str {
        &self.did_location
    }

    /// Returns the path of a URL below the public one. `path` begins with a slash.
    pub fn url_path(&self, path: &str) -> String {
        format!("{}{path}", self.path)
    }

    /// Returns the path of a file of the DID, such as `did.jsonl`.
    pub fn file_path(&self, file: &str) -> String {
        if self.path.is_empty() { format!("/.well-known/{file}") } else { format!("{}/{file}", self.path) }
    }
}

impl fmt::Display for PublicLocation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_url_gives_the_location_of_a_did_and_the_paths_of_its_files() {
        for (text, location, path) in [
            ("https://agent.example.com", "agent.example.com", "/.well-known/did.json"),
            ("https://agent.example.com/", "agent.example.com", "/.well-known/did.json"),
            ("https://Agent.example.com:443/a/b/", "agent.example.com:a:b", "/a/b/did.json"),
            ("http://127.0.0.1:3001", "127.0.0.1%3A3001", "/.well-known/did.json"),
            ("https://agent.example.com:8443/a", "agent.example.com%3A8443:a", "/a/did.json"),
            ("https://agent.example.com/a%20b", "agent.example.com:a%20b", "/a%20b/did.json"),
            ("https://agent.example.com/~alice/:x", "agent.example.com:%7Ealice:%3Ax", "/%7Ealice/%3Ax/did.json"),
            ("https://agent.example.com/%c3%a9", "agent.example.com:%C3%A9", "/%C3%A9/did.json"),
        ] {
            let parsed = PublicLocation::parse(text).expect("a location");
            assert_eq!((parsed.did_location(), parsed.file_path("did.json").as_str()), (location, path), "{text}");
        }
        for text in [
            "agent.example.com",
            "https://",
            "https://a@agent.example.com",
            "https://agent.example.com/?a",
            "https://agent.example.com/#a",
            "https://[::1]:3001",
            "https://agent.example.com/a//b",
            "https://agent.example.com/.well-known",
            "https://agent.example.com/a%2Fb",
            "https://agent.example.com/a%0Ab",
        ] {
            assert!(PublicLocation::parse(text).is_err(), "{text}");
        }
    }
}

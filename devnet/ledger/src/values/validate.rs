//! Syntax checks that the modules share.

use std::sync::LazyLock;

use regex::Regex;
use svc_wire::{
    address::Address,
    syntax::{DID_PATTERN, DIGEST_SRI_PATTERN, MAX_LANGUAGE_BYTES},
};
use url::Url;

use crate::{chain::ChainConfig, error::LedgerError};

// Both patterns are constants; a unit test below compiles and uses them.
static DID: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(DID_PATTERN).ok());
static DIGEST_SRI: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(DIGEST_SRI_PATTERN).ok());

fn matches(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

pub fn is_did(text: &str) -> bool {
    matches(&DID, text)
}

pub fn is_digest_sri(text: &str) -> bool {
    matches(&DIGEST_SRI, text)
}

/// The digest of a document, as the chain takes it: an integrity text, and any text from the second generation on.
pub fn is_document_digest(chain: &ChainConfig, text: &str) -> bool {
    if chain.has_window_rules() { !text.is_empty() } else { is_digest_sri(text) }
}

/// An absolute http or https URL with a host.
pub fn is_http_url(text: &str) -> bool {
    // The url crate repairs some malformed URLs as a browser does; the chain's parser refuses them.
    let has_authority = ["http://", "https://"].iter().any(|scheme| {
        let start = text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
        start && !text[scheme.len()..].starts_with(['/', '\\'])
    });
    has_authority && is_plain(text) && Url::parse(text).is_ok_and(|url| url.has_host())
}

fn is_plain(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() || c == ' ')
}

/// A well-formed BCP 47 tag; unregistered subtags are allowed.
pub fn is_language(text: &str) -> bool {
    oxilangtag::LanguageTag::parse(text).is_ok()
}

/// A language tag within the length limit of corporations and ecosystems.
pub fn is_short_language(text: &str) -> bool {
    text.len() <= MAX_LANGUAGE_BYTES && is_language(text)
}

/// An absolute URI with any scheme.
pub fn is_uri(text: &str) -> bool {
    is_plain(text) && Url::parse(text).is_ok()
}

/// A denom in the bank module's syntax.
pub fn is_denom(text: &str) -> bool {
    let tail = |c: char| c.is_ascii_alphanumeric() || "/:._-".contains(c);
    (3..=128).contains(&text.len()) && text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(tail)
}

/// An ISO 4217 code.
pub fn is_currency(text: &str) -> bool {
    iso_currency::Currency::from_code(text).is_some()
}

/// Checks an account address of this chain; fails with sdk/7.
pub fn address(prefix: &str, field: &str, text: &str) -> Result<(), LedgerError> {
    Address::parse(prefix, text)
        .map(|_| ())
        .map_err(|error| LedgerError::sdk(7, format!("invalid {field} address: {error}")))
}

/// Checks an account address; fails with an unregistered error, as the modules pp, de and di do.
pub fn plain_address(prefix: &str, field: &str, text: &str) -> Result<(), LedgerError> {
    Address::parse(prefix, text)
        .map(|_| ())
        .map_err(|error| LedgerError::unregistered(format!("invalid {field} address: {error}")))
}

/// Fails with `codespace`, `code` and `text` unless `holds`.
pub fn ensure(
    holds: bool,
    codespace: &'static str,
    code: u32,
    text: impl FnOnce() -> String,
) -> Result<(), LedgerError> {
    if holds { Ok(()) } else { Err(LedgerError::new(codespace, code, text())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assets_are_denoms_or_currencies() {
        assert!(
            is_denom("usvc") && is_denom("ibc/27394FB0") && !is_denom("us") && !is_denom("1usvc") && !is_denom("u svc")
        );
        assert!(is_currency("EUR") && !is_currency("eur") && !is_currency("XXQ"));
        assert!(is_uri("urn:policy:1") && !is_uri("policy"));
    }

    #[test]
    fn text_syntaxes_are_the_chain_s() {
        for (text, expected) in [
            ("did:web:a.example", true),
            ("did:webvh:Qm:a.example:x%20y#key?q", true),
            ("did:Web:a", false),
            ("did:web:", false),
            ("did:web:a b", false),
            ("web:a", false),
        ] {
            assert_eq!(is_did(text), expected, "{text}");
        }
        assert!(is_digest_sri("sha384-AAEC/w+=="));
        assert!(!is_digest_sri("sha1-AAEC"));
        assert!(is_http_url("https://a.example/x") && !is_http_url("ftp://a.example") && !is_http_url("/x"));
        for repaired in [
            "https:a.example/x",
            "https:///a.example",
            "http:\\\\a.example",
            " https://a.example",
            "https://a.exa\nmple",
        ] {
            assert!(!is_http_url(repaired), "{repaired:?}");
        }
        assert!(is_short_language("en-US") && !is_short_language("en_US") && !is_short_language(""));
        assert!(is_language("de-CH-1901-x-private1") && !is_short_language("de-CH-1901-x-private1"));
    }
}

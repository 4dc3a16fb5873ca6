//! Feeds random tokens and key sets to the verification of access tokens. It must not panic, and it accepts nothing: no input has a
//! signature.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use svc::principals::{OauthConfig, verify_access_token};
use svc_net::host_policy::HostPolicy;

static CONFIG: LazyLock<OauthConfig> = LazyLock::new(|| OauthConfig {
    issuer: "https://issuer.example".parse().expect("a URL"),
    audience: "https://svc.example/mcp".parse().expect("a URL"),
    hosts: HostPolicy::PublicOnly,
});

/// A key whose private part is unknown: that of a vector of the EdDSA specifications.
const KEYS: &str = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    assert!(verify_access_token(&text, KEYS.as_bytes(), &CONFIG, 1_800_000_000).is_err());
    // With a head in front, more of the rest is read.
    let token = format!("eyJhbGciOiJFZERTQSIsImtpZCI6ImsifQ.{text}");
    assert!(verify_access_token(&token, KEYS.as_bytes(), &CONFIG, 1_800_000_000).is_err());
    let head = "eyJhbGciOiJSUzI1NiJ9.e30.AAAA";
    assert!(verify_access_token(head, data, &CONFIG, 1_800_000_000).is_err());
});

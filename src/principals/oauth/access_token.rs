//! The checks of an access token (RFC 9068). Pure.
//!
//! Tokens of agents have a reader of their own in `svc_trust::access`, which is stricter: keys come from the issuer's own key set here, and
//! from documents of strangers there. A test shows the difference.

use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use serde::Deserialize;

use super::{OauthConfig, issuer_text, key_set::IssuerKey};
use crate::principals::TokenRejection;

/// Longest token, in bytes.
const MAX_TOKEN_BYTES: usize = 16 * 1024;
/// Clocks may differ by so many seconds.
const LEEWAY: i64 = 30;
/// Longest subject, in bytes.
const MAX_SUBJECT_BYTES: usize = 200;

/// The head of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TokenHead {
    pub algorithm: Algorithm,
    pub key_id: Option<String>,
}

/// The facts of a verified token.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct VerifiedToken {
    pub subject: String,
    pub scopes: Vec<String>,
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    aud: OneOrMany,
    exp: i64,
    nbf: Option<i64>,
    iat: Option<i64>,
    sub: String,
    scope: Option<String>,
    scp: Option<OneOrMany>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::Many(texts) => texts,
        }
    }
}

fn invalid(reason: impl Into<String>) -> TokenRejection {
    TokenRejection::Invalid(reason.into())
}

/// Reads the head of a token; `None` for a text that is no JSON Web Token.
pub(super) fn read_head(token: &str) -> Result<Option<TokenHead>, TokenRejection> {
    if token.split('.').count() != 3 {
        return Ok(None);
    }
    if token.len() > MAX_TOKEN_BYTES {
        return Err(invalid(format!("the token is longer than {MAX_TOKEN_BYTES} bytes")));
    }
    let Ok(head) = decode_header(token) else { return Ok(None) };
    if !matches!(head.alg, Algorithm::RS256 | Algorithm::ES256 | Algorithm::EdDSA) {
        return Err(invalid("the algorithm of the token is not RS256, ES256 or EdDSA"));
    }
    let kind = head.typ.as_deref().map(str::to_ascii_lowercase);
    if !matches!(kind.as_deref(), None | Some("jwt" | "at+jwt" | "application/at+jwt")) {
        return Err(invalid("the token is no access token"));
    }
    Ok(Some(TokenHead { algorithm: head.alg, key_id: head.kid }))
}

/// Verifies signature, issuer, audience and times.
pub(super) fn verify(
    token: &str,
    head: &TokenHead,
    key: &IssuerKey,
    config: &OauthConfig,
    now: i64,
) -> Result<VerifiedToken, TokenRejection> {
    // The signature alone: the claims are checked below, against a time that a test can choose.
    let mut validation = Validation::new(head.algorithm);
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    let claims = decode::<Claims>(token, &key.key, &validation)
        .map_err(|error| invalid(format!("the token cannot be verified: {error}")))?
        .claims;
    if claims.iss.trim_end_matches('/') != issuer_text(&config.issuer) {
        return Err(invalid("the token is of another issuer"));
    }
    let audience = config.audience.as_str();
    if !claims.aud.into_vec().iter().any(|one| one.trim_end_matches('/') == audience.trim_end_matches('/')) {
        return Err(invalid("the token is for another audience"));
    }
    if now >= claims.exp.saturating_add(LEEWAY) {
        return Err(invalid("the token has expired"));
    }
    if [claims.nbf, claims.iat].into_iter().flatten().any(|begin| now < begin.saturating_sub(LEEWAY)) {
        return Err(invalid("the token is not valid yet"));
    }
    let is_subject = |text: &str| (1..=MAX_SUBJECT_BYTES).contains(&text.len()) && !text.chars().any(char::is_control);
    if !is_subject(&claims.sub) {
        return Err(invalid("the token has no usable subject"));
    }
    let scope = claims.scope.unwrap_or_default();
    let listed = claims.scp.map(OneOrMany::into_vec).unwrap_or_default();
    let scopes = scope.split_whitespace().map(str::to_owned).chain(listed).collect();
    Ok(VerifiedToken { subject: claims.sub, scopes })
}

#[cfg(test)]
mod tests {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    use ed25519_dalek::{Signer, SigningKey};
    use serde_json::{Value, json};
    use svc_net::host_policy::HostPolicy;

    use super::{super::key_set, *};

    const NOW: i64 = 1_800_000_000;

    fn config() -> OauthConfig {
        OauthConfig {
            issuer: "https://issuer.example".parse().expect("a URL"),
            audience: "https://svc.example/mcp".parse().expect("a URL"),
            hosts: HostPolicy::PublicOnly,
        }
    }

    fn token(signer: &SigningKey, head: &Value, claims: &Value) -> String {
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(head), encode(claims));
        let signature = signer.sign(signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.to_bytes()))
    }

    fn key_set(signer: &SigningKey) -> Vec<key_set::IssuerKey> {
        let x = URL_SAFE_NO_PAD.encode(signer.verifying_key().to_bytes());
        let ours = json!({"kty": "OKP", "crv": "Ed25519", "kid": "one", "x": x, "use": "sig"});
        let secret = json!({"kty": "oct", "kid": "one", "k": "c2VjcmV0"});
        let body = json!({"keys": [secret, {"kty": "later", "kid": "one"}, ours]});
        key_set::read_key_set(body.to_string().as_bytes()).expect("a set")
    }

    #[test]
    fn a_token_is_checked_in_every_respect() {
        let signer = SigningKey::from_bytes(&[7; 32]);
        let head = json!({"alg": "EdDSA", "kid": "one", "typ": "at+jwt"});
        let claims = json!({
            "iss": "https://issuer.example", "aud": ["https://other.example", "https://svc.example/mcp"], "exp": NOW + 60,
            "iat": NOW, "sub": "person", "scope": "openid svc:issue",
        });
        let judge = |head: &Value, claims: &Value| -> Result<VerifiedToken, String> {
            let token = token(&signer, head, claims);
            let read = read_head(&token).map_err(|error| error.to_string())?.ok_or("no token")?;
            let key = key_set::find_key(&key_set(&signer), &read).ok_or("no key")?;
            verify(&token, &read, &key, &config(), NOW).map_err(|error| error.to_string())
        };
        let verified = judge(&head, &claims).expect("valid");
        assert_eq!((verified.subject.as_str(), verified.scopes.len()), ("person", 2));
        assert!(judge(&json!({"alg": "EdDSA"}), &claims).is_ok(), "the only key of its algorithm");
        let with = |name: &str, value: Value| {
            let mut claims = claims.clone();
            claims[name] = value;
            claims
        };
        for (name, claims, expected) in [
            ("issuer", with("iss", json!("https://issuer.example.org")), "another issuer"),
            ("audience", with("aud", json!("https://svc.example")), "another audience"),
            ("over", with("exp", json!(NOW - LEEWAY)), "expired"),
            ("no end", with("exp", Value::Null), "cannot be verified"),
            ("not yet", with("nbf", json!(NOW + LEEWAY + 1)), "not valid yet"),
            ("of the future", with("iat", json!(NOW + LEEWAY + 1)), "not valid yet"),
            ("no subject", with("sub", json!("")), "no usable subject"),
            ("a subject with controls", with("sub", json!("a\nb")), "no usable subject"),
        ] {
            let error = judge(&head, &claims).expect_err(name);
            assert!(error.contains(expected), "{name}: {error}");
        }
        for (name, head, expected) in [
            ("none", json!({"alg": "none"}), "no token"),
            ("a secret key", json!({"alg": "HS256", "kid": "one"}), "not RS256"),
            ("another kind", json!({"alg": "EdDSA", "kid": "one", "typ": "dpop+jwt"}), "no access token"),
            ("another key", json!({"alg": "EdDSA", "kid": "two"}), "no key"),
            ("another algorithm", json!({"alg": "ES256", "kid": "one"}), "no key"),
        ] {
            assert!(judge(&head, &claims).expect_err(name).contains(expected), "{name}");
        }
        let other = token(&SigningKey::from_bytes(&[8; 32]), &head, &claims);
        let read = read_head(&other).expect("a token").expect("a token");
        let key = key_set::find_key(&key_set(&signer), &read).expect("a key");
        assert!(verify(&other, &read, &key, &config(), NOW).is_err(), "a signature of another key");
        assert_eq!(read_head("0123456789abcdef0123456789abcdef").expect("no token"), None);
    }

    /// The reason why tokens of agents are not read with this library: under a key of small order a signature verifies that no key has made.
    #[test]
    fn the_library_accepts_a_key_of_small_order_and_the_reader_of_agents_tokens_does_not() {
        let neutral: [u8; 32] = std::array::from_fn(|at| u8::from(at == 0));
        let jwk =
            json!({"kty": "OKP", "crv": "Ed25519", "kid": "one", "x": URL_SAFE_NO_PAD.encode(neutral), "use": "sig"});
        let keys = key_set::read_key_set(json!({"keys": [jwk]}).to_string().as_bytes()).expect("a set");
        let claims = json!({"iss": "https://issuer.example", "aud": "https://svc.example/mcp", "exp": NOW + 60, "sub": "person"});
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(&json!({"alg": "EdDSA", "kid": "one"})), encode(&claims));
        // No secret key has made this signature: the neutral point, and zero.
        let signature: [u8; 64] = std::array::from_fn(|at| u8::from(at == 0));
        let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature));
        let head = read_head(&token).expect("a token").expect("a token");
        let key = key_set::find_key(&keys, &head).expect("a key");
        assert!(verify(&token, &head, &key, &config(), NOW).is_ok());
        let weak = ed25519_dalek::VerifyingKey::from_bytes(&neutral).expect("a point");
        assert!(weak.is_weak() && weak.verify_strict(signed.as_bytes(), &signature.into()).is_err());
    }
}

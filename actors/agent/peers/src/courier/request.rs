//! The headers of a webhook: authorization, and the signature of Standard Webhooks. Pure.

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use sha2::Sha256;
use svc_agent_store::OutboxEvent;
use svc_wire::secret::SecretString;
use zeroize::Zeroizing;

/// A text is no secret of Standard Webhooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("one or two secrets, each whsec_ and the base64 of 24 to 64 bytes, with a space between them")]
pub struct InvalidWebhookSecret;

/// The keys of the signatures: one, or two while a key is changed.
pub struct WebhookSecrets(Vec<Zeroizing<Vec<u8>>>);

impl WebhookSecrets {
    /// Parses `whsec_…`, or two of them with a space between.
    pub fn parse(text: &SecretString) -> Result<Self, InvalidWebhookSecret> {
        let parse = |text: &str| {
            let encoded = text.strip_prefix("whsec_").ok_or(InvalidWebhookSecret)?;
            let key = Zeroizing::new(STANDARD.decode(encoded).map_err(|_| InvalidWebhookSecret)?);
            if (24..=64).contains(&key.len()) { Ok(key) } else { Err(InvalidWebhookSecret) }
        };
        let keys: Vec<_> = text.expose_secret().split(' ').map(parse).collect::<Result<_, _>>()?;
        if keys.len() <= 2 { Ok(Self(keys)) } else { Err(InvalidWebhookSecret) }
    }

    /// One signature for each key, with a space between.
    fn sign(&self, id: &str, timestamp: i64, body: &str) -> String {
        let sign = |key: &Zeroizing<Vec<u8>>| {
            // A key of any length is taken.
            let mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
            let whole = mac.chain_update(format!("{id}.{timestamp}.")).chain_update(body).finalize().into_bytes();
            Some(format!("v1,{}", STANDARD.encode(whole)))
        };
        self.0.iter().filter_map(sign).collect::<Vec<_>>().join(" ")
    }
}

/// The headers of one attempt; `now` is in seconds since the epoch.
pub(super) fn headers(
    event: &OutboxEvent,
    api_key: Option<&SecretString>,
    secrets: Option<&WebhookSecrets>,
    now: i64,
) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(Ok(mut value)) = api_key.map(|key| HeaderValue::from_str(&format!("Bearer {}", key.expose_secret()))) {
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
    }
    if let Some(secrets) = secrets {
        let signature = secrets.sign(&event.id, now, &event.body);
        for (name, value) in
            [("webhook-id", event.id.clone()), ("webhook-timestamp", now.to_string()), ("webhook-signature", signature)]
        {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
    }
    headers
}

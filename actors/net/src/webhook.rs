//! Webhooks: one POST to a configured URL, with a bounded answer.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, header};
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::{fetch::HttpClientError, host_policy::HostPolicy, upstream::innermost_cause};

/// Bytes of an answer that are read.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// The answer to a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebhookAnswer {
    /// HTTP status.
    pub status: u16,
    /// Time after which the receiver wants to be asked again.
    pub retry_after: Option<Duration>,
}

/// Sends webhooks to one URL. Cheap to clone.
#[derive(Debug, Clone)]
pub struct WebhookClient {
    client: reqwest::Client,
    url: Url,
    timeout: Duration,
}

impl WebhookClient {
    /// Makes a client. The URL is configured, and so may name any host. Redirects are not followed.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn new(url: Url, timeout: Duration) -> Result<Self, HttpClientError> {
        Ok(Self { client: HostPolicy::AllowPrivate.client_builder().build()?, url, timeout })
    }

    /// Sends a body.
    ///
    /// # Errors
    /// With the reason when there was no answer in time.
    pub async fn post(&self, headers: HeaderMap, body: Bytes) -> Result<WebhookAnswer, String> {
        let until = Instant::now() + self.timeout;
        let request = self.client.post(self.url.clone()).headers(headers).body(body);
        let late = |_| format!("no answer within {} ms", self.timeout.as_millis());
        let sent = timeout_at(until, request.send()).await.map_err(late)?;
        let mut response = sent.map_err(|error| innermost_cause(&error))?;
        let status = response.status().as_u16();
        let retry_after = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = retry_after.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
        // The status has decided. The rest is read so that the connection can be used again, if it is short and comes soon.
        let mut read = 0;
        while let Ok(Ok(Some(chunk))) = timeout_at(until, response.chunk()).await {
            read += chunk.len();
            if read > MAX_ANSWER_BYTES {
                break;
            }
        }
        Ok(WebhookAnswer { status, retry_after })
    }
}

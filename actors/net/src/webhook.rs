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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A receiver that answers with a text, and then with the same bytes until the connection ends.
    async fn receiver(answer: &'static str, rest: &'static [u8], pause: Duration) -> WebhookClient {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("an address")).parse().expect("a URL");
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let _ = socket.read(&mut [0; 4_096]).await;
                    let _ = socket.write_all(answer.as_bytes()).await;
                    while !rest.is_empty() && socket.write_all(rest).await.is_ok() {
                        tokio::time::sleep(pause).await;
                    }
                    // The connection stays open.
                    tokio::time::sleep(Duration::from_secs(60)).await;
                });
            }
        });
        WebhookClient::new(url, Duration::from_millis(500)).expect("a client")
    }

    #[tokio::test]
    async fn a_receiver_that_hangs_drips_redirects_or_never_ends_costs_its_time_limit_at_most() {
        let megabyte: &'static [u8] = Box::leak(vec![b'x'; 1 << 20].into_boxed_slice());
        let redirect = "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
        let busy = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n";
        let endless = "HTTP/1.1 200 OK\r\ncontent-length: 10000000000\r\n\r\n";
        for (answer, rest, pause, status, retry_after) in [
            ("", &b""[..], 0, None, None),
            ("HTTP/1.1 200 OK\r\n", &b"a"[..], 50, None, None),
            (redirect, &b""[..], 0, Some(307), None),
            (busy, &b""[..], 0, Some(503), Some(7)),
            (endless, &b"x"[..], 50, Some(200), None),
            (endless, megabyte, 0, Some(200), None),
        ] {
            let client = receiver(answer, rest, Duration::from_millis(pause)).await;
            let sent = tokio::time::timeout(Duration::from_secs(5), client.post(HeaderMap::new(), Bytes::new())).await;
            let found = sent.expect("in time").ok().map(|answer| (answer.status, answer.retry_after));
            assert_eq!(found, status.map(|status| (status, retry_after.map(Duration::from_secs))), "{answer}");
        }
    }
}

//! The admin API over the local socket of the running agent.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use serde_json::Value;

/// Items of a page.
const PAGE: usize = 500;

/// A client of the local socket.
pub(super) struct LocalApi {
    client: reqwest::Client,
    socket: PathBuf,
}

impl LocalApi {
    pub(super) fn new(socket: &Path) -> anyhow::Result<Self> {
        let client = reqwest::Client::builder().unix_socket(socket).build()?;
        Ok(Self { client, socket: socket.to_owned() })
    }

    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.send(reqwest::Method::GET, path, None).await
    }

    pub(super) async fn post(&self, path: &str) -> anyhow::Result<Value> {
        self.send(reqwest::Method::POST, path, None).await
    }

    pub(super) async fn post_json(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.send(reqwest::Method::POST, path, Some(body)).await
    }

    pub(super) async fn delete(&self, path: &str) -> anyhow::Result<Value> {
        self.send(reqwest::Method::DELETE, path, None).await
    }

    /// Begins the download of an answer that is no JSON.
    pub(super) async fn download(&self, path: &str) -> anyhow::Result<reqwest::Response> {
        let answer = self.request(reqwest::Method::GET, path, None).await?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status();
        let body: Value = answer.json().await.with_context(|| format!("{path} answered {status} without JSON"))?;
        Err(refusal(&body))
    }

    /// Reads every item of a list.
    pub(super) async fn all(&self, path: &str) -> anyhow::Result<Vec<Value>> {
        self.all_of(path, &[]).await
    }

    /// Reads every item of a list that some parameters select.
    pub(super) async fn all_of(&self, path: &str, filters: &[String]) -> anyhow::Result<Vec<Value>> {
        let mut items = Vec::new();
        let mut first = vec![format!("limit={PAGE}")];
        first.extend_from_slice(filters);
        let first = format!("{path}?{}", first.join("&"));
        let mut next = first.clone();
        loop {
            let page = self.get(&next).await?;
            items.extend(page["items"].as_array().into_iter().flatten().cloned());
            let Some(cursor) = page["nextCursor"].as_str() else { return Ok(items) };
            next = format!("{first}&cursor={cursor}");
        }
    }

    async fn send(&self, method: reqwest::Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let answer = self.request(method, path, body).await?;
        let status = answer.status();
        let body: Value = answer.json().await.with_context(|| format!("{path} answered {status} without JSON"))?;
        if status.is_success() { Ok(body) } else { Err(refusal(&body)) }
    }

    async fn request(
        &self,
        method: reqwest::Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<reqwest::Response> {
        let mut request = self.client.request(method, format!("http://localhost{path}"));
        if let Some(body) = body {
            request = request.json(body);
        }
        request.send().await.with_context(|| {
            format!(
                "no agent answers at {}: does it run, with the same SVC_AGENT_SOCKET or SVC_AGENT_DB?",
                self.socket.display()
            )
        })
    }
}

fn refusal(body: &Value) -> anyhow::Error {
    let (code, message) = (&body["error"]["code"], &body["error"]["message"]);
    anyhow!("{}: {}", code.as_str().unwrap_or_default(), message.as_str().unwrap_or_default())
}

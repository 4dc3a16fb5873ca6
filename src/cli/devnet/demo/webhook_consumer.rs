//! A receiver of an agent's events on loopback.

use anyhow::Context;
use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::network::ReceiverConfig;

/// A webhook consumer on loopback.
pub(super) struct WebhookConsumer {
    url: url::Url,
    bodies: mpsc::Receiver<Value>,
}

impl WebhookConsumer {
    /// Starts to listen on a free port.
    pub(super) async fn start() -> anyhow::Result<Self> {
        let (sender, bodies) = mpsc::channel(1_024);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/registry-events", listener.local_addr()?).parse()?;
        let router = Router::new().route("/registry-events", post(receive)).with_state(sender);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { url, bodies })
    }

    /// Waits for a body; others before it are dropped.
    pub(super) async fn next(&mut self, is_wanted: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        loop {
            let body = self.bodies.recv().await.context("the consumer has ended")?;
            if is_wanted(&body) {
                return Ok(body);
            }
        }
    }

    /// The receiver, for the configuration of an agent.
    pub(super) fn receiver(&self) -> ReceiverConfig {
        ReceiverConfig { url: self.url.clone(), secret: None }
    }
}

async fn receive(State(sender): State<mpsc::Sender<Value>>, Json(body): Json<Value>) -> StatusCode {
    match sender.send(body).await {
        Ok(()) => StatusCode::OK,
        Err(_) => StatusCode::GONE,
    }
}

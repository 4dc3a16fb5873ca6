//! The connection of a client command to a running tool server.

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use svc_net::client_tls::http_client_builder;
use svc_wire::secret::SecretString;
use tokio::sync::mpsc;

use super::output::OutputForm;
use crate::{
    mcp_client::{McpClient, ServerNotification},
    secrets::ProcessSecrets,
    settings::{mcp::MCP_BEARER_TOKEN, tools::SVC_MCP_URL},
};

/// Arguments that all client commands share.
#[derive(Debug, Args)]
pub(super) struct ClientArgs {
    /// MCP endpoint of the server. Its bearer token is read from MCP_BEARER_TOKEN.
    #[arg(long, env = SVC_MCP_URL.name, default_value = SVC_MCP_URL.default_text().unwrap_or_default())]
    pub(super) url: String,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub(super) json: bool,
    /// Print every column and whole cells.
    #[arg(long, conflicts_with = "json")]
    pub(super) wide: bool,
}

impl ClientArgs {
    /// The form in which content is printed.
    pub(super) fn form(&self) -> OutputForm {
        OutputForm::chosen(self.json, self.wide)
    }

    /// Connects with the newest protocol that the server speaks. Fails when the token is not set or no server answers.
    pub(super) async fn connect(&self, secrets: &mut ProcessSecrets) -> anyhow::Result<McpClient> {
        McpClient::connect(&self.url, take_bearer_token(secrets)?.expose_secret()).await
    }

    /// Connects with a session and returns the server's notifications too. Fails like [`ClientArgs::connect`].
    pub(super) async fn connect_with_notifications(
        &self,
        secrets: &mut ProcessSecrets,
    ) -> anyhow::Result<(McpClient, mpsc::Receiver<ServerNotification>)> {
        McpClient::connect_with_notifications(&self.url, take_bearer_token(secrets)?.expose_secret()).await
    }
}

/// A client for the routes beside MCP. No proxy stands before the server.
pub(super) fn http_client() -> anyhow::Result<reqwest::Client> {
    let client = http_client_builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    Ok(client.timeout(Duration::from_secs(30)).build()?)
}

/// The bearer token of the server.
pub(super) fn take_bearer_token(secrets: &mut ProcessSecrets) -> anyhow::Result<SecretString> {
    secrets
        .take(MCP_BEARER_TOKEN)
        .filter(|token| !token.expose_secret().is_empty())
        .context("MCP_BEARER_TOKEN is not set: set it to the bearer token of the server")
}

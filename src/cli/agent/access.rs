//! `svc agent access`: the grants of the running agent to its peers.

use clap::Subcommand;
use serde_json::{Value, json};

use super::{print_items, text, urlencoding};
use crate::cli::output::{OutputForm, print_content, print_line};
use svc_peer::{AgentApi, AgentApiError};

#[derive(Debug, Subcommand)]
pub enum AccessCommand {
    /// Lists the grants, the oldest first. None shows a token or a key.
    List {
        /// Only grants for a DID.
        #[arg(long)]
        peer: Option<String>,
        /// Only grants for an entry, by its DID URL.
        #[arg(long)]
        endpoint: Option<String>,
        /// Only grants in a state.
        #[arg(long, value_parser = ["active", "expired", "revoked"])]
        state: Option<String>,
    },
    /// Takes active grants back: one, those of a DID, those for an entry, or all.
    #[command(group = clap::ArgGroup::new("which").required(true).multiple(true))]
    Revoke {
        /// Id of a grant.
        #[arg(group = "which", conflicts_with_all = ["peer", "endpoint", "all"])]
        id: Option<String>,
        /// Those of a DID.
        #[arg(long, group = "which")]
        peer: Option<String>,
        /// Those for an entry, by its DID URL.
        #[arg(long, group = "which")]
        endpoint: Option<String>,
        /// Every one.
        #[arg(long, group = "which", conflicts_with_all = ["peer", "endpoint"])]
        all: bool,
        /// For people, and for the peer.
        #[arg(long)]
        reason: Option<String>,
    },
    /// Makes every token of before void.
    Void,
    /// Publishes another key of tokens, which is used a minute later.
    RotateKey,
}

/// Runs a command.
pub(super) async fn run(api: &AgentApi, command: AccessCommand, as_json: bool) -> anyhow::Result<()> {
    match command {
        AccessCommand::List { peer, endpoint, state } => {
            let grants = grants(api, peer, endpoint, state).await?;
            print_items(&grants, as_json, line_of)
        }
        AccessCommand::Revoke { id, peer, endpoint, reason, .. } => {
            let body = reason.map_or_else(|| json!({}), |reason| json!({"reason": reason}));
            let revoke = async |id: &str| {
                api.post_json(&format!("/v2/vt/access-grants/{}/revoke", urlencoding(id)), &body).await
            };
            if let Some(id) = id {
                return print_content(&revoke(&id).await?, OutputForm::chosen(as_json, false));
            }
            let mut revoked = Vec::new();
            for grant in grants(api, peer, endpoint, Some("active".to_owned())).await? {
                match revoke(text(&grant["id"])).await {
                    Ok(one) => revoked.push(one),
                    // One that has ended meanwhile needs no revocation.
                    Err(AgentApiError::Refused { code, .. }) if code == "INVALID_STATE" => {}
                    Err(error) => return Err(error.into()),
                }
            }
            print_items(&revoked, as_json, line_of)
        }
        AccessCommand::Void => {
            api.post("/v2/vt/access-grants/void").await?;
            print_line("every token of before is void");
            Ok(())
        }
        AccessCommand::RotateKey => {
            let rotated = api.post("/v2/vt/access-keys/rotate").await?;
            print_content(&rotated, OutputForm::chosen(as_json, false))
        }
    }
}

async fn grants(
    api: &AgentApi,
    peer: Option<String>,
    endpoint: Option<String>,
    state: Option<String>,
) -> anyhow::Result<Vec<Value>> {
    let filters: Vec<String> = [("peerDid", peer), ("endpoint", endpoint), ("state", state)]
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", urlencoding(&value?))))
        .collect();
    Ok(api.all_of("/v2/vt/access-grants", &filters).await?)
}

/// A grant in one line.
fn line_of(grant: &Value) -> String {
    let scopes: Vec<&str> = grant["scopes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let scopes = if scopes.is_empty() { String::new() } else { format!(" [{}]", scopes.join(" ")) };
    let end = match grant["reason"].as_str() {
        Some(reason) => format!(": {reason}"),
        None => format!(", until {}", text(&grant["expiresAt"])),
    };
    format!(
        "{}  {} {} for {}{scopes}: {}{end}",
        text(&grant["id"]),
        text(&grant["material"]),
        text(&grant["endpoint"]),
        text(&grant["peerDid"]),
        text(&grant["state"]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_peer_the_entry_and_the_end() {
        let mut grant = json!({"id": "g", "material": "bearer", "endpoint": "did:web:a#mcp", "peerDid": "did:web:b",
            "scopes": ["mcp:read"], "state": "active", "expiresAt": "2027-01-15T08:00:00.000Z"});
        assert_eq!(
            line_of(&grant),
            "g  bearer did:web:a#mcp for did:web:b [mcp:read]: active, until 2027-01-15T08:00:00.000Z"
        );
        (grant["state"], grant["reason"], grant["scopes"]) = ("revoked".into(), "no more".into(), json!([]));
        assert_eq!(line_of(&grant), "g  bearer did:web:a#mcp for did:web:b: revoked: no more");
    }
}

//! `svc agent flows`: the flows of the running agent with its peers.

use std::path::PathBuf;

use clap::Subcommand;
use serde_json::{Value, json};

use super::{print_items, read_json, text, urlencoding};
use crate::cli::output::{OutputForm, print_content};
use svc_peer::AgentApi;

#[derive(Debug, Subcommand)]
pub enum FlowCommand {
    /// Lists the flows, the oldest first.
    List {
        /// Only flows in which the agent is the applicant, or the validator.
        #[arg(long, value_parser = ["applicant", "validator"])]
        role: Option<String>,
        /// Only flows in a state, such as VALIDATING.
        #[arg(long)]
        state: Option<String>,
    },
    /// Shows a flow.
    Show {
        /// Session of the flow.
        session: String,
    },
    /// Opens the flow of a participant of the agent's DID that waits for its validation or its credential.
    Open {
        /// Id of the participant.
        participant: String,
        /// File with the claims of the credential as a JSON object.
        #[arg(long)]
        claims: Option<PathBuf>,
    },
    /// Asks an issuer for a credential of a schema that needs no onboarding.
    Request {
        /// DID of the issuer.
        did: String,
        /// Id of the schema.
        #[arg(long)]
        schema: String,
        /// File with the claims of the credential as a JSON object.
        #[arg(long)]
        claims: Option<PathBuf>,
    },
    /// Sends the opening message of a flow once more: the way on when the validator stays silent.
    Resend {
        /// Session of the flow.
        session: String,
        /// File with other claims as a JSON object.
        #[arg(long)]
        claims: Option<PathBuf>,
    },
    /// Ends a flow of the agent as applicant.
    End {
        /// Session of the flow.
        session: String,
        /// For the validator.
        #[arg(long)]
        reason: Option<String>,
    },
}

/// Runs a command.
pub(super) async fn run(api: &AgentApi, command: FlowCommand, as_json: bool) -> anyhow::Result<()> {
    let shown = match command {
        FlowCommand::List { role, state } => {
            let filters: Vec<String> = [("role", role), ("flowState", state)]
                .into_iter()
                .filter_map(|(name, value)| Some(format!("{name}={}", urlencoding(&value?))))
                .collect();
            let flows = api.all_of("/v2/vt/flows", &filters).await?;
            return print_items(&flows, as_json, line_of);
        }
        FlowCommand::Show { session } => api.get(&path_of(&session, "")).await?,
        FlowCommand::Open { participant, claims } => {
            let body = with_claims(json!({"participantId": participant}), claims)?;
            api.post_json("/v2/vt/flows", &body).await?
        }
        FlowCommand::Request { did, schema, claims } => {
            let body = with_claims(json!({"did": did, "schemaId": schema}), claims)?;
            api.post_json("/v2/vt/flows", &body).await?
        }
        FlowCommand::Resend { session, claims } => {
            api.post_json(&path_of(&session, "/resend"), &with_claims(json!({}), claims)?).await?
        }
        FlowCommand::End { session, reason } => {
            let body = reason.map_or_else(|| json!({}), |reason| json!({"description": reason}));
            api.post_json(&path_of(&session, "/end"), &body).await?
        }
    };
    print_content(&shown, OutputForm::chosen(as_json, false))
}

fn path_of(session: &str, call: &str) -> String {
    format!("/v2/vt/flows/{}{call}", urlencoding(session))
}

fn with_claims(mut body: Value, claims: Option<PathBuf>) -> anyhow::Result<Value> {
    if let Some(file) = claims {
        body["claims"] = read_json(&file)?;
    }
    Ok(body)
}

/// A flow in one line. Texts of the peer have no place in it.
fn line_of(flow: &Value) -> String {
    let waits = match (flow["blocked"]["reason"].as_str(), text(&flow["pendingAction"])) {
        (Some(reason), _) => format!(", waits: {reason}"),
        (None, "NONE") => String::new(),
        (None, party) => format!(", next: {party}"),
    };
    let participant = flow["applicantParticipantId"].as_str().map(|id| format!(", participant {id}"));
    format!(
        "{}  {} of {}{}, schema {}: {}{waits}",
        text(&flow["participantSessionId"]),
        text(&flow["role"]),
        text(&flow["peerDid"]),
        participant.unwrap_or_default(),
        text(&flow["schemaId"]),
        text(&flow["flowState"])
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_who_acts_next_or_what_the_flow_waits_for() {
        let mut flow = json!({
            "participantSessionId": "s", "role": "validator", "peerDid": "did:web:a", "applicantParticipantId": "7",
            "schemaId": "4", "flowState": "VALIDATING", "pendingAction": "VALIDATOR",
        });
        assert_eq!(line_of(&flow), "s  validator of did:web:a, participant 7, schema 4: VALIDATING, next: VALIDATOR");
        flow["blocked"] = json!({"reason": "NO_GRANT"});
        assert!(line_of(&flow).ends_with("VALIDATING, waits: NO_GRANT"));
        (flow["blocked"], flow["pendingAction"]) = (Value::Null, "NONE".into());
        assert!(line_of(&flow).ends_with("VALIDATING"));
    }
}

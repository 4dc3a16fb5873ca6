//! `svc peer`: the peers of the own agent: their trust, a talk with them, a call of their endpoints.

mod call;
mod talk;
pub(super) mod trust;

use clap::Subcommand;
use serde_json::Value;
use svc_otel::trace;
use svc_peer::{AgentApi, PeerClient, PeerError, PeerFailure, PeerStep};
use tracing::Instrument;

use super::output::print_json;
use crate::{
    config::{ProcessEnvironment, read_peer},
    secrets::ProcessSecrets,
};

#[derive(Debug, Subcommand)]
pub enum PeerCommand {
    /// Shows whether a DID is trusted and why, and its endpoints with their requirements.
    Trust {
        /// DID.
        did: String,
    },
    /// Sends the lines of standard input to a DID over DIDComm, and prints its lines.
    Talk {
        /// DID.
        did: String,
    },
    /// Calls an endpoint of a DID: decides about the DID, obtains access in a DIDComm session, and calls the endpoint in its protocol.
    Call(call::CallArgs),
}

impl PeerCommand {
    fn name(&self) -> &'static str {
        match self {
            Self::Trust { .. } => "trust",
            Self::Talk { .. } => "talk",
            Self::Call(_) => "call",
        }
    }
}

/// The exit status of a failed command of the peer flow; `None` for an error of another kind.
pub(super) fn exit_status(error: &anyhow::Error) -> Option<u8> {
    if error.is::<trust::NotTrusted>() {
        return Some(status_of(PeerFailure::NotTrusted));
    }
    error.downcast_ref::<PeerError>().map(|failed| status_of(failed.failure))
}

/// The exit status of a failure. Usage errors have that of the command line.
fn status_of(failure: PeerFailure) -> u8 {
    match failure {
        PeerFailure::Other => 1,
        PeerFailure::Usage => 2,
        PeerFailure::NotTrusted => 3,
        PeerFailure::VerdictUnknown => 4,
        PeerFailure::Denied => 5,
        PeerFailure::Unreachable => 6,
        PeerFailure::Refused => 7,
        PeerFailure::NotSpoken => 8,
    }
}

/// Runs a command. With `as_json` a failure is printed as its envelope, too.
pub(super) async fn run(command: PeerCommand, as_json: bool, secrets: &mut ProcessSecrets) -> anyhow::Result<()> {
    let span = trace::peer_command_span(command.name());
    let outcome = async {
        let config = read_peer(&ProcessEnvironment, secrets)?;
        let agent = AgentApi::new(config.agent, "where SVC_PEER_AGENT or SVC_AGENT_SOCKET say")?;
        let client = PeerClient::new(agent, config.hosts)?;
        match command {
            PeerCommand::Trust { did } => trust::run(&client, &did, as_json).await,
            PeerCommand::Talk { did } => talk::run(&client, &did, as_json).await,
            PeerCommand::Call(args) => call::run(&client, args, as_json).await,
        }
    };
    let outcome = outcome.instrument(span).await;
    if let (Err(error), true) = (&outcome, as_json)
        && !error.is::<trust::NotTrusted>()
    {
        let other = || {
            let failure = (PeerStep::Trust, PeerFailure::Other);
            PeerError::new(failure, "COMMAND_FAILED", format!("{error:#}"), "see the message")
        };
        print_json(&error.downcast_ref::<PeerError>().cloned().unwrap_or_else(other).to_json())?;
    }
    outcome
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_an_exit_status_of_its_own() {
        let all = [
            PeerFailure::Other,
            PeerFailure::Usage,
            PeerFailure::NotTrusted,
            PeerFailure::VerdictUnknown,
            PeerFailure::Denied,
            PeerFailure::Unreachable,
            PeerFailure::Refused,
            PeerFailure::NotSpoken,
        ];
        assert_eq!(all.map(status_of), [1, 2, 3, 4, 5, 6, 7, 8]);
    }
}

//! Error envelopes for the failures of the operator's parts. A front end adds the tools and settings that each [`NextStep`] stands
//! for.

mod write;

use serde_json::{Value, json};
use svc_kit::{AskError, actor::ActorStatus};
use svc_net::upstream::{NodeClientError, UpstreamError, UpstreamKind, not_indexed_below};
use svc_wire::{
    chain_error::ChainError,
    error_envelope::{ErrorEnvelope, FailureCode, NextStep},
};

use crate::agent_session::AgentCallError;

pub use self::write::{
    abandoned_error, bound_error, chain_changed_error, displaced_error, expired_error, never_executed_error,
    record_unavailable, rejected_error, resubmission_error, server_stopped, signer_unavailable, submit_error,
    timed_out_error, tx_failed_error, unknown_key, unknown_payer, unprovable_error, with_prices,
};

/// An upstream's failure.
pub fn upstream_error(error: &UpstreamError) -> ErrorEnvelope {
    let message = error.to_string();
    match error {
        UpstreamError::Unreachable { kind, origin, .. } | UpstreamError::Paused { kind, origin } => {
            let details = json!({"kind": kind, "origin": origin});
            let hint = "try again in a moment, and check that server if it persists";
            ErrorEnvelope::new(FailureCode::UpstreamUnreachable, message, hint).with_details(details)
        }
        UpstreamError::Http { kind, status, body } => {
            let details = json!({"kind": kind, "status": status, "body": body});
            let message = foreign_message(body).map_or_else(|| message.clone(), |told| format!("{message}: {told}"));
            let code = if *status == 404 { FailureCode::NotFound } else { FailureCode::UpstreamHttpError };
            let hint = match status {
                404 => NOT_FOUND_HINT,
                400 | 422 => "correct the argument the body names",
                _ => "the body says what that server objects to; try again later if it is a fault of the server",
            };
            let mut envelope = ErrorEnvelope::new(code, message, hint).with_details(details);
            envelope.retryable = *status >= 500 || *status == 429;
            envelope
        }
        UpstreamError::Protocol { kind, reason, body } => {
            let details = json!({"kind": kind, "reason": reason, "body": body});
            let hint = "check that the configured origin is really that kind of server";
            ErrorEnvelope::new(FailureCode::UpstreamProtocolError, message, hint).with_details(details)
        }
        UpstreamError::Saturated { kind, limit } => {
            let details = json!({"kind": kind, "limit": limit});
            ErrorEnvelope::new(FailureCode::Overloaded, message, "try again in a moment").with_details(details)
        }
    }
}

/// A failed read of the indexer at a height, or at the newest one.
pub fn indexer_error(error: &UpstreamError, at_block_height: Option<u64>) -> ErrorEnvelope {
    let Some(oldest) = not_indexed_below(error) else { return upstream_error(error) };
    let mut details = json!({"kind": UpstreamKind::Indexer, "status": 410, "oldest_block_height": oldest});
    let asked = match at_block_height {
        Some(height) => {
            details["at_block_height"] = height.into();
            format!("the read at block {height} lies below the oldest block of the indexer, {oldest}")
        }
        None => format!("the read needs blocks below the oldest one of the indexer, {oldest}"),
    };
    if let UpstreamError::Http { body, .. } = error {
        details["body"] = body.as_str().into();
    }
    let hint = "this says nothing about the thing itself: ask for that block or a later one, or have an indexer that begins earlier";
    ErrorEnvelope::new(FailureCode::HeightNotIndexed, asked, hint)
        .with_details(details)
        .with_next_step(NextStep::ConfigureIndexer)
}

/// The hint of an answer without the thing that was asked for.
const NOT_FOUND_HINT: &str = "nothing is there under these arguments; where there is a list tool it shows what exists";
/// Codes of the codespace `sdk` for a missing key and a missing record.
const SDK_NOT_FOUND_CODES: [u32; 2] = [22, 38];

/// The sentence in a foreign error body: `{"error": text}`, `{"error": {"message": text}}` or `{"message": text}`.
fn foreign_message(body: &str) -> Option<String> {
    let body: Value = serde_json::from_str(body).ok()?;
    let told = [&body["error"], &body["error"]["message"], &body["message"]].into_iter().find_map(Value::as_str)?;
    Some(told[..told.floor_char_boundary(MAX_QUOTED_BYTES)].to_owned())
}

/// Longest foreign sentence that is repeated.
const MAX_QUOTED_BYTES: usize = 500;

/// A failed call of an agent. `is_read`: repeating the call is harmless.
pub fn agent_error(did: &str, error: &AgentCallError, is_read: bool) -> ErrorEnvelope {
    let message = error.to_string();
    let mut envelope = match error {
        AgentCallError::Resolution(_) => {
            let hint = "the DID Document must be reachable and name itself; correct the agent's hosting or its participants' DID";
            ErrorEnvelope::new(FailureCode::VsaDidResolutionFailed, message, hint)
        }
        AgentCallError::NoAdminApi(_) => {
            let hint = "have the agent serve external callers at a public admin URL, which it publishes by itself";
            ErrorEnvelope::new(FailureCode::VsaAdminUrlNotFound, message, hint).with_next_step(NextStep::ServeAdminApi)
        }
        AgentCallError::Login { origin, .. } => {
            let hint = "have this operator's account put on the agent's list of allowed accounts";
            ErrorEnvelope::new(FailureCode::VsaAuthFailed, message, hint)
                .with_details(json!({"origin": origin}))
                .with_next_step(NextStep::ShowAddress)
        }
        AgentCallError::NotOnChain(_) => {
            let hint = "nothing was sent; the indexer and the node differ: ask again in a moment, or compare the participants of the DID";
            ErrorEnvelope::new(FailureCode::VsaNotAuthorized, message, hint).with_next_step(NextStep::ListAgents)
        }
        AgentCallError::Chain(_) => {
            ErrorEnvelope::new(FailureCode::UpstreamUnreachable, message, "nothing was sent; try again in a moment")
                .with_details(json!({"kind": "rpc"}))
        }
        AgentCallError::Signer(_) => ErrorEnvelope::new(FailureCode::Restarting, message, "try again in a moment"),
        AgentCallError::Upstream(error) => upstream_error(error),
        AgentCallError::Overloaded { .. } => {
            ErrorEnvelope::new(FailureCode::Overloaded, message, "try again in a moment")
        }
    };
    envelope.details["agent_did"] = did.into();
    let is_unknown = match error {
        AgentCallError::Upstream(UpstreamError::Http { status, .. }) => *status >= 500,
        AgentCallError::Upstream(UpstreamError::Unreachable { .. } | UpstreamError::Protocol { .. }) => true,
        _ => false,
    };
    if is_unknown && !is_read {
        return unknown_effect(envelope);
    }
    envelope
}

/// Marks an error after which it is unknown whether the agent executed the request.
pub fn unknown_effect(mut envelope: ErrorEnvelope) -> ErrorEnvelope {
    envelope.hint = "whether the agent did it is not known: read its state before asking again".to_owned();
    envelope.next_step = None;
    envelope.not_retryable()
}

/// Arguments that are well formed and still not usable.
pub fn invalid_arguments(reason: &str) -> ErrorEnvelope {
    let details = json!({"violations": [{"pointer": "", "reason": reason}]});
    let hint = "correct the argument and call again";
    ErrorEnvelope::new(FailureCode::InputInvalid, reason, hint)
        .with_details(details)
        .with_next_step(NextStep::ShowSchema)
}

/// A height that the node has pruned. `oldest` is the oldest one that a configured node has.
pub fn pruned_error(error: &NodeClientError, oldest: Option<u64>) -> ErrorEnvelope {
    let mut details = match error {
        NodeClientError::Query { path, error } => {
            let mut details = chain_details(error);
            details["path"] = path.as_str().into();
            details
        }
        NodeClientError::Rpc { method, error } => json!({"method": method, "rpc_code": error.code, "body": error.data}),
        NodeClientError::Upstream(_) | NodeClientError::Disputed(_) => json!({}),
    };
    details["kind"] = "rpc".into();
    let message = match oldest {
        Some(oldest) => {
            details["oldest_height"] = oldest.into();
            format!("no configured node has that height any more, the oldest that one has is {oldest}: {error}")
        }
        None => format!("the node does not have that height any more: {error}"),
    };
    let hint = "this says nothing about the thing itself: ask for a later height or for the present state, or add an archive node";
    ErrorEnvelope::new(FailureCode::StatePruned, message, hint)
        .with_details(details)
        .with_next_step(NextStep::ConfigureNode)
}

/// A node's failure outside a transaction.
pub fn node_error(error: &NodeClientError) -> ErrorEnvelope {
    if error.is_pruned() {
        return pruned_error(error, None);
    }
    match error {
        NodeClientError::Upstream(error) => upstream_error(error),
        NodeClientError::Rpc { method, error: rpc } => {
            let details = json!({"kind": "rpc", "method": method, "rpc_code": rpc.code, "body": rpc.data});
            let hint = "the body says what the node objects to";
            ErrorEnvelope::new(FailureCode::UpstreamHttpError, error.to_string(), hint).with_details(details)
        }
        NodeClientError::Disputed(dispute) => {
            let [first, second] =
                dispute.blocks.each_ref().map(|(origin, hash)| json!({"origin": origin, "hash": hash}));
            let details = json!({"kind": "rpc", "height": dispute.height, "blocks": [first, second]});
            let hint =
                "nothing was sent; one of these nodes lies or runs another chain: find out which, and leave it out";
            ErrorEnvelope::new(FailureCode::UpstreamProtocolError, error.to_string(), hint)
                .with_details(details)
                .with_next_step(NextStep::ConfigureNode)
                .not_retryable()
        }
        NodeClientError::Query { path, error: chain } => {
            let mut details = chain_details(chain);
            details["path"] = path.as_str().into();
            let is_missing = chain.codespace == "sdk" && SDK_NOT_FOUND_CODES.contains(&chain.code);
            let (code, hint) = if is_missing {
                (FailureCode::NotFound, NOT_FOUND_HINT)
            } else {
                (FailureCode::UpstreamHttpError, "the raw log says what the chain objects to")
            };
            ErrorEnvelope::new(code, error.to_string(), hint).with_details(details)
        }
    }
}

/// An actor that did not answer.
pub fn ask_error(error: &AskError) -> ErrorEnvelope {
    let (code, hint) = match error {
        AskError::MailboxFull { .. } => {
            (FailureCode::Overloaded, "too many calls are under way; try again in a moment")
        }
        AskError::NotDelivered { status: ActorStatus::Stopped, .. } => {
            (FailureCode::NotReady, "the server is stopping")
        }
        AskError::NotDelivered { .. } | AskError::ActorDied { .. } => {
            (FailureCode::Restarting, "try again in a moment")
        }
        AskError::TimedOut { .. } => (FailureCode::Overloaded, "the server is busy; try again in a moment"),
    };
    ErrorEnvelope::new(code, error.to_string(), hint)
}

fn chain_details(error: &ChainError) -> Value {
    let mut details = json!({"codespace": error.codespace, "code": error.code, "raw_log": error.bounded_text()});
    if let Some(gas) = error.gas_used() {
        details["gas_used"] = gas.into();
    }
    details
}

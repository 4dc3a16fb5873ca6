//! From what failed to the error envelope, with a hint that says what to do next.

use std::time::Duration;

use serde_json::{Value, json};
use svc_kit::{
    AskError,
    actor::Standing,
    upstream::{NodeError, UpstreamError},
};
use svc_wire::{
    chain_error::{ChainError, Meaning},
    envelope::{Code, ErrorEnvelope},
};

use crate::{agent_session::AgentError, signer::SubmitError};

/// An upstream's failure.
pub fn upstream_error(error: &UpstreamError) -> ErrorEnvelope {
    let message = error.to_string();
    match error {
        UpstreamError::Unreachable { kind, origin, .. } => {
            let details = json!({"kind": kind, "origin": origin});
            let hint = "nothing was changed; try again in a moment, and check that server if it persists";
            ErrorEnvelope::new(Code::UpstreamUnreachable, message, hint).with_details(details)
        }
        UpstreamError::Http { kind, status, body } => {
            let details = json!({"kind": kind, "status": status, "body": body});
            let message = sentence_of(body).map_or_else(|| message.clone(), |told| format!("{message}: {told}"));
            let hint = match status {
                404 => "nothing is there under these arguments; where there is a list tool it shows what exists",
                400 | 422 => "correct the argument the body names",
                _ => "the body says what that server objects to; try again later if it is a fault of the server",
            };
            let mut envelope = ErrorEnvelope::new(Code::UpstreamHttpError, message, hint).with_details(details);
            envelope.retryable = *status >= 500 || *status == 429;
            envelope
        }
        UpstreamError::Protocol { kind, reason, body } => {
            let details = json!({"kind": kind, "reason": reason, "body": body});
            let hint = "check that the configured origin is really that kind of server";
            ErrorEnvelope::new(Code::UpstreamProtocolError, message, hint).with_details(details)
        }
        UpstreamError::Saturated { kind, limit } => {
            let details = json!({"kind": kind, "limit": limit});
            ErrorEnvelope::new(Code::Overloaded, message, "try again in a moment").with_details(details)
        }
    }
}

/// The sentence in a foreign error body: `{"error": text}`, `{"error": {"message": text}}` or `{"message": text}`.
fn sentence_of(body: &str) -> Option<String> {
    let body: Value = serde_json::from_str(body).ok()?;
    let told = [&body["error"], &body["error"]["message"], &body["message"]].into_iter().find_map(Value::as_str)?;
    Some(told[..told.floor_char_boundary(MAX_SENTENCE)].to_owned())
}

/// Longest foreign sentence that is repeated.
const MAX_SENTENCE: usize = 500;

/// An agent's failure. `is_read`: asking again cannot do anything twice.
pub fn agent_error(did: &str, error: &AgentError, is_read: bool) -> ErrorEnvelope {
    let message = error.to_string();
    let mut envelope = match error {
        AgentError::Resolution(_) => {
            let hint = "the DID Document must be reachable and name itself; correct the agent's hosting or its participants' DID";
            ErrorEnvelope::new(Code::VsaDidResolutionFailed, message, hint)
        }
        AgentError::NoAdminApi(_) => {
            let hint = "run the agent with ADMIN_API_AUTH_MODE=corporation and a public admin URL, which it publishes by itself";
            ErrorEnvelope::new(Code::VsaAdminUrlNotFound, message, hint)
        }
        AgentError::Login { origin, .. } => {
            let hint =
                "have this operator's account (svc.wallet.getAddress) put on the agent's list of allowed accounts";
            ErrorEnvelope::new(Code::VsaAuthFailed, message, hint).with_details(json!({"origin": origin}))
        }
        AgentError::Signer(_) => ErrorEnvelope::new(Code::Restarting, message, "try again in a moment"),
        AgentError::Upstream(error) => upstream_error(error),
        AgentError::Overloaded { .. } => ErrorEnvelope::new(Code::Overloaded, message, "try again in a moment"),
    };
    envelope.details["agent_did"] = did.into();
    let is_unknown = match error {
        AgentError::Upstream(UpstreamError::Http { status, .. }) => *status >= 500,
        AgentError::Upstream(UpstreamError::Unreachable { .. } | UpstreamError::Protocol { .. }) => true,
        _ => false,
    };
    if is_unknown && !is_read {
        return unknown_effect(envelope);
    }
    envelope
}

/// Says that nobody knows whether an agent did what it was asked.
pub fn unknown_effect(mut envelope: ErrorEnvelope) -> ErrorEnvelope {
    envelope.hint = "whether the agent did it is not known: read its state before asking again".to_owned();
    envelope.unrepeatable()
}

/// Arguments that are well formed and still not usable.
pub fn invalid_arguments(reason: &str) -> ErrorEnvelope {
    let details = json!({"violations": [{"pointer": "", "reason": reason}]});
    let hint = "correct the argument and call again; tools/list shows the schema";
    ErrorEnvelope::new(Code::InputInvalid, reason, hint).with_details(details)
}

/// A node's failure outside a transaction.
pub fn node_error(error: &NodeError) -> ErrorEnvelope {
    match error {
        NodeError::Upstream(error) => upstream_error(error),
        NodeError::Rpc { method, error: rpc } => {
            let details = json!({"kind": "rpc", "method": method, "rpc_code": rpc.code, "body": rpc.data});
            let hint = "the body says what the node objects to";
            ErrorEnvelope::new(Code::UpstreamHttpError, error.to_string(), hint).with_details(details)
        }
        NodeError::Query { path, error: chain } => {
            let mut details = chain_details(chain);
            details["path"] = path.as_str().into();
            let hint = "the raw log says what the chain objects to";
            ErrorEnvelope::new(Code::UpstreamHttpError, error.to_string(), hint).with_details(details)
        }
    }
}

/// An actor that did not answer.
pub fn ask_error(error: &AskError) -> ErrorEnvelope {
    let (code, hint) = match error {
        AskError::Refused { .. } => (Code::Overloaded, "too many calls are under way; try again in a moment"),
        AskError::NotDelivered { standing: Standing::Stopped, .. } => (Code::NotReady, "the server is stopping"),
        AskError::NotDelivered { .. } | AskError::Died { .. } => (Code::Restarting, "try again in a moment"),
        AskError::TimedOut { .. } => (Code::Overloaded, "the server is busy; try again in a moment"),
    };
    ErrorEnvelope::new(code, error.to_string(), hint)
}

fn chain_details(error: &ChainError) -> Value {
    json!({"codespace": error.codespace, "code": error.code, "raw_log": error.raw_log})
}

/// A transaction that never came into flight.
pub fn submit_error(error: &SubmitError) -> ErrorEnvelope {
    match error {
        SubmitError::Node(error) => node_error(error),
        SubmitError::NoAccount { address } => ErrorEnvelope::new(
            Code::InsufficientFees,
            format!("account {address} does not exist on chain yet"),
            "send it some coins, or have the corporation grant an authorization with a fee allowance",
        )
        .with_details(json!({"address": address})),
        SubmitError::Simulation(chain) if chain.simulated_meaning() == Meaning::InsufficientFees => fees(chain),
        SubmitError::Simulation(chain) => {
            let hint = "nothing was sent; the raw log says which rule of the chain the message breaks";
            let message = format!("simulation failed: {}", chain.raw_log);
            ErrorEnvelope::new(Code::SimulationFailed, message, hint).with_details(chain_details(chain))
        }
        SubmitError::Sequence(chain) => {
            let hint = "another process may be using the same key; try again when it is quiet";
            let message = format!("the account sequence stayed wrong: {}", chain.raw_log);
            ErrorEnvelope::new(Code::SequenceMismatch, message, hint).with_details(chain_details(chain))
        }
        SubmitError::Rejected(chain) if chain.meaning() == Meaning::InsufficientFees => fees(chain),
        SubmitError::Rejected(chain) => {
            let mut envelope = ErrorEnvelope::new(
                Code::BcastRejected,
                format!("the node refused the transaction: {}", chain.raw_log),
                "nothing was executed and no sequence was used; the raw log says why",
            )
            .with_details(chain_details(chain));
            envelope.retryable = chain.meaning() == Meaning::MempoolFull;
            envelope
        }
        SubmitError::Behind { expected, used_below } => {
            let message =
                format!("the node is behind: it expects sequence {expected}, and all below {used_below} are used");
            let hint = "nothing was sent; wait until the node has caught up, or give SVC_RPC another one";
            ErrorEnvelope::new(Code::NotReady, message, hint)
                .with_details(json!({"kind": "rpc", "expected": expected, "used_below": used_below}))
        }
        SubmitError::Journal(reason) => unwritten("journal", reason),
        SubmitError::Overloaded { limit } => {
            let message = format!("{limit} writes are already waiting to be signed");
            ErrorEnvelope::new(Code::Overloaded, message, "nothing was sent; try again in a moment")
        }
        SubmitError::Signing => {
            ErrorEnvelope::new(Code::NotReady, "the transaction could not be signed", "check the key")
        }
    }
}

/// A transaction whose outcome a caller does not wait for any longer.
pub fn timed_out(hash: &str, timeout_height: u64, waited: Duration) -> ErrorEnvelope {
    let message =
        format!("transaction {hash} was not included within {waited:?}; it may still be until block {timeout_height}");
    let hint = "do not repeat the call: the server goes on watching, and svc.cosmos.tx.getTx for this hash or \
                svc://own/transactions shows the outcome (prompt reconcile-transaction)";
    ErrorEnvelope::new(Code::BcastTimeout, message, hint)
        .with_details(json!({"tx_hash": hash, "timeout_height": timeout_height}))
}

/// A transaction that was never included and never will be.
pub fn expired(hash: &str, timeout_height: u64) -> ErrorEnvelope {
    let message = format!("transaction {hash} was not included by block {timeout_height} and can never execute");
    let hint = "nothing was changed; the same call can be made again, under a new idempotency_key if it had one";
    ErrorEnvelope::new(Code::TxExpired, message, hint)
        .with_details(json!({"tx_hash": hash, "timeout_height": timeout_height}))
}

/// A transaction whose sequence somebody else used first.
pub fn displaced(hash: &str, sequence: u64, height: u64) -> ErrorEnvelope {
    let message = format!("another transaction used sequence {sequence} of this account; {hash} can never execute");
    let hint = "nothing was changed; another process uses the same account: stop it, then make the call again, under a new \
                idempotency_key if it had one";
    ErrorEnvelope::new(Code::SequenceMismatch, message, hint)
        .with_details(json!({"tx_hash": hash, "sequence": sequence, "seen_at_height": height}))
}

/// A record that must be there before a write could not be made.
pub fn unwritten(record: &str, reason: &str) -> ErrorEnvelope {
    let hint = "nothing was sent; whoever runs this server has to make room for its records";
    ErrorEnvelope::new(Code::NotReady, format!("the {record} cannot be kept: {reason}"), hint)
        .with_details(json!({"record": record}))
}

fn fees(chain: &ChainError) -> ErrorEnvelope {
    let message = format!("the fee cannot be paid: {}", chain.raw_log);
    let hint = "fund the operator, or renew the corporation's fee allowance (resource svc://own/fee-grant shows it)";
    ErrorEnvelope::new(Code::InsufficientFees, message, hint).with_details(chain_details(chain))
}

/// A transaction that was included and failed there.
pub fn tx_failed(hash: &str, height: u64, chain: &ChainError) -> ErrorEnvelope {
    let mut details = chain_details(chain);
    details["tx_hash"] = hash.into();
    details["block_height"] = height.into();
    let code = match chain.meaning() {
        Meaning::AuthorizationExpired => Code::AuthzExpired,
        Meaning::AuthorizationMissing => Code::AuthzRevoked,
        Meaning::SpendLimit => Code::AuthzPreconditionFailed,
        _ => Code::TxFailed,
    };
    let hint =
        "the transaction is final: at most its fee is spent and nothing else changed; the raw log says why it failed";
    ErrorEnvelope::new(code, format!("the transaction failed in block {height}: {}", chain.raw_log), hint)
        .with_details(details)
}

//! Error envelopes for the outcomes of a write.

use std::time::Duration;

use serde_json::json;
use svc_kit::AskError;
use svc_pipeline::{
    Ceiling, CeilingExceeded, ChainChange, JournalRecord, SubmitError, SubmittedTx, TxRefusal, describe_heights,
};
use svc_wire::{
    chain_error::{ChainError, ChainErrorKind, FeeShortage},
    error_envelope::{ErrorEnvelope, FailureCode, NextStep},
};

use super::{chain_details, node_error};
use crate::snapshot::UnknownPayer;

/// A write that the signer brought into flight with no transaction.
pub fn submit_error(error: &SubmitError) -> ErrorEnvelope {
    match error {
        SubmitError::Node(error) => nothing_sent(node_error(error)),
        SubmitError::NoAccount { address } => ErrorEnvelope::new(
            FailureCode::InsufficientFees,
            format!("account {address} does not exist on chain yet"),
            "send it some coins, or have the corporation grant an authorization with a fee allowance",
        )
        .with_details(json!({"address": address})),
        SubmitError::Simulation(chain) if chain.classify_simulation() == ChainErrorKind::InsufficientFees => {
            insufficient_fees(chain)
        }
        SubmitError::Simulation(chain) => {
            let advice = chain.advice().unwrap_or("the raw log says which rule of the chain the message breaks");
            let hint = format!("nothing was sent; {advice}");
            let message = format!("simulation failed: {}", chain.sentence());
            ErrorEnvelope::new(FailureCode::SimulationFailed, message, hint).with_details(chain_details(chain))
        }
        SubmitError::Sequence(chain) => {
            let hint = "another process may be using the same key; try again when it is quiet";
            let message = format!("the account sequence stayed wrong: {}", chain.sentence());
            ErrorEnvelope::new(FailureCode::SequenceMismatch, message, hint).with_details(chain_details(chain))
        }
        SubmitError::SequenceMoved { .. } => {
            ErrorEnvelope::new(FailureCode::Restarting, error.to_string(), "try again in a moment")
        }
        SubmitError::NodeBehind { expected_sequence: expected, used_below } => {
            let message =
                format!("the node is behind: it expects sequence {expected}, and all below {used_below} are used");
            let hint = "nothing was sent; wait until the node has caught up, or use another one";
            ErrorEnvelope::new(FailureCode::NotReady, message, hint)
                .with_details(json!({"kind": "rpc", "expected": expected, "used_below": used_below}))
                .with_next_step(NextStep::ConfigureNode)
        }
        SubmitError::AboveCeiling(exceeded) => {
            let CeilingExceeded { ceiling, needed, limit } = exceeded;
            let (kind, next_step) = match ceiling {
                Ceiling::Gas => ("gas", NextStep::RaiseMaxGas),
                Ceiling::Fee => ("fee", NextStep::RaiseMaxFee),
                Ceiling::DailyFee => ("fee_per_day", NextStep::RaiseMaxFeePerDay),
                Ceiling::PrincipalFee => ("principal_fee", NextStep::RaisePrincipalLimit),
                Ceiling::PrincipalDailyFee => ("principal_fee_per_day", NextStep::RaisePrincipalLimit),
            };
            let hint = "nothing was signed; raise the limit only if the message is worth it and the node is trusted";
            let details = json!({"kind": kind, "needed": needed.to_string(), "limit": limit.to_string()});
            ErrorEnvelope::new(FailureCode::FeeAboveCeiling, exceeded.to_string(), hint)
                .with_details(details)
                .with_next_step(next_step)
        }
        SubmitError::Journal(reason) => record_unavailable("journal", reason),
        SubmitError::ChainChanged(change) => chain_changed_error(change),
        SubmitError::Restored { hash, height } => {
            let message = format!(
                "the same message was executed as {hash} in block {height}, before the journal lost its records"
            );
            let hint = "this call may be a repetition of that one, whose idempotency key is lost; if it is another one, make it a day \
                        after the restart, or change the message";
            ErrorEnvelope::new(FailureCode::JournalUnavailable, message, hint)
                .with_details(json!({"record": "journal", "tx_hash": hash, "block_height": height}))
                .not_retryable()
                .with_next_step(NextStep::LookUpTransaction)
        }
        SubmitError::Unrecorded(reason) => {
            let hint = "the server that starts next may still send it: repeat the call only under the same idempotency_key, or look \
                        for it first";
            ErrorEnvelope::new(
                FailureCode::JournalUnavailable,
                format!("the journal cannot be written: {reason}"),
                hint,
            )
            .with_details(json!({"record": "journal"}))
            .not_retryable()
            .with_next_step(NextStep::ListTransactions)
        }
        SubmitError::Overloaded { limit } => {
            let message = format!("{limit} writes are already waiting to be signed");
            ErrorEnvelope::new(FailureCode::Overloaded, message, "nothing was sent; try again in a moment")
        }
        SubmitError::NotTaken { msg_type, .. } => {
            let hint = "nothing was signed; the node runs another release of the chain: use a release of this server that knows it";
            ErrorEnvelope::new(FailureCode::UpstreamProtocolError, error.to_string(), hint)
                .with_details(json!({"kind": "rpc", "msg_type": msg_type}))
                .not_retryable()
        }
        SubmitError::SigningFailed => {
            ErrorEnvelope::new(FailureCode::NotReady, "the transaction could not be signed", "check the key")
        }
    }
}

/// Beginnings of the hints of a write that the signer ended before a signature, or before any byte left.
const NOTHING_SENT: [&str; 2] = ["nothing was sent; ", "nothing was signed; "];

fn nothing_sent(mut error: ErrorEnvelope) -> ErrorEnvelope {
    if !NOTHING_SENT.iter().any(|words| error.hint.starts_with(words)) {
        error.hint = format!("{}{}", NOTHING_SENT[0], error.hint);
    }
    error
}

/// A transaction that CheckTx refused, or the ante handler in a block. A node that has passed it on may still bring it into a block.
pub fn rejected_error(tx: &SubmittedTx, refusal: &TxRefusal) -> ErrorEnvelope {
    bound_error(refusal_error(refusal), tx)
}

/// A refused transaction that never executed. Its idempotency key is free.
pub fn never_executed_error(hash: &str, refusal: &TxRefusal) -> ErrorEnvelope {
    let mut envelope = refusal_error(refusal);
    envelope.details["tx_hash"] = hash.into();
    envelope
}

fn refusal_error(refusal: &TxRefusal) -> ErrorEnvelope {
    let TxRefusal { error: chain, block_height } = refusal;
    let mut envelope = if chain.classify() == ChainErrorKind::InsufficientFees {
        insufficient_fees(chain)
    } else {
        let message = match block_height {
            Some(height) => {
                format!("the transaction failed in block {height} before its message: {}", chain.sentence())
            }
            None => format!("the node refused the transaction: {}", chain.sentence()),
        };
        let advice = chain.advice().unwrap_or("the raw log says why");
        let hint = format!("nothing was executed and no sequence was used; {advice}");
        ErrorEnvelope::new(FailureCode::BroadcastRejected, message, hint).with_details(chain_details(chain))
    };
    if let Some(height) = block_height {
        envelope.details["block_height"] = (*height).into();
    }
    envelope
}

/// The error of a write with a transaction that may still execute: until then the write must not be made a second time.
pub fn bound_error(mut envelope: ErrorEnvelope, tx: &SubmittedTx) -> ErrorEnvelope {
    if envelope.code == FailureCode::AuthzNotGranted {
        envelope.code = FailureCode::AuthzRevoked;
    }
    envelope.hint = format!(
        "do not make the call a second time before block {}: a node that has passed the transaction on may still execute it until \
         then; under its idempotency_key the call can be repeated at any time, and executes once",
        tx.timeout_height
    );
    envelope.details["tx_hash"] = tx.hash.as_str().into();
    envelope.details["timeout_height"] = tx.timeout_height.into();
    envelope.not_retryable()
}

/// A transaction that was not decided within a caller's wait limit.
pub fn timed_out_error(hash: &str, timeout_height: u64, waited: Duration) -> ErrorEnvelope {
    let message =
        format!("transaction {hash} was not included within {waited:?}; it may still be until block {timeout_height}");
    let hint = "do not repeat the call: the server follows the transaction to its outcome";
    ErrorEnvelope::new(FailureCode::BroadcastTimeout, message, hint)
        .with_details(json!({"tx_hash": hash, "timeout_height": timeout_height}))
        .with_next_step(NextStep::LookUpTransaction)
}

/// A transaction that cannot be decided, since no node has the blocks that could contain it.
pub fn unprovable_error(hash: &str, timeout_height: u64, missing_blocks: &[u64]) -> ErrorEnvelope {
    let missing = describe_heights(missing_blocks);
    let message =
        format!("transaction {hash} cannot be decided: no node has the blocks that could contain it ({missing})");
    let hint = "do not repeat the call; add a node that has these blocks, for example an archive node, or look at the effect \
                of the call itself";
    ErrorEnvelope::new(FailureCode::BroadcastTimeout, message, hint)
        .with_details(json!({"tx_hash": hash, "timeout_height": timeout_height, "missing_blocks": missing}))
        .with_next_step(NextStep::LookUpTransaction)
}

/// A transaction that no block contains and that can never execute.
pub fn expired_error(hash: &str, timeout_height: u64) -> ErrorEnvelope {
    let message = format!("transaction {hash} was not included by block {timeout_height} and can never execute");
    let hint = "it has had no effect; the same call can be made again, under a new idempotency_key if it had one";
    ErrorEnvelope::new(FailureCode::TxExpired, message, hint)
        .with_details(json!({"tx_hash": hash, "timeout_height": timeout_height}))
}

/// A transaction whose sequence a foreign transaction has used, as far as known with the height at which that was found.
pub fn displaced_error(hash: &str, sequence: u64, height: Option<u64>) -> ErrorEnvelope {
    let message = format!("another transaction used sequence {sequence} of this account; {hash} can never execute");
    let hint = "it has had no effect; another process uses the same account: stop it, then make the call again, under a new \
                idempotency_key if it had one";
    let mut details = json!({"tx_hash": hash, "sequence": sequence});
    if let Some(height) = height {
        details["seen_at_height"] = height.into();
    }
    ErrorEnvelope::new(FailureCode::SequenceMismatch, message, hint).with_details(details)
}

/// A write under a key of which the journal cannot say whether it was used before.
pub fn unknown_key(key: &str, reason: &str) -> ErrorEnvelope {
    let hint = "whether a call under this idempotency_key was made before is not known, and this one sent nothing; the operator of this \
                server has to mend its journal, then repeat the call under the same key";
    ErrorEnvelope::new(FailureCode::JournalUnavailable, format!("the journal cannot be read: {reason}"), hint)
        .with_details(json!({"record": "journal", "idempotency_key": key}))
}

/// A record that must exist before a write cannot be made.
pub fn record_unavailable(record: &str, reason: &str) -> ErrorEnvelope {
    let hint = "nothing was sent; the operator of this server has to make room for its records";
    ErrorEnvelope::new(FailureCode::JournalUnavailable, format!("the {record} cannot be kept: {reason}"), hint)
        .with_details(json!({"record": record}))
}

fn insufficient_fees(chain: &ChainError) -> ErrorEnvelope {
    let message = format!("the fee cannot be paid: {}", chain.sentence());
    if let Some(FeeShortage { offered, required }) = chain.fee_shortage() {
        let mut message = format!("{message}: the node wants {required} where the price of gas makes {offered}");
        // No multiple of a price of 0 helps.
        if offered > 0 {
            let factor = required.saturating_mul(100).div_ceil(offered);
            let times = format!("{}.{:02}", factor / 100, factor % 100);
            message = format!("{message}, so that the price of gas has to be {times} times as high");
        }
        let hint = "raise the price, or leave it out: then the node's own price is taken, as it is at each time";
        let mut details = chain_details(chain);
        details["fee_required"] = required.to_string().into();
        details["fee_offered"] = offered.to_string().into();
        return ErrorEnvelope::new(FailureCode::InsufficientFees, message, hint)
            .with_details(details)
            .with_next_step(NextStep::RaiseGasPrice)
            .not_retryable();
    }
    let hint = "fund the operator, or renew the corporation's fee allowance";
    ErrorEnvelope::new(FailureCode::InsufficientFees, message, hint)
        .with_details(chain_details(chain))
        .with_next_step(NextStep::ShowFeeAllowance)
}

/// A refusal for too small a fee at a price that is set, with this price and the node's.
pub fn with_prices(mut error: ErrorEnvelope, problem: &str) -> ErrorEnvelope {
    error.message = format!("{}; {problem}", error.message);
    error
}

/// A transaction that failed in its block.
pub fn tx_failed_error(hash: &str, height: u64, chain: &ChainError) -> ErrorEnvelope {
    let mut details = chain_details(chain);
    details["tx_hash"] = hash.into();
    details["block_height"] = height.into();
    let code = match chain.classify() {
        ChainErrorKind::AuthorizationExpired => FailureCode::AuthzExpired,
        ChainErrorKind::AuthorizationMissing => FailureCode::AuthzRevoked,
        ChainErrorKind::SpendLimitExceeded => FailureCode::AuthzPreconditionFailed,
        _ => FailureCode::TxFailed,
    };
    let advice = chain.advice().unwrap_or("the raw log says why it failed");
    let hint = format!("the transaction is final: at most its fee is spent and nothing else changed; {advice}");
    ErrorEnvelope::new(code, format!("the transaction failed in block {height}: {}", chain.sentence()), hint)
        .with_details(details)
}

/// A write whose first transaction had no effect and that could not be signed again.
pub fn resubmission_error(mut error: ErrorEnvelope, earlier: &SubmittedTx) -> ErrorEnvelope {
    if error.code == FailureCode::AuthzNotGranted {
        error.code = FailureCode::AuthzRevoked;
    }
    error.details["tx_hash"] = earlier.hash.as_str().into();
    // Bytes of the first one have left.
    let hint = NOTHING_SENT.iter().find_map(|words| error.hint.strip_prefix(words)).unwrap_or(&error.hint);
    error.hint = format!(
        "its first transaction had no effect and no other was sent; call again under a new idempotency_key if it had one; {hint}"
    );
    error
}

/// A write that the signer may still execute although it does not answer.
pub fn signer_unavailable(error: &AskError) -> ErrorEnvelope {
    let message = format!("the signer does not answer: {error}");
    ErrorEnvelope::new(FailureCode::Restarting, message, "the write may still be made: look for it before repeating it")
        .not_retryable()
        .with_next_step(NextStep::ListTransactions)
}

/// A write while the chain has another history than the journal.
pub fn chain_changed_error(change: &ChainChange) -> ErrorEnvelope {
    let mut details = json!({
        "height": change.height, "pinned": change.pinned, "found": change.found, "rebase_to": change.agreed,
    });
    if let Some(hash) = &change.missing_tx {
        details["missing_tx"] = hash.as_str().into();
    }
    let hint = match change.agreed {
        Some(agreed) => {
            let command = format!("svc journal rebase --to {agreed}");
            let hint = format!(
                "nothing was signed; once the chain goes on from an earlier block for good, stop the server, run `{command}` and start it again"
            );
            details["command"] = command.into();
            hint
        }
        None => {
            details["command"] = "svc journal rebase --to HEIGHT".into();
            "nothing was signed; no block is known that both histories have: stop the server, run `svc journal rebase --to HEIGHT` with the \
             newest height at which the chain kept its block (0 when it was started once more), and start it again"
                .to_owned()
        }
    };
    ErrorEnvelope::new(FailureCode::ChainChanged, change.to_string(), hint).with_details(details)
}

/// A repeated write whose transaction belongs to a history of the chain that has ended. `height` is that of the chain.
pub fn abandoned_error(record: &JournalRecord, height: u64) -> ErrorEnvelope {
    let JournalRecord { tx_hash, msg_type, timeout_height, .. } = record;
    let was = record.state_before.as_deref().unwrap_or("unknown");
    let place = record.block_height.map(|height| format!(" in block {height}")).unwrap_or_default();
    let message = format!(
        "the write under this idempotency_key was abandoned: its transaction {tx_hash} with {msg_type} was {was}{place} of a history of \
         the chain that has ended"
    );
    let hint = if *timeout_height > height {
        format!(
            "this key never sends again; the same bytes may still come into a block up to {timeout_height}: once the chain has passed it \
             and the transaction is in no block, send the write under a new idempotency_key"
        )
    } else {
        "this key never sends again; send the write under a new idempotency_key if it is still wanted".to_owned()
    };
    let details = json!({
        "tx_hash": tx_hash, "msg_type": msg_type, "was": was, "block_height": record.block_height, "code": record.code,
        "timeout_height": timeout_height, "message_digest": record.message_digest,
    });
    ErrorEnvelope::new(FailureCode::WriteAbandoned, message, hint)
        .with_details(details)
        .with_next_step(NextStep::LookUpTransaction)
}

/// A write whose payer is not known.
pub fn unknown_payer(unknown: &UnknownPayer) -> ErrorEnvelope {
    let hint = "nothing was signed; the node is asked again within seconds, or have another one configured";
    ErrorEnvelope::new(FailureCode::NotReady, unknown.to_string(), hint)
        .with_details(json!({"kind": "rpc", "reason": unknown.0}))
        .with_next_step(NextStep::ConfigureNode)
}

/// A write that had not ended when the server stopped.
pub fn server_stopped() -> ErrorEnvelope {
    let hint = "look the write up when the server is back, before repeating it";
    ErrorEnvelope::new(FailureCode::NotReady, "the server stopped before the write ended", hint)
        .not_retryable()
        .with_next_step(NextStep::ListTransactions)
}

#[cfg(test)]
mod tests {
    use svc_net::upstream::{NodeClientError, UpstreamError, UpstreamKind};

    use super::*;

    #[test]
    fn an_abandoned_write_names_its_transaction_and_the_height_up_to_which_its_bytes_may_come_back() {
        let record = JournalRecord {
            tx_hash: "AB".to_owned(),
            state: "abandoned".to_owned(),
            state_before: Some("included".to_owned()),
            msg_type: "/m".to_owned(),
            block_height: Some(8),
            timeout_height: 30,
            ..JournalRecord::default()
        };
        for (height, words) in [(30, "send the write under a new idempotency_key if"), (29, "into a block up to 30")] {
            let error = abandoned_error(&record, height);
            assert!(error.hint.contains(words), "{}", error.hint);
            assert!(error.message.contains("AB with /m was included in block 8"), "{}", error.message);
            assert_eq!((error.code, &error.details["was"]), (FailureCode::WriteAbandoned, &json!("included")));
        }
    }

    #[test]
    fn no_hint_says_that_nothing_was_sent_or_changed_where_bytes_have_left() {
        let tx = SubmittedTx { hash: "AB".to_owned(), timeout_height: 9, sequence: 7, has_granter: false };
        let unreachable = || {
            let (kind, origin) = (UpstreamKind::Rpc, "http://node".to_owned());
            NodeClientError::Upstream(UpstreamError::Unreachable { kind, origin, reason: "refused".to_owned() })
        };
        let chain = ChainError { codespace: "sdk".to_owned(), code: 11, raw_log: "out of gas".to_owned() };
        let refusal = TxRefusal { error: chain.clone(), block_height: None };
        let unsent = submit_error(&SubmitError::Node(unreachable()));
        assert!(unsent.hint.starts_with("nothing was sent; "), "{}", unsent.hint);
        let ceiling = CeilingExceeded { ceiling: Ceiling::Fee, needed: 2, limit: 1 };
        let refused_again = submit_error(&SubmitError::AboveCeiling(ceiling));
        for envelope in [
            expired_error("AB", 9),
            displaced_error("AB", 7, Some(8)),
            displaced_error("AB", 7, None),
            timed_out_error("AB", 9, Duration::from_secs(1)),
            unprovable_error("AB", 9, &[3]),
            rejected_error(&tx, &refusal),
            never_executed_error("AB", &refusal),
            tx_failed_error("AB", 8, &chain),
            bound_error(unsent.clone(), &tx),
            resubmission_error(unsent, &tx),
            resubmission_error(refused_again, &tx),
            server_stopped(),
        ] {
            let hint = &envelope.hint;
            assert!(
                !["nothing was sent", "nothing was changed", "nothing was signed"].iter().any(|one| hint.contains(one)),
                "{hint}"
            );
        }
        let change = ChainChange {
            height: 9,
            pinned: Some("A".to_owned()),
            missing_tx: None,
            found: "B".to_owned(),
            agreed: Some(7),
        };
        let changed = submit_error(&SubmitError::ChainChanged(Box::new(change.clone())));
        assert!(changed.hint.contains("`svc journal rebase --to 7`"), "{}", changed.hint);
        let expected = json!({
            "height": 9, "pinned": "A", "found": "B", "rebase_to": 7, "command": "svc journal rebase --to 7",
        });
        assert_eq!((*changed.details, changed.retryable), (expected, false));
        let unknown = chain_changed_error(&ChainChange { agreed: None, ..change });
        assert!(unknown.hint.contains("0 when it was started once more"), "{}", unknown.hint);
        assert_eq!(displaced_error("AB", 7, None).details["seen_at_height"], serde_json::Value::Null);
        assert!(!unknown_key("k", "locked").hint.contains("nothing was sent"));
    }
}

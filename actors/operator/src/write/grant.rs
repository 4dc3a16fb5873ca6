//! The grant that a write needs, and the fee allowance that pays for it.

use std::time::Duration;

use serde_json::json;
use svc_pipeline::{EncodedMessage, FeeGranter, SigningPolicy, WriteIntent};
use svc_wire::error_envelope::{ErrorEnvelope, FailureCode, NextStep};
use tokio::time::Instant;

use super::{context::WriteContext, request::decode_message};
use crate::{
    error::{record_unavailable, unknown_payer},
    refresher::RefreshTrigger,
    snapshot::GrantStatus,
};

/// Longest wait of a refused write for the indexer before its authorization is read again.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest wait for a snapshot.
pub(crate) const REFRESH_TIMEOUT: Duration = Duration::from_secs(10);

/// Refuses a message that the corporation does not grant to this operator now.
pub(crate) fn check_grant(context: &WriteContext, message: &EncodedMessage) -> Result<(), ErrorEnvelope> {
    if !message.needs_grant {
        return Ok(());
    }
    let msg_type = message.msg_type();
    let details = json!({"msg_type": msg_type});
    match context.publisher.current().grant_status(msg_type, &context.chain_time()) {
        GrantStatus::Granted => Ok(()),
        GrantStatus::Expired(until) => {
            let reason = format!("the authorization for {msg_type} expired at {until}");
            let hint = "nothing was sent; have the corporation grant it again";
            Err(ErrorEnvelope::new(FailureCode::AuthzExpired, reason, hint)
                .with_details(details)
                .with_next_step(NextStep::RenewAuthorization))
        }
        GrantStatus::NotGranted => {
            let reason = format!("the corporation does not grant {msg_type} to this operator");
            let hint = "nothing was sent; have the corporation grant it";
            Err(ErrorEnvelope::new(FailureCode::AuthzNotGranted, reason, hint)
                .with_details(details)
                .with_next_step(NextStep::ListAuthorizations))
        }
    }
}

/// The operator's policy: the corporation grants the message, its fee allowance pays if it can, and the audit has the write before
/// the first signature.
pub(crate) struct GrantPolicy<'a>(pub &'a WriteContext);

impl SigningPolicy for GrantPolicy<'_> {
    type Refusal = ErrorEnvelope;

    fn authorize(&self, intent: &WriteIntent, attempt: u32) -> Result<Option<FeeGranter>, ErrorEnvelope> {
        let Self(context) = self;
        check_grant(context, &intent.encoded)?;
        let snapshot = context.publisher.current();
        let budget = snapshot.fee_budget(intent.encoded.msg_type(), &context.chain_time());
        let budget = budget.map_err(|unknown| unknown_payer(&unknown))?;
        if attempt == 0 {
            context
                .audit
                .begin(intent, decode_message(context, &intent.encoded))
                .map_err(|error| record_unavailable("audit", &error.to_string()))?;
        }
        Ok(budget.map(|budget| FeeGranter { address: snapshot.policy_address().to_owned(), budget }))
    }
}

/// The error for a write that ended with `envelope`. A refusal by the chain may mean that the authorization is gone: the operator reads
/// the authorization again and does not interpret the chain's words.
pub(crate) async fn explain_refusal(
    context: &WriteContext,
    message: &EncodedMessage,
    envelope: ErrorEnvelope,
    was_refused: bool,
) -> ErrorEnvelope {
    if !was_refused || !message.needs_grant {
        return envelope;
    }
    // The node may be a block ahead of the indexer, which the authorizations are read from.
    if let Ok(status) = context.pipeline.node().status().await {
        let deadline = Instant::now() + CATCH_UP_TIMEOUT;
        let _ = context.barrier.await_write_height(status.sync_info.latest_block_height, deadline).await;
    }
    let _ = context.refresher.refresh(RefreshTrigger::WriteMismatch, REFRESH_TIMEOUT).await;
    match check_grant(context, message) {
        Ok(()) => envelope,
        Err(mut refusal) => {
            if refusal.code == FailureCode::AuthzNotGranted {
                refusal.code = FailureCode::AuthzRevoked;
            }
            refusal.details["chain"] = *envelope.details;
            refusal
        }
    }
}

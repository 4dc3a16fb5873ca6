//! A write before it begins: the request, the exact message and its cost.

use serde_json::{Value, json};
use svc_pipeline::{EncodedMessage, EstimateError, FeeGranter, FeeLimits, SubmitError};
use svc_wire::error_envelope::{ErrorEnvelope, FailureCode};

use super::{context::WriteContext, grant::check_grant, receipt::fee_payer, stored_digest::refuse_stored_digest};
use crate::error::{invalid_arguments, node_error, submit_error, unknown_payer};

/// A write as a tool requests it.
#[derive(Debug, Clone)]
pub struct WriteRequest {
    /// Type URL.
    pub msg_type: String,
    /// The message as JSON, without the accounts.
    pub arguments: Value,
    /// Accounts that the server fills in, by field name.
    pub accounts: Vec<(String, String)>,
    /// Whether the message needs an authorization of the corporation.
    pub needs_grant: bool,
}

/// The cost of a write.
#[derive(Debug, Clone, serde::Serialize)]
pub struct FeeEstimate {
    /// Gas that the simulation used.
    pub gas_used: u64,
    /// Gas limit of the transaction.
    pub gas_wanted: u64,
    /// Fee of the transaction.
    pub fee: Value,
    /// Payer of the fee: `corporation` or `operator`.
    pub fee_payer: &'static str,
}

/// Encodes the message of a request with the server's accounts in it.
pub(crate) fn encode_message(context: &WriteContext, request: &WriteRequest) -> Result<EncodedMessage, ErrorEnvelope> {
    let mut message = request.arguments.clone();
    for (field, account) in &request.accounts {
        message[field.as_str()] = account.as_str().into();
    }
    let encoded = context.registry.encode(&request.msg_type, &message);
    let value = encoded.map_err(|error| invalid_arguments(&error.to_string()))?;
    let message = prost_types::Any { type_url: request.msg_type.clone(), value };
    Ok(EncodedMessage { message, needs_grant: request.needs_grant })
}

/// The message as the chain will read it, decoded from the bytes that the signer signs.
pub(crate) fn decode_message(context: &WriteContext, message: &EncodedMessage) -> Value {
    let decoded = context.registry.decode(message.msg_type(), &message.message.value);
    let mut shown = decoded.unwrap_or_else(|_| json!({}));
    shown["@type"] = message.msg_type().into();
    shown
}

/// The principal that requests a write.
#[derive(Debug, Clone, Copy)]
pub struct WriteRequester<'a> {
    /// Its name.
    pub principal: &'a str,
    /// Its own ceilings.
    pub fee_limits: FeeLimits,
}

/// Selects the fee payer and simulates the write. Nothing is signed and nothing is sent.
pub(crate) async fn estimate_fee(
    context: &WriteContext,
    message: &EncodedMessage,
    requester: WriteRequester<'_>,
) -> Result<FeeEstimate, ErrorEnvelope> {
    check_grant(context, message)?;
    refuse_stored_digest(context, message).await?;
    let snapshot = context.publisher.current();
    if snapshot.account_number.is_none() {
        let address = context.pipeline.identity().address.to_string();
        return Err(submit_error(&SubmitError::NoAccount { address }));
    }
    let budget = snapshot.fee_budget(message.msg_type(), &context.chain_time());
    let budget = budget.map_err(|unknown| unknown_payer(&unknown))?;
    let granter = budget.map(|budget| FeeGranter { address: snapshot.policy_address().to_owned(), budget });
    let terms = (requester.principal, requester.fee_limits);
    let estimated = context.pipeline.estimate(message, snapshot.sequence, granter, terms).await;
    let estimate = estimated.map_err(estimate_error)?;
    let denom = &context.pipeline.chain().denom;
    Ok(FeeEstimate {
        gas_used: estimate.gas_used,
        gas_wanted: estimate.gas_wanted,
        fee: json!({"denom": denom, "amount": estimate.fee.to_string()}),
        fee_payer: fee_payer(estimate.has_granter),
    })
}

fn estimate_error(error: EstimateError) -> ErrorEnvelope {
    let message = error.to_string();
    match error {
        EstimateError::Submit(error) => submit_error(&error),
        EstimateError::Node(error) => node_error(&error),
        EstimateError::InsufficientBalance { address, balance, fee, denom } => {
            let hint = "fund the operator, or have the corporation give a fee allowance that covers this message type";
            ErrorEnvelope::new(FailureCode::InsufficientFees, message, hint).with_details(
                json!({"address": address, "balance": balance.to_string(), "fee": fee.to_string(), "denom": denom}),
            )
        }
    }
}

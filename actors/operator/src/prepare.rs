//! A write before it is begun: the exact message, and what it would cost.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use svc_kit::{upstream::NodeError, wall};
use svc_wire::{
    chain_error::Meaning,
    envelope::{Code, ErrorEnvelope},
    proto::cosmos::{
        bank::v1beta1::{QueryBalanceRequest, QueryBalanceResponse},
        base::v1beta1::Coin,
    },
    tx::Unsigned,
};

use crate::{
    chain::fee_for,
    error::{invalid_arguments, node_error, submit_error},
    flow::check_gate,
    operator::{Operator, Parts},
    signer::{SubmitError, simulate_gas},
};

/// A write as it was asked for.
#[derive(Debug, Clone)]
pub struct LedgerCall {
    /// Type URL.
    pub msg_type: String,
    /// The message as JSON, without the accounts.
    pub arguments: Value,
    /// Accounts the server fills in, by field name.
    pub accounts: Vec<(String, String)>,
    /// Whether an authorization of the corporation is needed.
    pub needs_grant: bool,
}

/// A write with its exact message: what is confirmed is what is signed.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The message.
    pub message: prost_types::Any,
    /// Whether an authorization of the corporation is needed.
    pub needs_grant: bool,
}

/// What a write would cost, without having been signed.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Estimate {
    /// Gas the simulation used.
    pub gas_used: u64,
    /// Gas limit the transaction would have.
    pub gas_wanted: u64,
    /// Fee it would pay.
    pub fee: Value,
    /// Who would pay it: `corporation` or `operator`.
    pub fee_payer: &'static str,
}

/// Simulations of one estimate: other writes may move the sequence meanwhile.
const ATTEMPTS: usize = 5;

impl Prepared {
    /// Type URL.
    pub fn msg_type(&self) -> &str {
        &self.message.type_url
    }

    /// SHA-256 over type URL and bytes, lower-case hex: the identity of this very message.
    pub fn digest(&self) -> String {
        let mut hasher = Sha256::new();
        hasher.update(self.message.type_url.as_bytes());
        hasher.update([0]);
        hasher.update(&self.message.value);
        hex::encode(hasher.finalize())
    }
}

impl Operator {
    /// Whether the corporation grants it now.
    pub fn permits(&self, prepared: &Prepared) -> Result<(), ErrorEnvelope> {
        check_gate(self.parts(), prepared.msg_type(), prepared.needs_grant)
    }

    /// Encodes the message with the server's accounts in it.
    pub fn prepare(&self, call: &LedgerCall) -> Result<Prepared, ErrorEnvelope> {
        let mut message = call.arguments.clone();
        for (field, account) in &call.accounts {
            message[field.as_str()] = account.as_str().into();
        }
        let encoded = self.chain().registry.encode(&call.msg_type, &message);
        let value = encoded.map_err(|error| invalid_arguments(&error.to_string()))?;
        let message = prost_types::Any { type_url: call.msg_type.clone(), value };
        Ok(Prepared { message, needs_grant: call.needs_grant })
    }

    /// The message as the chain will read it: decoded from the very bytes that would be signed.
    pub fn show(&self, prepared: &Prepared) -> Value {
        let mut shown =
            self.chain().registry.decode(prepared.msg_type(), &prepared.message.value).unwrap_or_else(|_| json!({}));
        shown["@type"] = prepared.msg_type().into();
        shown
    }

    /// Chooses the fee payer and simulates; signs nothing, sends nothing.
    pub async fn estimate(&self, prepared: &Prepared) -> Result<Estimate, ErrorEnvelope> {
        self.permits(prepared)?;
        let (parts, snapshot) = (self.parts(), self.snapshot());
        let mut granter = snapshot
            .fee_budget(prepared.msg_type(), &wall::now())
            .map(|budget| (snapshot.policy_address().to_owned(), budget));
        if snapshot.account_number.is_none() {
            let address = self.identity().address.to_string();
            return Err(submit_error(&SubmitError::NoAccount { address }));
        }
        let mut sequence = snapshot.sequence;
        let mut last = None;
        for _ in 0..ATTEMPTS {
            match self.simulate(parts, prepared, sequence, granter.as_ref().map(|(address, _)| address.clone())).await {
                Ok(gas_used) => {
                    let gas_wanted = parts.gas.with(|gas| gas.limit(prepared.msg_type(), gas_used));
                    let fee = fee_for(gas_wanted, parts.chain.gas_price_micros);
                    if granter.as_ref().and_then(|(_, budget)| *budget).is_some_and(|budget| fee > budget) {
                        granter = None;
                        continue;
                    }
                    if granter.is_none() {
                        self.affords(fee).await?;
                    }
                    return Ok(Estimate {
                        gas_used,
                        gas_wanted,
                        fee: json!({"denom": parts.chain.denom, "amount": fee.to_string()}),
                        fee_payer: if granter.is_some() { "corporation" } else { "operator" },
                    });
                }
                Err(NodeError::Query { error, .. }) => match error.simulated_meaning() {
                    Meaning::WrongSequence { expected: Some(expected), .. } => {
                        sequence = expected;
                        last = Some(SubmitError::Sequence(error));
                    }
                    Meaning::FeeAllowance if granter.is_some() => granter = None,
                    _ => return Err(submit_error(&SubmitError::Simulation(error))),
                },
                Err(error) => return Err(node_error(&error)),
            }
        }
        Err(submit_error(&last.unwrap_or(SubmitError::Overloaded { limit: ATTEMPTS })))
    }

    /// A simulation takes no fee, so it does not see an empty purse.
    async fn affords(&self, fee: u128) -> Result<(), ErrorEnvelope> {
        let (address, denom) = (self.identity().address.to_string(), &self.chain().denom);
        let request = QueryBalanceRequest { address: address.clone(), denom: denom.clone() };
        let reply: QueryBalanceResponse = self
            .node()
            .query("/cosmos.bank.v1beta1.Query/Balance", &request, 0)
            .await
            .map_err(|error| node_error(&error))?;
        let balance: u128 = reply.balance.and_then(|coin| coin.amount.parse().ok()).unwrap_or(0);
        if balance >= fee {
            return Ok(());
        }
        let message =
            format!("{address} has {balance}{denom}, the fee would be {fee}{denom}, and no allowance pays it");
        let hint = "fund the operator, or have the corporation give a fee allowance that covers this message type";
        Err(ErrorEnvelope::new(Code::InsufficientFees, message, hint).with_details(
            json!({"address": address, "balance": balance.to_string(), "fee": fee.to_string(), "denom": denom}),
        ))
    }

    async fn simulate(
        &self,
        parts: &Parts,
        prepared: &Prepared,
        sequence: u64,
        granter: Option<String>,
    ) -> Result<u64, NodeError> {
        let unsigned = Unsigned {
            messages: vec![prepared.message.clone()],
            sequence,
            fee: Vec::<Coin>::new(),
            gas_limit: 0,
            granter,
            timeout_height: self.timeout_height(parts.tx_timeout),
        };
        simulate_gas(self.node(), unsigned.for_simulation(&self.identity().public_key)).await
    }
}

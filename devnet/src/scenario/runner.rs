//! Sends the transactions of a scenario to a node over its RPC.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use prost_types::{Any, Timestamp};
use serde_json::{Value, json};
use svc_net::upstream::{BroadcastOutcome, NodeClient};
use svc_wire::{
    account_key::AccountKey,
    address::Address,
    proto::cosmos::{
        auth::v1beta1::{QueryAccountInfoRequest, QueryAccountInfoResponse},
        base::v1beta1::Coin,
        group::v1::Exec,
    },
    proto_registry::NodeGeneration,
    timestamp,
    tx::{self, SigningContext, UnsignedTx},
};

use super::spec::ScenarioStep;
use crate::node::{BlockRecord, Node, NodeError};
use svc_ledger::{ChainConfig, LedgerEvent, authority_address};

/// Gas price of a devnet, in millionths of the fee denom.
pub const GAS_PRICE_MICROS: u64 = 25_000;
/// Gas limit of a transaction, and the gas per message of a transaction with many.
const MIN_GAS_LIMIT: u64 = 3_000_000;
const GAS_PER_MESSAGE: u64 = 500_000;

/// A step failed.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// The chain refused a transaction, or a reference of the step is invalid.
    #[error("step {step:?}: {reason}")]
    Step {
        /// Name of the step.
        step: String,
        /// Error text of the chain, or the invalid reference.
        reason: String,
    },
    /// The node failed.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The RPC of the node failed.
    #[error(transparent)]
    Rpc(#[from] svc_net::upstream::NodeClientError),
}

/// An account of a scenario with its key.
pub struct ScenarioAccount {
    /// Mnemonic, a public test phrase.
    pub mnemonic: String,
    /// Address.
    pub address: Address,
    /// Key.
    pub key: AccountKey,
}

/// Sends the steps of a scenario and saves the values that they name.
pub struct ScenarioRunner<'a> {
    pub(super) node: &'a Node,
    pub(super) client: NodeClient,
    pub(super) chain: ChainConfig,
    pub(super) accounts: &'a BTreeMap<String, ScenarioAccount>,
    /// Saved values by name.
    pub saved_values: BTreeMap<String, String>,
}

/// Responses and events of a transaction.
pub(super) struct StepOutcome {
    pub responses: Vec<Any>,
    pub events: Vec<LedgerEvent>,
}

impl<'a> ScenarioRunner<'a> {
    /// Creates a runner with the addresses of the accounts as saved values.
    pub fn new(node: &'a Node, accounts: &'a BTreeMap<String, ScenarioAccount>) -> Result<Self, SeedError> {
        let client = NodeClient::new(node.origin()).map_err(svc_net::upstream::NodeClientError::from)?;
        let (chain, authority) =
            node.read_core(|core| (core.chain.clone(), authority_address(core.state(), &core.chain)));
        let accounts_of = accounts.iter().map(|(name, account)| (name.clone(), account.address.to_string()));
        // The account of governance, and the policy of a council in its place, have no key.
        let values = accounts_of.chain([("gov".to_owned(), authority)]).collect();
        Ok(Self { node, client, chain, accounts, saved_values: values })
    }

    pub(crate) async fn run_step(&mut self, step: &ScenarioStep) -> Result<(), SeedError> {
        let failed = |reason: String| SeedError::Step { step: step.name.clone(), reason };
        if step.advance > 0 {
            self.node.advance_clock(Duration::from_secs(step.advance.into()));
            self.make_block().await?;
        }
        if step.messages.is_empty() {
            return Ok(());
        }
        let mut messages = Vec::new();
        for part in &step.messages {
            let url = self.type_url(&part.r#type);
            // A message of the first generation that a later one has given up.
            if self.is_gone(&url) {
                tracing::info!(step = step.name, url, "a step is left out: the node's generation has no such message");
                return Ok(());
            }
            let value = self.resolve_references(&part.value).map_err(failed)?;
            messages.push(self.encode_message(&step.name, &url, &value)?);
        }
        let signer = step.signer.as_deref().ok_or_else(|| failed("a signer is required".to_owned()))?;
        let granter = match &step.granter {
            Some(name) => Some(self.saved_value(name).map_err(failed)?.clone()),
            None => None,
        };
        let outcome = match &step.proposal {
            Some(policy) => {
                let policy = self.saved_value(policy).map_err(failed)?.clone();
                self.submit_group_proposal(step, signer, &policy, &messages).await?
            }
            None if step.governance => self.pass_as_authority(step, signer, &messages).await?,
            None => self.send_tx(&step.name, signer, granter, messages).await?,
        };
        for (name, source) in &step.save {
            let value = self
                .find_saved_value(&outcome, source)
                .ok_or_else(|| failed(format!("nothing to save as {source:?}")))?;
            self.saved_values.insert(name.clone(), value);
        }
        Ok(())
    }

    fn is_gone(&self, url: &str) -> bool {
        self.chain.generation > NodeGeneration::N0 && self.chain.registry.message_descriptor(url).is_err()
    }

    pub(super) fn type_url(&self, name: &str) -> String {
        match name.split_once('.') {
            Some((module, message)) if !name.starts_with('/') => self.chain.namespace().type_url(module, message),
            _ => name.to_owned(),
        }
    }

    fn saved_value(&self, name: &str) -> Result<&String, String> {
        self.saved_values.get(name).ok_or_else(|| format!("{name:?} is not a saved name"))
    }

    /// Replaces the references in all texts; fails on an unknown name.
    pub(crate) fn resolve_references(&self, value: &Value) -> Result<Value, String> {
        Ok(match value {
            Value::String(text) => match text.strip_prefix('$') {
                Some(reference) => self.resolve_reference(reference)?.into(),
                None => value.clone(),
            },
            Value::Array(items) if items.first().is_some_and(|first| first == "$delegable") => {
                self.chain.grantable_types().into()
            }
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.resolve_references(item)).collect::<Result<_, _>>()?)
            }
            Value::Object(members) => {
                let members = members.iter().map(|(key, item)| Ok((key.clone(), self.resolve_references(item)?)));
                Value::Object(members.collect::<Result<_, String>>()?)
            }
            other => other.clone(),
        })
    }

    fn resolve_reference(&self, reference: &str) -> Result<String, String> {
        if reference == "FEE" {
            return Ok(self.chain.denom.clone());
        }
        if let Some(name) = reference.strip_prefix("type:") {
            return Ok(self.type_url(name));
        }
        if let Some(offset) = reference.strip_prefix("now+").and_then(|rest| rest.strip_suffix('s')) {
            let seconds: i64 = offset.parse().map_err(|_| format!("{offset:?} is not a number of seconds"))?;
            let span = prost_types::Duration { seconds, nanos: 0 };
            return Ok(timestamp::rfc3339_nanos(&timestamp::add_duration(&self.block_time(), &span)));
        }
        self.saved_value(reference).cloned()
    }

    /// Returns the type URLs that an operator can be granted.
    pub(crate) fn grantable_types(&self) -> Vec<String> {
        self.chain.grantable_types()
    }

    /// Returns the generation of the node.
    pub(crate) fn generation(&self) -> NodeGeneration {
        self.chain.generation
    }

    /// Returns the header time of the newest block.
    pub(crate) fn block_time(&self) -> Timestamp {
        self.node.read_core(|core| core.latest().map(|block| block.time)).unwrap_or_default()
    }

    /// Signs and broadcasts a transaction, produces blocks until one includes it, and returns its outcome; fails if it failed.
    pub(super) async fn send_tx(
        &self,
        step: &str,
        signer: &str,
        granter: Option<String>,
        messages: Vec<Any>,
    ) -> Result<StepOutcome, SeedError> {
        let failed = |reason: String| SeedError::Step { step: step.to_owned(), reason };
        let account =
            self.accounts.get(signer).ok_or_else(|| failed(format!("{signer:?} is not an account of the scenario")))?;
        let request = QueryAccountInfoRequest { address: account.address.to_string() };
        let path = "/cosmos.auth.v1beta1.Query/AccountInfo";
        let info: QueryAccountInfoResponse = self.client.query(path, &request, 0).await?;
        let info = info.info.unwrap_or_default();
        let gas_limit = MIN_GAS_LIMIT.max(GAS_PER_MESSAGE * messages.len() as u64);
        let fee = gas_limit * GAS_PRICE_MICROS / 1_000_000;
        let unsigned = UnsignedTx {
            messages,
            sequence: info.sequence,
            fee: vec![Coin { denom: self.chain.denom.clone(), amount: fee.to_string() }],
            gas_limit,
            fee_granter: granter,
            timeout_height: 0,
        };
        let context = SigningContext { chain_id: self.chain.chain_id.clone(), account_number: info.account_number };
        let signed = unsigned.sign(&account.key, &context).map_err(|error| failed(error.to_string()))?;
        if let BroadcastOutcome::Refused(error) = self.client.broadcast(&signed.bytes).await? {
            return Err(failed(error.raw_log));
        }
        let mut found = None;
        while found.is_none() {
            let made = self.node.produce_block();
            found = self.node.read_core(|core| {
                core.find_tx(&signed.hash).map(|(block, position)| block.tx_outcomes[position].clone())
            });
            if let Err(error) = made {
                self.await_upgrade(error).await?;
                // The mempool is gone with the earlier program.
                if found.is_none() {
                    self.client.broadcast(&signed.bytes).await?;
                }
            }
        }
        let outcome = found.unwrap_or_default();
        if outcome.code != 0 {
            return Err(failed(outcome.log));
        }
        Ok(StepOutcome { responses: tx::decode_message_responses(&outcome.data), events: outcome.events })
    }

    pub(super) fn encode_message(&self, step: &str, url: &str, value: &Value) -> Result<Any, SeedError> {
        let bytes = self.chain.registry.encode(url, &with_fee_limit(&self.chain, value));
        let bytes = bytes.map_err(|error| SeedError::Step { step: step.to_owned(), reason: error.to_string() })?;
        Ok(Any { type_url: url.to_owned(), value: bytes })
    }

    /// Encodes a group proposal. With [`Exec::Try`] the vote of its proposer may decide it.
    pub(super) fn encode_group_proposal(
        &self,
        title: &str,
        member: &str,
        policy: &str,
        exec: Exec,
        inner: &[Any],
    ) -> Result<Any, SeedError> {
        let proposer = self.saved_values.get(member).cloned().unwrap_or_default();
        let packed = self.encode_message(
            title,
            "/cosmos.group.v1.MsgSubmitProposal",
            &json!({
                "group_policy_address": policy, "proposers": [proposer], "exec": exec.as_str_name(),
                "title": title, "summary": title,
            }),
        )?;
        Ok(with_messages(packed, 4, inner))
    }

    async fn submit_group_proposal(
        &self,
        step: &ScenarioStep,
        member: &str,
        policy: &str,
        inner: &[Any],
    ) -> Result<StepOutcome, SeedError> {
        let packed = self.encode_group_proposal(&step.name, member, policy, Exec::Try, inner)?;
        let outcome = self.send_tx(&step.name, member, None, vec![packed]).await?;
        ensure_executed(&step.name, &outcome.events)?;
        Ok(outcome)
    }

    /// Produces a block, after an upgrade for which the chain may halt.
    pub(super) async fn make_block(&self) -> Result<Arc<BlockRecord>, SeedError> {
        loop {
            match self.node.produce_block() {
                Ok(block) => return Ok(block),
                Err(error) => self.await_upgrade(error).await?,
            }
        }
    }

    /// Waits for the end of a halt; other errors stay.
    async fn await_upgrade(&self, error: NodeError) -> Result<(), SeedError> {
        if !matches!(error, NodeError::UpgradeNeeded(_)) {
            return Err(error.into());
        }
        self.node.await_upgrade().await;
        // A node that is about to halt has not said so yet.
        tokio::task::yield_now().await;
        Ok(())
    }

    fn find_saved_value(&self, outcome: &StepOutcome, source: &str) -> Option<String> {
        if let Some((event, key)) = source.rsplit_once('.') {
            return event_attribute(&outcome.events, event, key);
        }
        let last = outcome.responses.last()?;
        match self.chain.registry.decode(&last.type_url, &last.value).ok()?.get(source)? {
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }
}

/// Fails unless there was a proposal and every proposal was executed with success.
pub(super) fn ensure_executed(step: &str, events: &[LedgerEvent]) -> Result<(), SeedError> {
    const DONE: &str = "\"PROPOSAL_EXECUTOR_RESULT_SUCCESS\"";
    let results: Vec<_> = events.iter().filter(|event| event.kind == "cosmos.group.v1.EventExec").collect();
    let value = |event: &LedgerEvent, key: &str| {
        event.attributes.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone()).unwrap_or_default()
    };
    match results.iter().find(|event| value(event, "result") != DONE) {
        Some(event) => Err(SeedError::Step { step: step.to_owned(), reason: value(event, "logs") }),
        None if results.is_empty() => {
            Err(SeedError::Step { step: step.to_owned(), reason: "the proposal was not executed".to_owned() })
        }
        None => Ok(()),
    }
}

/// Appends packed messages to an encoded message, as the repeated field `number`.
pub(super) fn with_messages(mut packed: Any, number: u32, messages: &[Any]) -> Any {
    for message in messages {
        prost::encoding::message::encode(number, message, &mut packed.value);
    }
    packed
}

pub(super) fn event_attribute(events: &[LedgerEvent], kind: &str, key: &str) -> Option<String> {
    let event = events.iter().find(|event| event.kind == kind)?;
    event.attributes.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
}

/// A message with the limit of fees that later generations demand of a record whose fees are paid.
fn with_fee_limit(chain: &ChainConfig, value: &Value) -> Value {
    const LIMIT: &str = "vs_operator_authz_fee_spend_limit";
    let mut value = value.clone();
    if chain.has_spend_cycles() && value["vs_operator_authz_with_feegrant"] == true && value[LIMIT].is_null() {
        value[LIMIT] = json!([{"denom": chain.denom, "amount": "10000000"}]);
    }
    value
}

/// Sends coins of an account to itself, as a second program with the same key would; returns the address.
pub async fn send_foreign_tx(
    node: &Node,
    accounts: &BTreeMap<String, ScenarioAccount>,
    name: &str,
) -> Result<String, SeedError> {
    let runner = ScenarioRunner::new(node, accounts)?;
    let address =
        runner.saved_value(name).map_err(|reason| SeedError::Step { step: "foreign use".to_owned(), reason })?;
    let coins = json!([{"denom": runner.chain.denom, "amount": "1"}]);
    let send = json!({"from_address": address, "to_address": address, "amount": coins});
    let packed = runner.encode_message("foreign use", "/cosmos.bank.v1beta1.MsgSend", &send)?;
    runner.send_tx("foreign use", name, None, vec![packed]).await?;
    Ok(address.clone())
}

//! Runs a scenario against a node, over its RPC, as any client would.

mod batch;

use std::{collections::BTreeMap, time::Duration};

use prost_types::{Any, Timestamp};
use serde_json::{Value, json};
use svc_kit::upstream::{BroadcastOutcome, NodeClient};
use svc_wire::{
    account::Address,
    instant,
    key::AccountKey,
    proto::cosmos::{
        auth::v1beta1::{QueryAccountInfoRequest, QueryAccountInfoResponse},
        base::v1beta1::Coin,
        gov::v1::{
            ProposalStatus, QueryParamsRequest, QueryParamsResponse, QueryProposalRequest, QueryProposalResponse,
        },
    },
    schema::Namespace,
    syntax::{DELEGABLE, SESSION_MESSAGE},
    tx::{self, SignContext, Unsigned},
};

use super::{Scenario, Step};
use crate::{
    ledger::{Chain, Event, authority_address},
    node::{Node, NodeError},
    services::Estate,
};

/// Price of gas on a devnet, in millionths of the fee denom.
pub const GAS_PRICE_MICROS: u64 = 25_000;
/// Gas of a transaction, and of each message where there are many.
const GAS_LIMIT: u64 = 3_000_000;
const GAS_PER_MESSAGE: u64 = 500_000;
const GOV_DEPOSIT: &str = "10000000";

/// Why seeding failed.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// A step was refused.
    #[error("step {step:?}: {reason}")]
    Step {
        /// Its name.
        step: String,
        /// What the chain, or the scenario's own references, say.
        reason: String,
    },
    /// The node.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The node's RPC.
    #[error(transparent)]
    Rpc(#[from] svc_kit::upstream::NodeError),
}

/// An account the devnet has the key of.
pub struct Account {
    /// Its phrase, a public test vector.
    pub phrase: String,
    /// Its address.
    pub address: Address,
    /// Its key.
    pub key: AccountKey,
}

/// Sends a scenario's steps, and remembers what they say to.
pub struct Runner<'a> {
    node: &'a Node,
    client: NodeClient,
    chain: Chain,
    accounts: &'a BTreeMap<String, Account>,
    /// Saved names.
    pub values: BTreeMap<String, String>,
}

/// What a step left behind.
struct Outcome {
    responses: Vec<Any>,
    events: Vec<Event>,
}

impl<'a> Runner<'a> {
    /// A runner whose names are those of the accounts.
    pub fn new(node: &'a Node, accounts: &'a BTreeMap<String, Account>) -> Result<Self, SeedError> {
        let client = NodeClient::new(node.origin()).map_err(svc_kit::upstream::NodeError::from)?;
        let chain = node.inspect(|core| core.chain.clone());
        let accounts_of = accounts.iter().map(|(name, account)| (name.clone(), account.address.to_string()));
        // Governance acts through an account of its own.
        let values = accounts_of.chain([("gov".to_owned(), authority_address(&chain))]).collect();
        Ok(Self { node, client, chain, accounts, values })
    }

    /// Runs all steps. What concerns services is made in their estate.
    pub(crate) async fn run(
        &mut self,
        scenario: &Scenario,
        mut estate: Option<&mut Estate<'_>>,
    ) -> Result<(), SeedError> {
        for step in &scenario.steps {
            self.step(step).await?;
            if let Some(phase) = step.services {
                let reason = "services live in an [ecosystem], and the scenario has none".to_owned();
                let missing = SeedError::Step { step: step.name.clone(), reason };
                estate.as_deref_mut().ok_or(missing)?.run(self, &step.name, phase).await?;
            }
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Result<(), SeedError> {
        let failed = |reason: String| SeedError::Step { step: step.name.clone(), reason };
        if step.advance > 0 {
            self.node.advance(Duration::from_secs(step.advance.into()));
            self.node.produce()?;
        }
        if step.messages.is_empty() {
            return Ok(());
        }
        let mut messages = Vec::new();
        for part in &step.messages {
            let url = self.type_url(&part.r#type);
            let value = self.resolve(&part.value).map_err(failed)?;
            let bytes = self.chain.registry.encode(&url, &value).map_err(|error| failed(error.to_string()))?;
            messages.push(Any { type_url: url, value: bytes });
        }
        let signer = step.signer.as_deref().ok_or_else(|| failed("a signer is required".to_owned()))?;
        let granter = match &step.granter {
            Some(name) => Some(self.value(name).map_err(failed)?.clone()),
            None => None,
        };
        let outcome = match &step.proposal {
            Some(policy) => {
                let policy = self.value(policy).map_err(failed)?.clone();
                self.propose(step, signer, &policy, &messages).await?
            }
            None if step.governance => self.govern(step, signer, &messages).await?,
            None => self.send(&step.name, signer, granter, messages).await?,
        };
        for (name, source) in &step.save {
            let value = self.find(&outcome, source).ok_or_else(|| failed(format!("nothing to save as {source:?}")))?;
            self.values.insert(name.clone(), value);
        }
        Ok(())
    }

    fn type_url(&self, name: &str) -> String {
        match name.split_once('.') {
            Some((module, message)) if !name.starts_with('/') => self.chain.namespace().type_url(module, message),
            _ => name.to_owned(),
        }
    }

    fn value(&self, name: &str) -> Result<&String, String> {
        self.values.get(name).ok_or_else(|| format!("{name:?} is not a saved name"))
    }

    /// Replaces references in all texts.
    pub(crate) fn resolve(&self, value: &Value) -> Result<Value, String> {
        Ok(match value {
            Value::String(text) => match text.strip_prefix('$') {
                Some(reference) => self.reference(reference)?.into(),
                None => value.clone(),
            },
            Value::Array(items) if items.first().is_some_and(|first| first == "$delegable") => {
                delegable(self.chain.namespace()).into()
            }
            Value::Array(items) => Value::Array(items.iter().map(|item| self.resolve(item)).collect::<Result<_, _>>()?),
            Value::Object(members) => {
                let members = members.iter().map(|(key, item)| Ok((key.clone(), self.resolve(item)?)));
                Value::Object(members.collect::<Result<_, String>>()?)
            }
            other => other.clone(),
        })
    }

    fn reference(&self, reference: &str) -> Result<String, String> {
        if reference == "FEE" {
            return Ok(self.chain.denom.clone());
        }
        if let Some(name) = reference.strip_prefix("type:") {
            return Ok(self.type_url(name));
        }
        if let Some(offset) = reference.strip_prefix("now+").and_then(|rest| rest.strip_suffix('s')) {
            let seconds: i64 = offset.parse().map_err(|_| format!("{offset:?} is not a number of seconds"))?;
            let span = prost_types::Duration { seconds, nanos: 0 };
            return Ok(instant::rfc3339_nanos(&instant::later(&self.now(), &span)));
        }
        self.value(reference).cloned()
    }

    /// Header time of the newest block.
    pub(crate) fn now(&self) -> Timestamp {
        self.node.inspect(|core| core.latest().map(|block| block.time)).unwrap_or_default()
    }

    /// Signs, broadcasts, makes a block, and looks.
    async fn send(
        &self,
        step: &str,
        signer: &str,
        granter: Option<String>,
        messages: Vec<Any>,
    ) -> Result<Outcome, SeedError> {
        let failed = |reason: String| SeedError::Step { step: step.to_owned(), reason };
        let account =
            self.accounts.get(signer).ok_or_else(|| failed(format!("{signer:?} is not an account of the scenario")))?;
        let request = QueryAccountInfoRequest { address: account.address.to_string() };
        let path = "/cosmos.auth.v1beta1.Query/AccountInfo";
        let info: QueryAccountInfoResponse = self.client.query(path, &request, 0).await?;
        let info = info.info.unwrap_or_default();
        let gas_limit = GAS_LIMIT.max(GAS_PER_MESSAGE * messages.len() as u64);
        let fee = gas_limit * GAS_PRICE_MICROS / 1_000_000;
        let unsigned = Unsigned {
            messages,
            sequence: info.sequence,
            fee: vec![Coin { denom: self.chain.denom.clone(), amount: fee.to_string() }],
            gas_limit,
            granter,
            timeout_height: 0,
        };
        let context = SignContext { chain_id: self.chain.chain_id.clone(), account_number: info.account_number };
        let signed = unsigned.sign(&account.key, &context).map_err(|error| failed(error.to_string()))?;
        if let BroadcastOutcome::Refused(error) = self.client.broadcast(&signed.bytes).await? {
            return Err(failed(error.raw_log));
        }
        let mut found = None;
        while found.is_none() {
            self.node.produce()?;
            found = self
                .node
                .inspect(|core| core.locate(&signed.hash).map(|(block, position)| block.outcomes[position].clone()));
        }
        let outcome = found.unwrap_or_default();
        if outcome.code != 0 {
            return Err(failed(outcome.log));
        }
        Ok(Outcome { responses: tx::message_responses(&outcome.data), events: outcome.events })
    }

    fn pack(&self, step: &str, url: &str, value: &Value) -> Result<Any, SeedError> {
        let bytes = self.chain.registry.encode(url, value);
        let bytes = bytes.map_err(|error| SeedError::Step { step: step.to_owned(), reason: error.to_string() })?;
        Ok(Any { type_url: url.to_owned(), value: bytes })
    }

    /// A group proposal that its proposer's vote decides.
    fn proposal(&self, title: &str, member: &str, policy: &str, inner: &[Any]) -> Result<Any, SeedError> {
        let proposer = self.values.get(member).cloned().unwrap_or_default();
        let packed = self.pack(
            title,
            "/cosmos.group.v1.MsgSubmitProposal",
            &json!({
                "group_policy_address": policy, "proposers": [proposer], "exec": "EXEC_TRY",
                "title": title, "summary": title,
            }),
        )?;
        Ok(with_messages(packed, 4, inner))
    }

    async fn propose(&self, step: &Step, member: &str, policy: &str, inner: &[Any]) -> Result<Outcome, SeedError> {
        let packed = self.proposal(&step.name, member, policy, inner)?;
        let outcome = self.send(&step.name, member, None, vec![packed]).await?;
        executed(&step.name, &outcome.events)?;
        Ok(outcome)
    }

    /// A governance proposal, the signer's vote, and the end of the voting period.
    async fn govern(&self, step: &Step, proposer: &str, inner: &[Any]) -> Result<Outcome, SeedError> {
        let address = self.values.get(proposer).cloned().unwrap_or_default();
        let deposit = json!([{"denom": self.chain.denom, "amount": GOV_DEPOSIT}]);
        let submit = self.pack(
            &step.name,
            "/cosmos.gov.v1.MsgSubmitProposal",
            &json!({
                "proposer": address, "initial_deposit": deposit, "title": step.name, "summary": step.name,
            }),
        )?;
        let submitted = self.send(&step.name, proposer, None, vec![with_messages(submit, 1, inner)]).await?;
        let id = attribute(&submitted.events, "submit_proposal", "proposal_id").unwrap_or_default();
        let vote = json!({"proposal_id": id, "voter": address, "option": "VOTE_OPTION_YES"});
        let vote = self.pack(&step.name, "/cosmos.gov.v1.MsgVote", &vote)?;
        self.send(&step.name, proposer, None, vec![vote]).await?;
        let params: QueryParamsResponse =
            self.client.query("/cosmos.gov.v1.Query/Params", &QueryParamsRequest::default(), 0).await?;
        let voting = params.params.and_then(|params| params.voting_period).unwrap_or_default();
        self.node.advance(Duration::from_secs(voting.seconds.unsigned_abs()));
        let block = self.node.produce()?;
        let request = QueryProposalRequest { proposal_id: id.parse().unwrap_or(0) };
        let found: QueryProposalResponse = self.client.query("/cosmos.gov.v1.Query/Proposal", &request, 0).await?;
        let proposal = found.proposal.unwrap_or_default();
        if proposal.status() != ProposalStatus::Passed {
            let reason = format!("{}: {}", proposal.status().as_str_name(), proposal.failed_reason);
            return Err(SeedError::Step { step: step.name.clone(), reason });
        }
        Ok(Outcome { responses: Vec::new(), events: block.events.clone() })
    }

    fn find(&self, outcome: &Outcome, source: &str) -> Option<String> {
        if let Some((event, key)) = source.rsplit_once('.') {
            return attribute(&outcome.events, event, key);
        }
        let last = outcome.responses.last()?;
        match self.chain.registry.decode(&last.type_url, &last.value).ok()?.get(source)? {
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }
}

/// Every proposal was executed, and none of them failed.
fn executed(step: &str, events: &[Event]) -> Result<(), SeedError> {
    const DONE: &str = "\"PROPOSAL_EXECUTOR_RESULT_SUCCESS\"";
    let results: Vec<_> = events.iter().filter(|event| event.kind == "cosmos.group.v1.EventExec").collect();
    let value = |event: &Event, key: &str| {
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

/// Type URLs an operator can be granted.
pub fn delegable(namespace: &Namespace) -> Vec<String> {
    let grantable = DELEGABLE.into_iter().filter(|split| *split != SESSION_MESSAGE);
    grantable.map(|(module, name)| namespace.type_url(module, name)).collect()
}

/// Appends packed messages to a message, as the repeated field of this number.
fn with_messages(mut packed: Any, number: u32, messages: &[Any]) -> Any {
    for message in messages {
        prost::encoding::message::encode(number, message, &mut packed.value);
    }
    packed
}

fn attribute(events: &[Event], kind: &str, key: &str) -> Option<String> {
    let event = events.iter().find(|event| event.kind == kind)?;
    event.attributes.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
}

/// Sends coins of an account to itself: what a second program with the same key would do.
pub async fn foreign_use(node: &Node, accounts: &BTreeMap<String, Account>, name: &str) -> Result<String, SeedError> {
    let runner = Runner::new(node, accounts)?;
    let address = runner.value(name).map_err(|reason| SeedError::Step { step: "foreign use".to_owned(), reason })?;
    let coins = json!([{"denom": runner.chain.denom, "amount": "1"}]);
    let send = json!({"from_address": address, "to_address": address, "amount": coins});
    let packed = runner.pack("foreign use", "/cosmos.bank.v1beta1.MsgSend", &send)?;
    runner.send("foreign use", name, None, vec![packed]).await?;
    Ok(address.clone())
}

//! What a fresh devnet holds: one corporation with one operator, made by real transactions in the first blocks.

use std::time::Duration;

use prost::Message;
use prost_types::{Any, Duration as Span};
use svc_kit::upstream::{BroadcastOutcome, NodeClient};
use svc_wire::{
    account::Address,
    key::AccountKey,
    proto::{
        cosmos::{
            auth::v1beta1::{QueryAccountInfoRequest, QueryAccountInfoResponse},
            bank::v1beta1::MsgSend,
            base::v1beta1::Coin,
            group::v1::{DecisionPolicyWindows, Exec, MsgSubmitProposal, ThresholdDecisionPolicy},
        },
        svc::{
            co::v1::{Member, MsgCreateCorporation, MsgCreateCorporationResponse},
            de::v1::MsgGrantOperatorAuthorization,
        },
    },
    schema::{Namespace, Registry, SchemaError},
    syntax::{DELEGABLE, SESSION_MESSAGE},
    tx::{self, SignContext, Unsigned},
};

use crate::{
    ledger::{Chain, State, genesis_account},
    node::{Node, NodeConfig, NodeError},
};

/// Phrase of the seeded member: a public test vector, worth nothing anywhere.
pub const MEMBER_MNEMONIC: &str =
    "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about";
/// Phrase of the seeded operator: a public test vector, worth nothing anywhere.
pub const OPERATOR_MNEMONIC: &str = "legal winner thank year wave sausage worth useful legal winner thank yellow";

/// What a devnet is made from.
#[derive(Debug, Clone)]
pub struct DevnetConfig {
    /// Namespace word of packages and prefix of accounts.
    pub namespace: String,
    /// Chain id.
    pub chain_id: String,
    /// Fee and bond denom.
    pub denom: String,
    /// Time between blocks.
    pub block_time: Duration,
    /// Where the node listens.
    pub listen: std::net::SocketAddr,
}

impl Default for DevnetConfig {
    fn default() -> Self {
        Self {
            namespace: "svc".to_owned(),
            chain_id: "svc-devnet-1".to_owned(),
            denom: "usvc".to_owned(),
            block_time: Duration::from_secs(1),
            listen: ([127, 0, 0, 1], 0).into(),
        }
    }
}

/// A running devnet with its seeded corporation.
pub struct Devnet {
    /// The node.
    pub node: Node,
    /// Id of the corporation.
    pub corporation_id: u64,
    /// Its policy address.
    pub policy_address: String,
    /// Address of its operator.
    pub operator_address: String,
    /// Address of its only member.
    pub member_address: String,
    /// The namespace word.
    pub namespace: Namespace,
}

/// Why a devnet did not come up.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// A parameter is not usable.
    #[error("{0}")]
    Parameter(String),
    /// The node did not start.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The node did not answer.
    #[error(transparent)]
    Client(#[from] svc_kit::upstream::NodeError),
    /// A seeding transaction failed.
    #[error("seeding transaction {what} failed: {reason}")]
    Failed {
        /// What it was for.
        what: &'static str,
        /// What the chain says.
        reason: String,
    },
}

/// Funds of the member at genesis, in the fee denom.
const GENESIS_AMOUNT: u128 = 1_000_000_000_000_000;
/// Funds the corporation gets: pays for trust deposits and, through its fee allowance, for its operator's fees.
const CORPORATION_AMOUNT: &str = "500000000000";
const MIN_GAS_PRICE_MICROS: u64 = 25_000;
const GAS_LIMIT: u64 = 2_000_000;

impl Devnet {
    /// Starts a node and seeds it.
    pub async fn launch(config: DevnetConfig) -> Result<Self, SeedError> {
        let parameter = |error: &dyn std::fmt::Display| SeedError::Parameter(error.to_string());
        let namespace = Namespace::new(&config.namespace).map_err(|error| parameter(&error))?;
        let registry = Registry::compiled(&namespace).map_err(|error: SchemaError| parameter(&error))?;
        let key = AccountKey::from_mnemonic(MEMBER_MNEMONIC).map_err(|error| parameter(&error))?;
        let operator = AccountKey::from_mnemonic(OPERATOR_MNEMONIC).map_err(|error| parameter(&error))?;
        let address = |key: &AccountKey| key.public_key().address(&config.namespace).map_err(|error| parameter(&error));
        let (member, operator) = (address(&key)?, address(&operator)?);
        let mut genesis = State::default();
        genesis_account(&mut genesis, member.as_str(), &config.denom, GENESIS_AMOUNT);
        let chain = Chain {
            chain_id: config.chain_id.clone(),
            prefix: config.namespace.clone(),
            denom: config.denom.clone(),
            min_gas_price_micros: MIN_GAS_PRICE_MICROS,
            registry,
        };
        let node = Node::launch(NodeConfig { chain, genesis, block_time: config.block_time, listen: config.listen })?;
        let client = NodeClient::new(&node.origin()).map_err(svc_kit::upstream::NodeError::from)?;
        let mut sender = Sender { client, node: &node, key, address: member.clone(), config: &config, sequence: 0 };
        let (corporation_id, policy_address) = sender.create_corporation(&namespace).await?;
        sender.fund_and_delegate(&namespace, &policy_address, &operator).await?;
        Ok(Self {
            corporation_id,
            policy_address,
            operator_address: operator.to_string(),
            member_address: member.to_string(),
            namespace,
            node,
        })
    }
}

/// The seeded member, sending transactions as any client would.
struct Sender<'a> {
    client: NodeClient,
    node: &'a Node,
    key: AccountKey,
    address: Address,
    config: &'a DevnetConfig,
    sequence: u64,
}

impl Sender<'_> {
    async fn send(&mut self, what: &'static str, messages: Vec<Any>) -> Result<Vec<Any>, SeedError> {
        let failed = |reason: String| SeedError::Failed { what, reason };
        let request = QueryAccountInfoRequest { address: self.address.to_string() };
        let path = "/cosmos.auth.v1beta1.Query/AccountInfo";
        let account: QueryAccountInfoResponse = self.client.query(path, &request, 0).await?;
        let account_number = account.info.map_or(0, |info| info.account_number);
        let fee = GAS_LIMIT * MIN_GAS_PRICE_MICROS / 1_000_000;
        let unsigned = Unsigned {
            messages,
            sequence: self.sequence,
            fee: vec![Coin { denom: self.config.denom.clone(), amount: fee.to_string() }],
            gas_limit: GAS_LIMIT,
            granter: None,
            timeout_height: 0,
        };
        let context = SignContext { chain_id: self.config.chain_id.clone(), account_number };
        let signed = unsigned.sign(&self.key, &context).map_err(|error| failed(error.to_string()))?;
        let mut heights = self.node.heights();
        if let BroadcastOutcome::Refused(error) = self.client.broadcast(&signed.bytes).await? {
            return Err(failed(error.raw_log));
        }
        self.sequence += 1;
        loop {
            if let Some(found) = self.client.tx(&signed.hash).await? {
                if found.tx_result.code != 0 {
                    return Err(failed(found.tx_result.log));
                }
                return Ok(tx::message_responses(&found.tx_result.data));
            }
            heights.changed().await.map_err(|error| failed(error.to_string()))?;
        }
    }

    async fn create_corporation(&mut self, namespace: &Namespace) -> Result<(u64, String), SeedError> {
        let span = |seconds| Some(Span { seconds, nanos: 0 });
        let windows = DecisionPolicyWindows { voting_period: span(60), min_execution_period: span(0) };
        let policy = ThresholdDecisionPolicy { threshold: "1".to_owned(), windows: Some(windows) };
        let message = MsgCreateCorporation {
            signer: self.address.to_string(),
            members: vec![Member {
                address: self.address.to_string(),
                weight: "1".to_owned(),
                metadata: String::new(),
            }],
            decision_policy: Some(Any {
                type_url: "/cosmos.group.v1.ThresholdDecisionPolicy".to_owned(),
                value: policy.encode_to_vec(),
            }),
            did: "did:web:corporation.devnet.example".to_owned(),
            language: "en".to_owned(),
            doc_url: "https://corporation.devnet.example/framework-v1.pdf".to_owned(),
            doc_digest_sri: "sha384-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4v".to_owned(),
            ..MsgCreateCorporation::default()
        };
        let what = "create corporation";
        let packed = Any { type_url: namespace.type_url("co", "MsgCreateCorporation"), value: message.encode_to_vec() };
        let responses = self.send(what, vec![packed]).await?;
        let response =
            responses.first().and_then(|any| MsgCreateCorporationResponse::decode(any.value.as_slice()).ok());
        let response = response.ok_or(SeedError::Failed { what, reason: "no response".to_owned() })?;
        Ok((response.corporation_id, response.policy_address))
    }

    async fn fund_and_delegate(
        &mut self,
        namespace: &Namespace,
        policy: &str,
        operator: &Address,
    ) -> Result<(), SeedError> {
        let send = MsgSend {
            from_address: self.address.to_string(),
            to_address: policy.to_owned(),
            amount: vec![Coin { denom: self.config.denom.clone(), amount: CORPORATION_AMOUNT.to_owned() }],
        };
        let grantable = DELEGABLE.iter().filter(|message| **message != SESSION_MESSAGE);
        let grant = MsgGrantOperatorAuthorization {
            corporation: policy.to_owned(),
            // Inside a proposal the operator is the corporation itself.
            operator: policy.to_owned(),
            grantee: operator.to_string(),
            msg_types: grantable.map(|(module, name)| namespace.type_url(module, name)).collect(),
            with_feegrant: true,
            ..MsgGrantOperatorAuthorization::default()
        };
        let proposal = MsgSubmitProposal {
            group_policy_address: policy.to_owned(),
            proposers: vec![self.address.to_string()],
            messages: vec![Any {
                type_url: namespace.type_url("de", "MsgGrantOperatorAuthorization"),
                value: grant.encode_to_vec(),
            }],
            exec: Exec::Try.into(),
            title: "First operator".to_owned(),
            summary: "Grants the operator every delegable message type, with a fee allowance.".to_owned(),
            metadata: String::new(),
        };
        let messages = vec![
            Any { type_url: "/cosmos.bank.v1beta1.MsgSend".to_owned(), value: send.encode_to_vec() },
            Any { type_url: "/cosmos.group.v1.MsgSubmitProposal".to_owned(), value: proposal.encode_to_vec() },
        ];
        self.send("fund corporation and grant operator", messages).await.map(|_| ())
    }
}

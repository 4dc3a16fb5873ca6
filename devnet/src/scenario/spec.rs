//! The file format of scenarios.
//!
//! A scenario is a TOML file; `docs/devnet.md` describes its format. Six scenarios are shipped; some join several files.

use std::{collections::BTreeMap, path::Path};

use serde::Deserialize;
use serde_json::Value;
use svc_ledger::GenesisRate;
use svc_trust::EssentialSchemas;

use super::service_spec::{EcosystemSpec, ProvisioningPhase, SchemaSpec, ServiceSpec};

const MARKETPLACE_TOML: &str = include_str!("../../scenarios/marketplace.toml");
const SERVICES_TOML: &str = include_str!("../../scenarios/services.toml");
const AGENT_TOML: &str = include_str!("../../scenarios/agent.toml");
const PEERS_TOML: &str = include_str!("../../scenarios/peers.toml");
const FIRST_GENERATION_TOML: &str = include_str!("../../scenarios/first_generation.toml");

/// A scenario that comes with the devnet.
struct ShippedScenario {
    name: &'static str,
    text: &'static str,
    /// Further files, joined to the first.
    appended: &'static [&'static str],
}

const SHIPPED_SCENARIOS: [ShippedScenario; 6] = [
    ShippedScenario { name: "empty", text: include_str!("../../scenarios/empty.toml"), appended: &[] },
    ShippedScenario { name: "corporation", text: include_str!("../../scenarios/corporation.toml"), appended: &[] },
    ShippedScenario {
        name: "generations",
        text: MARKETPLACE_TOML,
        appended: &[SERVICES_TOML, AGENT_TOML, PEERS_TOML, FIRST_GENERATION_TOML],
    },
    ShippedScenario { name: "marketplace", text: MARKETPLACE_TOML, appended: &[SERVICES_TOML, AGENT_TOML] },
    ShippedScenario { name: "peers", text: MARKETPLACE_TOML, appended: &[SERVICES_TOML, AGENT_TOML, PEERS_TOML] },
    ShippedScenario { name: "services", text: SERVICES_TOML, appended: &[] },
];

/// A parsed scenario.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Description in one sentence.
    pub description: String,
    /// Settings of the genesis other than accounts.
    #[serde(default)]
    pub genesis: GenesisSpec,
    /// Accounts of the genesis.
    #[serde(default, rename = "account")]
    pub accounts: Vec<AccountSpec>,
    /// Corporation and operator of the tool server; without it there is no tool server.
    #[serde(rename = "seat")]
    pub operator_slot: Option<OperatorSlotSpec>,
    /// The agents of the seat's corporation.
    #[serde(default, rename = "agent")]
    pub agents: Vec<AgentSpec>,
    /// The ecosystem of the services.
    pub ecosystem: Option<EcosystemSpec>,
    /// Credential schemas of the ecosystem.
    #[serde(default, rename = "schema")]
    pub schemas: Vec<SchemaSpec>,
    /// Services with DIDs and credentials.
    #[serde(default, rename = "service")]
    pub services: Vec<ServiceSpec>,
    /// Transactions, in order.
    #[serde(default, rename = "step")]
    pub steps: Vec<ScenarioStep>,
}

/// Settings of the genesis.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GenesisSpec {
    /// Coins in the pool that trust deposit yield is paid from.
    pub yield_pool: u64,
    /// Voting period of governance proposals, in seconds; 30 when left out.
    pub gov_voting_seconds: Option<i64>,
    /// Exchange rates in use, in the order of their ids. The asset `FEE` stands for the fee denom.
    #[serde(rename = "exchange_rate")]
    pub exchange_rates: Vec<GenesisRate>,
}

/// An account with a key.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountSpec {
    /// Name for references in steps.
    pub name: String,
    /// Mnemonic, a public test phrase.
    pub mnemonic: String,
    /// Coins by denom; `FEE` stands for the fee denom.
    #[serde(default)]
    pub coins: BTreeMap<String, u64>,
    /// Bonded stake: its weight in governance votes.
    #[serde(default)]
    pub bonded: u64,
}

/// The corporation and the operator of the tool server.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorSlotSpec {
    /// Name of the operator's account.
    pub operator: String,
    /// Saved name of the id of the corporation.
    pub corporation_id: String,
    /// Saved name of the policy address of the corporation.
    pub policy_address: String,
}

/// An agent of the seat's corporation.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSpec {
    /// Its name. Steps name its DID `$<name>_did`.
    pub name: String,
    /// Name of its account.
    pub account: String,
    /// Name of the agent that issues its service credential; it issues its own when absent.
    pub parent: Option<String>,
    /// Credentials that others issue to it.
    #[serde(default)]
    pub receives: Vec<ReceivedSpec>,
    /// Steps that make its DID a participant. They run once all agents have made their DIDs.
    #[serde(default, rename = "step")]
    pub steps: Vec<ScenarioStep>,
}

/// A credential that an agent receives.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceivedSpec {
    /// Name of its schema.
    pub schema: String,
    /// Name of the service or agent that issues it.
    pub by: String,
}

/// One transaction, one move of the clock, or both.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioStep {
    /// Purpose of the step; error texts contain it.
    pub name: String,
    /// Seconds that the clock moves before the transaction.
    #[serde(default)]
    pub advance: u32,
    /// Name of the account that signs.
    pub signer: Option<String>,
    /// Saved name of the address that pays the fee.
    pub granter: Option<String>,
    /// Saved name of a policy address: the messages run as a proposal of its group.
    pub proposal: Option<String>,
    /// Runs the messages as a governance proposal, with the signer's vote, until the end of the voting period.
    #[serde(default)]
    pub governance: bool,
    /// Messages, in order.
    #[serde(default)]
    pub messages: Vec<MessageSpec>,
    /// Phase that is run for all services after the messages.
    pub services: Option<ProvisioningPhase>,
    /// Names to save, each with its source: a field of the last response (`field`) or an attribute (`event.attribute`).
    #[serde(default)]
    pub save: BTreeMap<String, String>,
}

/// A message in the JSON mapping of protobuf.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageSpec {
    /// `pp.MsgCreateRootParticipant`, or a complete type URL.
    pub r#type: String,
    /// Fields of the message. Texts can refer to saved names (`$name`), to the fee denom (`$FEE`), to type URLs
    /// (`$type:co.MsgX`) and to the header time (`$now+30s`); the list `["$delegable"]` becomes all type URLs that an operator can
    /// be granted.
    pub value: Value,
}

/// A scenario cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The name is neither a shipped scenario nor a readable file.
    #[error("scenario {name:?} is neither one of {shipped} nor a readable file: {cause}")]
    Unknown {
        /// Given name.
        name: String,
        /// Names of the shipped scenarios.
        shipped: String,
        /// Error of the system.
        cause: std::io::Error,
    },
    /// The file is not a scenario.
    #[error("scenario {name:?}: {cause}")]
    Format {
        /// Given name.
        name: String,
        /// Error of the parser, with line and column.
        cause: Box<toml::de::Error>,
    },
}

impl Scenario {
    /// Loads a shipped scenario by name, or a file.
    pub fn load(name: &str) -> Result<Self, ScenarioError> {
        let parse = |text: &str| {
            let cause = |cause| ScenarioError::Format { name: name.to_owned(), cause: Box::new(cause) };
            toml::from_str::<Self>(text).map_err(cause)
        };
        let Some(shipped) = SHIPPED_SCENARIOS.iter().find(|shipped| shipped.name == name) else {
            let text = std::fs::read_to_string(Path::new(name)).map_err(|cause| {
                let shipped = SHIPPED_SCENARIOS.map(|shipped| shipped.name).join(", ");
                ScenarioError::Unknown { name: name.to_owned(), shipped, cause }
            })?;
            return parse(&text);
        };
        let scenario = parse(shipped.text)?;
        shipped.appended.iter().try_fold(scenario, |whole, text| Ok(whole.append_scenario(parse(text)?)))
    }

    /// Uses these texts in the place of the devnet's own essential schemas, each for the schema that it is known as.
    pub fn with_essential_texts(mut self, texts: &[String]) -> Self {
        let known = EssentialSchemas::default();
        for schema in &mut self.schemas {
            let is_text_of = |text: &&String| known.content(text).map(|(essential, _)| essential) == schema.essential;
            let found = texts.iter().filter(|_| schema.essential.is_some()).find(is_text_of);
            schema.json = found.cloned().or_else(|| schema.json.take());
        }
        self
    }

    /// Joins another scenario after this one. A seat or an ecosystem of this one has precedence.
    fn append_scenario(mut self, other: Self) -> Self {
        self.accounts.extend(other.accounts);
        self.operator_slot = self.operator_slot.or(other.operator_slot);
        self.agents.extend(other.agents);
        self.ecosystem = self.ecosystem.or(other.ecosystem);
        self.schemas.extend(other.schemas);
        self.services.extend(other.services);
        self.steps.extend(other.steps);
        self
    }

    /// Returns the seconds that the clock moves during the scenario and the admission of its agents. A chain with this age ends at the present time.
    pub fn age_seconds(&self) -> u64 {
        let voting = self.genesis.gov_voting_seconds.unwrap_or(30).unsigned_abs();
        let governed = self.steps.iter().filter(|step| step.governance).count() as u64;
        let steps = self.steps.iter().chain(self.agents.iter().flat_map(|agent| &agent.steps));
        steps.map(|step| u64::from(step.advance)).sum::<u64>() + governed * voting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_scenarios_parse_and_malformed_ones_are_refused() {
        for ShippedScenario { name, .. } in SHIPPED_SCENARIOS {
            Scenario::load(name).expect(name);
        }
        assert!(matches!(Scenario::load("no/such/file.toml"), Err(ScenarioError::Unknown { .. })));
        let bad = toml::from_str::<Scenario>("description = 'x'\n[[step]]\nname = 'a'\nsinger = 'b'\n");
        assert!(bad.expect_err("refused").to_string().contains("singer"));
        let service = |rest: &str| {
            let text = format!("description = 'x'\n[[service]]\nname = 'a'\nshows = 'b'\n{rest}\n");
            toml::from_str::<Scenario>(&text).map(|found| found.services.len()).map_err(|error| error.to_string())
        };
        assert_eq!(service("expect = 'trusted'"), Ok(1));
        for (rest, named) in [
            ("expect = 'nonsense'", "\"nonsense\" is neither `trusted` nor a reason"),
            ("expect = 'trusted'\nfault = 'bad_hair'", "bad_hair"),
            ("expect = 'trusted'\nissues = { service = { fee = 1 } }", "fee"),
        ] {
            let error = service(rest).expect_err("refused");
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn the_marketplace_joins_its_file_the_services_and_the_agent() {
        let (whole, services) =
            (Scenario::load("marketplace").expect("whole"), Scenario::load("services").expect("part"));
        let alone: Scenario = toml::from_str(MARKETPLACE_TOML).expect("alone");
        let agent: Scenario = toml::from_str(AGENT_TOML).expect("the agent");
        assert_eq!(whole.steps.len(), alone.steps.len() + services.steps.len() + agent.steps.len());
        assert!(alone.agents.is_empty() && whole.agents.len() == agent.agents.len());
        assert!(alone.services.is_empty() && whole.services.len() == services.services.len());
        assert_eq!(whole.age_seconds(), alone.age_seconds() + services.age_seconds() + agent.age_seconds());
        assert!(whole.operator_slot.is_some() && services.operator_slot.is_none());
        let peers = Scenario::load("peers").expect("with a third agent");
        assert_eq!(peers.agents.len(), whole.agents.len() + 1);
        let stranger = format!("{:?}", peers.agents.last().expect("an agent").steps);
        assert!(!stranger.contains("stranger_did"), "nothing makes it a participant");
    }
}

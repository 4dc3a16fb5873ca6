//! A devnet: a node, the seeded scenario, its services, and the control endpoint.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use svc_ledger::{BLOCKS_PER_YEAR, ChainConfig, GenesisState, UpgradeSchedule};
use svc_trust::digest::{DigestAlgorithm, anchored_digest};
use svc_wire::{
    account_key::AccountKey,
    proto_registry::{Namespace, ProtoRegistry},
    timestamp,
};

use crate::{
    config::DevnetConfig,
    control::{ControlError, ControlServer},
    node::{HeaderTimeMode, Node, NodeConfig, NodeError},
    scenario::{
        AgentSpec, GAS_PRICE_MICROS, Scenario, ScenarioAccount, ScenarioError, ScenarioRunner, SeedError, build_genesis,
    },
    seeding::run_scenario,
    services::{DevnetServices, EcosystemSpec, ServiceProvisioner, ServicesError, StoredServices},
};

/// A corporation and its operator account, for a tool server to act as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorSlot {
    /// Id of the corporation.
    pub corporation_id: u64,
    /// Its policy address.
    pub policy_address: String,
    /// Name of its operator's account.
    pub operator_name: String,
    /// Address of its operator.
    pub operator_address: String,
}

/// A running devnet.
pub struct Devnet {
    /// The node failed.
    pub node: Node,
    /// Namespace of the protobuf packages.
    pub namespace: Namespace,
    /// Chain id.
    pub chain_id: String,
    /// Fee and bond denom.
    pub denom: String,
    /// Accounts of the scenario with their keys, by name.
    pub accounts: Arc<BTreeMap<String, ScenarioAccount>>,
    /// Saved values of the scenario by name: addresses of accounts, ids of entities.
    pub saved_values: BTreeMap<String, String>,
    /// Values that the steps of the agents have named in this run.
    admitted_values: OnceLock<BTreeMap<String, String>>,
    /// Corporation and operator of a tool server, if the scenario names one (`seat`).
    pub operator_slot: Option<OperatorSlot>,
    /// The agents of the corporation.
    pub agents: Vec<AgentSpec>,
    /// The ecosystem of the services, if the scenario has one.
    ecosystem: Option<EcosystemSpec>,
    /// The control endpoint, if it is enabled.
    pub control: Option<ControlServer>,
    /// Services with DIDs and credentials, if the scenario has an ecosystem.
    pub services: Option<DevnetServices>,
}

/// Error of a devnet.
#[derive(Debug, thiserror::Error)]
pub enum DevnetError {
    /// A parameter is invalid.
    #[error("{0}")]
    Parameter(String),
    /// The node failed.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The scenario cannot be read.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A step of the scenario failed.
    #[error(transparent)]
    Seed(#[from] SeedError),
    /// The control endpoint failed to start.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The services failed.
    #[error(transparent)]
    Services(#[from] ServicesError),
}

/// Milliseconds between a block and its results, as measured at a node without load.
const LATE_RESULTS_MS: u64 = 5;

/// The document in a home that records a completed seeding.
#[derive(Serialize, Deserialize)]
struct SeedRecord {
    scenario: String,
    values: BTreeMap<String, String>,
    #[serde(default)]
    services: Option<StoredServices>,
}

impl Devnet {
    /// Starts a node and runs the scenario, or resumes the chain of the home.
    pub async fn launch(config: DevnetConfig) -> Result<Self, DevnetError> {
        let parameter = |error: &dyn std::fmt::Display| DevnetError::Parameter(error.to_string());
        let config = config.with_names_of_genesis();
        let scenario = Scenario::load(&config.scenario)?.with_essential_texts(&config.essential_texts);
        let namespace = Namespace::new(&config.namespace).map_err(|error| parameter(&error))?;
        let registry = ProtoRegistry::compiled(&namespace).map_err(|error| parameter(&error))?;
        let mut accounts = BTreeMap::new();
        for part in &scenario.accounts {
            let key = AccountKey::from_mnemonic(&part.mnemonic).map_err(|error| parameter(&error))?;
            let address = key.public_key().address(&config.namespace).map_err(|error| parameter(&error))?;
            accounts.insert(part.name.clone(), ScenarioAccount { mnemonic: part.mnemonic.clone(), address, key });
        }
        let chain = ChainConfig {
            chain_id: config.chain_id.clone(),
            prefix: config.namespace.clone(),
            denom: config.denom.clone(),
            min_gas_price_micros: GAS_PRICE_MICROS,
            blocks_per_year: BLOCKS_PER_YEAR,
            generation: config.generation,
            upgrades: UpgradeSchedule::default(),
            registry: ChainConfig::executed(registry, config.generation).map_err(|error| parameter(&error))?,
        };
        let genesis = GenesisState {
            app_state: config.genesis.as_ref().map(|file| file.app_state.clone()),
            ..build_genesis(&scenario, &accounts, &config.denom)
        };
        let header_time =
            if config.block_time.is_some() { HeaderTimeMode::WallClock } else { HeaderTimeMode::FixedStep };
        let node = Node::launch(NodeConfig {
            chain,
            genesis,
            genesis_time: config.genesis.as_ref().map(|file| file.time),
            age: Duration::from_secs(scenario.age_seconds()),
            block_time: config.block_time,
            header_time,
            listen: config.listen,
            rest_listen: config.rest_listen,
            grpc_listen: config.grpc_listen,
            home: config.home.clone(),
            upgrade_pause: config.upgrade_pause,
        })?;
        let is_resumed = node.read_seed_record()?.is_some();
        let (values, services) = seed(&node, &accounts, &scenario, &config).await?;
        if let Some(plan) = config.upgrade {
            node.plan_upgrade(plan.generation, plan.height)?;
        }
        let operator_slot = resolve_operator_slot(&scenario, &values)?;
        let (agents, ecosystem) = (scenario.agents, scenario.ecosystem);
        node.update_faults(|faults| {
            faults.kept_states = config.kept_states;
            if config.is_like_a_node {
                faults.starts_like_a_node = true;
                faults.has_just_started = is_resumed;
                faults.late_results_ms = LATE_RESULTS_MS;
            }
        });
        let accounts = Arc::new(accounts);
        let control = match config.control_port {
            Some(port) => Some(ControlServer::start(port, node.clone(), Arc::clone(&accounts)).await?),
            None => None,
        };
        let (chain_id, denom) = (config.chain_id, config.denom);
        let saved_values = values;
        Ok(Self {
            node,
            namespace,
            chain_id,
            denom,
            accounts,
            saved_values,
            admitted_values: OnceLock::new(),
            operator_slot,
            agents,
            ecosystem,
            control,
            services,
        })
    }

    /// Returns a saved value, for example the address of an account; empty for an unknown name.
    pub fn address(&self, name: &str) -> &str {
        let admitted = || self.admitted_values.get().and_then(|values| values.get(name));
        self.saved_values.get(name).or_else(admitted).map_or("", String::as_str)
    }

    /// Returns the type URLs that an operator can be granted, in the order of `$delegable`.
    pub fn delegable_types(&self) -> Vec<String> {
        self.node.read_core(|core| core.chain.grantable_types())
    }

    /// Sends messages as one transaction of an account and produces a block; returns the response of each as JSON. Texts can
    /// refer to saved names, as in a scenario.
    pub async fn send_messages(
        &self,
        account: &str,
        messages: &[(&'static str, Value)],
    ) -> Result<Vec<Value>, DevnetError> {
        let mut runner = ScenarioRunner::new(&self.node, &self.accounts)?;
        runner.saved_values.clone_from(&self.saved_values);
        let resolve = |(kind, value): &(&'static str, Value)| Ok((*kind, runner.resolve_references(value)?));
        let messages = messages.iter().map(resolve).collect::<Result<_, String>>().map_err(DevnetError::Parameter)?;
        Ok(runner.send_messages("order", account, messages).await?)
    }

    /// Runs further steps, which can refer to the saved names. Fails on a step with `services`.
    pub async fn run_steps(&self, steps: &Scenario) -> Result<(), DevnetError> {
        let mut runner = ScenarioRunner::new(&self.node, &self.accounts)?;
        runner.saved_values.extend(self.saved_values.clone());
        run_scenario(&mut runner, steps, None).await?;
        Ok(())
    }

    /// Makes the DIDs of agents participants, unless the first one is one. `dids` has the name of each agent with its DID.
    ///
    /// # Errors
    /// When a step fails.
    pub async fn admit_agents(&self, dids: &[(String, String)]) -> Result<(), DevnetError> {
        let Some((_, first)) = dids.first() else { return Ok(()) };
        let mut runner = ScenarioRunner::new(&self.node, &self.accounts)?;
        if runner.has_participant(first).await? {
            return Ok(());
        }
        runner.saved_values.extend(self.saved_values.clone());
        runner.saved_values.extend(dids.iter().map(|(name, did)| (format!("{name}_did"), did.clone())));
        for agent in self.agents.iter().filter(|agent| dids.iter().any(|(name, _)| *name == agent.name)) {
            for step in &agent.steps {
                runner.run_step(step).await?;
            }
        }
        // A chain that was started again has its agents already, and the names of their steps are gone.
        let _ = self.admitted_values.set(runner.saved_values);
        Ok(())
    }

    /// The number of schemas that the steps of the agents have made in this run.
    pub fn schemas_of_agents(&self) -> usize {
        let is_schema = |name: &&String| name.starts_with("flows.") && name.ends_with(".schema");
        self.admitted_values.get().map_or(0, |values| values.keys().filter(is_schema).count())
    }

    /// DID of the ecosystem of the services.
    pub fn ecosystem_did(&self) -> Option<&str> {
        self.saved_values.get(&self.ecosystem.as_ref()?.service).map(String::as_str)
    }

    /// Account that operates the corporations of the services.
    pub fn ecosystem_clerk(&self) -> Option<&str> {
        self.ecosystem.as_ref().map(|ecosystem| ecosystem.clerk.as_str())
    }

    /// Has a service issue a credential of a schema to a DID, and anchors its digest. `subject` has the claims with the DID as `id`.
    pub async fn issue_credential(&self, service: &str, schema: &str, subject: Value) -> Result<Value, DevnetError> {
        let missing = |what: &str| DevnetError::Parameter(format!("the scenario has no {what}"));
        let ecosystem = self.ecosystem.as_ref().ok_or_else(|| missing("ecosystem"))?;
        let services = self.services.as_ref().ok_or_else(|| missing("services"))?;
        let time = self.node.read_core(|core| core.latest().map(|block| block.time)).unwrap_or_default();
        let at = timestamp::iso_seconds(&time);
        let schema_id = self.address(&format!("{schema}.schema"));
        let credential = services.issue_credential(service, (&ecosystem.service, schema_id), subject, &at)?;
        let digest = anchored_digest(&credential, DigestAlgorithm::Sha384).unwrap_or_default();
        let anchor = json!({
            "authority": format!("${service}.corporation"), "operator": format!("${}", ecosystem.clerk), "digest": digest,
        });
        self.send_messages(&ecosystem.clerk, &[("di.MsgStoreDigest", anchor)]).await?;
        Ok(credential)
    }

    /// Sends a transaction of an account, as a second program with the same key would.
    pub async fn send_foreign_tx(&self, account: &str) -> Result<(), DevnetError> {
        crate::scenario::send_foreign_tx(&self.node, &self.accounts, account).await?;
        Ok(())
    }
}

impl Drop for Devnet {
    fn drop(&mut self) {
        self.node.close();
    }
}

/// Runs the scenario, unless the home is seeded already; returns the saved values and the services.
async fn seed(
    node: &Node,
    accounts: &BTreeMap<String, ScenarioAccount>,
    scenario: &Scenario,
    config: &DevnetConfig,
) -> Result<(BTreeMap<String, String>, Option<DevnetServices>), DevnetError> {
    let parameter = |error: serde_json::Error| DevnetError::Parameter(error.to_string());
    let name = &config.scenario;
    if let Some(bytes) = node.read_seed_record()? {
        let seeded: SeedRecord = serde_json::from_slice(&bytes).map_err(parameter)?;
        if seeded.scenario != *name {
            return Err(DevnetError::Parameter(format!(
                "the home was seeded with scenario {:?}, not {name:?}: use that scenario, or reset the home",
                seeded.scenario
            )));
        }
        return Ok((seeded.values, seeded.services.map(DevnetServices::resume).transpose()?));
    }
    let has_services = scenario.ecosystem.is_some();
    let mut services = has_services.then(|| DevnetServices::start(config.services_listen)).transpose()?;
    let mut provisioner = services.as_ref().and_then(|served| ServiceProvisioner::new(scenario, served));
    // The chain has a block even if the scenario has no step.
    node.produce_block()?;
    let mut runner = ScenarioRunner::new(node, accounts)?;
    run_scenario(&mut runner, scenario, provisioner.as_mut()).await?;
    let made = provisioner.map(|provisioner| provisioner.provisioned_services()).unwrap_or_default();
    if let Some(served) = &mut services {
        served.add_provisioned(made);
    }
    let height = *node.watch_heights().borrow();
    tracing::info!(component = "devnet.scenario", scenario = name, height, "scenario has run");
    let stored = services.as_ref().map(DevnetServices::to_stored);
    let seeded = SeedRecord { scenario: name.clone(), values: runner.saved_values, services: stored };
    node.write_seed_record(&serde_json::to_vec(&seeded).map_err(parameter)?)?;
    Ok((seeded.values, services))
}

fn resolve_operator_slot(
    scenario: &Scenario,
    values: &BTreeMap<String, String>,
) -> Result<Option<OperatorSlot>, DevnetError> {
    let Some(slot) = &scenario.operator_slot else { return Ok(None) };
    let value = |name: &str| {
        let found = values.get(name).cloned();
        found.ok_or_else(|| DevnetError::Parameter(format!("the seat names {name:?}, which no step saves")))
    };
    let corporation_id = value(&slot.corporation_id)?;
    Ok(Some(OperatorSlot {
        corporation_id: corporation_id
            .parse()
            .map_err(|_| DevnetError::Parameter(format!("{corporation_id:?} is not the id of a corporation")))?,
        policy_address: value(&slot.policy_address)?,
        operator_name: slot.operator.clone(),
        operator_address: value(&slot.operator)?,
    }))
}

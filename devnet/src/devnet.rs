//! A devnet: a node, what a scenario put on its chain, and the endpoint that controls it.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_wire::{
    key::AccountKey,
    schema::{Namespace, Registry},
};

use crate::{
    control::{Control, ControlError},
    ledger::{BLOCKS_PER_YEAR, Chain, Genesis, GenesisAccount},
    node::{Node, NodeConfig, NodeError, Pace},
    scenario::{Account, GAS_PRICE_MICROS, Runner, Scenario, ScenarioError, SeedError},
    services::{Estate, Kept, Services, ServicesError},
};

/// What a devnet is made from.
#[derive(Debug, Clone)]
pub struct DevnetConfig {
    /// Namespace word of packages and prefix of accounts.
    pub namespace: String,
    /// Chain id.
    pub chain_id: String,
    /// Fee and bond denom.
    pub denom: String,
    /// Time between blocks; `None` makes blocks on order only, a second apart.
    pub block_time: Option<Duration>,
    /// Where the node listens.
    pub listen: SocketAddr,
    /// Name of a shipped scenario, or a file.
    pub scenario: String,
    /// Directory of the chain; `None` keeps it in memory.
    pub home: Option<PathBuf>,
    /// Port of the control endpoint, always on loopback; `None` for none.
    pub control_port: Option<u16>,
    /// Where the services of the scenario listen, always on loopback. A home keeps its first: DIDs name it.
    pub services_listen: SocketAddr,
}

impl Default for DevnetConfig {
    fn default() -> Self {
        Self {
            namespace: "svc".to_owned(),
            chain_id: "svc-devnet-1".to_owned(),
            denom: "usvc".to_owned(),
            block_time: Some(Duration::from_secs(1)),
            listen: ([127, 0, 0, 1], 0).into(),
            scenario: "corporation".to_owned(),
            home: None,
            control_port: None,
            services_listen: ([127, 0, 0, 1], 0).into(),
        }
    }
}

/// The corporation and the operator whose place a tool server can take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
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
    /// The node.
    pub node: Node,
    /// Namespace word.
    pub namespace: Namespace,
    /// Accounts of the scenario, with their keys.
    pub accounts: Arc<BTreeMap<String, Account>>,
    /// Everything the scenario saved: addresses of accounts, ids of entities.
    pub values: BTreeMap<String, String>,
    /// Whose place a tool server can take.
    pub seat: Option<Seat>,
    /// Where it is controlled.
    pub control: Option<Control>,
    /// Services with DIDs and credentials, if the scenario has any.
    pub services: Option<Services>,
}

/// Why a devnet did not start.
#[derive(Debug, thiserror::Error)]
pub enum DevnetError {
    /// A parameter does not fit.
    #[error("{0}")]
    Parameter(String),
    /// The node.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The scenario cannot be read.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The scenario cannot be run.
    #[error(transparent)]
    Seed(#[from] SeedError),
    /// The control endpoint.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The services.
    #[error(transparent)]
    Services(#[from] ServicesError),
}

/// What a home remembers of its scenario.
#[derive(Serialize, Deserialize)]
struct Seeded {
    scenario: String,
    values: BTreeMap<String, String>,
    #[serde(default)]
    services: Option<Kept>,
}

impl Devnet {
    /// Starts a node and runs the scenario, or continues the chain of the home.
    pub async fn launch(config: DevnetConfig) -> Result<Self, DevnetError> {
        let parameter = |error: &dyn std::fmt::Display| DevnetError::Parameter(error.to_string());
        let scenario = Scenario::load(&config.scenario)?;
        let namespace = Namespace::new(&config.namespace).map_err(|error| parameter(&error))?;
        let registry = Registry::compiled(&namespace).map_err(|error| parameter(&error))?;
        let mut accounts = BTreeMap::new();
        for part in &scenario.accounts {
            let key = AccountKey::from_mnemonic(&part.mnemonic).map_err(|error| parameter(&error))?;
            let address = key.public_key().address(&config.namespace).map_err(|error| parameter(&error))?;
            accounts.insert(part.name.clone(), Account { phrase: part.mnemonic.clone(), address, key });
        }
        let chain = Chain {
            chain_id: config.chain_id.clone(),
            prefix: config.namespace.clone(),
            denom: config.denom.clone(),
            min_gas_price_micros: GAS_PRICE_MICROS,
            blocks_per_year: BLOCKS_PER_YEAR,
            registry,
        };
        let genesis = genesis(&scenario, &accounts, &config.denom);
        let pace = if config.block_time.is_some() { Pace::Wall } else { Pace::Steps };
        let node = Node::launch(NodeConfig {
            chain,
            genesis,
            age: Duration::from_secs(scenario.age_seconds()),
            block_time: config.block_time,
            pace,
            listen: config.listen,
            home: config.home.clone(),
        })?;
        let (values, services) = seed(&node, &accounts, &scenario, &config).await?;
        let seat = seat(&scenario, &values)?;
        let accounts = Arc::new(accounts);
        let control = match config.control_port {
            Some(port) => Some(Control::start(port, node.clone(), Arc::clone(&accounts)).await?),
            None => None,
        };
        Ok(Self { node, namespace, accounts, values, seat, control, services })
    }

    /// Address of an account of the scenario, or of anything it saved.
    pub fn address(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    /// Type URLs an operator can be granted, in the order in which scenarios mean them.
    pub fn delegable(&self) -> Vec<String> {
        crate::scenario::delegable(&self.namespace)
    }

    /// Sends messages as one transaction of an account, and makes a block; what each answered. Texts may refer to saved names, as
    /// in a scenario.
    pub async fn send(&self, account: &str, messages: &[(&'static str, Value)]) -> Result<Vec<Value>, DevnetError> {
        let mut runner = Runner::new(&self.node, &self.accounts)?;
        runner.values.clone_from(&self.values);
        let resolve = |(kind, value): &(&'static str, Value)| Ok((*kind, runner.resolve(value)?));
        let messages = messages.iter().map(resolve).collect::<Result<_, String>>().map_err(DevnetError::Parameter)?;
        Ok(runner.send_all("order", account, messages).await?)
    }

    /// Sends further steps, which may refer to everything the scenario saved. What concerns services is theirs alone.
    pub async fn run(&self, steps: &Scenario) -> Result<(), DevnetError> {
        let mut runner = Runner::new(&self.node, &self.accounts)?;
        runner.values.extend(self.values.clone());
        runner.run(steps, None).await?;
        Ok(())
    }

    /// Uses an account's key as a second program would.
    pub async fn foreign_use(&self, account: &str) -> Result<(), DevnetError> {
        crate::scenario::foreign_use(&self.node, &self.accounts, account).await?;
        Ok(())
    }
}

impl Drop for Devnet {
    fn drop(&mut self) {
        self.node.close();
    }
}

fn genesis(scenario: &Scenario, accounts: &BTreeMap<String, Account>, denom: &str) -> Genesis {
    let funded = scenario.accounts.iter().filter_map(|part| {
        let coins = part.coins.iter().map(|(name, amount)| {
            let name = if name == "FEE" { denom } else { name };
            (name.to_owned(), u128::from(*amount))
        });
        Some(GenesisAccount {
            address: accounts.get(&part.name)?.address.to_string(),
            coins: coins.collect(),
            bonded: u128::from(part.bonded),
        })
    });
    let mut genesis = Genesis {
        accounts: funded.collect(),
        yield_pool: u128::from(scenario.genesis.yield_pool),
        ..Genesis::default()
    };
    if let Some(seconds) = scenario.genesis.gov_voting_seconds {
        genesis.gov_voting_seconds = seconds;
    }
    genesis
}

/// Runs the scenario, unless the home was seeded before: what was saved, and the services.
async fn seed(
    node: &Node,
    accounts: &BTreeMap<String, Account>,
    scenario: &Scenario,
    config: &DevnetConfig,
) -> Result<(BTreeMap<String, String>, Option<Services>), DevnetError> {
    let parameter = |error: serde_json::Error| DevnetError::Parameter(error.to_string());
    let name = &config.scenario;
    if let Some(bytes) = node.seeded()? {
        let seeded: Seeded = serde_json::from_slice(&bytes).map_err(parameter)?;
        if seeded.scenario != *name {
            return Err(DevnetError::Parameter(format!(
                "the home was seeded with scenario {:?}, not {name:?}: give that one, or reset the home",
                seeded.scenario
            )));
        }
        return Ok((seeded.values, seeded.services.map(Services::resume).transpose()?));
    }
    let has_services = scenario.ecosystem.is_some();
    let mut services = has_services.then(|| Services::start(config.services_listen)).transpose()?;
    let mut estate = services.as_ref().and_then(|served| Estate::new(scenario, served));
    // A chain begins with a block, whatever the scenario does.
    node.produce()?;
    let mut runner = Runner::new(node, accounts)?;
    runner.run(scenario, estate.as_mut()).await?;
    let made = estate.map(|estate| estate.finish()).unwrap_or_default();
    if let Some(served) = &mut services {
        served.adopt(made);
    }
    let height = *node.heights().borrow();
    tracing::info!(component = "devnet.scenario", scenario = name, height, "the scenario has run");
    let kept = services.as_ref().map(Services::kept);
    let seeded = Seeded { scenario: name.clone(), values: runner.values, services: kept };
    node.set_seeded(&serde_json::to_vec(&seeded).map_err(parameter)?)?;
    Ok((seeded.values, services))
}

fn seat(scenario: &Scenario, values: &BTreeMap<String, String>) -> Result<Option<Seat>, DevnetError> {
    let Some(part) = &scenario.seat else { return Ok(None) };
    let value = |name: &str| {
        let found = values.get(name).cloned();
        found.ok_or_else(|| DevnetError::Parameter(format!("the seat names {name:?}, which no step saves")))
    };
    let corporation_id = value(&part.corporation_id)?;
    Ok(Some(Seat {
        corporation_id: corporation_id
            .parse()
            .map_err(|_| DevnetError::Parameter(format!("{corporation_id:?} is not the id of a corporation")))?,
        policy_address: value(&part.policy_address)?,
        operator_name: part.operator.clone(),
        operator_address: value(&part.operator)?,
    }))
}

//! Scenarios: the genesis accounts of a fresh devnet, and the steps that are sent to its chain as signed transactions.
//!
//! [`Scenario`] is the file format and loads the shipped scenarios, [`ScenarioRunner`] sends the transactions of a step over the RPC of the
//! node. `seeding` runs all steps with the services they ask for.

mod authority;
mod batch;
mod genesis;
mod runner;
mod service_spec;
mod spec;

pub(crate) use genesis::build_genesis;
pub use runner::{GAS_PRICE_MICROS, ScenarioAccount, ScenarioRunner, SeedError, send_foreign_tx};
pub use service_spec::{
    AnchorTiming, CredentialFormat, CredentialSpec, DidServiceSpec, EcosystemSpec, ExpectedVerdict, HolderOnboarding,
    IntendedFlaw, IssuerOnboarding, IssuerSpec, ParticipantOutcome, ProvisioningPhase, SchemaSpec, ServiceDidMethod,
    ServiceForm, ServiceSpec,
};
pub use spec::{
    AccountSpec, AgentSpec, GenesisSpec, MessageSpec, OperatorSlotSpec, Scenario, ScenarioError, ScenarioStep,
};

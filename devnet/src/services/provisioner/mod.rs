//! Provisioning of services: documents, credentials and transactions for the services of a scenario.

mod identities;
mod issuance;
mod participants;

use std::collections::BTreeMap;

use prost_types::Timestamp;
use serde_json::Value;
use svc_wire::timestamp;

use super::{
    identity::ServiceIdentity,
    page_server::PageStore,
    running::{DevnetService, DevnetServices, localhost_origin},
};
use crate::scenario::{
    AnchorTiming, EcosystemSpec, ExpectedVerdict, IntendedFlaw, ProvisioningPhase, Scenario, ScenarioRunner,
    SchemaSpec, SeedError, ServiceSpec,
};

/// Key of a credential.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct CredentialKey {
    service: String,
    schema: String,
}

/// A published credential of a schema.
#[derive(Debug, Clone)]
struct SchemaCredential {
    url: String,
    digest: String,
}

/// Creates the services of a scenario, phase by phase.
pub(crate) struct ServiceProvisioner<'a> {
    ecosystem: &'a EcosystemSpec,
    schemas: &'a [SchemaSpec],
    services: &'a [ServiceSpec],
    pages: PageStore,
    port: u16,
    identities: BTreeMap<String, ServiceIdentity>,
    schema_credentials: BTreeMap<String, SchemaCredential>,
    /// End of credentials and of the participants that anchor them, in Unix seconds.
    expiries: BTreeMap<CredentialKey, i64>,
}

/// Digest of every framework document; the documents do not exist.
const FRAMEWORK_DIGEST: &str = "sha384-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4v";

/// Error text of a phase.
type ProvisioningError = String;

impl<'a> ServiceProvisioner<'a> {
    /// Creates a provisioner; `None` for a scenario without an ecosystem.
    pub fn new(scenario: &'a Scenario, served: &DevnetServices) -> Option<Self> {
        Some(Self {
            ecosystem: scenario.ecosystem.as_ref()?,
            schemas: &scenario.schemas,
            services: &scenario.services,
            pages: served.host.pages.clone(),
            port: served.host.address.port(),
            identities: BTreeMap::new(),
            schema_credentials: BTreeMap::new(),
            expiries: BTreeMap::new(),
        })
    }

    /// Runs a phase for all services.
    pub async fn run_phase(
        &mut self,
        runner: &mut ScenarioRunner<'_>,
        step: &str,
        phase: ProvisioningPhase,
    ) -> Result<(), SeedError> {
        let work = StepContext { runner, step };
        match phase {
            ProvisioningPhase::Found => self.create_identities(work).await,
            ProvisioningPhase::Constitute => self.create_ecosystem(work).await,
            ProvisioningPhase::Authorise => self.onboard_issuers(work).await,
            ProvisioningPhase::Admit => self.onboard_holders(work).await,
            ProvisioningPhase::AnchorEarly => self.issue_and_anchor(work, &[AnchorTiming::Early]).await,
            ProvisioningPhase::Anchor => {
                self.issue_and_anchor(work, &[AnchorTiming::InTime, AnchorTiming::Never]).await
            }
            ProvisioningPhase::AnchorLate => self.issue_and_anchor(work, &[AnchorTiming::Late]).await,
            ProvisioningPhase::Withdraw => self.revoke_and_slash(work).await,
        }
    }

    /// Returns the created services by name.
    pub fn provisioned_services(&self) -> BTreeMap<String, DevnetService> {
        let made = self.services.iter().filter_map(|part| {
            let service = DevnetService {
                identity: self.identities.get(&part.name)?.clone(),
                shows: part.shows.clone(),
                expect: part.expect,
                expires_at: self.expiry(part).map(rfc3339_text),
            };
            Some((part.name.clone(), service))
        });
        made.collect()
    }

    /// Returns the earliest end of the credentials and participants that a trusted service depends on.
    fn expiry(&self, part: &ServiceSpec) -> Option<i64> {
        if part.expect != ExpectedVerdict::Trusted {
            return None;
        }
        let own = |wanted: fn(svc_trust::EssentialCredential) -> bool| {
            let schemas = self.schemas.iter().filter(move |schema| schema.essential.is_some_and(wanted));
            schemas
                .filter_map(|schema| {
                    self.expiries
                        .get(&CredentialKey { service: part.name.clone(), schema: schema.name.clone() })
                        .copied()
                })
                .min()
        };
        let service =
            self.schemas.iter().find(|schema| schema.essential == Some(svc_trust::EssentialCredential::Service))?;
        let operator = match part.credentials.get(&service.name)?.by.as_deref() {
            None => own(svc_trust::EssentialCredential::names_operator),
            Some(parent) => {
                self.services.iter().find(|other| other.name == parent).and_then(|parent| self.expiry(parent))
            }
        };
        own(|essential| essential == svc_trust::EssentialCredential::Service).into_iter().chain(operator).min()
    }

    fn record_expiry(&mut self, service: &str, schema: &str, seconds: i64) {
        let key = CredentialKey { service: service.to_owned(), schema: schema.to_owned() };
        self.expiries.entry(key).and_modify(|known| *known = seconds.min(*known)).or_insert(seconds);
    }

    fn origin(&self) -> String {
        localhost_origin(self.port)
    }

    fn did(&self, service: &str) -> Result<&str, ProvisioningError> {
        let identity = self.identities.get(service);
        identity.map(|identity| identity.did.as_str()).ok_or_else(|| format!("there is no service {service:?}"))
    }

    fn schema_spec(&self, name: &str) -> Result<&'a SchemaSpec, ProvisioningError> {
        let found = self.schemas.iter().find(|schema| schema.name == name);
        found.ok_or_else(|| format!("there is no schema {name:?}"))
    }

    fn service_spec(&self, name: &str) -> Result<&'a ServiceSpec, ProvisioningError> {
        let found = self.services.iter().find(|service| service.name == name);
        found.ok_or_else(|| format!("there is no service {name:?}"))
    }

    /// Returns the schemas of the credentials that a service holds, in the order of the schemas.
    fn held_schemas<'p>(&self, part: &'p ServiceSpec) -> impl Iterator<Item = &'a SchemaSpec> + use<'a, 'p> {
        let schemas = self.schemas;
        schemas.iter().filter(|schema| part.credentials.contains_key(&schema.name))
    }

    /// Returns the flaw of a credential or of its presentation; a flaw applies to the first credential only.
    fn credential_fault(&self, part: &ServiceSpec, schema: &SchemaSpec) -> Option<IntendedFlaw> {
        let is_first = self.held_schemas(part).next().is_some_and(|first| first.name == schema.name);
        part.fault.filter(|_| is_first)
    }
}

/// The runner and the step of a phase.
struct StepContext<'a, 'b> {
    runner: &'a mut ScenarioRunner<'b>,
    step: &'a str,
}

impl StepContext<'_, '_> {
    fn step_error(&self, reason: impl ToString) -> SeedError {
        SeedError::Step { step: self.step.to_owned(), reason: reason.to_string() }
    }

    fn value(&self, name: &str) -> Result<String, SeedError> {
        self.runner
            .saved_values
            .get(name)
            .cloned()
            .ok_or_else(|| self.step_error(format!("{name:?} is not a saved name")))
    }

    /// Sends messages as one transaction of an account; returns the response of each as JSON.
    async fn send(&mut self, signer: &str, messages: Vec<(&'static str, Value)>) -> Result<Vec<Value>, SeedError> {
        self.runner.send_messages(self.step, signer, messages).await
    }

    fn save(&mut self, name: String, value: String) {
        self.runner.saved_values.insert(name, value);
    }

    /// Returns the header time of the newest block, in Unix seconds.
    fn block_seconds(&self) -> i64 {
        self.runner.block_time().seconds
    }
}

fn rfc3339_text(seconds: i64) -> String {
    timestamp::iso_seconds(&Timestamp { seconds, nanos: 0 })
}

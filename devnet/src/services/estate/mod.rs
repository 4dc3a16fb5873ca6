//! Services in the making: what a scenario says of them, turned into documents, credentials and transactions.

mod found;
mod issue;
mod registry;

use std::collections::BTreeMap;

use prost_types::Timestamp;
use serde_json::Value;
use svc_wire::instant;

use super::{
    Anchored, EcosystemPart, Expectation, Fault, Identity, Phase, SchemaPart, Service, ServicePart, Services,
    host::Pages, origin,
};
use crate::scenario::{Runner, Scenario, SeedError};

/// What a participant is, and of whom.
type Place = (String, String);

/// All services of a scenario while they are made.
pub(crate) struct Estate<'a> {
    ecosystem: &'a EcosystemPart,
    schemas: &'a [SchemaPart],
    services: &'a [ServicePart],
    pages: Pages,
    port: u16,
    identities: BTreeMap<String, Identity>,
    /// Credentials of the schemas: where they are, and their digests.
    schema_credentials: BTreeMap<String, (String, String)>,
    /// Seconds at which credentials, and participants that anchor them, end: by service and schema.
    ends: BTreeMap<Place, i64>,
}

/// Digest of every framework document: nobody reads them.
const FRAMEWORK_DIGEST: &str = "sha384-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4v";

/// A phase that went wrong, in words.
type Failure = String;

impl<'a> Estate<'a> {
    /// Nothing is made yet. None for a scenario without services.
    pub fn new(scenario: &'a Scenario, served: &Services) -> Option<Self> {
        Some(Self {
            ecosystem: scenario.ecosystem.as_ref()?,
            schemas: &scenario.schemas,
            services: &scenario.services,
            pages: served.host.pages.clone(),
            port: served.host.address.port(),
            identities: BTreeMap::new(),
            schema_credentials: BTreeMap::new(),
            ends: BTreeMap::new(),
        })
    }

    /// Makes a part of it.
    pub async fn run(&mut self, runner: &mut Runner<'_>, step: &str, phase: Phase) -> Result<(), SeedError> {
        let work = Work { runner, step };
        match phase {
            Phase::Found => self.found(work).await,
            Phase::Constitute => self.constitute(work).await,
            Phase::Authorise => self.authorise(work).await,
            Phase::Admit => self.admit(work).await,
            Phase::AnchorEarly => self.anchor(work, &[Anchored::Early]).await,
            Phase::Anchor => self.anchor(work, &[Anchored::InTime, Anchored::Never]).await,
            Phase::AnchorLate => self.anchor(work, &[Anchored::Late]).await,
            Phase::Withdraw => self.withdraw(work).await,
        }
    }

    /// What was made.
    pub fn finish(&self) -> BTreeMap<String, Service> {
        let made = self.services.iter().filter_map(|part| {
            let service = Service {
                identity: self.identities.get(&part.name)?.clone(),
                shows: part.shows.clone(),
                expect: part.expect,
                expires_at: self.expiry(part).map(seconds_text),
            };
            Some((part.name.clone(), service))
        });
        made.collect()
    }

    /// When the earliest of the things a trusted service rests on ends.
    fn expiry(&self, part: &ServicePart) -> Option<i64> {
        if part.expect != Expectation::Trusted {
            return None;
        }
        let own = |wanted: fn(svc_trust::Essential) -> bool| {
            let schemas = self.schemas.iter().filter(move |schema| schema.essential.is_some_and(wanted));
            schemas.filter_map(|schema| self.ends.get(&(part.name.clone(), schema.name.clone())).copied()).min()
        };
        let service = self.schemas.iter().find(|schema| schema.essential == Some(svc_trust::Essential::Service))?;
        let operator = match part.credentials.get(&service.name)?.by.as_deref() {
            None => own(svc_trust::Essential::names_operator),
            Some(parent) => {
                self.services.iter().find(|other| other.name == parent).and_then(|parent| self.expiry(parent))
            }
        };
        own(|essential| essential == svc_trust::Essential::Service).into_iter().chain(operator).min()
    }

    fn ends_at(&mut self, service: &str, schema: &str, seconds: i64) {
        let place = (service.to_owned(), schema.to_owned());
        self.ends.entry(place).and_modify(|known| *known = seconds.min(*known)).or_insert(seconds);
    }

    fn origin(&self) -> String {
        origin(self.port)
    }

    fn did(&self, service: &str) -> Result<&str, Failure> {
        let identity = self.identities.get(service);
        identity.map(|identity| identity.did.as_str()).ok_or_else(|| format!("there is no service {service:?}"))
    }

    fn schema(&self, name: &str) -> Result<&'a SchemaPart, Failure> {
        let found = self.schemas.iter().find(|schema| schema.name == name);
        found.ok_or_else(|| format!("there is no schema {name:?}"))
    }

    fn part(&self, name: &str) -> Result<&'a ServicePart, Failure> {
        let found = self.services.iter().find(|service| service.name == name);
        found.ok_or_else(|| format!("there is no service {name:?}"))
    }

    /// Schemas of the credentials a service holds, in the order of the schemas.
    fn held<'p>(&self, part: &'p ServicePart) -> impl Iterator<Item = &'a SchemaPart> + use<'a, 'p> {
        let schemas = self.schemas;
        schemas.iter().filter(|schema| part.credentials.contains_key(&schema.name))
    }

    /// What is wrong with a credential, or with its presentation: faults concern the first.
    fn fault(&self, part: &ServicePart, schema: &SchemaPart) -> Option<Fault> {
        let is_first = self.held(part).next().is_some_and(|first| first.name == schema.name);
        part.fault.filter(|_| is_first)
    }
}

/// A phase at work: who sends, and for which step.
struct Work<'a, 'b> {
    runner: &'a mut Runner<'b>,
    step: &'a str,
}

impl Work<'_, '_> {
    fn failed(&self, reason: impl ToString) -> SeedError {
        SeedError::Step { step: self.step.to_owned(), reason: reason.to_string() }
    }

    fn value(&self, name: &str) -> Result<String, SeedError> {
        self.runner.values.get(name).cloned().ok_or_else(|| self.failed(format!("{name:?} is not a saved name")))
    }

    /// Sends messages as one transaction of an account; what each answered.
    async fn send(&mut self, signer: &str, messages: Vec<(&'static str, Value)>) -> Result<Vec<Value>, SeedError> {
        self.runner.send_all(self.step, signer, messages).await
    }

    fn save(&mut self, name: String, value: String) {
        self.runner.values.insert(name, value);
    }

    /// Header time of the newest block, in seconds.
    fn now(&self) -> i64 {
        self.runner.now().seconds
    }
}

fn seconds_text(seconds: i64) -> String {
    instant::iso_seconds(&Timestamp { seconds, nanos: 0 })
}

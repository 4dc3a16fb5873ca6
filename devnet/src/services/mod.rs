//! Services with DIDs, keys and credentials of their own, served over HTTP on loopback: trusted ones, and untrusted ones for
//! every reason.
//!
//! Their material can be replaced while the devnet runs: [`Services`] publishes texts, documents and presentations anew.

mod credential;
mod estate;
mod host;
mod identity;
mod log;
mod part;

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_trust::Reason;
use svc_wire::instant;

pub use credential::{Statement, presentation, sign};
pub(crate) use estate::Estate;
pub use host::{JSON, LOG, Page};
pub use identity::{Identity, KEY, SECOND_KEY, verification_method};
pub use log::LogError;
pub use part::{
    Anchored, CredentialPart, EcosystemPart, Expectation, Fate, Fault, Form, Holders, IssuerPart, Issuers, Method,
    Offer, Phase, SchemaPart, ServicePart,
};

use host::{Host, Pages};
use log::Updater;

/// What a service is, and what must be found out about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// Its DID and where its material is.
    #[serde(flatten)]
    pub identity: Identity,
    /// What it shows, for people.
    pub shows: String,
    /// What must be found out about it.
    pub expect: Expectation,
    /// When the earliest of the things it rests on ends, in RFC 3339, if it is trusted and any of them does.
    pub expires_at: Option<String>,
}

/// Why services cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ServicesError {
    /// The address cannot be used. DIDs name it.
    #[error("cannot listen on {address}, where the services are: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        cause: std::io::Error,
    },
    /// There is none of this name, or it has no document.
    #[error("there is no service {0:?} with a document")]
    Unknown(String),
    /// Its log cannot be continued.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Something cannot be signed.
    #[error("{0}")]
    Proof(String),
}

impl From<Reason> for ServicesError {
    fn from(reason: Reason) -> Self {
        Self::Proof(reason.message)
    }
}

/// What a home remembers of services.
#[derive(Serialize, Deserialize)]
pub(crate) struct Kept {
    address: SocketAddr,
    services: BTreeMap<String, Service>,
    pages: BTreeMap<String, Page>,
}

/// The running services.
pub struct Services {
    host: Host,
    services: BTreeMap<String, Service>,
}

impl Services {
    /// Listens, without any service yet. Loopback alone, whatever the address says.
    pub(crate) fn start(listen: SocketAddr) -> Result<Self, ServicesError> {
        let listen = if listen.ip().is_loopback() { listen } else { (Ipv4Addr::LOCALHOST, listen.port()).into() };
        Ok(Self { host: Host::start(listen, Pages::default())?, services: BTreeMap::new() })
    }

    /// Serves what a home remembers, where it was.
    pub(crate) fn resume(kept: Kept) -> Result<Self, ServicesError> {
        Ok(Self { host: Host::start(kept.address, Pages::new(kept.pages))?, services: kept.services })
    }

    /// Takes over what the scenario has made.
    pub(crate) fn adopt(&mut self, services: BTreeMap<String, Service>) {
        self.services = services;
    }

    /// What a home has to remember.
    pub(crate) fn kept(&self) -> Kept {
        Kept { address: self.host.address, services: self.services.clone(), pages: self.host.pages.all() }
    }

    /// Where they are, as an origin. The name is the one in their DIDs.
    pub fn origin(&self) -> String {
        origin(self.host.address.port())
    }

    /// All, by name.
    pub fn all(&self) -> &BTreeMap<String, Service> {
        &self.services
    }

    /// One of them.
    pub fn get(&self, name: &str) -> Result<&Service, ServicesError> {
        self.services.get(name).ok_or_else(|| ServicesError::Unknown(name.to_owned()))
    }

    /// What is served at a path.
    pub fn page(&self, path: &str) -> Option<Page> {
        self.host.pages.get(path)
    }

    /// Serves a text at a path.
    pub fn publish(&self, path: &str, content_type: &str, body: impl Into<String>) {
        self.host.pages.put(path.to_owned(), content_type, body.into());
    }

    /// Serves nothing at a path any more.
    pub fn withdraw(&self, path: &str) {
        self.host.pages.remove(path);
    }

    /// The document of a service: what is served, or what the newest entry of its log says.
    pub fn document(&self, name: &str) -> Result<Value, ServicesError> {
        let identity = &self.get(name)?.identity;
        let body = self.page(&identity.path()).map(|page| page.body).unwrap_or_default();
        let found = match identity.method {
            Method::Webvh => log::newest(&body, "state"),
            Method::Web | Method::Example => serde_json::from_str(&body).ok(),
        };
        found.ok_or_else(|| ServicesError::Unknown(name.to_owned()))
    }

    /// Publishes another document: in place of the old one, or as a further entry of the log, dated a second after the last.
    pub async fn set_document(&self, name: &str, document: &Value) -> Result<(), ServicesError> {
        let identity = &self.get(name)?.identity;
        let path = identity.path();
        if identity.method != Method::Webvh {
            self.publish(&path, JSON, document.to_string());
            return Ok(());
        }
        let log = self.page(&path).map(|page| page.body).unwrap_or_default();
        let last = log::newest(&log, "versionTime");
        let last = last.as_ref().and_then(Value::as_str).and_then(instant::parse_rfc3339).unwrap_or_default();
        let next = instant::iso_seconds(&prost_types::Timestamp { seconds: last.seconds + 1, nanos: 0 });
        let log = Updater::of(name).append(&log, document, &next, false).await?;
        self.publish(&path, LOG, log);
        Ok(())
    }

    /// Gives a service another key, by its label, in place of the one it has for everything.
    pub async fn rotate_key(&self, name: &str, label: &str) -> Result<(), ServicesError> {
        let did = &self.get(name)?.identity.did;
        let mut document = self.document(name)?;
        let id = Value::from(vec![format!("{did}#{label}")]);
        document["verificationMethod"] = vec![verification_method(did, name, label)].into();
        document["authentication"] = id.clone();
        document["assertionMethod"] = id;
        self.set_document(name, &document).await
    }

    /// The presentation a service links to for a schema.
    pub fn presented(&self, name: &str, schema: &str) -> Option<Value> {
        serde_json::from_str(&self.page(&presentation_path(name, schema))?.body).ok()
    }

    /// Signs a presentation with the key every service has, and publishes it where the document links to it.
    pub fn present(
        &self,
        name: &str,
        schema: &str,
        credentials: Vec<Value>,
        form: Form,
        at: &str,
    ) -> Result<(), ServicesError> {
        let identity = &self.get(name)?.identity;
        let presentation = presentation(&identity.did, credentials, &identity.prover(KEY), form, at)?;
        self.publish(&presentation_path(name, schema), JSON, presentation.to_string());
        Ok(())
    }
}

/// Where a presentation is served.
pub fn presentation_path(service: &str, schema: &str) -> String {
    format!("/{service}/vt/{schema}-vp.json")
}

/// Where the credential of a schema is served.
pub(crate) fn schema_path(service: &str, schema: &str) -> String {
    format!("/{service}/vt/schemas/{schema}.json")
}

fn origin(port: u16) -> String {
    format!("http://localhost:{port}")
}

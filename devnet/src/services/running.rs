//! The running services: their pages, and the replacement of pages.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
};

use axum::http::StatusCode;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use svc_trust::{
    EssentialCredential,
    digest::{DigestAlgorithm, sri_digest},
    issuance::{CredentialDraft, sign_credential, sign_presentation},
    proof::ProofSuite,
};
use svc_wire::timestamp;
use tokio::sync::mpsc;

use super::{
    claims::{self, publish_documents},
    did_log::{self, DidLogWriter},
    error::ServicesError,
    first_log::FirstLogWriter,
    identity::{MAIN_KEY_LABEL, ServiceIdentity, verification_method},
    page_server::{DID_LOG_CONTENT_TYPE, JSON_CONTENT_TYPE, PageAnswers, PageServer, PageStore, StaticPage},
};
use crate::scenario::{CredentialFormat, ExpectedVerdict, ServiceDidMethod, ServiceForm};

/// A service and its expected verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DevnetService {
    /// DID and paths of the service.
    #[serde(flatten)]
    pub identity: ServiceIdentity,
    /// Description of the case that the service demonstrates.
    pub shows: String,
    /// Expected verdict.
    pub expect: ExpectedVerdict,
    /// Time in RFC 3339 at which a trusted service stops being trusted: the earliest end of the credentials and participants that
    /// it depends on.
    pub expires_at: Option<String>,
}

/// The services as a home stores them.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredServices {
    address: SocketAddr,
    services: BTreeMap<String, DevnetService>,
    pages: BTreeMap<String, StaticPage>,
}

/// The running services.
pub struct DevnetServices {
    pub(super) host: PageServer,
    services: BTreeMap<String, DevnetService>,
}

impl DevnetServices {
    /// Starts the server without a service. An address other than loopback is replaced by loopback.
    pub(crate) fn start(listen: SocketAddr) -> Result<Self, ServicesError> {
        let listen = if listen.ip().is_loopback() { listen } else { (Ipv4Addr::LOCALHOST, listen.port()).into() };
        let pages = PageStore::default();
        publish_documents(&pages);
        Ok(Self { host: PageServer::start(listen, pages)?, services: BTreeMap::new() })
    }

    /// Serves the stored services at their address.
    pub(crate) fn resume(stored: StoredServices) -> Result<Self, ServicesError> {
        let pages = PageStore::new(stored.pages);
        publish_documents(&pages);
        Ok(Self { host: PageServer::start(stored.address, pages)?, services: stored.services })
    }

    /// Sets the services that the scenario created.
    pub(crate) fn add_provisioned(&mut self, services: BTreeMap<String, DevnetService>) {
        self.services = services;
    }

    /// Returns the services as a home stores them.
    pub(crate) fn to_stored(&self) -> StoredServices {
        StoredServices { address: self.host.address, services: self.services.clone(), pages: self.host.pages.all() }
    }

    /// Returns the origin of the services, with the host name of their DIDs.
    pub fn origin(&self) -> String {
        localhost_origin(self.host.address.port())
    }

    /// Returns the claims of an essential credential about a holder of this name, without its DID. These services serve the documents
    /// that they name.
    pub fn essential_claims(
        &self,
        essential: EssentialCredential,
        name: &str,
        description: &str,
    ) -> Map<String, Value> {
        claims::essential_claims(&self.origin(), essential, name, description)
    }

    /// Returns all services by name.
    pub fn all(&self) -> &BTreeMap<String, DevnetService> {
        &self.services
    }

    /// Returns a service; fails for an unknown name.
    pub fn get(&self, name: &str) -> Result<&DevnetService, ServicesError> {
        self.services.get(name).ok_or_else(|| ServicesError::Unknown(name.to_owned()))
    }

    /// Returns the answers of the server since its start.
    pub fn answers(&self) -> PageAnswers {
        self.host.pages.answers()
    }

    /// Returns the page at a path.
    pub fn page(&self, path: &str) -> Option<StaticPage> {
        self.host.pages.get(path)
    }

    /// Serves a text at a path, in place of an existing page.
    pub fn publish(&self, path: &str, content_type: &str, body: impl Into<String>) {
        self.host.pages.put(path.to_owned(), content_type, body.into());
    }

    /// Opens the inbox at a path; messages that are posted there arrive. The path has one inbox at a time.
    pub(crate) fn open_inbox(&self, path: &str) -> mpsc::Receiver<Bytes> {
        self.host.pages.open_inbox(path.to_owned())
    }

    /// Removes the page at a path.
    pub fn unpublish(&self, path: &str) {
        self.host.pages.remove(path);
    }

    /// Answers all pages of a service with a status, as a server that is down for some time does. `None` serves them again.
    pub fn refuse_pages(&self, name: &str, status: Option<u16>) {
        let status = status.and_then(|status| StatusCode::from_u16(status).ok());
        self.host.pages.refuse(&format!("/{name}/"), status);
    }

    /// Returns the DID Document of a service: the page, or the state of the newest entry of its log.
    pub fn document(&self, name: &str) -> Result<Value, ServicesError> {
        let identity = &self.get(name)?.identity;
        let body = self.page(&identity.document_path()).map(|page| page.body).unwrap_or_default();
        let found = match identity.method {
            ServiceDidMethod::Webvh => did_log::newest_entry_member(&body, "state"),
            ServiceDidMethod::Web | ServiceDidMethod::Example => serde_json::from_str(&body).ok(),
        };
        found.ok_or_else(|| ServicesError::Unknown(name.to_owned()))
    }

    /// Replaces the DID Document of a service; for did:webvh appends a log entry, dated one second after the last one.
    pub async fn set_document(&self, name: &str, document: &Value) -> Result<(), ServicesError> {
        let identity = &self.get(name)?.identity;
        let path = identity.document_path();
        if identity.method != ServiceDidMethod::Webvh {
            self.publish(&path, JSON_CONTENT_TYPE, document.to_string());
            return Ok(());
        }
        let log = self.page(&path).map(|page| page.body).unwrap_or_default();
        let last = did_log::newest_entry_member(&log, "versionTime");
        let last = last.as_ref().and_then(Value::as_str).and_then(timestamp::parse_rfc3339).unwrap_or_default();
        let next = timestamp::iso_seconds(&prost_types::Timestamp { seconds: last.seconds + 1, nanos: 0 });
        let log = match identity.form {
            ServiceForm::Present => DidLogWriter::for_service(name).append_entry(&log, document, &next, false).await?,
            ServiceForm::FirstGeneration => FirstLogWriter::for_service(name).append_entry(&log, document, &next)?,
        };
        self.publish(&path, DID_LOG_CONTENT_TYPE, log);
        Ok(())
    }

    /// Replaces the key of a service by the key with another label, for all purposes.
    pub async fn rotate_key(&self, name: &str, label: &str) -> Result<(), ServicesError> {
        let did = &self.get(name)?.identity.did;
        let mut document = self.document(name)?;
        let id = Value::from(vec![format!("{did}#{label}")]);
        document["verificationMethod"] = vec![verification_method(did, name, label)].into();
        document["authentication"] = id.clone();
        document["assertionMethod"] = id;
        self.set_document(name, &document).await
    }

    /// Returns the presentation that a service links to for a schema.
    pub fn published_presentation(&self, name: &str, schema: &str) -> Option<Value> {
        serde_json::from_str(&self.page(&presentation_path(name, schema))?.body).ok()
    }

    /// Issues a credential of a schema, signed with the main key of a service. `schema` is the service of its ecosystem with its id.
    pub fn issue_credential(
        &self,
        service: &str,
        (ecosystem, schema_id): (&str, &str),
        subject: Value,
        at: &str,
    ) -> Result<Value, ServicesError> {
        let issuer = &self.get(service)?.identity;
        let path = schema_path(ecosystem, schema_id);
        let page = self.page(&path).ok_or_else(|| ServicesError::Unknown(format!("schema {schema_id}")))?;
        let part = Sha256::digest(format!("{subject} {at}"));
        let draft = CredentialDraft {
            id: format!("{}/{service}/credentials/{}", self.origin(), hex::encode(&part[..8])),
            issuer: issuer.did.clone(),
            kind: "VerifiableTrustCredential".to_owned(),
            subject,
            schema: Some(json!({
                "id": format!("{}{path}", self.origin()), "type": "JsonSchemaCredential",
                "digestSRI": sri_digest(page.body.as_bytes(), DigestAlgorithm::Sha384),
            })),
            valid_from: at.to_owned(),
            valid_until: None,
        };
        let mut credential = draft.into_credential(ProofSuite::EddsaJcs2022);
        sign_credential(&mut credential, &issuer.prover(MAIN_KEY_LABEL), ProofSuite::EddsaJcs2022, at)?;
        Ok(credential)
    }

    /// Signs a presentation with the main key of a service, and publishes it at the path in its document.
    pub fn publish_presentation(
        &self,
        name: &str,
        schema: &str,
        credentials: Vec<Value>,
        form: CredentialFormat,
        at: &str,
    ) -> Result<(), ServicesError> {
        let identity = &self.get(name)?.identity;
        let presentation =
            sign_presentation(&identity.did, credentials, &identity.prover(MAIN_KEY_LABEL), form.suite(), at)?;
        self.publish(&presentation_path(name, schema), JSON_CONTENT_TYPE, presentation.to_string());
        Ok(())
    }
}

/// Returns the path of a presentation.
pub fn presentation_path(service: &str, schema: &str) -> String {
    format!("/{service}/vt/{schema}-vp.json")
}

/// Returns the path of the credential of a schema with an id. Agents of the first generation know no other form of its end.
pub fn schema_path(service: &str, schema_id: &str) -> String {
    let digits = hex::encode(Sha256::digest(format!("{service} {schema_id}")));
    let (folder, _) = digits.split_at(8);
    format!("/{service}/vt/{folder}/schemas-{schema_id}-jsc.json")
}

pub(super) fn localhost_origin(port: u16) -> String {
    format!("http://localhost:{port}")
}

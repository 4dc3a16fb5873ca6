//! The schemas of an ecosystem, as its DID Document presents them: each schema credential is found behind a linked presentation, and its
//! schema is read at the node.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, btree_map::Entry},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures::StreamExt;
use serde_json::Value;
use svc_net::evidence::{EvidenceBudget, EvidenceFetcher};
use svc_trust::{
    EssentialCredential, EssentialSchemas, Evidence, EvidenceRequest,
    did_document::linked_schema_presentations,
    digest::{DigestAlgorithm, sri_digest},
    proof::ProofSuite,
};
use tokio::{sync::Mutex, time::Instant};

use super::node_registry::{NodeRegistry, SchemaOnChain};
use crate::{
    account_write::{WriteStop, WritingAccount},
    document::proof_suite,
};

/// Time for which the schema credentials of an ecosystem are kept.
const KEEP_TIME: Duration = Duration::from_secs(300);
/// Time for which something that is missing among them is not looked for again: an ecosystem may just have made its schema.
const ABSENCE_KEEP_TIME: Duration = Duration::from_secs(2);
/// Presentations of one ecosystem that are read: those of 64 schemas in both forms.
const MAX_PRESENTATIONS: usize = 128;
/// Ecosystems that are kept.
const MAX_ECOSYSTEMS: usize = 256;

/// The credential of a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SchemaCredential {
    /// Its URL.
    pub url: String,
    /// Integrity text of its bytes.
    pub digest_sri: String,
    /// Suite of its proof.
    suite: ProofSuite,
}

/// The credentials of one schema: at most one of each suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaCredentials {
    pub(crate) schema_id: u64,
    first: SchemaCredential,
    second: Option<SchemaCredential>,
}

impl SchemaCredentials {
    fn new(schema_id: u64, first: SchemaCredential) -> Self {
        Self { schema_id, first, second: None }
    }

    /// Adds a credential. Of two with one suite the later is taken.
    fn add(&mut self, credential: SchemaCredential) {
        if self.first.suite == credential.suite {
            self.first = credential;
        } else {
            self.second = Some(credential);
        }
    }

    /// Whether there is one with this suite.
    pub fn has_suite(&self, suite: ProofSuite) -> bool {
        self.with_suite(suite).suite == suite
    }

    /// The credential that one with this suite names: a reader of one suite alone reads both.
    pub(crate) fn with_suite(&self, suite: ProofSuite) -> &SchemaCredential {
        self.second.as_ref().filter(|second| second.suite == suite).unwrap_or(&self.first)
    }
}

/// An essential schema in use, with its credentials.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EssentialSource {
    pub schema: SchemaOnChain,
    pub credentials: SchemaCredentials,
}

/// The schema credentials of an ecosystem.
struct EcosystemCredentials {
    /// Those of each schema, in the order of their ids.
    credentials: Vec<SchemaCredentials>,
    /// The reason for which a part of them is not known.
    unread: Option<String>,
}

/// The schema credentials of an ecosystem, and the time at which they were read.
type KnownCredentials = (Instant, Arc<EcosystemCredentials>);

/// Finds schemas, and keeps the credentials of each ecosystem for a while.
#[derive(Clone)]
pub struct SchemaSources {
    fetcher: EvidenceFetcher,
    known: Arc<Mutex<HashMap<String, KnownCredentials>>>,
}

impl SchemaSources {
    pub fn new(fetcher: EvidenceFetcher) -> Self {
        Self { fetcher, known: Arc::default() }
    }

    /// The credentials of a schema, as its ecosystem presents them.
    pub async fn credentials_of(
        &self,
        account: &WritingAccount,
        schema: &SchemaOnChain,
    ) -> Result<SchemaCredentials, WriteStop> {
        let (id, did) = (schema.schema.id, &schema.ecosystem_did);
        for keep_time in [KEEP_TIME, ABSENCE_KEEP_TIME] {
            let found = self.credentials_kept(account, did, keep_time).await?;
            if let Some(found) = found.credentials.iter().find(|one| one.schema_id == id) {
                return Ok(found.clone());
            }
        }
        Err(WriteStop::Failed(format!("the DID Document of {did} presents no credential of schema {id}")))
    }

    /// The essential schema of a kind: of the first of these ecosystems that has one, the one with the highest id. While a part of an
    /// ecosystem cannot be read, only the schema that is in use already is taken: the part may have a later one.
    pub(crate) async fn essential(
        &self,
        account: &WritingAccount,
        ecosystems: &[String],
        wanted: (EssentialCredential, &EssentialSchemas),
        in_use: Option<u64>,
    ) -> Result<Option<EssentialSource>, WriteStop> {
        // The credentials of an ecosystem may have come since they were read.
        for keep_time in [KEEP_TIME, ABSENCE_KEEP_TIME] {
            let found = self.essential_kept(account, ecosystems, wanted, (in_use, keep_time)).await?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    async fn essential_kept(
        &self,
        account: &WritingAccount,
        ecosystems: &[String],
        (essential, known): (EssentialCredential, &EssentialSchemas),
        (in_use, keep_time): (Option<u64>, Duration),
    ) -> Result<Option<EssentialSource>, WriteStop> {
        for ecosystem in ecosystems {
            let found = self.credentials_kept(account, ecosystem, keep_time).await?;
            let mut credentials = found.credentials.clone();
            credentials.sort_by_key(|one| std::cmp::Reverse(one.schema_id));
            for credentials in credentials {
                let Some(schema) = NodeRegistry(account).schema(credentials.schema_id).await? else { continue };
                let kind = known.content(&schema.schema.json_schema).map(|(kind, _)| kind);
                let is_in_use = schema.schema.archived.is_none() && schema.ecosystem_did == *ecosystem;
                if !is_in_use || kind != Some(essential) {
                    continue;
                }
                return match &found.unread {
                    Some(unread) if in_use != Some(schema.schema.id) => Err(WriteStop::Failed(unread.clone())),
                    _ => Ok(Some(EssentialSource { schema, credentials })),
                };
            }
            if let Some(unread) = &found.unread {
                return Err(WriteStop::Failed(unread.clone()));
            }
        }
        Ok(None)
    }

    async fn credentials_kept(
        &self,
        account: &WritingAccount,
        ecosystem: &str,
        keep_time: Duration,
    ) -> Result<Arc<EcosystemCredentials>, WriteStop> {
        // The agent changes its own ecosystem, and has to see that at once.
        if let Some((at, found)) = self.known.lock().await.get(ecosystem).filter(|_| ecosystem != account.did)
            && at.elapsed() < keep_time
        {
            return Ok(Arc::clone(found));
        }
        let found = Arc::new(self.read_credentials(account, ecosystem).await?);
        let mut known = self.known.lock().await;
        if known.len() >= MAX_ECOSYSTEMS {
            known.clear();
        }
        // Nothing is kept of an ecosystem that could not be read whole.
        if found.unread.is_none() {
            known.insert(ecosystem.to_owned(), (Instant::now(), Arc::clone(&found)));
        }
        Ok(found)
    }

    async fn read_credentials(
        &self,
        account: &WritingAccount,
        ecosystem: &str,
    ) -> Result<EcosystemCredentials, WriteStop> {
        let chain = &account.access.chain;
        let prefix = format!("vpr:{}:{}:cs:", chain.registry.namespace(), chain.params.chain_id);
        let request = EvidenceRequest::Document(ecosystem.to_owned());
        let document = self.fetcher.fetch(&request).await;
        let document = document.map_err(|failure| WriteStop::Failed(failure.message))?;
        let linked = linked_schema_presentations(&document);
        let urls = linked.into_iter().take(MAX_PRESENTATIONS).map(|one| EvidenceRequest::Resource(one.url));
        let (presentations, unread) = self.fetch_texts(urls.collect()).await;
        // A credential is read at its own URL: the digest is that of these bytes.
        let mut schemas: BTreeMap<String, u64> = BTreeMap::new();
        for text in presentations.values() {
            let presentation: Value = serde_json::from_str(text).unwrap_or_default();
            let shown = match &presentation["verifiableCredential"] {
                Value::Array(several) => several.as_slice(),
                one => std::slice::from_ref(one),
            };
            for credential in shown {
                let subject = &credential["credentialSubject"];
                let id = subject["jsonSchema"]["$ref"].as_str().and_then(|reference| schema_id(reference, &prefix));
                if let (Some(url), Some(id)) = (credential["id"].as_str(), id) {
                    schemas.insert(url.to_owned(), id);
                }
            }
        }
        let urls = schemas.keys().take(MAX_PRESENTATIONS).cloned().map(EvidenceRequest::Resource).collect();
        let (texts, also_unread) = self.fetch_texts(urls).await;
        // Of two credentials of one schema and suite the last one by its URL is taken, each time.
        let mut found: BTreeMap<u64, SchemaCredentials> = BTreeMap::new();
        for (url, text) in texts {
            let Some(schema_id) = schemas.get(&url).copied() else { continue };
            let digest_sri = sri_digest(text.as_bytes(), DigestAlgorithm::Sha384);
            let suite = proof_suite(&serde_json::from_str(&text).unwrap_or_default());
            let credential = SchemaCredential { url, digest_sri, suite };
            match found.entry(schema_id) {
                Entry::Occupied(known) => known.into_mut().add(credential),
                Entry::Vacant(place) => drop(place.insert(SchemaCredentials::new(schema_id, credential))),
            }
        }
        Ok(EcosystemCredentials { credentials: found.into_values().collect(), unread: unread.or(also_unread) })
    }

    /// The texts at URLs, and the reason for which one of them cannot be read.
    async fn fetch_texts(&self, requests: BTreeSet<EvidenceRequest>) -> (BTreeMap<String, String>, Option<String>) {
        let mut budget = EvidenceBudget::new(&Evidence::default());
        let (mut texts, mut unread) = (BTreeMap::new(), None);
        let mut fetches = pin!(self.fetcher.fetch_all(requests, &mut budget));
        while let Some((request, fetched)) = fetches.next().await {
            match (request, budget.accept(fetched)) {
                (EvidenceRequest::Resource(url), Ok(Value::String(text))) => drop(texts.insert(url, text)),
                (EvidenceRequest::Resource(url), Err(failure)) => {
                    unread.get_or_insert(format!("{url}: {}", failure.message));
                }
                _ => {}
            }
        }
        (texts, unread)
    }
}

fn schema_id(reference: &str, prefix: &str) -> Option<u64> {
    reference.strip_prefix(prefix)?.parse().ok()
}

/// The name of the presentation of an essential credential.
pub(crate) fn name_of(essential: EssentialCredential) -> &'static str {
    match essential {
        EssentialCredential::Service => "service",
        EssentialCredential::Organization => "org",
        EssentialCredential::Persona => "persona",
        EssentialCredential::UserAgent => "user-agent",
        EssentialCredential::Badge => "badge",
    }
}

impl SchemaOnChain {
    /// Kind of the schema, if it is essential.
    pub fn essential(&self, known: &EssentialSchemas) -> Option<EssentialCredential> {
        known.find(&self.schema.json_schema, &self.ecosystem_did).map(|(kind, _)| kind)
    }
}

//! The owner of endpoints: the facts of a request, and the public files.

use std::sync::Arc;

use arc_swap::ArcSwap;
use svc_agent_core::access::{GrantDetails, OfferedGrant, StoredGrant};
use svc_agent_identity::keeper::{KeeperHandle, PublishedFile};
use svc_agent_store::{AgentStore, AgentStoreError};
use svc_didcomm::{
    access::{Denied, EndpointTerms, GrantLimits, RequestFacts, TermsMaterial, judge_request},
    protocol::endpoint_access::{AccessRequest, DenyCode},
};
use svc_kit::wall_clock;
use svc_trust::access::access_jwk;
use svc_wire::endpoint_access::{AccessDocument, EndpointLine, Material, endpoint_url};

use super::{
    settings::AccessSettings,
    terms_file::{AccessTerms, SharedTerms, TermsFileError},
};

/// Seconds after which a peer may ask again when a key is missing.
const RETRY_SECONDS: u64 = 5;

/// The conditions and the document of an agent that grants access. Clones share everything.
#[derive(Clone)]
pub struct AccessOwner(pub(super) Arc<OwnerParts>);

/// Its parts.
pub(crate) struct OwnerParts {
    pub settings: AccessSettings,
    pub base_url: String,
    pub store: AgentStore,
    pub keeper: KeeperHandle,
    pub terms: SharedTerms,
}

impl AccessOwner {
    /// Reads the conditions. Fails when the file cannot be used.
    pub fn open(
        settings: AccessSettings,
        base_url: &str,
        store: AgentStore,
        keeper: KeeperHandle,
    ) -> Result<Self, TermsFileError> {
        let terms = match &settings.terms_file {
            Some(path) => AccessTerms::read(path, settings.token_seconds)?,
            None => AccessTerms::default(),
        };
        let terms = Arc::new(ArcSwap::from_pointee(terms));
        Ok(Self(Arc::new(OwnerParts { settings, base_url: base_url.to_owned(), store, keeper, terms })))
    }

    /// Returns the settings.
    pub fn settings(&self) -> &AccessSettings {
        &self.0.settings
    }

    /// The DID.
    pub fn did(&self) -> String {
        self.0.keeper.published().document.did().to_owned()
    }

    /// Reads the conditions once more. After an error the old ones are in force.
    pub fn reload(&self) -> Result<usize, TermsFileError> {
        let Some(path) = &self.0.settings.terms_file else { return Ok(0) };
        let terms = AccessTerms::read(path, self.0.settings.token_seconds)?;
        let count = terms.endpoints().count();
        self.0.terms.store(Arc::new(terms));
        Ok(count)
    }

    /// The conditions of an entry of the document.
    fn terms_of(&self, endpoint: &str) -> EndpointTerms {
        let fragment = endpoint.split_once('#').map_or("", |(_, fragment)| fragment);
        self.0.terms.load().of(fragment, self.0.settings.token_seconds)
    }

    /// The URL of an entry that peers may call; none when the document has no such entry. The agent's own entries are none.
    fn url_of(&self, endpoint: &str) -> Option<String> {
        let published = self.0.keeper.published();
        let entry = published.document.services().into_iter().find(|entry| entry.id == endpoint)?;
        endpoint_url(&entry.endpoint).filter(|_| !entry.is_managed()).map(str::to_owned)
    }

    /// Judges a request of a peer by the facts of the moment. `too_early` are the seconds after which it may ask again, when it has asked
    /// too often.
    pub fn judge(
        &self,
        request: &AccessRequest,
        (peer, is_trusted): (&str, bool),
        too_early: Option<u64>,
    ) -> Result<OfferedGrant, Denied> {
        let (terms, url) = (self.terms_of(&request.endpoint), self.url_of(&request.endpoint));
        let facts = RequestFacts { peer, is_trusted, url: url.as_deref(), terms: &terms, too_early };
        let given = judge_request(request, facts)?;
        let mut details = GrantDetails::default();
        match terms.material {
            TermsMaterial::None => {}
            TermsMaterial::Bearer => {
                let (keys, published) = (self.0.keeper.access_keys(), self.0.keeper.published());
                let named = published.document.token_keys();
                let Some(key) = keys.signer(&named, wall_clock::now().seconds) else {
                    let message = "the document has no key of tokens now";
                    return Err(Denied::for_now(DenyCode::Unavailable, message, RETRY_SECONDS));
                };
                details.key_id = Some(key.method.clone());
            }
            TermsMaterial::Key { header } => details.header = Some(header),
            TermsMaterial::Credential { schema_id, issuer } => {
                (details.schema_id, details.issuer) = (Some(schema_id), Some(issuer));
            }
        }
        Ok(OfferedGrant { terms: given, details, limits: GrantLimits::default() })
    }

    /// The reason for which a valid grant is taken back: its entry or conditions have changed. None while it is still given.
    pub fn outdated(&self, grant: &StoredGrant) -> Option<&'static str> {
        match self.url_of(&grant.endpoint) {
            None => return Some("the entry of the endpoint was deleted"),
            Some(url) if url != grant.url => return Some("the URL of the endpoint has changed"),
            Some(_) => {}
        }
        let terms = self.terms_of(&grant.endpoint);
        // A key that a peer has is not taken from it by another header alone; its value is the operator's to change.
        let is_given = terms.still_gives(&grant.peer, grant.material, &grant.scopes);
        (!is_given).then_some("the conditions of the endpoint have become stricter")
    }

    /// Whether the document names conditions: with a file of them it does.
    pub fn is_published(&self) -> bool {
        self.0.settings.is_published()
    }

    /// The conditions of the entries that the document has.
    pub fn document(&self) -> AccessDocument {
        let (did, terms) = (self.did(), self.0.terms.load_full());
        let line = |(fragment, terms): (&str, &EndpointTerms)| {
            let id = format!("{did}#{fragment}");
            let (schema_id, issuer) = match &terms.material {
                TermsMaterial::Credential { schema_id, issuer } => (Some(schema_id.clone()), Some(issuer.clone())),
                _ => (None, None),
            };
            let (scopes, default_scopes) = (terms.scopes.clone(), terms.default_scopes.clone());
            let material: Material = terms.material.kind();
            self.url_of(&id).map(|_| EndpointLine { id, material, scopes, default_scopes, schema_id, issuer })
        };
        let lines = terms.endpoints().filter_map(line).collect();
        AccessDocument::new(&did, &self.0.base_url, self.0.settings.token_seconds, lines)
    }

    /// The file of the conditions.
    pub fn document_file(&self) -> PublishedFile {
        PublishedFile::new(self.document().to_json().to_string())
    }

    /// The file of the keys of tokens that the document names.
    pub fn jwks_file(&self) -> PublishedFile {
        let (keys, published) = (self.0.keeper.access_keys(), self.0.keeper.published());
        let named = published.document.token_keys();
        let keys: Vec<_> = keys
            .keys()
            .iter()
            .filter(|key| named.contains(&key.method.as_str()))
            .map(|key| access_jwk(&key.method, key.key.verifying_key().as_bytes()))
            .collect();
        PublishedFile::new(serde_json::json!({"keys": keys}).to_string())
    }

    /// The file of the revoked grants, as the store has them now.
    pub async fn revoked_file(&self) -> Result<PublishedFile, AgentStoreError> {
        let list = self.0.store.revocation_list(&self.did(), wall_clock::now().seconds).await?;
        Ok(PublishedFile::new(list.to_json().to_string()))
    }
}

//! The verifier of credentials that peers present by themselves to one endpoint.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use svc_kit::wall_clock;
use svc_net::{
    did::DidResolver,
    evidence::{EvidenceBudget, EvidenceFetcher},
    fetch::{BoundedFetcher, FetchLimits},
    host_policy::HostPolicy,
};
use svc_trust::{
    CredentialError, EssentialSchemas, EvaluationRules, Evidence, EvidenceRequest,
    access::{AccessPresentation, AccessRejection, PresentedCredential, SeenPresentations},
    evaluate_credential,
};
use tokio::sync::Semaphore;

use super::{registry_reads::RegistryReads, tokens::TokenRejection};

/// Most runs of one evaluation, as of the agent's own.
const MAX_RUNS: usize = 12;
/// Presentations that are remembered as used.
const MAX_SEEN: usize = 100_000;
/// Presentations that are verified at the same time: each makes this side read the servers of strangers.
const MAX_AT_ONCE: usize = 8;

/// The credential that an endpoint asks for, and the registry that vouches for it.
#[derive(Debug, Clone)]
pub struct PresentationRules {
    /// URL of the endpoint, byte for byte.
    pub audience: String,
    /// Schema of the credential.
    pub schema_id: u64,
    /// DID of its issuer.
    pub issuer: String,
    /// Origin of an indexer of the registry.
    pub indexer: String,
    /// `vpr:<namespace>:<chain id>:cs:`, the beginning of every reference to a schema of this registry.
    pub schema_prefix: String,
    /// Hosts that may be asked for documents.
    pub hosts: HostPolicy,
}

/// The peer that has presented the credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentedBy {
    /// DID.
    pub did: String,
    /// Id of the credential.
    pub credential: String,
}

/// Verifies presentations.
pub struct PresentationVerifier {
    rules: PresentationRules,
    resolver: DidResolver,
    fetcher: EvidenceFetcher,
    registry: RegistryReads,
    seen: Mutex<SeenPresentations>,
    places: Semaphore,
}

impl PresentationVerifier {
    /// A verifier that has read nothing yet. It knows the presentations that it has taken only as long as it lives: one process verifies
    /// those of an endpoint, or each is valid once at each.
    ///
    /// # Errors
    /// With the HTTP client, or the origin of the indexer, that cannot be used.
    pub fn new(rules: PresentationRules) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let fetcher = BoundedFetcher::new(rules.hosts, FetchLimits::default())?;
        let registry = RegistryReads::new(&rules.indexer)?;
        Ok(Self {
            resolver: DidResolver::with_fetcher(fetcher.clone()),
            fetcher: EvidenceFetcher::new(fetcher),
            registry,
            seen: Mutex::new(SeenPresentations::new(MAX_SEEN)),
            places: Semaphore::new(MAX_AT_ONCE),
            rules,
        })
    }

    /// Verifies a presentation, and its credential as a verdict would: proof, issuer, schema, participants and anchored digest.
    ///
    /// # Errors
    /// Every [`TokenRejection`]. After one for a server that does not answer the peer makes another presentation: each counts once.
    pub async fn verify(&self, text: &str) -> Result<PresentedBy, TokenRejection> {
        let presentation = AccessPresentation::read(text)?;
        let Ok(_place) = self.places.try_acquire() else {
            return Err(unavailable("too many presentations at once"));
        };
        let document = self.resolver.resolve_fresh(presentation.holder()).await;
        let document = document.map_err(unavailable)?;
        let now = wall_clock::now();
        let presented = presentation.verify(&self.rules.audience, &document, now.seconds)?;
        // Each counts once, also with a worthless credential: it is noted before anything waits for a server.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).note(&presented, now.seconds)?;
        self.check_credential(&presented).await?;
        let credential = presented.credential["id"].as_str().unwrap_or_default().to_owned();
        Ok(PresentedBy { did: presented.holder, credential })
    }

    async fn check_credential(&self, presented: &PresentedCredential) -> Result<(), TokenRejection> {
        let rules = EvaluationRules {
            schema_prefix: self.rules.schema_prefix.clone(),
            // An endpoint asks for a schema by its id, so that it makes no difference here which schemas are essential.
            essential_schemas: EssentialSchemas::default(),
            now: svc_wire::timestamp::unix_nanos(&wall_clock::now()),
        };
        let mut evidence = Evidence::default();
        let mut budget = EvidenceBudget::new(&evidence);
        for _ in 0..MAX_RUNS {
            let (did, credential) = (presented.holder.clone(), presented.credential.clone());
            let (known, with_rules) = (evidence.clone(), rules.clone());
            // Signatures and schemas take processor time.
            let run = tokio::task::spawn_blocking(move || evaluate_credential(&did, &credential, &known, &with_rules));
            match run.await {
                Ok(Ok(accepted)) => {
                    let is_over = accepted.expires_at().is_some_and(|end| end <= rules.now);
                    let is_wanted = accepted.schema_id == self.rules.schema_id && accepted.issuer == self.rules.issuer;
                    return if is_wanted && !is_over { Ok(()) } else { Err(AccessRejection::Claims.into()) };
                }
                Ok(Err(CredentialError::Rejected(reason))) => {
                    tracing::debug!(code = ?reason.code, "the credential of a presentation is not accepted");
                    let is_undecided = reason.is_undecided();
                    return Err(if is_undecided {
                        unavailable(reason.message)
                    } else {
                        AccessRejection::Claims.into()
                    });
                }
                Ok(Err(CredentialError::MissingEvidence(missing))) => {
                    self.gather(missing, rules.now, &mut evidence, &mut budget).await?;
                }
                Err(error) => return Err(unavailable(error)),
            }
        }
        Err(unavailable("the evidence about the credential takes too many reads"))
    }

    async fn gather(
        &self,
        missing: BTreeSet<EvidenceRequest>,
        now: i128,
        evidence: &mut Evidence,
        budget: &mut EvidenceBudget,
    ) -> Result<(), TokenRejection> {
        let is_remote =
            |one: &EvidenceRequest| matches!(one, EvidenceRequest::Document(_) | EvidenceRequest::Resource(_));
        let (remote, of_registry): (BTreeSet<_>, BTreeSet<_>) = missing.into_iter().partition(is_remote);
        for request in of_registry {
            let read = self.registry.add(&request, now, evidence).await;
            read.map_err(unavailable)?;
        }
        self.fetcher.add_all(remote, evidence, budget).await;
        Ok(())
    }
}

fn unavailable(reason: impl ToString) -> TokenRejection {
    TokenRejection::Unavailable(reason.to_string())
}

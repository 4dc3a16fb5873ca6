//! The trust gate: whether a peer is a verifiable service. The indexer evaluates, and the node confirms the participant that it names.

mod trust_claim;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use moka::future::Cache;
use serde_json::{Value, json};
use svc_agent_core::{participant::state_of, peers::Verdict};
use svc_agent_identity::{account_write::WritingAccount, chain_link::ChainLinkHandle, registry::NodeRegistry};
use svc_agent_store::AgentStore;
use svc_kit::wall_clock;
use svc_net::upstream::{HttpUpstream, NodeClientError, UpstreamEndpoints, UpstreamError, indexer_reach};
use svc_otel::metrics;
use svc_trust::{EssentialCredential, EssentialSchemas};
use svc_wire::{
    participant_state::ParticipantState,
    proto::svc::pp::v1::{OnboardingState, ParticipantRole},
    timestamp,
};
use tokio::time::{Instant, timeout};

use self::trust_claim::{TrustClaim, claim_of};

/// Decisions that are kept.
const MAX_VERDICTS: u64 = 20_000;
/// Time for which a question without an answer is not asked again: a flood of messages must not become one of questions.
const UNKNOWN_KEPT: Duration = Duration::from_secs(1);
/// Longest wait for a decision.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Reasons against a DID that are kept, and characters of each.
const MAX_REASONS: usize = 8;
const MAX_REASON_CHARACTERS: usize = 300;

/// Neither trusted nor untrusted: the index or the node does not say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("nothing can be decided about the peer now: {0}")]
pub struct UnknownVerdict(pub String);

/// A decision about a DID, and the facts that it stands on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TrustDecision {
    /// Whether the DID is a verifiable service.
    pub is_trusted: bool,
    /// The participant that the indexer names for the service credential.
    pub participant: Option<u64>,
    /// The reasons against it: those that the indexer states, and those of the node.
    pub reasons: Vec<(String, String)>,
    /// End of the indexer's verdict, as the indexer writes it.
    pub expires_at: Option<String>,
    /// Time for which it may be kept.
    lasts: Duration,
}

impl TrustDecision {
    fn against(code: &str, message: impl Into<String>, ttl: Duration) -> Self {
        let reasons = vec![(code.to_owned(), message.into())];
        Self { is_trusted: false, participant: None, reasons, expires_at: None, lasts: ttl }
    }
}

/// Decides about peers.
#[derive(Clone)]
pub struct TrustGate {
    indexer: UpstreamEndpoints,
    chain: ChainLinkHandle,
    store: AgentStore,
    /// DID and corporation of this agent, for reads of the node.
    own: (String, u64),
    /// Essential schemas for verdicts about peers.
    essential_schemas: Arc<EssentialSchemas>,
    /// Essential schemas of the ecosystems whose credentials this agent holds and issues.
    own_essential_schemas: Arc<EssentialSchemas>,
    ttl: Duration,
    verdicts: Cache<Arc<str>, (Verdict, Instant)>,
    unknown: Cache<Arc<str>, UnknownVerdict>,
    /// Grows when decisions are forgotten: one that was begun before may be older than the reason, and is not kept.
    forgotten: Arc<AtomicU64>,
}

impl TrustGate {
    /// A gate with an empty memory, which keeps a decision for `ttl` at most.
    pub fn new(
        indexer: UpstreamEndpoints,
        chain: ChainLinkHandle,
        store: AgentStore,
        own: (String, u64),
        (essential_schemas, own_essential_schemas): (EssentialSchemas, EssentialSchemas),
        ttl: Duration,
    ) -> Self {
        let verdicts = Cache::builder().max_capacity(MAX_VERDICTS).time_to_live(ttl).build();
        let unknown = Cache::builder().max_capacity(MAX_VERDICTS).time_to_live(UNKNOWN_KEPT).build();
        Self {
            indexer,
            chain,
            store,
            own,
            essential_schemas: Arc::new(essential_schemas),
            own_essential_schemas: Arc::new(own_essential_schemas),
            ttl,
            verdicts,
            unknown,
            forgotten: Arc::default(),
        }
    }

    /// Decides about a DID. Only a public one can be trusted.
    pub(crate) async fn verdict(&self, did: &str) -> Result<Verdict, UnknownVerdict> {
        let now = wall_clock::now().seconds;
        if !may_be_trusted(did) {
            return Ok(Verdict { is_trusted: false, at: now });
        }
        let key: Arc<str> = did.into();
        if let Some((verdict, until)) = self.verdicts.get(&key).await
            && Instant::now() < until
        {
            return Ok(verdict);
        }
        if let Some(unknown) = self.unknown.get(&key).await {
            return Err(unknown);
        }
        let decision = self.decide_and_keep(key).await?;
        Ok(Verdict { is_trusted: decision.is_trusted, at: now })
    }

    /// Decides once more, with the facts that the decision stands on.
    pub(crate) async fn explain(&self, did: &str) -> Result<TrustDecision, UnknownVerdict> {
        if !may_be_trusted(did) {
            let message = "only a DID of the methods web and webvh can have participants";
            return Ok(TrustDecision::against("method_not_supported", message, self.ttl));
        }
        self.decide_and_keep(did.into()).await
    }

    async fn decide_and_keep(&self, key: Arc<str>) -> Result<TrustDecision, UnknownVerdict> {
        let (started, now) = (Instant::now(), wall_clock::now().seconds);
        let forgotten = self.forgotten.load(Ordering::Acquire);
        let decided = timeout(MAX_WAIT, self.decide(&key)).await;
        let decided = decided.unwrap_or_else(|_| Err(UnknownVerdict(format!("no answer within {MAX_WAIT:?}"))));
        let outcome = match &decided {
            Ok(decision) if decision.is_trusted => "trusted",
            Ok(_) => "untrusted",
            Err(_) => "unknown",
        };
        metrics::record_peer_verdict(outcome, started.elapsed());
        let decision = match decided {
            Ok(decision) => decision,
            Err(error) => {
                tracing::debug!(%error, "no verdict");
                self.unknown.insert(key, error.clone()).await;
                return Err(error);
            }
        };
        let verdict = Verdict { is_trusted: decision.is_trusted, at: now };
        self.verdicts.insert(Arc::clone(&key), (verdict, Instant::now() + decision.lasts)).await;
        if self.forgotten.load(Ordering::Acquire) != forgotten {
            self.verdicts.invalidate(&key).await;
        }
        Ok(decision)
    }

    /// Asks for a decision that is not older than this call.
    pub async fn fresh_verdict(&self, did: &str) -> Result<Verdict, UnknownVerdict> {
        self.verdicts.invalidate(did).await;
        self.unknown.invalidate(did).await;
        self.verdict(did).await
    }

    /// Forgets the decision about a DID.
    pub async fn forget(&self, did: &str) {
        self.forgotten.fetch_add(1, Ordering::AcqRel);
        self.verdicts.invalidate(did).await;
    }

    /// The number of times that decisions were forgotten: it grows with each change of a verdict that the stream names.
    pub fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Acquire)
    }

    /// Forgets every decision.
    pub fn forget_all(&self) {
        self.forgotten.fetch_add(1, Ordering::AcqRel);
        self.verdicts.invalidate_all();
    }

    /// Whether a DID has a participant that waits for its validation by this agent, or for the credential behind it, at the node. The
    /// credential is an essential one: without it the DID cannot be trusted.
    pub(crate) async fn is_applicant(&self, did: &str, participant_id: u64) -> Result<bool, UnknownVerdict> {
        let read = timeout(MAX_WAIT, self.read_applicant(did, participant_id)).await;
        read.unwrap_or_else(|_| Err(UnknownVerdict(format!("no answer within {MAX_WAIT:?}"))))
    }

    async fn read_applicant(&self, did: &str, participant_id: u64) -> Result<bool, UnknownVerdict> {
        let account = self.account()?;
        let registry = NodeRegistry(&account);
        let unknown = |error: NodeClientError| UnknownVerdict(format!("node: {error}"));
        let Some(applicant) = registry.participant(participant_id).await.map_err(unknown)? else { return Ok(false) };
        let now = timestamp::unix_nanos(&account.chain_time());
        let waits = match applicant.op_state() {
            OnboardingState::Pending => true,
            OnboardingState::Validated => {
                applicant.role() == ParticipantRole::Holder && state_of(&applicant, now) == ParticipantState::Active
            }
            _ => false,
        };
        if applicant.did != did || !waits {
            return Ok(false);
        }
        let validator = registry.participant(applicant.validator_participant_id).await.map_err(unknown)?;
        if validator.is_none_or(|validator| validator.did != self.own.0) {
            return Ok(false);
        }
        let schema = registry.schema(applicant.schema_id).await.map_err(unknown)?;
        let essential = schema.and_then(|schema| schema.essential(&self.own_essential_schemas));
        Ok(essential.is_some_and(EssentialCredential::makes_trusted))
    }

    fn account(&self) -> Result<WritingAccount, UnknownVerdict> {
        let access = self.chain.access().ok_or_else(|| UnknownVerdict("the node is not found yet".to_owned()))?;
        let (did, corporation_id) = self.own.clone();
        Ok(WritingAccount { store: self.store.clone(), access, did, corporation_id })
    }

    async fn decide(&self, did: &str) -> Result<TrustDecision, UnknownVerdict> {
        let unknown = |error: UpstreamError| UnknownVerdict(format!("indexer: {error}"));
        let asked = self.indexer.read_with_failover(0, |one| ask(one, did), indexer_reach).await;
        let Some(record) = asked.map_err(unknown)? else {
            return Ok(TrustDecision::against("unknown_did", "the registry does not name the DID", self.ttl));
        };
        let Some((claim, lasts)) = claim_of(&record, did, wall_clock::now().seconds, self.ttl) else {
            let reasons = stated_reasons(&record);
            return Ok(TrustDecision { reasons, ..TrustDecision::against("", "", self.ttl) });
        };
        let (participant, against) = match self.confirm(did, &claim).await? {
            Confirmation::Confirmed { participant } => (participant, None),
            Confirmation::Contradicted { code, message } => {
                (claim.services.first().copied().unwrap_or_default(), Some((code, message)))
            }
        };
        if let Some((code, message)) = &against {
            tracing::warn!(participant, code, message, "the indexer calls a peer trusted, and the node does not agree");
        }
        let expires_at = record["expiresAtTime"].as_str().map(str::to_owned);
        let (is_trusted, reasons) = (against.is_none(), against.into_iter().collect());
        Ok(TrustDecision { is_trusted, participant: Some(participant), reasons, expires_at, lasts })
    }

    /// Compares the claim with the node. The indexer may rely on other ecosystems than this agent.
    async fn confirm(&self, did: &str, claim: &TrustClaim) -> Result<Confirmation, UnknownVerdict> {
        let account = self.account()?;
        let registry = NodeRegistry(&account);
        let now = timestamp::unix_nanos(&account.chain_time());
        let mut against = None;
        let mut confirmed = None;
        for participant in claim.services.iter().copied() {
            let found = registry.participant(participant).await.map_err(unreadable)?;
            let active = found.filter(|one| one.did == did && state_of(one, now) == ParticipantState::Active);
            let Some(active) = active else {
                let message = format!("participant {participant} of the DID is not active at the node");
                let code = "participant_not_active".to_owned();
                against.get_or_insert(Confirmation::Contradicted { code, message });
                continue;
            };
            match self.essential_at(&registry, active.schema_id).await? {
                SchemaKind::Essential(EssentialCredential::Service) => {
                    confirmed = Some(participant);
                    break;
                }
                found => {
                    against.get_or_insert(not_relied_on("services", active.schema_id, found));
                }
            }
        }
        let Some(participant) = confirmed else {
            // A claim names one service at least.
            let unnamed = || Confirmation::Contradicted { code: String::new(), message: String::new() };
            return Ok(against.unwrap_or_else(unnamed));
        };
        // Indexers before draft 12 do not name the credential of the party behind the service.
        let mut against = None;
        for schema_id in claim.operator_schemas.iter().copied() {
            match self.essential_at(&registry, schema_id).await? {
                SchemaKind::Essential(EssentialCredential::Organization | EssentialCredential::Persona) => {
                    return Ok(Confirmation::Confirmed { participant });
                }
                found => {
                    against.get_or_insert(not_relied_on("organizations or persons", schema_id, found));
                }
            }
        }
        Ok(against.unwrap_or(Confirmation::Confirmed { participant }))
    }

    /// The kind of a schema of the node for this agent.
    async fn essential_at(&self, registry: &NodeRegistry<'_>, schema_id: u64) -> Result<SchemaKind, UnknownVerdict> {
        let schema = registry.schema(schema_id).await.map_err(unreadable)?;
        let essential = schema.as_ref().and_then(|schema| schema.essential(&self.essential_schemas));
        let ecosystem = || schema.map(|schema| schema.ecosystem_did).unwrap_or_default();
        Ok(essential.map_or_else(|| SchemaKind::Other { ecosystem: ecosystem() }, SchemaKind::Essential))
    }
}

/// The answer of the node to a claim of the indexer.
enum Confirmation {
    /// The node agrees.
    Confirmed {
        /// The participant of the service credential.
        participant: u64,
    },
    /// It does not.
    Contradicted {
        /// The code of the reason.
        code: String,
        /// The reason, for people.
        message: String,
    },
}

/// A schema, as this agent relies on its ecosystem.
enum SchemaKind {
    /// An essential schema.
    Essential(EssentialCredential),
    /// None, or one of an ecosystem that is not relied on.
    Other {
        /// DID of its ecosystem.
        ecosystem: String,
    },
}

fn unreadable(error: NodeClientError) -> UnknownVerdict {
    UnknownVerdict(format!("node: {error}"))
}

fn not_relied_on(of: &str, schema_id: u64, found: SchemaKind) -> Confirmation {
    let found = match found {
        SchemaKind::Essential(other) => format!("it is one of {}", other.as_str()),
        SchemaKind::Other { ecosystem } => format!(
            "its ecosystem is {ecosystem}; SVC_ESSENTIAL_ECOSYSTEMS, or else TRUSTED_ECS_ECOSYSTEM_DIDS, names those \
             that are relied on"
        ),
    };
    Confirmation::Contradicted {
        code: "ecosystem_not_allowed".to_owned(),
        message: format!("schema {schema_id} is no essential schema of {of} here: {found}"),
    }
}

/// Whether a registry can call a DID trusted: only a public one has participants and presents credentials.
pub(super) fn may_be_trusted(did: &str) -> bool {
    did.starts_with("did:web:") || did.starts_with("did:webvh:")
}

/// The indexer's record of a DID; `None` when it knows none.
async fn ask(indexer: UpstreamEndpoints, did: &str) -> Result<Option<Value>, UpstreamError> {
    let indexer: &HttpUpstream = indexer.current();
    let body = json!({"did": did, "ecsCredentials": true});
    match indexer.post("resolve", "/v4/verifiable-trust/resolve", &body).await {
        Ok(answer) => indexer.parse_json(&answer).map(Some),
        Err(UpstreamError::Http { status: 404, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The reasons of a record against its DID, cut: they are texts of a server.
fn stated_reasons(record: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().chars().take(MAX_REASON_CHARACTERS).collect();
    let stated = record["reasons"].as_array().into_iter().flatten().take(MAX_REASONS);
    let stated: Vec<(String, String)> = stated.map(|one| (text(&one["code"]), text(&one["message"]))).collect();
    if stated.is_empty() {
        let message = "the indexer does not call the DID trusted, and states no reason";
        return vec![("not_trusted".to_owned(), message.to_owned())];
    }
    stated
}

//! The trust gate: whether a peer is a verifiable service. The indexer evaluates, and the node confirms the participant that it names.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use moka::future::Cache;
use serde_json::{Value, json};
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

use crate::{
    account_write::WritingAccount,
    chain_link::ChainLinkHandle,
    participant::state_of,
    registry::NodeRegistry,
    store::{AgentStore, Verdict},
};

/// Decisions that are kept.
const MAX_VERDICTS: u64 = 20_000;
/// Time for which a question without an answer is not asked again: a flood of messages must not become one of questions.
const UNKNOWN_KEPT: Duration = Duration::from_secs(1);
/// Longest wait for a decision.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Reasons against a DID that are kept, and characters of each.
const MAX_REASONS: usize = 8;
const MAX_REASON_CHARACTERS: usize = 300;
/// The essential credential that makes a service.
const SERVICE_CREDENTIAL: &str = "ServiceCredential";

/// Neither trusted nor untrusted: the index or the node does not say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("nothing can be decided about the peer now: {0}")]
pub(crate) struct UnknownVerdict(pub String);

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
pub(crate) struct TrustGate {
    indexer: UpstreamEndpoints,
    chain: ChainLinkHandle,
    store: AgentStore,
    /// DID and corporation of this agent, for reads of the node.
    own: (String, u64),
    ttl: Duration,
    verdicts: Cache<Arc<str>, (Verdict, Instant)>,
    unknown: Cache<Arc<str>, UnknownVerdict>,
    /// Grows when decisions are forgotten: one that was begun before may be older than the reason, and is not kept.
    forgotten: Arc<AtomicU64>,
}

impl TrustGate {
    pub fn new(
        indexer: UpstreamEndpoints,
        chain: ChainLinkHandle,
        store: AgentStore,
        own: (String, u64),
        ttl: Duration,
    ) -> Self {
        let verdicts = Cache::builder().max_capacity(MAX_VERDICTS).time_to_live(ttl).build();
        let unknown = Cache::builder().max_capacity(MAX_VERDICTS).time_to_live(UNKNOWN_KEPT).build();
        Self { indexer, chain, store, own, ttl, verdicts, unknown, forgotten: Arc::default() }
    }

    /// Decides about a DID. Only a public one can be trusted.
    pub async fn verdict(&self, did: &str) -> Result<Verdict, UnknownVerdict> {
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
    pub async fn explain(&self, did: &str) -> Result<TrustDecision, UnknownVerdict> {
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
    pub async fn is_applicant(&self, did: &str, participant_id: u64) -> Result<bool, UnknownVerdict> {
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
        let essential = schema.and_then(|schema| schema.essential(&EssentialSchemas::default()));
        Ok(essential.is_some_and(|essential| essential != EssentialCredential::UserAgent))
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
        let Some((participant, lasts)) = claimed_participant(&record, did, wall_clock::now().seconds, self.ttl) else {
            let reasons = stated_reasons(&record);
            return Ok(TrustDecision { reasons, ..TrustDecision::against("", "", self.ttl) });
        };
        let account = self.account()?;
        let found = NodeRegistry(&account).participant(participant).await;
        let found = found.map_err(|error| UnknownVerdict(format!("node: {error}")))?;
        let now = timestamp::unix_nanos(&account.chain_time());
        let is_active = found.is_some_and(|one| one.did == did && state_of(&one, now) == ParticipantState::Active);
        let expires_at = record["expiresAtTime"].as_str().map(str::to_owned);
        let reasons = if is_active {
            Vec::new()
        } else {
            tracing::warn!(participant, "the indexer calls a peer trusted whose participant is not active at the node");
            let message = format!("participant {participant} of the DID is not active at the node");
            vec![("participant_not_active".to_owned(), message)]
        };
        Ok(TrustDecision { is_trusted: is_active, participant: Some(participant), reasons, expires_at, lasts })
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

/// The participant by which a record makes a DID trusted, and the time for which that holds; `None` when it does not. It is the holder of
/// the service credential, or its issuer where the service vouches for itself.
fn claimed_participant(record: &Value, did: &str, now: i64, ttl: Duration) -> Option<(u64, Duration)> {
    if record["did"] != did || record["trusted"] != true {
        return None;
    }
    let credentials = record["ecsCredentials"].as_array()?;
    let service = credentials.iter().find(|one| one["ecsSchema"] == SERVICE_CREDENTIAL)?;
    let participant = service["participantId"].as_u64().or_else(|| service["issuerParticipantId"].as_u64())?;
    let lasts = match &record["expiresAtTime"] {
        Value::Null => ttl,
        text => {
            let end = timestamp::unix_nanos(&timestamp::parse_rfc3339(text.as_str()?)?) / 1_000_000_000;
            let left = u64::try_from(i64::try_from(end).ok()? - now).ok().filter(|left| *left > 0)?;
            ttl.min(Duration::from_secs(left))
        }
    };
    Some((participant, lasts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_must_be_of_the_peer_trusted_in_time_and_name_a_participant() {
        let ttl = Duration::from_secs(60);
        let record = json!({"did": "did:web:a", "trusted": true, "expiresAtTime": null,
            "ecsCredentials": [{"ecsSchema": "OrganizationCredential", "participantId": 9},
                {"ecsSchema": "ServiceCredential", "participantId": 7, "issuerParticipantId": 8}]});
        let with = |change: fn(&mut Value)| {
            let mut record = record.clone();
            change(&mut record);
            record
        };
        for (record, expected) in [
            (record.clone(), Some((7, ttl))),
            (with(|record| record["ecsCredentials"][1]["participantId"] = Value::Null), Some((8, ttl))),
            (
                with(|record| record["expiresAtTime"] = json!("1970-01-01T00:01:50.000Z")),
                Some((7, Duration::from_secs(10))),
            ),
            (with(|record| record["expiresAtTime"] = json!("1970-01-01T00:01:40.000Z")), None),
            (with(|record| record["expiresAtTime"] = json!("later")), None),
            (with(|record| record["trusted"] = json!("true")), None),
            (with(|record| record["trusted"] = json!(false)), None),
            (with(|record| record["did"] = json!("did:web:b")), None),
            (with(|record| record["ecsCredentials"] = json!([])), None),
            (with(|record| record["ecsCredentials"][1]["ecsSchema"] = json!("Other")), None),
            (json!([]), None),
        ] {
            assert_eq!(claimed_participant(&record, "did:web:a", 100, ttl), expected, "{record}");
        }
    }
}

//! The verdict on one credential, before it is stored: the same evaluation that indexers run, with the registry read at the node.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::Value;
use svc_net::{
    evidence::{EvidenceBudget, EvidenceFetcher},
    upstream::NodeClientError,
};
use svc_trust::{
    AcceptedCredential, CredentialError, EssentialSchemas, EvaluationRules, Evidence, EvidenceRequest, RejectionCode,
    RejectionReason, evaluate_credential,
};
use svc_wire::timestamp;

use crate::{
    account_write::WritingAccount,
    registry::{NodeRegistry, SchemaOnChain, all_to_evidence},
};

/// Most runs of one evaluation: a credential needs its issuer, its schema's credential, the issuer of that, the schema, and a digest.
const MAX_RUNS: usize = 12;

/// The credential that is judged, and the agent's part in it.
pub struct JudgedCredential<'a> {
    /// DID of the subject.
    pub subject: &'a str,
    /// The credential.
    pub credential: &'a Value,
    /// The agent's own document, which is not fetched.
    pub own_document: Arc<Value>,
    /// A digest that counts as anchored now: that of a credential before its session is sent.
    pub assumed_digest: Option<&'a str>,
    /// Its schema, where the caller has read it just now.
    pub known_schema: Option<&'a SchemaOnChain>,
    /// The time by which it is judged where that is later than now, in nanoseconds since the epoch: that of a credential which begins later.
    pub not_before: Option<i128>,
}

/// The beginning of a credential's validity, by its name in either data model, in nanoseconds since the epoch.
pub fn begin_of(credential: &Value) -> Option<i128> {
    let begin = credential["validFrom"].as_str().or_else(|| credential["issuanceDate"].as_str());
    begin.and_then(timestamp::parse_rfc3339).as_ref().map(timestamp::unix_nanos)
}

/// Why a credential is not accepted.
#[derive(Debug)]
pub enum JudgeError {
    /// A verdict would reject it.
    Rejected(RejectionReason),
    /// The node failed.
    Node(NodeClientError),
}

impl<R: Into<RejectionReason>> From<R> for JudgeError {
    fn from(reason: R) -> Self {
        Self::Rejected(reason.into())
    }
}

/// Judges credentials.
#[derive(Clone)]
pub struct CredentialJudge {
    pub fetcher: EvidenceFetcher,
    pub essential_schemas: EssentialSchemas,
}

impl CredentialJudge {
    /// Judges a credential with the state of the node now.
    pub async fn judge(
        &self,
        account: &WritingAccount,
        judged: JudgedCredential<'_>,
    ) -> Result<AcceptedCredential, JudgeError> {
        let chain = &account.access.chain;
        let now = timestamp::unix_nanos(&account.chain_time());
        let now = judged.not_before.map_or(now, |begin| begin.max(now));
        let rules = EvaluationRules {
            schema_prefix: format!("vpr:{}:{}:cs:", chain.registry.namespace(), chain.params.chain_id),
            essential_schemas: self.essential_schemas.clone(),
            now,
        };
        let mut evidence = Evidence::default();
        evidence.documents.insert(account.did.clone(), Ok(Arc::clone(&judged.own_document)));
        if let Some(digest) = judged.assumed_digest {
            evidence.digest_anchors.insert(digest.to_owned(), Some(now));
        }
        if let Some(schema) = judged.known_schema {
            evidence.schemas.insert(schema.schema.id, Some(Arc::new(schema.to_evidence())));
        }
        let mut budget = EvidenceBudget::new(&evidence);
        for _ in 0..MAX_RUNS {
            let (subject, credential) = (judged.subject.to_owned(), judged.credential.clone());
            let (known, with_rules) = (evidence.clone(), rules.clone());
            // Signatures and schemas take processor time.
            let run =
                tokio::task::spawn_blocking(move || evaluate_credential(&subject, &credential, &known, &with_rules));
            match run.await {
                Ok(Ok(accepted)) => return Ok(accepted),
                Ok(Err(CredentialError::Rejected(reason))) => return Err(reason.into()),
                Ok(Err(CredentialError::MissingEvidence(missing))) => {
                    let gathered = self.gather(account, missing, now, &mut evidence, &mut budget).await;
                    gathered.map_err(JudgeError::Node)?;
                }
                Err(_) => return Err(RejectionCode::EvaluationAbandoned.into()),
            }
        }
        Err(RejectionCode::EvaluationAbandoned.into())
    }

    async fn gather(
        &self,
        account: &WritingAccount,
        missing: BTreeSet<EvidenceRequest>,
        now: i128,
        evidence: &mut Evidence,
        budget: &mut EvidenceBudget,
    ) -> Result<(), NodeClientError> {
        let registry = NodeRegistry(account);
        let mut remote = BTreeSet::new();
        for request in missing {
            match &request {
                EvidenceRequest::Document(_) | EvidenceRequest::Resource(_) => {
                    remote.insert(request);
                }
                EvidenceRequest::Participants(did) => {
                    let found = all_to_evidence(&registry.participants(did).await?, now);
                    evidence.participants.insert(did.clone(), found.into());
                }
                EvidenceRequest::Schema(id) => {
                    let found = registry.schema(*id).await?.map(|schema| Arc::new(schema.to_evidence()));
                    evidence.schemas.insert(*id, found);
                }
                EvidenceRequest::Digest(digest) => {
                    let anchored_at = registry.anchor_of(digest).await?;
                    evidence.digest_anchors.insert(digest.clone(), anchored_at);
                }
            }
        }
        self.fetcher.add_all(remote, evidence, budget).await;
        Ok(())
    }
}

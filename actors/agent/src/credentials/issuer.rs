//! The way of one credential: from its claims to its digest at the node. It is signed and stored before its session is sent, and is
//! presented or handed out when the node shows its digest.

use std::{sync::Arc, time::Duration};

use prost::Message;
use prost_types::{Any, Timestamp};
use serde_json::{Map, Value, json};
use svc_otel::{metrics, trace};
use svc_pipeline::EncodedMessage;
use svc_trust::{
    EssentialCredential, RejectionCode, RejectionReason, authorize_holder,
    did_document::ProofPurpose,
    digest::{DigestAlgorithm, anchored_digest},
    issuance::{CredentialDraft, sign_credential},
    proof::ProofSuite,
};
use svc_wire::{proto::svc::pp::v1::MsgCreateOrUpdateParticipantSession, timestamp};
use uuid::Uuid;

use super::{
    claims::{check_claim_texts, claim_violations, claims_digest},
    judge::{CredentialJudge, JudgedCredential},
};
use crate::{
    account_write::{AccountWrite, WriteStop, WritingAccount},
    error::{Refusal, RefusalCode, Violation},
    grant::{AgentGrant, BlockedReason, WantedGrant},
    journal_key::session_key,
    keeper::KeeperHandle,
    registry::{NodeRegistry, SchemaCredential, SchemaOnChain, SchemaSources, all_to_evidence, name_of},
    store::{CredentialKind, CredentialState, StoredCredential},
};

/// Looks at the node for a digest behind the transaction that anchors it, and the pause between two.
const DIGEST_LOOKS: u32 = 20;
const DIGEST_PAUSE: Duration = Duration::from_millis(250);

/// A credential that is to be issued.
#[derive(Debug, Clone, PartialEq)]
pub struct IssueRequest {
    /// DID of the subject.
    pub did: String,
    /// Schema.
    pub schema_id: u64,
    /// Claims, without the `id` of the subject.
    pub claims: Map<String, Value>,
    /// End of its validity, seconds since the epoch; the longest that is allowed when absent.
    pub valid_until: Option<i64>,
}

/// An issuance that ended without its credential.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum IssueStop {
    /// The request is refused.
    Refused(Refusal),
    /// The registry, a grant or a server does not allow it now.
    Stopped(WriteStop),
}

impl<T: Into<WriteStop>> From<T> for IssueStop {
    fn from(stop: T) -> Self {
        Self::Stopped(stop.into())
    }
}

impl IssueStop {
    /// The refusal of a request.
    pub fn into_refusal(self) -> Refusal {
        match self {
            Self::Refused(refusal) => refusal,
            Self::Stopped(WriteStop::Blocked(
                reason @ (BlockedReason::NoParticipant | BlockedReason::NoGrant | BlockedReason::GrantExpired),
            )) => {
                let message = format!(
                    "the agent may not issue credentials of this schema: {} (svc agent init shows the step)",
                    reason.as_str()
                );
                Refusal::new(RefusalCode::NotAuthorized, message)
            }
            Self::Stopped(stop) => {
                let message = format!("the credential was not issued: {}", stop.reason());
                Refusal { retry_after: Some(5), ..Refusal::new(RefusalCode::ResolverUnavailable, message) }
            }
        }
    }
}

/// Issues credentials of the DID.
#[derive(Clone)]
pub(super) struct CredentialIssuer {
    pub account: WritingAccount,
    pub keeper: KeeperHandle,
    pub judge: CredentialJudge,
    pub sources: SchemaSources,
    /// Longest validity.
    pub days: u32,
}

/// The registry's side of a credential that may be issued.
struct Authority {
    grant: AgentGrant,
    /// End of the participant that holds the credential.
    holder_until: Option<i128>,
}

impl CredentialIssuer {
    fn registry(&self) -> NodeRegistry<'_> {
        NodeRegistry(&self.account)
    }

    /// Issues a credential of a schema, up to its row in the store. `name` is that of its presentation.
    pub async fn sign_and_store(
        &self,
        request: &IssueRequest,
        (schema, credential): (&SchemaOnChain, &SchemaCredential),
        kind: CredentialKind,
    ) -> Result<StoredCredential, IssueStop> {
        if let Err(violations) = check_claim_texts(&request.claims) {
            return Err(invalid_claims(violations));
        }
        let authority = self.read_authority(request, schema, kind).await?;
        let now = self.account.chain_time();
        let until = self.end_of_validity(request, &authority, &now)?;
        let id = format!("{}#{}", self.account.did, Uuid::new_v4());
        let body = self.sign(request, id, credential, &now, until)?;
        let algorithm = DigestAlgorithm::from_name(&schema.schema.digest_algorithm)
            .ok_or_else(|| WriteStop::Failed(format!("schema {} names no digest algorithm", schema.schema.id)))?;
        let digest = anchored_digest(&body, algorithm)
            .ok_or_else(|| invalid_claims(vec![violation("claims", "they have no canonical form")]))?;
        let json_schema = &schema.schema.json_schema;
        self.check((&request.did, json_schema), &body, &digest).await?;
        let row = StoredCredential {
            id: body["id"].as_str().unwrap_or_default().to_owned(),
            kind,
            name: presentation_name(schema, &self.judge),
            schema_id: schema.schema.id,
            issuer: self.account.did.clone(),
            subject: request.did.clone(),
            issuer_participant: authority.grant.participant.id,
            digest,
            claims_digest: claims_digest(&request.claims),
            proof_method: proof_method(&body),
            body: body.to_string(),
            state: CredentialState::Signed,
            reason: None,
            tx_hash: None,
            valid_until: Some(until),
            created_at: now.seconds,
        };
        self.account.store.write_credential(&row).await?;
        tracing::info!(credential = row.id, subject = row.subject, schema = row.schema_id, "a credential is signed");
        Ok(row)
    }

    /// Reads at the node the participants that authorise issuer and holder.
    async fn read_authority(
        &self,
        request: &IssueRequest,
        schema: &SchemaOnChain,
        kind: CredentialKind,
    ) -> Result<Authority, IssueStop> {
        let grant = self.account.read_grant(&WantedGrant::to_issue(schema.schema.id, None)).await?;
        let now = timestamp::unix_nanos(&self.account.chain_time());
        let is_own = kind == CredentialKind::Own;
        let found = if is_own {
            self.registry().participants(&request.did).await?
        } else {
            self.registry().holders_under(&request.did, grant.participant.id).await?
        };
        let (participants, with_schema) = (all_to_evidence(&found, now), schema.to_evidence());
        let holder = authorize_holder(&participants, &with_schema, is_own);
        match holder.map(|holder| holder.and_then(|holder| holder.effective_until)) {
            Ok(holder_until) => Ok(Authority { grant, holder_until }),
            Err(reason) => {
                let (did, id) = (&request.did, grant.participant.id);
                let message =
                    format!("{did} has no active HOLDER participant under participant {id}: {}", reason.message);
                Err(IssueStop::Refused(Refusal::new(RefusalCode::PeerNotAuthorized, message)))
            }
        }
    }

    /// The earliest of the configured days, the ends of both participants, and the requested end.
    fn end_of_validity(
        &self,
        request: &IssueRequest,
        authority: &Authority,
        now: &Timestamp,
    ) -> Result<i64, IssueStop> {
        let days = now.seconds + i64::from(self.days) * 86_400;
        let issuer_until = authority.grant.participant.effective_until.map(|until| until.seconds);
        let seconds = |nanos: i128| i64::try_from(nanos.div_euclid(1_000_000_000)).unwrap_or(i64::MAX);
        let ends = [issuer_until, authority.holder_until.map(seconds), request.valid_until];
        let until = ends.into_iter().flatten().fold(days, i64::min);
        if until <= now.seconds {
            let rule = "it lies behind the time of the chain";
            return Err(IssueStop::Refused(Refusal::of_member(RefusalCode::InvalidInput, "validUntil", rule)));
        }
        Ok(until)
    }

    fn sign(
        &self,
        request: &IssueRequest,
        id: String,
        credential: &SchemaCredential,
        now: &Timestamp,
        until: i64,
    ) -> Result<Value, IssueStop> {
        let prover = self.keeper.prover(ProofPurpose::AssertionMethod);
        let prover = prover.ok_or_else(|| WriteStop::Failed("the document has no key for assertions".to_owned()))?;
        let mut subject = Map::new();
        subject.insert("id".to_owned(), request.did.as_str().into());
        subject.extend(request.claims.clone());
        let at = timestamp::iso_seconds(now);
        let draft = CredentialDraft {
            id,
            issuer: self.account.did.clone(),
            kind: "VerifiableTrustCredential".to_owned(),
            subject: Value::Object(subject),
            schema: Some(json!({
                "id": credential.url, "type": "JsonSchemaCredential", "digestSRI": credential.digest_sri,
            })),
            valid_from: at.clone(),
            valid_until: Some(timestamp::iso_seconds(&Timestamp { seconds: until, nanos: 0 })),
        };
        let mut body = draft.into_credential(ProofSuite::EddsaJcs2022);
        sign_credential(&mut body, &prover, ProofSuite::EddsaJcs2022, &at)
            .map_err(|reason| WriteStop::Failed(reason.message))?;
        Ok(body)
    }

    /// Judges the signed credential as if its digest were anchored: one that no verdict accepts is never stored.
    async fn check(&self, (subject, schema): (&str, &str), body: &Value, digest: &str) -> Result<(), IssueStop> {
        let judged = JudgedCredential {
            subject,
            credential: body,
            own_document: Arc::new(self.keeper.published().document.as_json().clone()),
            assumed_digest: Some(digest),
        };
        match self.judge.judge(&self.account, judged).await? {
            Ok(_) => Ok(()),
            Err(RejectionReason { code: RejectionCode::SchemaMismatch, message, .. }) => {
                let violations = claim_violations(schema, body).unwrap_or_default();
                let is_named = !violations.is_empty();
                Err(invalid_claims(if is_named { violations } else { vec![violation("claims", &message)] }))
            }
            Err(RejectionReason {
                code: RejectionCode::CredentialInvalid | RejectionCode::SchemaUnusable | RejectionCode::TooLarge,
                message,
                ..
            }) => Err(invalid_claims(vec![violation("claims", &message)])),
            Err(reason) => Err(WriteStop::Failed(format!("{}: {}", reason.code.as_str(), reason.message)).into()),
        }
    }

    /// Anchors the digest of a stored credential, once: the session of its id is read at the node before anything is sent. Returns the
    /// transaction, if this agent knows it.
    pub async fn anchor(&self, row: &StoredCredential) -> Result<Option<String>, WriteStop> {
        if !self.keeper.published().document.allows_assertion(&row.proof_method) {
            // Its key was taken out of the document after it was signed: no verdict would accept it.
            self.account.store.withdraw_credentials(&[(row.id.clone(), "KEY_REMOVED".to_owned())]).await?;
            return Err(WriteStop::Failed("the key of its proof is not in the document any more".to_owned()));
        }
        let span = trace::anchor_span(&self.account.did, &row.id, row.schema_id);
        let sent = self.send_session(row, &span).await;
        metrics::record_credential_anchor(match &sent {
            Ok(_) => "anchored",
            Err(WriteStop::Blocked(_)) => "blocked",
            Err(WriteStop::Failed(_)) => "failed",
        });
        let tx_hash = match sent {
            Ok(tx_hash) => tx_hash,
            Err(stop) => {
                tracing::warn!(credential = row.id, reason = stop.reason(), "a credential waits for its digest");
                self.account.store.note_waiting(&row.id, stop.reason()).await?;
                return Err(stop);
            }
        };
        self.account.store.note_anchored(row, tx_hash.as_deref()).await?;
        tracing::info!(credential = row.id, tx_hash, "the digest of a credential is at the node");
        Ok(tx_hash)
    }

    async fn send_session(&self, row: &StoredCredential, span: &tracing::Span) -> Result<Option<String>, WriteStop> {
        let id = session_id(&row.id);
        let write = AccountWrite {
            account: &self.account,
            key: session_key(&self.account.did, id),
            origin: "credential",
            allows_repetition: false,
        };
        let silent = |_: String| {};
        let mut tx_hash = write.find_earlier(&silent).await?;
        if tx_hash.is_none() && !self.registry().has_session(id, row.issuer_participant).await? {
            let grant =
                self.account.read_grant(&WantedGrant::to_issue(row.schema_id, Some(row.issuer_participant))).await?;
            let granter = grant.granter();
            let session = MsgCreateOrUpdateParticipantSession {
                corporation: grant.corporation,
                operator: self.account.pipeline().identity().address.to_string(),
                id: id.to_owned(),
                issuer_participant_id: row.issuer_participant,
                digest: row.digest.clone(),
                ..MsgCreateOrUpdateParticipantSession::default()
            };
            let namespace = self.account.access.chain.registry.namespace();
            let type_url = namespace.type_url("pp", "MsgCreateOrUpdateParticipantSession");
            let value = session.encode_to_vec();
            let message = EncodedMessage { message: Any { type_url, value }, needs_grant: true };
            let granter = write.choose_payer(&message, granter).await?;
            // An earlier incarnation may have been killed while the signer had its write.
            tx_hash = write.find_earlier(&silent).await?;
            if tx_hash.is_none() {
                tx_hash = Some(write.send(message, granter, span, &silent).await?);
            }
        }
        for _ in 0..DIGEST_LOOKS {
            if self.registry().anchored_at(&row.digest).await?.is_some() {
                return Ok(tx_hash);
            }
            tokio::time::sleep(DIGEST_PAUSE).await;
        }
        Err(WriteStop::Failed("the node does not show the digest yet".to_owned()))
    }
}

/// The verification method of the proof of a credential.
pub(super) fn proof_method(credential: &Value) -> String {
    credential["proof"]["verificationMethod"].as_str().unwrap_or_default().to_owned()
}

/// The id of the session of a credential: the UUID in its id.
fn session_id(credential_id: &str) -> &str {
    credential_id.rsplit_once('#').map_or(credential_id, |(_, id)| id)
}

/// The name of the presentation of a credential of a schema.
pub(super) fn presentation_name(schema: &SchemaOnChain, judge: &CredentialJudge) -> String {
    match schema.essential(&judge.essential_schemas) {
        Some(EssentialCredential::UserAgent) | None => format!("cs-{}", schema.schema.id),
        Some(essential) => name_of(essential).to_owned(),
    }
}

fn violation(path: &str, message: &str) -> Violation {
    Violation { path: path.to_owned(), message: message.to_owned() }
}

fn invalid_claims(violations: Vec<Violation>) -> IssueStop {
    let first = violations.first().map(|one| format!("{}: {}", one.path, one.message)).unwrap_or_default();
    IssueStop::Refused(Refusal { violations, ..Refusal::new(RefusalCode::InvalidClaims, first) })
}

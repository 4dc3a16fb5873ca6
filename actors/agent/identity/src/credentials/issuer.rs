//! The way of one credential: from its claims to its digest at the node. It is signed and stored before its session is sent, and is
//! presented or handed out when the node shows its digest.

use std::sync::Arc;

use prost_types::Timestamp;
use serde_json::{Value, json};
use svc_agent_core::error::{Refusal, RefusalCode};
use svc_agent_store::{CredentialKind, CredentialState, KEY_REMOVED, StoredCredential};
use svc_didcomm::{flow::CredentialTerms, protocol::credential_format::MAX_CREDENTIAL_BYTES};
use svc_trust::{
    RejectionCode, RejectionReason,
    did_document::ProofPurpose,
    digest::{DigestAlgorithm, anchored_digest},
    issuance::{CredentialDraft, sign_credential},
    proof::{ProofSuite, has_rdf_form},
};
use svc_wire::timestamp;
use uuid::Uuid;

use super::{
    authority::Authority,
    claim_documents::ClaimDocuments,
    core::{HeldFacts, reason_to_withdraw},
    issuance::{IssueRequest, IssueStop, invalid_claims, violation},
    judge::{CredentialJudge, JudgeError, JudgedCredential, begin_of},
    session_locks::SessionLocks,
    unsigned::{SignedCredential, UnsignedCredential, has_signable_subject, subject_of},
};
use crate::{
    account_write::{WriteStop, WritingAccount},
    credential_settings::{CredentialForm, PublishedProofs, check_claim_texts, claim_violations, claims_digest},
    document::{plain_method, prover_for},
    keeper::KeeperHandle,
    registry::{NodeRegistry, SchemaCredentials, SchemaOnChain, SchemaSources, all_to_evidence, name_of},
};

/// Issues credentials of the DID.
#[derive(Clone)]
pub struct CredentialIssuer {
    /// Pays for the digests.
    pub account: WritingAccount,
    /// Has the key of the proofs.
    pub keeper: KeeperHandle,
    /// Judges each credential before it is stored.
    pub judge: CredentialJudge,
    /// The schemas and their credentials.
    pub sources: SchemaSources,
    /// Longest validity.
    pub days: u32,
    /// Proofs of the credentials outside of flows.
    pub proofs: PublishedProofs,
    pub(crate) sessions: SessionLocks,
    /// Reads the documents that claims name.
    pub(crate) documents: ClaimDocuments,
}

impl CredentialIssuer {
    /// Reads of the registry at the node.
    pub fn registry(&self) -> NodeRegistry<'_> {
        NodeRegistry(&self.account)
    }

    /// Issues a credential of a schema, up to its row in the store. `authority` was read for it just now.
    pub async fn sign_and_store(
        &self,
        request: &IssueRequest,
        (schema, credentials): (&SchemaOnChain, &SchemaCredentials),
        (kind, form): (CredentialKind, CredentialForm),
        authority: &Authority,
    ) -> Result<StoredCredential, IssueStop> {
        let suite = self.suite_for(&subject_of(request), form);
        let unsigned = self.draft(request, (schema, credentials), authority, suite)?;
        let SignedCredential { id, body, digest, until } =
            self.sign_checked(unsigned, (&request.did, schema), suite).await?;
        let now = self.account.chain_time();
        let row = StoredCredential {
            id,
            kind,
            name: form.name(&presentation_name(schema, &self.judge)),
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

    /// The suite of a credential outside of flows with this subject: that of the settings, where the document shows its form of the key and
    /// the subject can be signed with it.
    pub fn suite_for(&self, subject: &Value, form: CredentialForm) -> ProofSuite {
        let is_older = form == CredentialForm::Main && self.proofs.main_suite() == ProofSuite::Ed25519Signature2020;
        let is_usable = self.keeper.published().shows_older_keys() && has_signable_subject(&self.account.did, subject);
        if is_older && is_usable { ProofSuite::Ed25519Signature2020 } else { ProofSuite::EddsaJcs2022 }
    }

    /// Whether a credential with this subject has the form: there is no second one with the suite of the first.
    pub fn has_form(&self, subject: &Value, form: CredentialForm) -> bool {
        let is_set = self.proofs.forms().contains(&form);
        let main = self.suite_for(subject, CredentialForm::Main);
        is_set && (form == CredentialForm::Main || main == ProofSuite::Ed25519Signature2020)
    }

    /// Signs a credential, and judges it as if its digest were anchored. Nothing is stored.
    pub async fn sign_checked(
        &self,
        unsigned: UnsignedCredential,
        (subject, schema): (&str, &SchemaOnChain),
        suite: ProofSuite,
    ) -> Result<SignedCredential, IssueStop> {
        let UnsignedCredential { id, mut body, until, made_at } = unsigned;
        let prover = self.keeper.prover(ProofPurpose::AssertionMethod);
        let prover = prover.ok_or_else(|| WriteStop::Failed("the document has no key for assertions".to_owned()))?;
        let prover = match self.keeper.published().shows_older_keys() {
            true => prover_for(suite, &prover),
            false => prover,
        };
        sign_credential(&mut body, &prover, suite, &timestamp::iso_seconds(&made_at))
            .map_err(|reason| WriteStop::Failed(reason.message))?;
        let length = body.to_string().len();
        if length > MAX_CREDENTIAL_BYTES {
            let rule =
                format!("the credential has {length} bytes with them; at most {MAX_CREDENTIAL_BYTES} are presented");
            return Err(invalid_claims(vec![violation("claims", &rule)]));
        }
        let algorithm = DigestAlgorithm::from_name(&schema.schema.digest_algorithm)
            .ok_or_else(|| WriteStop::Failed(format!("schema {} names no digest algorithm", schema.schema.id)))?;
        let digest = anchored_digest(&body, algorithm)
            .ok_or_else(|| invalid_claims(vec![violation("claims", "they have no canonical form")]))?;
        self.check((subject, schema), &body, &digest).await?;
        Ok(SignedCredential { id, body, digest, until })
    }

    /// A credential that is still to be signed. Its claims have no refused characters; the schema has not judged them.
    pub fn draft(
        &self,
        request: &IssueRequest,
        (schema, credentials): (&SchemaOnChain, &SchemaCredentials),
        authority: &Authority,
        suite: ProofSuite,
    ) -> Result<UnsignedCredential, IssueStop> {
        if let Err(violations) = check_claim_texts(&request.claims) {
            return Err(invalid_claims(violations));
        }
        let now = self.account.chain_time();
        // The terms of a decision are not bounded: a verdict ends with the participant anyway.
        let until = request.terms.valid_until;
        let until = until.unwrap_or_else(|| self.end_of_validity(authority, request.valid_until, &now));
        let from = request.terms.valid_from.unwrap_or(now.seconds).max(now.seconds);
        if until <= from && request.terms != CredentialTerms::default() {
            let rule = "the credential would end before it begins";
            return Err(IssueStop::Refused(Refusal::of_member(
                RefusalCode::InvalidTerms,
                "credentialValidUntil",
                rule,
            )));
        }
        if until <= from {
            let rule = "it lies behind the time of the chain";
            return Err(IssueStop::Refused(Refusal::of_member(RefusalCode::InvalidInput, "validUntil", rule)));
        }
        let id = format!("{}#{}", self.account.did, Uuid::new_v4());
        let credential = credentials.with_suite(suite);
        let mut named = json!({"id": credential.url, "type": "JsonSchemaCredential"});
        if suite == ProofSuite::EddsaJcs2022 {
            named["digestSRI"] = credential.digest_sri.clone().into();
        }
        let draft = CredentialDraft {
            id: id.clone(),
            issuer: self.account.did.clone(),
            kind: "VerifiableTrustCredential".to_owned(),
            subject: subject_of(request),
            schema: Some(named),
            valid_from: timestamp::iso_seconds(&Timestamp { seconds: from, nanos: 0 }),
            valid_until: Some(timestamp::iso_seconds(&Timestamp { seconds: until, nanos: 0 })),
        };
        let body = draft.into_credential(suite);
        check_schema(schema, &body)?;
        if suite == ProofSuite::Ed25519Signature2020 && !has_rdf_form(&body) {
            let rule = "some have no form as linked data, which credentials of this format are signed in";
            return Err(invalid_claims(vec![violation("claims", rule)]));
        }
        Ok(UnsignedCredential { id, body, until, made_at: now })
    }

    /// Checks the claims of a credential that nothing authorises yet.
    pub fn check_claims(&self, request: &IssueRequest, schema: &SchemaOnChain) -> Result<(), IssueStop> {
        if let Err(violations) = check_claim_texts(&request.claims) {
            return Err(invalid_claims(violations));
        }
        let at = timestamp::iso_seconds(&self.account.chain_time());
        let draft = CredentialDraft {
            id: format!("{}#{}", self.account.did, Uuid::new_v4()),
            issuer: self.account.did.clone(),
            kind: "VerifiableTrustCredential".to_owned(),
            subject: subject_of(request),
            schema: Some(json!({"id": self.account.did, "type": "JsonSchemaCredential"})),
            valid_from: at.clone(),
            valid_until: Some(at),
        };
        check_schema(schema, &draft.into_credential(ProofSuite::EddsaJcs2022))
    }

    /// The reason for which a credential that was issued to another does not count any more, as the document and the node state it.
    pub async fn reason_against(&self, row: &StoredCredential) -> Result<Option<&'static str>, WriteStop> {
        if !self.keeper.published().document.allows_assertion(&row.proof_method) {
            return Ok(Some(KEY_REMOVED));
        }
        let now = self.account.chain_time();
        let nanos = timestamp::unix_nanos(&now);
        let schema = self.registry().schema(row.schema_id).await?.map(|schema| schema.to_evidence());
        let facts = HeldFacts {
            holders: &all_to_evidence(&self.registry().participants(&row.subject).await?, nanos),
            issuers: &all_to_evidence(&self.registry().participants(&row.issuer).await?, nanos),
            schema: schema.as_ref(),
            anchored_at: self.registry().anchored_at(&row.digest).await?,
            now: now.seconds,
        };
        Ok(reason_to_withdraw(row, &facts).map(|code| code.as_str()))
    }

    /// Judges the signed credential as if its digest were anchored: one that no verdict accepts is never stored.
    async fn check(
        &self,
        (subject, schema): (&str, &SchemaOnChain),
        body: &Value,
        digest: &str,
    ) -> Result<(), IssueStop> {
        let judged = JudgedCredential {
            subject,
            credential: body,
            own_document: Arc::new(self.keeper.published().served_json()),
            assumed_digest: Some(digest),
            known_schema: Some(schema),
            not_before: begin_of(body),
        };
        let reason = match self.judge.judge(&self.account, judged).await {
            Ok(_) => return Ok(()),
            Err(JudgeError::Node(error)) => return Err(error.into()),
            Err(JudgeError::Rejected(reason)) => reason,
        };
        match reason {
            RejectionReason { code: RejectionCode::SchemaMismatch, message, .. } => {
                let violations = claim_violations(&schema.schema.json_schema, body).unwrap_or_default();
                let is_named = !violations.is_empty();
                Err(invalid_claims(if is_named { violations } else { vec![violation("claims", &message)] }))
            }
            RejectionReason {
                code: RejectionCode::CredentialInvalid | RejectionCode::SchemaUnusable | RejectionCode::TooLarge,
                message,
                ..
            } => Err(invalid_claims(vec![violation("claims", &message)])),
            reason => Err(WriteStop::Failed(format!("{}: {}", reason.code.as_str(), reason.message)).into()),
        }
    }
}

/// A schema that cannot be used is judged with the signed credential.
fn check_schema(schema: &SchemaOnChain, body: &Value) -> Result<(), IssueStop> {
    match claim_violations(&schema.schema.json_schema, body) {
        Ok(violations) if !violations.is_empty() => Err(invalid_claims(violations)),
        _ => Ok(()),
    }
}

/// The verification method of the proof of a credential. Both forms of a key are one.
pub fn proof_method(credential: &Value) -> String {
    plain_method(credential["proof"]["verificationMethod"].as_str().unwrap_or_default()).to_owned()
}

/// The name of the presentation of a credential of a schema. Agents of the first generation look for the id where it is not essential.
pub(crate) fn presentation_name(schema: &SchemaOnChain, judge: &CredentialJudge) -> String {
    match schema.essential(&judge.essential_schemas) {
        Some(essential) if essential.makes_trusted() => name_of(essential).to_owned(),
        _ => schema.schema.id.to_string(),
    }
}

//! The agent as an applicant: it opens a flow, takes the credential, and renews it without claims.

use serde_json::{Map, Value, json};
use svc_didcomm::{
    Message,
    protocol::{
        Content,
        credential_format::{CredentialFormat, issued_credential, offered_credential},
        issue_credential::{FormatAttachment, ISSUE, IssueCredential, OFFER},
        vt_flow::{FlowRequest, VALIDATING, VtFlow},
    },
};
use svc_trust::{
    did_document::{ProofPurpose, verification_key},
    proof::parse_proofs,
};
use svc_wire::timestamp;
use uuid::Uuid;

use super::{FirstAgent, FirstAgentError, publication::schema_id_of};

/// A flow that the agent has opened.
#[derive(Debug, Clone)]
pub struct AppliedFlow {
    /// Session.
    pub session: String,
    /// Participant of the agent.
    pub participant: String,
    /// DID of the validator.
    pub validator: String,
    /// Thread of the newest opening message.
    thread: String,
}

impl FirstAgent<'_> {
    /// Applies as a holder at an issuer, and opens the flow with claims. Returns once the validator works on it.
    ///
    /// # Errors
    /// When the chain refuses the application, or the validator the message.
    pub async fn apply(
        &mut self,
        validator: &str,
        issuer: &str,
        claims: Map<String, Value>,
    ) -> Result<AppliedFlow, FirstAgentError> {
        let application = json!({
            "role": "HOLDER", "validator_participant_id": issuer, "did": self.did(),
            "vs_operator": format!("${}", self.account()),
            "vs_operator_authz_msg_types": ["$type:pp.MsgTriggerResolver"], "vs_operator_authz_with_feegrant": false,
        });
        let answer = self.transact(self.clerk()?, "pp.MsgStartParticipantOP", application).await?;
        let participant = match &answer["participant_id"] {
            Value::String(id) => id.clone(),
            other => other.to_string(),
        };
        let session = Uuid::new_v4().to_string();
        let flow = AppliedFlow { session, participant, validator: validator.to_owned(), thread: String::new() };
        self.open_flow(flow, Some(claims)).await
    }

    /// Renews a participant, and opens its flow again. The software sends no claims with a renewal.
    ///
    /// # Errors
    /// As for an application.
    pub async fn renew(&mut self, flow: AppliedFlow) -> Result<AppliedFlow, FirstAgentError> {
        self.transact(self.clerk()?, "pp.MsgRenewParticipantOP", json!({"id": flow.participant})).await?;
        self.open_flow(flow, None).await
    }

    async fn open_flow(
        &mut self,
        flow: AppliedFlow,
        claims: Option<Map<String, Value>>,
    ) -> Result<AppliedFlow, FirstAgentError> {
        let flow = AppliedFlow { thread: Uuid::new_v4().to_string(), ..flow };
        let request = FlowRequest { participant_session_id: flow.session.clone(), claims, proofs: None };
        let opening = VtFlow::OnboardingRequest { participant_id: flow.participant.clone(), request };
        self.send(&flow.validator, opening.to_message(&flow.thread, None)).await?;
        self.receive(VALIDATING).await?;
        Ok(flow)
    }

    /// Takes the credential that the validator offers in a flow.
    ///
    /// # Errors
    /// When the offer or the credential has a form that the software does not read, or nothing is offered.
    pub async fn take_credential(&mut self, flow: &AppliedFlow) -> Result<Value, FirstAgentError> {
        let offer = self.receive(OFFER).await?;
        let (format, offered) = offered_credential(&attachments(&offer)?).ok_or_else(|| unknown_format(&offer))?;
        if format != CredentialFormat::LdProof {
            return Err(unknown_format(&offer));
        }
        let thread = offer.thread().to_owned();
        let step = |step: IssueCredential| step.to_message(&Uuid::new_v4().to_string(), &thread, Some(&flow.thread));
        let wanted = vec![format.request(&Uuid::new_v4().to_string(), &offered)];
        self.send(&flow.validator, step(IssueCredential::Request(wanted))).await?;
        let issued = self.receive(ISSUE).await?;
        let (format, credential) = issued_credential(&attachments(&issued)?).ok_or_else(|| unknown_format(&issued))?;
        if format != CredentialFormat::LdProof {
            return Err(unknown_format(&issued));
        }
        self.verify(&flow.validator, &credential).await?;
        // The software acknowledges twice.
        for _ in 0..2 {
            self.send(&flow.validator, step(IssueCredential::Ack { status: "OK".to_owned() })).await?;
        }
        Ok(credential)
    }

    /// Verifies a credential of a peer as the software does: one suite, and one form of keys. The issuer must link to the credential of the
    /// schema under the name that the software looks for.
    async fn verify(&self, issuer: &str, credential: &Value) -> Result<(), FirstAgentError> {
        let unknown = |form: String| Err(FirstAgentError::UnknownForm(form));
        let document = self.document_of(issuer).await?;
        if credential["proof"]["type"] != "Ed25519Signature2020" {
            return unknown(format!("Unsupported proof type: {}", credential["proof"]["type"]));
        }
        let method = &credential["proof"]["verificationMethod"];
        let shown = document["verificationMethod"].as_array().into_iter().flatten().find(|one| one["id"] == *method);
        if shown.is_none_or(|one| one["type"] != "Ed25519VerificationKey2020") {
            return unknown(format!("the key {method}"));
        }
        let mut contexts = document["@context"].as_array().into_iter().flatten();
        if !contexts.any(|one| one == "https://w3id.org/security/suites/ed25519-2020/v1") {
            return unknown(format!("a document without the context of the key {method}"));
        }
        let service = format!("{issuer}#vpr-schemas-{}-vtjsc-vp", schema_id_of(credential)?);
        if !document["service"].as_array().into_iter().flatten().any(|one| one["id"] == service.as_str()) {
            return unknown(format!("the issuer has no {service}"));
        }
        let now = timestamp::unix_nanos(&svc_kit::wall_clock::now());
        for proof in parse_proofs(credential)? {
            let proof = proof?;
            let key = verification_key(&document, &proof.verification_method, ProofPurpose::AssertionMethod, now);
            let key = key.map_err(|code| FirstAgentError::Proof(code.as_str().to_owned()))?;
            proof.verify(credential, &key, now)?;
        }
        Ok(())
    }
}

/// Returns the attachments of a message of issue-credential.
pub(super) fn attachments(message: &Message) -> Result<Vec<FormatAttachment>, FirstAgentError> {
    match Content::read(message) {
        Ok(Content::IssueCredential(
            IssueCredential::Offer { attachments, .. }
            | IssueCredential::Request(attachments)
            | IssueCredential::Issue(attachments),
        )) => Ok(attachments),
        _ => Err(unknown_format(message)),
    }
}

fn unknown_format(message: &Message) -> FirstAgentError {
    FirstAgentError::UnknownForm(format!("{}: {}", message.kind, json!(message.body["formats"])))
}

//! The agent as a validator: it answers an applicant, validates it on the chain, and issues its credential.

use serde_json::{Map, Value, json};
use svc_didcomm::protocol::{
    Content,
    credential_format::CredentialFormat,
    issue_credential::{ACK, IssueCredential, REQUEST},
    vt_flow::{ONBOARDING_REQUEST, VtFlow},
};
use uuid::Uuid;

use super::{FirstAgent, FirstAgentError, applicant::attachments};

/// An applicant that the agent has heard.
#[derive(Debug, Clone)]
pub struct ReceivedRequest {
    /// DID of the applicant.
    pub applicant: String,
    /// Its participant.
    pub participant: String,
    /// Session.
    pub session: String,
    /// Claims that it asks for.
    pub claims: Map<String, Value>,
    /// Thread of the opening message.
    thread: String,
}

impl FirstAgent<'_> {
    /// Waits for an applicant, and answers that it works on the request.
    ///
    /// # Errors
    /// When none comes, or its message has another form.
    pub async fn hear_applicant(&mut self) -> Result<ReceivedRequest, FirstAgentError> {
        let opening = self.receive(ONBOARDING_REQUEST).await?;
        let Ok(Content::VtFlow(VtFlow::OnboardingRequest { participant_id, request })) = Content::read(&opening) else {
            return Err(FirstAgentError::UnknownForm(opening.kind.clone()));
        };
        // The software refuses a request without both ids.
        for id in ["agent_participant_id", "wallet_agent_participant_id"] {
            if !opening.body.get(id).is_some_and(Value::is_string) {
                return Err(FirstAgentError::UnknownForm(format!("{}: {id} is no text", opening.kind)));
            }
        }
        let heard = ReceivedRequest {
            applicant: opening.from.clone().unwrap_or_default(),
            participant: participant_id,
            session: request.participant_session_id,
            claims: request.claims.unwrap_or_default(),
            thread: opening.thread().to_owned(),
        };
        let working = VtFlow::Validating { comment: None }.to_message(&Uuid::new_v4().to_string(), Some(&heard.thread));
        self.send(&heard.applicant, working).await?;
        Ok(heard)
    }

    /// Validates an applicant, and issues its credential: `schema` is the name in the scenario, `schema_credential` the URL of its
    /// credential. Returns the credential once the applicant has acknowledged it.
    ///
    /// # Errors
    /// When the chain refuses a message, or the applicant the credential.
    pub async fn issue(
        &mut self,
        heard: &ReceivedRequest,
        (schema, schema_credential): (&str, &str),
        claims: Map<String, Value>,
    ) -> Result<Value, FirstAgentError> {
        let issuer = self.saved(&format!("{schema}.issuer"))?.to_owned();
        let validation = json!({"id": heard.participant, "effective_until": "$now+15552000s"});
        self.transact(self.clerk()?, "pp.MsgSetParticipantOPToValidated", validation).await?;
        let mut subject = json!({"id": heard.applicant});
        for (name, value) in claims {
            subject[name] = value;
        }
        let named = json!({"id": schema_credential, "type": "JsonSchemaCredential"});
        let id = format!("{}#{}", self.did(), Uuid::new_v4());
        let unsigned = self.draft(id, "VerifiableTrustCredential", subject, Some(named));

        let exchange = Uuid::new_v4().to_string();
        let format = CredentialFormat::LdProof;
        let offer = IssueCredential::Offer { attachments: vec![format.offer("offer", &unsigned)], comment: None };
        self.send(&heard.applicant, offer.to_message(&exchange, &exchange, Some(&heard.thread))).await?;
        let request = self.receive(REQUEST).await?;
        if !attachments(&request)?.iter().any(|one| one.format == format.request_name()) {
            return Err(FirstAgentError::UnknownForm(format!("{}: another format", request.kind)));
        }
        let credential = self.sign(unsigned)?;
        let paid = json!({"id": heard.session, "issuer_participant_id": issuer, "digest": self.digest(&credential)?});
        self.transact(&self.account(), "pp.MsgCreateOrUpdateParticipantSession", paid).await?;
        let given = IssueCredential::Issue(vec![format.credential("credential", &credential)]);
        self.send(&heard.applicant, given.to_message(&Uuid::new_v4().to_string(), &exchange, Some(&heard.thread)))
            .await?;
        self.receive(ACK).await?;
        Ok(credential)
    }
}

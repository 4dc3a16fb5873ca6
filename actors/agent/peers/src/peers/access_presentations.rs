//! Presentations of own credentials to endpoints of peers that ask for one.

use svc_agent_core::error::{AgentPart, Refusal, RefusalCode};
use svc_agent_store::{CredentialKind, CredentialState, StoredCredential, store_failed};
use svc_didcomm::protocol::endpoint_access::{AccessGrant, GrantedMaterial, MaterialSecret};
use svc_kit::wall_clock;
use svc_trust::{access::sign_access_presentation, did_document::ProofPurpose};
use svc_wire::{endpoint_access::MAX_TOKEN_BYTES, verification_method::did_of_url};
use uuid::Uuid;

use super::{access_requests::asker_down, service::PeerService};

/// A presentation for one endpoint. An endpoint takes it once.
#[derive(Debug, Clone, PartialEq)]
pub struct GrantPresentation {
    /// The URL for which it is made, to which alone it may be sent.
    pub url: String,
    /// `vp+jwt`, for the header `Authorization`.
    pub presentation: MaterialSecret,
}

impl PeerService {
    /// Presents the credential that a held grant asks for to the endpoint of the grant.
    ///
    /// # Errors
    /// When no such grant is held, the agent has no such credential, or the endpoint has another URL now.
    pub async fn present_for_grant(&self, request_id: &str) -> Result<GrantPresentation, Refusal> {
        let held = self.0.parts.asker.grant(request_id).await.map_err(asker_down)?;
        let grant = held.ok_or_else(|| {
            let message = format!("no grant of the request {request_id:?} is held; ask for access again");
            Refusal::new(RefusalCode::UnknownId, message)
        })?;
        let AccessGrant { endpoint, url, material: GrantedMaterial::Credential { schema_id, issuer }, .. } = *grant
        else {
            return Err(Refusal::new(RefusalCode::InvalidState, "the grant asks for no credential"));
        };
        if self.endpoint_now(did_of_url(&endpoint), &endpoint).await?.as_deref() != Some(url.as_str()) {
            self.0.parts.asker.forget(request_id);
            let message = format!("{endpoint} has another URL now; ask for access again");
            return Err(Refusal::new(RefusalCode::InvalidState, message));
        }
        let held = self.0.parts.store.held_credentials().await.map_err(|error| store_failed(&error))?;
        let now = wall_clock::now().seconds;
        let credential = usable(&held, (&schema_id, &issuer), now).ok_or_else(|| {
            let message = format!(
                "{endpoint} asks for a credential of schema {schema_id} by {issuer}, and this agent holds none that \
                 is valid: obtain one with `svc agent flows request {issuer} --schema {schema_id}`, or by an onboarding"
            );
            Refusal::new(RefusalCode::InvalidState, message)
        })?;
        let body = serde_json::from_str(&credential.body).map_err(|_| {
            Refusal::new(RefusalCode::Internal, format!("the credential {} cannot be read", credential.id))
        })?;
        let Some(prover) = self.0.parts.keeper.prover(ProofPurpose::Authentication) else {
            let message = "the document has no key that signs presentations now";
            return Err(Refusal::not_ready(AgentPart::Document, message, 1));
        };
        let (did, id) = (self.0.parts.keeper.published().document.did().to_owned(), Uuid::new_v4().to_string());
        let key = (prover.verification_method.as_str(), &prover.key);
        let presentation = sign_access_presentation(&body, (&did, &url), (&id, now), key);
        if presentation.len() > MAX_TOKEN_BYTES {
            let (bytes, name) = (presentation.len(), &credential.id);
            let message = format!(
                "the presentation of the credential {name} has {bytes} bytes; endpoints take {MAX_TOKEN_BYTES}"
            );
            return Err(Refusal::new(RefusalCode::InvalidState, message));
        }
        Ok(GrantPresentation { url, presentation: MaterialSecret::new(presentation) })
    }
}

/// The newest valid credential of a schema and an issuer about this DID.
fn usable<'a>(
    held: &'a [StoredCredential],
    (schema_id, issuer): (&str, &str),
    now: i64,
) -> Option<&'a StoredCredential> {
    let fits = |one: &&StoredCredential| {
        matches!(one.kind, CredentialKind::Own | CredentialKind::Received)
            && one.state == CredentialState::Anchored
            && one.schema_id.to_string() == schema_id
            && one.issuer == issuer
            && one.valid_until.is_none_or(|end| end > now)
    };
    held.iter().filter(fits).max_by_key(|one| one.created_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_valid_credential_of_the_schema_and_issuer_is_presented() {
        let row = |id: &str, created_at| StoredCredential {
            id: id.into(),
            kind: CredentialKind::Received,
            name: "service".into(),
            schema_id: 7,
            issuer: "did:web:issuer".into(),
            subject: "did:web:me".into(),
            issuer_participant: 1,
            digest: String::new(),
            claims_digest: String::new(),
            proof_method: String::new(),
            body: String::new(),
            state: CredentialState::Anchored,
            reason: None,
            tx_hash: None,
            valid_until: None,
            created_at,
        };
        let found = |row: StoredCredential| usable(&[row], ("7", "did:web:issuer"), 100).is_some();
        assert!(found(row("a", 1)) && found(StoredCredential { valid_until: Some(101), ..row("a", 1) }));
        assert!(!found(StoredCredential { valid_until: Some(100), ..row("a", 1) }));
        assert!(!found(StoredCredential { schema_id: 8, ..row("a", 1) }));
        assert!(!found(StoredCredential { issuer: "did:web:other".into(), ..row("a", 1) }));
        assert!(!found(StoredCredential { kind: CredentialKind::Issued, ..row("a", 1) }));
        assert!(!found(StoredCredential { state: CredentialState::Withdrawn, ..row("a", 1) }));
        let rows = [row("old", 1), row("new", 3), row("between", 2)];
        assert_eq!(usable(&rows, ("7", "did:web:issuer"), 100).map(|one| one.id.as_str()), Some("new"));
    }
}

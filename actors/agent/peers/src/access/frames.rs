//! The frame of a grant, made when its message is sent: neither the outbox nor the table of grants has a token or a key.

use svc_agent_core::access::StoredGrant;
use svc_didcomm::{
    Message,
    protocol::endpoint_access::{AccessGrant, GrantedMaterial, frame_message},
};
use svc_trust::access::{AccessClaims, sign_access_token};
use svc_wire::endpoint_access::Material;

use super::owner::AccessOwner;

/// The frame of a grant cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameProblem {
    /// It was taken back or has ended: its message is not sent any more.
    #[error("the grant is not valid any more")]
    Ended,
    /// The key that signs its token, or the value of its header, is not there.
    #[error("the key of the grant is not there")]
    KeyMissing,
}

impl AccessOwner {
    /// Fills the message of a grant. Equal grants make equal frames. `now` is in seconds since the epoch.
    pub(crate) fn fill(
        &self,
        message: &Message,
        grant: Option<&StoredGrant>,
        now: i64,
    ) -> Result<Message, FrameProblem> {
        let is_valid = |grant: &&StoredGrant| grant.revoked_at.is_none() && grant.expires_at > now;
        let grant = grant.filter(is_valid).ok_or(FrameProblem::Ended)?;
        let frame = AccessGrant {
            id: grant.request_id.clone(),
            endpoint: grant.endpoint.clone(),
            url: grant.url.clone(),
            scopes: grant.scopes.clone(),
            expires_at: Some(grant.expires_at),
            material: self.material(grant)?,
        };
        let content = frame.to_content();
        let created = message.created_time.unwrap_or(now);
        Ok(frame_message(&message.id, &content, Some(message.thread()), created, message.expires_time))
    }

    fn material(&self, grant: &StoredGrant) -> Result<GrantedMaterial, FrameProblem> {
        let missing = FrameProblem::KeyMissing;
        let details = &grant.details;
        Ok(match grant.material {
            Material::None => GrantedMaterial::None,
            Material::Bearer => {
                let keys = self.0.keeper.access_keys();
                let key = details.key_id.as_deref().and_then(|id| keys.find(id)).ok_or(missing)?;
                let claims = AccessClaims {
                    issuer: self.did(),
                    subject: grant.peer.clone(),
                    audience: grant.url.clone(),
                    endpoint: grant.endpoint.clone(),
                    scopes: grant.scopes.clone(),
                    issued_at: grant.issued_at,
                    expires_at: grant.expires_at,
                    id: grant.id.clone(),
                };
                let token = sign_access_token(&claims, &key.method, &key.key);
                GrantedMaterial::Bearer { token: svc_didcomm::protocol::endpoint_access::MaterialSecret::new(token) }
            }
            Material::Key => {
                let (_, fragment) = grant.endpoint.split_once('#').ok_or(missing)?;
                let value = self.0.terms.load().value(fragment).cloned().ok_or(missing)?;
                GrantedMaterial::Key { header: details.header.clone().ok_or(missing)?, value }
            }
            Material::Credential => GrantedMaterial::Credential {
                schema_id: details.schema_id.clone().ok_or(missing)?,
                issuer: details.issuer.clone().ok_or(missing)?,
            },
        })
    }
}

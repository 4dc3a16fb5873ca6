//! The sending of a credential's session, which anchors its digest: once, by each of its callers together.

use std::time::Duration;

use prost::Message;
use prost_types::Any;
use svc_agent_core::{grant::WantedGrant, journal_key::session_key};
use svc_agent_store::{KEY_REMOVED, NOT_SENT, StoredCredential};
use svc_otel::{metrics, trace};
use svc_pipeline::EncodedMessage;
use svc_wire::proto::svc::pp::v1::MsgCreateOrUpdateParticipantSession;
use tracing::Span;

use super::issuer::CredentialIssuer;
use crate::account_write::{AccountWrite, WriteStop};

/// Longest wait for the transaction of a session. It stays on its way behind that.
const SEND_TIMEOUT: Duration = Duration::from_secs(100);
/// Looks at the node for a digest behind the transaction that anchors it, and the pause between two.
const DIGEST_LOOKS: u32 = 20;
const DIGEST_PAUSE: Duration = Duration::from_millis(250);

impl CredentialIssuer {
    /// Gives up a credential that waits, unless something of it was sent: then it is paid for, and anchored.
    pub async fn give_up(&self, row: &StoredCredential) -> Result<bool, WriteStop> {
        let session = session_id(&row.id);
        let _held = self.sessions.hold(session).await;
        let was_sent = self.session_write(session).find_earlier(&|_| {}).await?.is_some()
            || self.registry().has_session(session, row.issuer_participant).await?;
        if !was_sent {
            self.account.store.withdraw_credentials(&[(row.id.clone(), NOT_SENT.to_owned())]).await?;
        }
        Ok(!was_sent)
    }

    fn session_write(&self, session: &str) -> AccountWrite<'_> {
        AccountWrite {
            account: &self.account,
            key: session_key(&self.account.did, session),
            origin: "credential",
            allows_repetition: false,
        }
    }

    /// Anchors the digest of a stored credential, once: the session of its id is read at the node before anything is sent. Returns the
    /// transaction, if this agent knows it.
    pub async fn anchor(&self, row: &StoredCredential) -> Result<Option<String>, WriteStop> {
        if !self.keeper.published().document.allows_assertion(&row.proof_method) {
            // Its key was taken out of the document after it was signed: no verdict would accept it.
            self.account.store.withdraw_credentials(&[(row.id.clone(), KEY_REMOVED.to_owned())]).await?;
            return Err(WriteStop::Failed("the key of its proof is not in the document any more".to_owned()));
        }
        let (issuer, sent_row) = (self.clone(), row.clone());
        // A caller that goes away does not stop a sending: the signer would have its write, and the next caller would send another.
        let sending = tokio::spawn(async move {
            let span = trace::anchor_span(&Span::none(), &issuer.account.did, &sent_row.id, sent_row.schema_id);
            let _held = issuer.sessions.hold(session_id(&sent_row.id)).await;
            issuer.send_session(&sent_row, &span).await
        });
        let sent = match tokio::time::timeout(SEND_TIMEOUT, sending).await {
            Ok(Ok(sent)) => sent,
            Ok(Err(_)) => Err(WriteStop::Failed("its sending was stopped".to_owned())),
            Err(_) => Err(WriteStop::Failed("its transaction is on its way".to_owned())),
        };
        metrics::record_credential_anchor(match &sent {
            Ok(_) => "anchored",
            Err(WriteStop::Blocked(_)) => "blocked",
            Err(WriteStop::Failed(_) | WriteStop::Unanswered(_)) => "failed",
        });
        let tx_hash = match sent {
            Ok(tx_hash) => tx_hash,
            Err(stop) => {
                tracing::warn!(credential = row.id, reason = &*stop.reason(), "a credential waits for its digest");
                self.account.store.note_waiting(&row.id, &stop.reason()).await?;
                return Err(stop);
            }
        };
        self.account.store.note_anchored(row, tx_hash.as_deref()).await?;
        tracing::info!(credential = row.id, tx_hash, "the digest of a credential is at the node");
        Ok(tx_hash)
    }

    async fn send_session(&self, row: &StoredCredential, span: &tracing::Span) -> Result<Option<String>, WriteStop> {
        let id = session_id(&row.id);
        let write = self.session_write(id);
        let silent = |_: String| {};
        let mut tx_hash = write.find_earlier(&silent).await?;
        if tx_hash.is_none() && !self.registry().has_session(id, row.issuer_participant).await? {
            let grant =
                self.account.read_grant(&WantedGrant::to_issue(row.schema_id, Some(row.issuer_participant))).await?;
            let session = MsgCreateOrUpdateParticipantSession {
                corporation: grant.corporation.clone(),
                operator: self.account.pipeline().identity().address.to_string(),
                id: id.to_owned(),
                issuer_participant_id: row.issuer_participant,
                digest: self.account.access.anchored(&row.digest),
                ..MsgCreateOrUpdateParticipantSession::default()
            };
            let namespace = self.account.access.chain.registry.namespace();
            let type_url = namespace.type_url("pp", "MsgCreateOrUpdateParticipantSession");
            let value = session.encode_to_vec();
            let message = EncodedMessage { message: Any { type_url, value }, needs_grant: true };
            let payment = write.choose_payer(&message, &grant).await?;
            // An earlier incarnation may have been killed while the signer had its write.
            tx_hash = write.find_earlier(&silent).await?;
            if tx_hash.is_none() {
                tx_hash = Some(write.send(message, payment, span, &silent).await?);
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

/// The id of the session of a credential: the UUID in its id.
fn session_id(credential_id: &str) -> &str {
    credential_id.rsplit_once('#').map_or(credential_id, |(_, id)| id)
}

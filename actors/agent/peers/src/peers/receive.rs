//! From the bytes of an envelope to a message of which sender and recipient are proven, which the session of the peer takes.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use svc_agent_core::{peer_tag::peer_tag, peers::OwnPeerDid};
use svc_didcomm::{
    Message, Refusal,
    envelope::{Envelope, KeyAgreementKey, Opened, Sender},
    from_prior::FromPrior,
    peer_did::{comparable, is_same_did},
};
use svc_kit::{AskError, wall_clock};
use svc_net::didcomm::{MessageReceiver, Receipt};
use svc_otel::trace;
use svc_wire::verification_method::did_of_url;
use tracing::Instrument;

use super::{
    arrival_outcome::ArrivalOutcome,
    resolver::{DocumentUse, PeerDocumentError},
    service::{PeerService, is_small, known_protocol},
    settings::PeerAdmission,
};
use crate::{gate::may_be_trusted, peer_session::ProvenMessage};

/// Why no session takes a message.
enum Stop {
    Untrusted,
    Refused(Refusal),
    Unavailable(&'static str, String),
    Busy(u64),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<PeerDocumentError> for Stop {
    fn from(error: PeerDocumentError) -> Self {
        match error {
            PeerDocumentError::Passing(reason) => Self::Unavailable("resolution", reason),
            PeerDocumentError::Final(_) => Self::Refused(Refusal::SenderKey),
        }
    }
}

/// A key of ours that a recipient of an envelope names.
struct OwnKey {
    key_id: String,
    key: KeyAgreementKey,
    did: String,
    invitation: Option<OwnPeerDid>,
}

impl MessageReceiver for PeerService {
    async fn receive(&self, envelope: Bytes) -> Receipt {
        self.receive_envelope(envelope).await
    }
}

impl PeerService {
    /// Takes an envelope.
    pub(crate) async fn receive_envelope(&self, envelope: Bytes) -> Receipt {
        let span = trace::peer_receive_span();
        let receipt = self.open_and_hand_over(envelope).instrument(span.clone()).await;
        let outcome = match receipt {
            Receipt::Taken => "taken",
            Receipt::Refused => "refused",
            Receipt::Busy { .. } => "busy",
            Receipt::Unavailable { .. } => "unavailable",
        };
        trace::record_peer_outcome(&span, outcome);
        receipt
    }

    async fn open_and_hand_over(&self, envelope: Bytes) -> Receipt {
        let opened = self.open(envelope).await;
        let handed = match opened {
            Ok(Arrival::Message(proven)) => self.hand_over(*proven).await,
            Ok(Arrival::End { recipient, prior }) => self.hand_over_end(recipient, prior).await,
            Err(stop) => Err(stop),
        };
        handed.unwrap_or_else(|stop| {
            let outcome = self.stop(stop);
            // Strangers must not make names of protocols.
            outcome.record("other");
            outcome.receipt()
        })
    }

    /// Counts a message that no session takes, by its reason; returns its outcome.
    fn stop(&self, stop: Stop) -> ArrivalOutcome {
        match stop {
            Stop::Untrusted => {
                self.refuse(ArrivalOutcome::Untrusted, "untrusted", &"a peer that is no verifiable service")
            }
            Stop::Refused(refusal) => {
                self.note_refusal(refusal);
                ArrivalOutcome::Refused
            }
            Stop::Unavailable(kind, reason) => self.refuse(ArrivalOutcome::Unavailable, kind, &reason),
            Stop::Busy(retry_after) => {
                let reason = "a peer sends too much, or too many strangers begin to talk";
                self.refuse(ArrivalOutcome::Busy { retry_after }, "rate", &reason)
            }
        }
    }

    async fn open(&self, bytes: Bytes) -> Result<Arrival, Stop> {
        if bytes.len() > self.0.parts.settings.message_bytes {
            return Err(Refusal::TooLarge.into());
        }
        let envelope = Envelope::read(&bytes)?;
        let own = Arc::new(self.own_key(envelope.recipients()).await?);
        let sender_key_id = envelope.sender_key_id().map(str::to_owned);
        let document = match &sender_key_id {
            None => None,
            Some(id) => Some(self.sender_document(did_of_url(id), false).await?),
        };
        let mut opened = decrypt(&envelope, &bytes, Arc::clone(&own), document.clone()).await;
        // The sender may have another key than the document that was cached.
        if let (Err(refusal), Some(id)) = (&opened, &sender_key_id)
            && refusal.may_be_an_old_document()
            && self.0.fresh.take(&peer_tag(did_of_url(id)), std::time::Instant::now()).is_ok()
        {
            let newest = self.sender_document(did_of_url(id), true).await?;
            if document.as_ref() != Some(&newest) {
                opened = decrypt(&envelope, &bytes, Arc::clone(&own), Some(newest)).await;
            }
        }
        let Opened { message, sender } = opened?;
        let prior = message.from_prior.as_deref().map(FromPrior::read).transpose()?;
        if let Some(prior) = &prior {
            self.verify_prior(prior).await?;
        }
        match (sender, prior) {
            (Sender::Anonymous, Some(prior)) => Ok(Arrival::End { recipient: own.did.clone(), prior }),
            (Sender::Anonymous, None) => Err(Refusal::Anonymous.into()),
            (Sender::Authenticated { did }, prior) => self.prove(message, did, prior, &own).await,
        }
    }

    /// Finds the DID by which the peer is known, and admits it by its rate.
    async fn prove(
        &self,
        message: Message,
        sender: String,
        prior: Option<FromPrior>,
        own: &OwnKey,
    ) -> Result<Arrival, Stop> {
        let known = self.known_peer(&sender, prior.as_ref(), &own.did).await?;
        let root = prior.as_ref().map_or(sender.as_str(), |prior| prior.issuer.as_str());
        let is_stranger = known.is_none();
        let public_did = known.as_deref().unwrap_or(root).to_owned();
        // Such a stranger costs nothing to make, and must not use up the room of those that may be trusted.
        if is_stranger && self.0.parts.settings.admission == PeerAdmission::Trusted && !may_be_trusted(&public_did) {
            return Err(Stop::Untrusted);
        }
        self.admit(&public_did).map_err(Stop::Busy)?;
        trace::record_peer(&peer_tag(comparable(&public_did)), Some(known_protocol(message.protocol())));
        let (recipient, invitation) = (own.did.clone(), own.invitation.clone());
        Ok(Arrival::Message(Box::new(ProvenMessage {
            message,
            sender,
            recipient,
            invitation,
            prior,
            public_did,
            is_stranger,
        })))
    }

    /// The DID by which the peer of a connection is known; none for a stranger.
    async fn known_peer(&self, sender: &str, prior: Option<&FromPrior>, own: &str) -> Result<Option<Arc<str>>, Stop> {
        let known_peers = &self.0.known_peers;
        let key = comparable(sender);
        if prior.is_none()
            && let Some(known) = known_peers.find(key, own).await
        {
            return Ok(Some(known));
        }
        let read_at = known_peers.changes();
        let dids: Vec<&str> = [Some(sender), prior.map(|prior| prior.issuer.as_str())].into_iter().flatten().collect();
        let found = self.0.parts.store.connections_with(&dids).await;
        let found = found.map_err(|error| Stop::Unavailable("store", error.to_string()))?;
        let found = found.into_iter().find(|one| is_same_did(&one.connection.our_did, own));
        let Some(found) = found else { return Ok(None) };
        if prior.is_none() {
            known_peers.keep(key, own, read_at, &found.connection.public_did).await;
        }
        Ok(Some(found.connection.public_did.into()))
    }

    async fn verify_prior(&self, prior: &FromPrior) -> Result<(), Stop> {
        let now = wall_clock::now().seconds;
        let document = self.prior_document(&prior.issuer, false).await?;
        match prior.verify(&document, now) {
            Ok(()) => Ok(()),
            Err(refusal) => {
                if self.0.fresh.take(&peer_tag(&prior.issuer), std::time::Instant::now()).is_err() {
                    return Err(refusal.into());
                }
                let newest = self.prior_document(&prior.issuer, true).await?;
                Ok(prior.verify(&newest, now)?)
            }
        }
    }

    async fn prior_document(&self, did: &str, fresh: bool) -> Result<Arc<Value>, Stop> {
        self.0.parts.resolver.resolve(did, fresh, DocumentUse::Inbound).await.map_err(|error| match error {
            PeerDocumentError::Final(_) => Refusal::FromPriorProof.into(),
            passing => passing.into(),
        })
    }

    /// The document of a sender. The short form of a did:peer:4 stands for the long one that it has sent before.
    async fn sender_document(&self, did: &str, fresh: bool) -> Result<Arc<Value>, Stop> {
        let is_short = comparable(did) == did && did.starts_with("did:peer:4");
        let mut did = did.to_owned();
        if is_short {
            let known = self.0.parts.store.connections_with(&[&did]).await;
            let known = known.map_err(|error| Stop::Unavailable("store", error.to_string()))?;
            let dids = known.into_iter().flat_map(|one| {
                let svc_didcomm::connection::Connection { their_did, previous, .. } = one.connection;
                std::iter::once(their_did).chain(previous)
            });
            did = dids.into_iter().find(|long| is_same_did(long, &did)).ok_or(Refusal::SenderKey)?;
        }
        Ok(self.0.parts.resolver.resolve(&did, fresh, DocumentUse::Inbound).await?)
    }

    /// The first recipient that is a key of ours: of the document, or of an invitation.
    async fn own_key(&self, recipients: &[String]) -> Result<OwnKey, Stop> {
        for key_id in recipients {
            if let Some((did, key)) = self.0.parts.keeper.agreement_key(key_id) {
                return Ok(OwnKey { key_id: key_id.clone(), key, did, invitation: None });
            }
            let did = did_of_url(key_id);
            if did.starts_with("did:peer:4") {
                let own_did = self.0.parts.keeper.published().document.did().to_owned();
                let found = self.0.parts.store.own_peer_did(&own_did, comparable(did)).await;
                let found = found.map_err(|error| Stop::Unavailable("store", error.to_string()))?;
                if let Some((invitation, secret)) = found {
                    let key = KeyAgreementKey::from_bytes(&secret.secret);
                    return Ok(OwnKey {
                        key_id: key_id.clone(),
                        key,
                        did: invitation.long.clone(),
                        invitation: Some(invitation),
                    });
                }
            }
        }
        let own_did = self.0.parts.keeper.published().document.did().to_owned();
        if recipients.iter().any(|key_id| did_of_url(key_id) == own_did) {
            // A key that `svc agent recover` has replaced. A message that is refused for good would be lost, and its sender would not know it.
            let reason = "the sender has an earlier document of this agent".to_owned();
            return Err(Stop::Unavailable("recipient_key", reason));
        }
        Err(Refusal::RecipientKey.into())
    }

    async fn hand_over(&self, proven: ProvenMessage) -> Result<Receipt, Stop> {
        let session = self.session(&proven.public_did).await;
        let session = session.map_err(|error| Stop::Unavailable("session", error.to_string()))?;
        session.take(proven).await.map_err(down)
    }

    async fn hand_over_end(&self, recipient: String, prior: FromPrior) -> Result<Receipt, Stop> {
        let known = self.0.parts.store.connections_with(&[&prior.issuer]).await;
        let known = known.map_err(|error| Stop::Unavailable("store", error.to_string()))?;
        let known = known.into_iter().find(|one| is_same_did(&one.connection.our_did, &recipient));
        let known = known.ok_or(Refusal::FromPriorIssuer)?;
        self.admit(&known.connection.public_did).map_err(Stop::Busy)?;
        let session = self.session(&known.connection.public_did).await;
        let session = session.map_err(|error| Stop::Unavailable("session", error.to_string()))?;
        session.end(recipient, prior).await.map_err(down)
    }
}

enum Arrival {
    Message(Box<ProvenMessage>),
    End { recipient: String, prior: FromPrior },
}

fn down(error: AskError) -> Stop {
    match error {
        AskError::MailboxFull { .. } => Stop::Busy(1),
        error => Stop::Unavailable("session", error.to_string()),
    }
}

/// Decrypts. A large envelope takes milliseconds, and goes to a thread that may block, where it is read once more.
async fn decrypt(
    envelope: &Envelope<'_>,
    bytes: &Bytes,
    own: Arc<OwnKey>,
    document: Option<Arc<Value>>,
) -> Result<Opened, Refusal> {
    let now = wall_clock::now().seconds;
    if is_small(bytes.len()) {
        return envelope.open(&own.key_id, &own.key, &own.did, document.as_deref(), now);
    }
    let bytes = bytes.clone();
    let work = move || {
        let envelope = Envelope::read(&bytes)?;
        envelope.open(&own.key_id, &own.key, &own.did, document.as_deref(), now)
    };
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(Refusal::Decryption))
}

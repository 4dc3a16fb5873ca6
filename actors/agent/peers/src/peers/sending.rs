//! One attempt to send a message to a peer: its document, the envelope, and the endpoints in their order.

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::future::{Either, select};
use serde_json::Value;
use svc_agent_core::{peer_tag::peer_tag, peers::grant_of_message};
use svc_agent_store::QueuedMessage;
use svc_didcomm::{
    Message,
    delivery::{Attempt, attempt_of_status},
    endpoint::{Transport, endpoints},
    envelope::{KeyAgreementKey, seal},
    peer_did::{comparable, is_peer_did},
};
use svc_kit::wall_clock;
use svc_net::didcomm::{PeerSocket, SendResult};
use svc_otel::{metrics, trace};
use svc_wire::verification_method::{KeyKind, KeyRelation, method_key, methods_of};
use tracing::Instrument;

use super::{
    resolver::DocumentUse,
    service::{PeerService, is_small, known_protocol},
    settings::allows_clear_text,
};
use crate::{
    access::FrameProblem,
    peer_session::{PreparedMessage, Sealed, SendEnd},
};

/// Time for which a message that was encrypted ahead may be sent: documents are kept for as long.
const PREPARED_KEPT: Duration = Duration::from_secs(10);

/// An attempt that ended before its message left.
pub(super) struct NotReady {
    pub attempt: Attempt,
    reason: String,
}

impl NotReady {
    fn passing(reason: impl Into<String>) -> Self {
        Self { attempt: Attempt::NotSent, reason: reason.into() }
    }
}

impl PeerService {
    /// Sends a message once, and encrypts the one behind it while the peer has not answered.
    pub(super) async fn send_and_prepare(
        &self,
        queued: &QueuedMessage,
        prepared: Option<PreparedMessage>,
        socket: Option<(String, PeerSocket)>,
    ) -> (SendEnd, Option<PreparedMessage>) {
        let send = pin!(self.send_message(queued, prepared, socket));
        if !queued.has_followers {
            return (send.await, None);
        }
        match select(send, pin!(self.prepare_next(queued))).await {
            Either::Left((end, _)) => (end, None),
            Either::Right((prepared, send)) => (send.await, prepared),
        }
    }

    async fn prepare_next(&self, sent: &QueuedMessage) -> Option<PreparedMessage> {
        let next = self.0.parts.store.next_message(&sent.connection_id, wall_clock::now().seconds).await;
        let (number, message) = next.ok().flatten()?;
        let message = self.fill_grant(message).await.ok()?;
        let route = sent.route.clone();
        let sealed = self.seal_for((&route.our_did, &route.their_did), message, false).await.ok()?;
        Some(PreparedMessage { number, route, sealed, prepared_at: Instant::now() })
    }

    async fn send_message(
        &self,
        queued: &QueuedMessage,
        prepared: Option<PreparedMessage>,
        socket: Option<(String, PeerSocket)>,
    ) -> SendEnd {
        let protocol = known_protocol(queued.message.protocol());
        let span = trace::peer_send_span(protocol);
        let end = self.send_once(queued, prepared, socket).instrument(span.clone()).await;
        let outcome = end.attempt.as_str();
        trace::record_peer_outcome(&span, outcome);
        metrics::record_peer_message("out", protocol, outcome);
        end
    }

    async fn send_once(
        &self,
        queued: &QueuedMessage,
        prepared: Option<PreparedMessage>,
        socket: Option<(String, PeerSocket)>,
    ) -> SendEnd {
        let mut sending = Sending::new(self, socket);
        let is_usable = |one: &PreparedMessage| {
            one.number == queued.number && one.route == queued.route && one.prepared_at.elapsed() < PREPARED_KEPT
        };
        let prepared = prepared.filter(is_usable);
        let mut attempt = match prepared {
            Some(prepared) if !queued.route.has_ended => {
                trace::record_peer(&peer_tag(comparable(&queued.route.public_did)), None);
                sending.deliver(prepared.sealed).await
            }
            _ => sending.attempt(queued, false).await,
        };
        // The endpoint may have moved since the document was cached.
        if attempt == Attempt::NotSent && self.0.fresh.take(&queued.connection_id, Instant::now()).is_ok() {
            attempt = sending.attempt(queued, true).await;
        }
        let Sending { socket, arrived, retry_after, .. } = sending;
        SendEnd { attempt, retry_after, socket, arrived }
    }

    /// Encrypts a message for the peer of its connection.
    async fn seal(&self, queued: &QueuedMessage, fresh: bool) -> Result<Sealed, NotReady> {
        let route = &queued.route;
        if route.has_ended {
            return Err(NotReady { attempt: Attempt::Rejected, reason: "the connection has ended".to_owned() });
        }
        if queued.message.has_expired(wall_clock::now().seconds) {
            return Err(NotReady { attempt: Attempt::Rejected, reason: "the time of the message is over".to_owned() });
        }
        trace::record_peer(&peer_tag(comparable(&route.public_did)), None);
        let message = self.fill_grant(queued.message.clone()).await?;
        self.seal_for((&route.our_did, &route.their_did), message, fresh).await
    }

    /// Makes the frame of a grant, whose message in the outbox has its id only.
    async fn fill_grant(&self, message: Message) -> Result<Message, NotReady> {
        let Some(id) = grant_of_message(&message) else { return Ok(message) };
        let grant = self.0.parts.store.access_grant(id).await;
        let grant = grant.map_err(|error| NotReady::passing(error.to_string()))?;
        let filled = self.0.parts.access.owner().fill(&message, grant.as_ref(), wall_clock::now().seconds);
        filled.map_err(|problem| match problem {
            FrameProblem::Ended => NotReady { attempt: Attempt::Rejected, reason: problem.to_string() },
            FrameProblem::KeyMissing => NotReady::passing(problem.to_string()),
        })
    }

    /// Encrypts a message from a DID of ours for one of a peer.
    pub(super) async fn seal_for(
        &self,
        (from, to): (&str, &str),
        message: Message,
        fresh: bool,
    ) -> Result<Sealed, NotReady> {
        let document = self.0.parts.resolver.resolve(to, fresh, DocumentUse::Outbound).await;
        let document = document.map_err(|error| NotReady::passing(error.to_string()))?;
        let recipient = recipient_key(&document, to);
        let recipient = recipient.ok_or_else(|| NotReady::passing("the peer's document has no key for messages"))?;
        let sender = self.sending_key(from).await?;
        let endpoints = endpoints(&document, allows_clear_text(self.0.parts.client.policy()));
        if endpoints.is_empty() {
            return Err(NotReady::passing("the peer's document has no endpoint for messages"));
        }
        let message = Message { from: Some(from.to_owned()), to: vec![to.to_owned()], ..message };
        let size = message.to_json().to_string().len();
        let work = move || seal(&message, (&sender.0, &sender.1), (&recipient.0, &recipient.1));
        let sealed = if is_small(size) { Ok(work()) } else { tokio::task::spawn_blocking(work).await };
        let sealed = sealed.map_err(|error| NotReady::passing(error.to_string()))?;
        let envelope = sealed.map_err(|error| NotReady { attempt: Attempt::Rejected, reason: error.to_string() })?;
        Ok(Sealed { envelope, endpoints })
    }

    /// The key that encrypts for a DID of ours, with its id.
    async fn sending_key(&self, our_did: &str) -> Result<(String, KeyAgreementKey), NotReady> {
        if !is_peer_did(our_did) {
            return self
                .0
                .parts
                .keeper
                .sending_key()
                .ok_or_else(|| NotReady::passing("the document has no key for messages"));
        }
        let own_did = self.0.parts.keeper.published().document.did().to_owned();
        let found = self.0.parts.store.own_peer_did(&own_did, comparable(our_did)).await;
        let found = found.map_err(|error| NotReady::passing(error.to_string()))?;
        let (own, key) = found.ok_or_else(|| NotReady::passing("the key of the connection is gone"))?;
        Ok((format!("{}{OWN_PEER_KEY}", own.long), KeyAgreementKey::from_bytes(&key.secret)))
    }
}

/// Id of the key in a did:peer:4 of ours.
pub(super) const OWN_PEER_KEY: &str = "#key-2";

/// The first key under `keyAgreement` that messages can be encrypted for, with its absolute id.
fn recipient_key(document: &Value, did: &str) -> Option<(String, [u8; 32])> {
    let now = i128::from(wall_clock::now().seconds) * 1_000_000_000;
    let own = document["id"].as_str().unwrap_or(did);
    let methods = methods_of(document, KeyRelation::KeyAgreement);
    methods.into_iter().find_map(|method| {
        let key = method_key(document, &method, KeyRelation::KeyAgreement, KeyKind::X25519, now).ok()?;
        // The id begins with the form of the DID that the message goes to.
        let id = method.strip_prefix(own).map_or_else(|| method.clone(), |fragment| format!("{did}{fragment}"));
        Some((id, key))
    })
}

/// The state of an attempt.
pub(super) struct Sending<'a> {
    service: &'a PeerService,
    socket: Option<(String, PeerSocket)>,
    arrived: Vec<Bytes>,
    retry_after: Option<u64>,
}

impl<'a> Sending<'a> {
    pub fn new(service: &'a PeerService, socket: Option<(String, PeerSocket)>) -> Self {
        Self { service, socket, arrived: Vec::new(), retry_after: None }
    }

    async fn attempt(&mut self, queued: &QueuedMessage, fresh: bool) -> Attempt {
        match self.service.seal(queued, fresh).await {
            Ok(sealed) => self.deliver(sealed).await,
            Err(NotReady { attempt, reason }) => {
                tracing::debug!(reason, "a message to a peer is not sent");
                attempt
            }
        }
    }

    /// Tries the endpoints of the peer.
    pub async fn deliver(&mut self, Sealed { envelope, endpoints }: Sealed) -> Attempt {
        let envelope: Arc<str> = envelope.into();
        for endpoint in endpoints {
            let result = match endpoint.transport {
                Transport::WebSocket => self.send_over_socket(&endpoint.uri, &envelope).await,
                Transport::Http => self.service.0.parts.client.post(&endpoint.uri, &envelope).await,
            };
            let attempt = match result {
                SendResult::Answered => Attempt::Done,
                SendResult::TooLarge => Attempt::Rejected,
                SendResult::Status { status, retry_after } => {
                    self.retry_after = retry_after;
                    attempt_of_status(status)
                }
                SendResult::NotSent(reason) => {
                    tracing::debug!(reason, "an endpoint of a peer takes no message");
                    Attempt::NotSent
                }
                SendResult::Unknown(reason) => {
                    tracing::debug!(reason, "an endpoint of a peer does not answer");
                    Attempt::Unknown
                }
            };
            // The next endpoint is tried only where the message cannot have arrived by this one.
            if attempt != Attempt::NotSent {
                return attempt;
            }
        }
        Attempt::NotSent
    }

    async fn send_over_socket(&mut self, uri: &str, envelope: &str) -> SendResult {
        let mut open = self.socket.take().filter(|(open, _)| open == uri).map(|(_, socket)| socket);
        if let Some(socket) = &mut open
            && !socket.is_alive(&mut self.arrived).await
        {
            open = None;
        }
        let mut socket = match open {
            Some(socket) => socket,
            None => match self.service.0.parts.client.connect(uri).await {
                Ok(socket) => socket,
                Err(reason) => return SendResult::NotSent(reason),
            },
        };
        let result = socket.send(envelope, &mut self.arrived).await;
        if result == SendResult::Answered {
            self.socket = Some((uri.to_owned(), socket));
        }
        result
    }
}

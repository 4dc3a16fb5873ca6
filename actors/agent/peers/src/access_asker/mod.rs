//! The access asker: the requests of this agent for access to endpoints of peers, and the grants that it holds.
//!
//! It owns both, in memory only: a grant has a secret, which no store and no log gets. Callers note a request before its message is queued,
//! and wait for its answer; sessions of peers bring the frames. A grant is taken once the document of the endpoint was read again. When the
//! actor dies, its grants are gone, callers that wait get an error, and frames that come later find no request.

mod actor;
#[cfg(test)]
mod tests;

use std::time::Duration;

use svc_didcomm::{
    access::{DropReason, HeardAnswer, OpenRequest, TooManyRequests},
    protocol::endpoint_access::{AccessFrame, AccessGrant},
};
use svc_kit::{AskError, CallError, Handle, ReplyPort, impl_actor_message, supervision::ChildSpec};
use svc_wire::endpoint_access::Material;
use tokio::sync::oneshot;

/// The question of a request: scopes and materials.
pub(crate) type AccessQuestion = (Option<Vec<String>>, Option<Vec<Material>>);

/// Messages of the asker.
pub(crate) enum Msg {
    /// Finds the grant that is held for a question.
    FindGrant {
        /// The endpoint.
        endpoint: String,
        /// The question.
        question: AccessQuestion,
        /// The URL of the endpoint now; grants with another one are forgotten.
        url: String,
        /// The grant.
        reply: ReplyPort<Option<Box<AccessGrant>>>,
    },
    /// The grant of a request.
    Grant {
        /// Id of the request.
        id: String,
        /// The grant, while it is held.
        reply: ReplyPort<Option<Box<AccessGrant>>>,
    },
    /// A request is about to be sent.
    Ask {
        /// The request.
        open: Box<OpenRequest>,
        /// Hears of its answer.
        waiter: oneshot::Sender<HeardAnswer>,
        /// Whether there is room.
        reply: ReplyPort<Result<(), TooManyRequests>>,
    },
    /// A peer has sent a frame.
    FrameReceived {
        /// DID by which the peer is known.
        peer: String,
        /// The frame.
        frame: Box<AccessFrame>,
    },
    /// The document of an endpoint was read after a grant for it came.
    Settle {
        /// Id of the request.
        id: String,
        /// URL of the entry; none when it is gone.
        url: Option<String>,
        /// Hears of another answer, when this one is not taken.
        waiter: oneshot::Sender<HeardAnswer>,
        /// The grant.
        reply: ReplyPort<Result<Box<AccessGrant>, DropReason>>,
    },
    /// A caller has gone, or an endpoint has refused the material.
    Forget(String),
    /// A DID is not trusted any more.
    ForgetPeer(String),
    /// Grants may have ended.
    Tick,
}

impl_actor_message!(Msg { FindGrant, Grant, Ask, FrameReceived, Settle, Forget, ForgetPeer, Tick });

/// Frames and requests that may wait.
const MAILBOX: usize = 1_024;
/// Longest wait for the actor, which only looks at its table.
const TABLE_TIME: Duration = Duration::from_secs(5);

/// The address of the asker.
#[derive(Clone)]
pub struct AccessAskerHandle(Handle<Msg>);

impl AccessAskerHandle {
    /// Returns the address, and the child specification that starts the actor.
    pub fn child_spec() -> (Self, ChildSpec) {
        let handle = Handle::new("access_asker", "access_asker", MAILBOX);
        let child = ChildSpec::worker::<actor::AccessAsker>(&handle, ());
        (Self(handle), child)
    }

    /// Returns a grant that is held for a question, and forgets those for another URL.
    pub async fn held(
        &self,
        endpoint: &str,
        question: &AccessQuestion,
        url: &str,
    ) -> Result<Option<Box<AccessGrant>>, AskError> {
        let (endpoint, question, url) = (endpoint.to_owned(), question.clone(), url.to_owned());
        self.0.ask_within(TABLE_TIME, |reply| Msg::FindGrant { endpoint, question, url, reply }).await
    }

    /// Returns the grant of a request, while it is held.
    pub async fn grant(&self, id: &str) -> Result<Option<Box<AccessGrant>>, AskError> {
        let id = id.to_owned();
        self.0.ask_within(TABLE_TIME, |reply| Msg::Grant { id, reply }).await
    }

    /// Notes a request that is about to be sent; its answer comes by the receiver.
    pub async fn ask(&self, open: OpenRequest) -> Result<oneshot::Receiver<HeardAnswer>, CallError<TooManyRequests>> {
        let (waiter, answer) = oneshot::channel();
        let open = Box::new(open);
        let asked = self.0.ask_within(TABLE_TIME, |reply| Msg::Ask { open, waiter, reply }).await?;
        asked.map(|()| answer).map_err(CallError::Refused)
    }

    /// Takes a frame of a peer.
    pub fn hear(&self, peer: &str, frame: AccessFrame) {
        self.0.notify(Msg::FrameReceived { peer: peer.to_owned(), frame: Box::new(frame) });
    }

    /// Takes the grant that came for a request, by the URL of its entry in the document that was read since. When it is not taken, another
    /// answer comes by the receiver.
    pub async fn settle(
        &self,
        id: &str,
        url: Option<String>,
    ) -> Result<(Result<Box<AccessGrant>, DropReason>, oneshot::Receiver<HeardAnswer>), AskError> {
        let (waiter, answer) = oneshot::channel();
        let id = id.to_owned();
        let settled = self.0.ask_within(TABLE_TIME, |reply| Msg::Settle { id, url, waiter, reply }).await?;
        Ok((settled, answer))
    }

    /// Forgets a request and its grant.
    pub fn forget(&self, id: &str) {
        self.0.notify(Msg::Forget(id.to_owned()));
    }

    /// Forgets the grants of a DID.
    pub fn forget_peer(&self, did: &str) {
        self.0.notify(Msg::ForgetPeer(did.to_owned()));
    }
}

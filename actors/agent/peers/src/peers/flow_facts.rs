//! The facts of flows that a message of a peer needs, as the rooms of peers ask for them: flows are built on peers.

use futures::future::BoxFuture;
use svc_agent_core::flows::{HeardFacts, PeerStanding};
use svc_agent_store::{AgentStoreError, ContentKey, WrittenFlow};
use svc_didcomm::{Message, protocol::Content};
use svc_net::upstream::NodeClientError;

/// The node does not answer the questions of a message.
#[derive(Debug, thiserror::Error)]
pub enum UnknownFacts {
    /// The node is not found yet, or is silent.
    #[error("the node does not answer")]
    Silent,
    /// It answers with an error.
    #[error(transparent)]
    Node(#[from] NodeClientError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] AgentStoreError),
}

/// The flows, as messages of peers need them.
pub trait FlowFacts: Send + Sync + 'static {
    /// Whether a message goes on with an onboarding that this agent validates, and that has not ended: its applicant may become trusted by
    /// it.
    fn is_of_live_flow<'a>(
        &'a self,
        peer_did: &'a str,
        message: &'a Message,
        content: &'a Content,
    ) -> BoxFuture<'a, Result<bool, AgentStoreError>>;

    /// Whether a message is of the thread of a flow.
    fn has_flow<'a>(&'a self, peer_did: &'a str, message: &'a Message) -> BoxFuture<'a, Result<bool, AgentStoreError>>;

    /// Reads the facts of a message at the node. Most messages need none.
    fn read<'a>(
        &'a self,
        peer_did: &'a str,
        message: &'a Message,
        content: &'a Content,
        standing: PeerStanding,
    ) -> BoxFuture<'a, Result<HeardFacts, UnknownFacts>>;

    /// The key of the credentials in the store.
    fn key(&self) -> &ContentKey;

    /// Flows of one peer that may run.
    fn max_per_peer(&self) -> u64;

    /// Tells of flows that have changed.
    fn changed(&self, flows: Vec<WrittenFlow>);
}

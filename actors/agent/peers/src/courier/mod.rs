//! The courier: delivers the events of the outbox as webhooks, one at a time and in their order.
//!
//! It owns the events that it has read ahead, and the pause after a failure. The registry watcher tells it of new events. An event
//! stays in the outbox until it was delivered or is a dead letter; deliveries are settled in batches, so that a crash repeats the last
//! ones under the same ids. An orderly end settles them. When it dies, the next incarnation begins with the oldest event of the outbox.

mod actor;
mod core;
mod request;
#[cfg(test)]
mod tests;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use svc_agent_store::{AgentStore, AgentStoreError, OutboxEvent, guard::StoreGuardHandle};
use svc_kit::{Handle, ReplyPort, impl_actor_message, supervision::ChildSpec};
use svc_net::webhook::WebhookClient;
use svc_wire::secret::SecretString;

use self::core::DeliveryResult;
pub use self::request::{InvalidWebhookSecret, WebhookSecrets};

/// The receiver of the events.
pub struct CourierConfig {
    /// Sends to the URL.
    pub client: WebhookClient,
    /// Bearer token for the receiver.
    pub api_key: Option<SecretString>,
    /// Keys of the signatures.
    pub secrets: Option<WebhookSecrets>,
    /// Pause after the first failure.
    pub min_backoff: Duration,
}

/// Messages of the courier.
pub enum Msg {
    /// Events were stored.
    Stored,
    /// Events were read.
    Loaded(Result<Vec<OutboxEvent>, AgentStoreError>),
    /// An attempt has ended.
    Sent(DeliveryResult),
    /// Deliveries were settled, or could not be.
    Settled(Result<(), AgentStoreError>),
    /// A pause is over.
    Wake,
    /// The pause after a failure of the store is over.
    SettleAgain,
    /// The agent ends: the answer comes when nothing is under way any more, and says whether all deliveries are settled.
    Finish(ReplyPort<bool>),
}

impl_actor_message!(Msg { Stored, Loaded, Sent, Settled, Wake, SettleAgain, Finish });

/// Arguments of the courier.
pub struct Args {
    config: CourierConfig,
    store: AgentStore,
    guard: StoreGuardHandle,
    /// Whether the agent ends, for an incarnation that starts meanwhile.
    is_ending: Arc<AtomicBool>,
}

/// Messages that may wait; one of them is enough to look at the outbox.
const MAILBOX: usize = 64;

/// The address of the courier.
#[derive(Clone)]
pub struct CourierHandle {
    handle: Arc<Handle<Msg>>,
    is_ending: Arc<AtomicBool>,
}

impl CourierHandle {
    /// Returns the address, and the child specification that starts the actor.
    pub fn child_spec(config: CourierConfig, store: AgentStore, guard: StoreGuardHandle) -> (Self, ChildSpec) {
        let handle = Handle::new("courier", "courier", MAILBOX);
        let is_ending = Arc::<AtomicBool>::default();
        let args = Args { config, store, guard, is_ending: Arc::clone(&is_ending) };
        let child = ChildSpec::worker::<actor::Courier>(&handle, args);
        (Self { handle: Arc::new(handle), is_ending }, child)
    }

    #[cfg(test)]
    async fn observe(&self) -> Option<serde_json::Value> {
        self.handle.observe().await
    }

    /// Sends nothing more, waits for the delivery under way, and settles the last ones.
    pub async fn finish(&self, wait_limit: Duration) {
        self.is_ending.store(true, Ordering::Release);
        let error = match self.handle.ask_within(wait_limit, Msg::Finish).await {
            Ok(true) => return,
            Ok(false) => "the store does not take them".to_owned(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(error, "the last deliveries are not settled; the next start may repeat them");
    }

    /// Tells of events in the outbox.
    pub fn events_stored(&self) {
        self.handle.notify(Msg::Stored);
    }
}

//! The agent of one corporation and one DID: its DID Document and the log of its versions, logins to its admin API, and the registry
//! events that it delivers to a backend.
//!
//! This crate is no HTTP server: a front end parses requests, asks a handle and shapes the answer. Each actor has a folder; the
//! decisions are in code without I/O and clock.

mod boot;
mod courier;
mod delivery;
pub mod document;
mod error;
mod identity;
mod keeper;
mod log;
mod notification;
mod store;
mod store_guard;
mod token;
mod watcher;

pub use boot::{Agent, AgentBootError, AgentConfig, EventsConfig};
pub use courier::{CourierConfig, CourierHandle, InvalidWebhookSecret, WebhookSecrets};
pub use delivery::DeliveryHandle;
pub use error::{AgentPart, Refusal, RefusalCode, Violation};
pub use identity::{DidMethod, PublicLocation};
pub use keeper::{BoundDistance, DocumentError, KeeperArgs, KeeperHandle, PublishedDocument, PublishedFile};
pub use notification::{Notification, NotificationMaker};
pub use store::{
    AgentStore, AgentStoreError, BlockEvents, DeadLetter, EventGap, HeadFile, OutboxEvent, OutboxSizes, PublishedHead,
    SealingError, StoreKey, StoreKeys, StoreSettings,
};
pub use token::{AccessToken, LoginChallenge, LoginProof, LoginRules, TokenCheck, TokenIssuerHandle};
pub use watcher::{WatcherArgs, WatcherHandle, WatcherState};

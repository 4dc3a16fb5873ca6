//! The indexer: follows a node of the trust registry, stores all entities with their history, answers reads at any
//! height, and publishes every block to subscribers.
//!
//! For each block the indexer reads the changed entities from the node **at that height**, so it does not repeat the
//! ledger's rules. Entities, events, activity, statistics and the checkpoint of a block are one database transaction.
//! The hub publishes a block after this transaction, so a subscriber can read every block that it receives.
//!
//! It is not a server: it opens no listening socket, and a front end owns HTTP and WebSockets. It is not a ledger
//! either: it validates no transaction.
//!
//! A front end parses requests and control messages with this crate:
//!
//! ```
//! use svc_indexer::{ControlMessage, Indexer, IndexerConfig, ReadArguments, read_endpoints};
//!
//! /// Starts an indexer below an actor of the platform, and returns the answer to a read.
//! async fn embed(parent: ractor::ActorCell, query: &str) -> Result<serde_json::Value, Box<dyn std::error::Error>> {
//!     let config = IndexerConfig::new("http://127.0.0.1:26657", "sqlite://index.db?mode=rwc");
//!     let indexer = Indexer::start_linked(config, parent).await?;
//!     let endpoint = read_endpoints()?.iter().find(|read| read.operation == "es.listEcosystems").ok_or("no such read")?;
//!     let arguments = ReadArguments::from_query(endpoint, [], query)?;
//!     Ok(indexer.reader.answer_read(endpoint, &arguments, None).await?.body)
//! }
//!
//! let control = ControlMessage::<()>::parse(r#"{"action": "subscribe", "dids": ["did:web:example.org"]}"#)?;
//! let ControlMessage::Subscribe(filter) = control else { return Err("not a subscription".to_owned()) };
//! assert!(filter.dids.contains("did:web:example.org"));
//! assert_eq!(ControlMessage::<()>::parse("{"), Err("Invalid JSON".to_owned()));
//! # let _ = embed;
//! # Ok::<(), String>(())
//! ```

mod block;
mod boot;
mod derive;
#[cfg(test)]
mod fake_node;
mod follower;
mod hub;
mod ingest;
mod pace;
mod projection;
mod read;
mod start_height;
mod store;
mod trust;

pub use block::is_known_event_type;
pub use boot::{
    Indexer, IndexerConfig, IndexerError, Rollback, StartCheck, check_start, roll_back_index, verify_index,
};
pub use derive::did_forms::normalize_did;
pub use follower::{FollowerState, LastError};
pub use hub::{
    BlockTopic, ControlMessage, FrameReceiver, HubConnection, HubHandle, HubSettings, HubTopic,
    MAX_CONTROL_MESSAGE_BYTES, SubscriptionFilter, TrustTopic, View,
};
pub use ingest::{IndexDifference, Verification};
pub use pace::AnnouncedInterval;
pub use read::{IndexReader, MAX_BODY_BYTES, ReadAnswer, ReadArguments, ReadError, openapi, read_endpoints};
pub use start_height::StartHeight;
pub use store::{Checkpoint, IndexStoreError, TrustSource};
pub use svc_trust::EssentialSchemas;
pub use trust::TrustConfig;

//! The agent of one corporation and one DID: its DID Document and the log of its versions, logins to its admin API.
//!
//! This crate is no HTTP server: a front end parses requests, asks a handle and shapes the answer. Each actor has a folder; the
//! decisions are in code without I/O and clock.

mod boot;
pub mod document;
mod error;
mod identity;
mod keeper;
mod log;
mod store;
mod store_guard;
mod token;

pub use boot::{Agent, AgentBootError, AgentConfig};
pub use error::{AgentPart, Refusal, RefusalCode, Violation};
pub use identity::{DidMethod, PublicLocation};
pub use keeper::{BoundDistance, DocumentError, KeeperArgs, KeeperHandle, PublishedDocument, PublishedFile};
pub use store::{
    AgentStore, AgentStoreError, HeadFile, PublishedHead, SealingError, StoreKey, StoreKeys, StoreSettings,
};
pub use token::{AccessToken, LoginChallenge, LoginProof, LoginRules, TokenCheck, TokenIssuerHandle};

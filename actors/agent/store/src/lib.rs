//! The store of an agent: its DID, its private keys, every version of its document, and the registry events that it still has to
//! deliver. SQL for SQLite and PostgreSQL.
//!
//! This crate is no API: it is a part of `svc-agent`, which names all that a program may use.
//!
//! One process owns a store. Every write shows that the process still owns it; after an error nothing of it has happened, or all has.

mod access_rows;
mod agent_store;
mod arrival;
mod chain_rows;
mod columns;
mod credential_rows;
mod decision;
mod document_rows;
mod error;
mod flow_rows;
pub mod guard;
mod head_file;
mod key_rows;
mod lost_blocks;
mod outbox;
mod ownership;
mod peer_rows;
mod portable;
mod refused;
mod sealing;
#[cfg(test)]
mod tests;

pub use access_rows::{AccessGrantFilter, AccessKeyTime, RevokedGrants};
pub use agent_store::{AgentStore, DocumentVersion, StoreSettings, StoredIdentity};
pub use arrival::{ArrivalError, ArrivedMessage, FlowPart, TakenMessage};
pub use chain_rows::{KnownChain, ResolutionProgress, StoredChain};
pub use credential_rows::{CHAIN_CHANGED, CredentialKind, CredentialState, KEY_REMOVED, NOT_SENT, StoredCredential};
pub use error::{AgentStoreError, WriteFailure};
pub use flow_rows::{FlowAtTime, FlowFilter, FlowRefusal, FlowWriteError, WrittenFlow};
pub use head_file::{HeadFile, PublishedHead};
pub use key_rows::{KeyUse, RotationPhase, StoredRotation};
pub use lost_blocks::RebasedStore;
pub use outbox::{BlockEvents, DeadLetter, EVERY_EVENT, EventGap, OutboxEvent, OutboxSizes};
pub use peer_rows::{MessageRoute, QueueError, QueueRefusal, QueuedMessage, SentMessage};
pub use portable::{ExportError, ImportError, ImportReport, StoreExport, has_export_end, import_store};
pub use refused::{queue_failed, queue_refused, store_failed};
pub use sealing::{ContentKey, PrivateKey, SealingError, StoreKey, StoreKeys};

//! The operator: acts for exactly one corporation with exactly one key.
//!
//! A ledger call is a small task ([`Operator::execute`]) that asks the signer, the confirmer and the barrier in turn and
//! outlives the request that started it. What it signs is in the journal before it leaves. Everything that must survive the death of an actor (transactions in flight, the
//! published snapshot, the indexer's height) is retained by the tree and lent to whoever serves it.

mod agent_session;
mod agents;
mod audit;
mod barrier;
mod boot;
mod calls;
mod chain;
mod confirmer;
mod error;
mod examine;
mod flow;
mod graph_client;
mod graph_watch;
mod in_flight;
mod indexer_client;
mod journal;
mod node_link;
mod operator;
mod order;
mod prepare;
mod reads;
mod recovery;
mod refresher;
mod signer;
mod snapshot;
mod standing;
mod subscription;

pub use agent_session::AgentRequest;
pub use agents::{Directory, Whereabouts};
pub use audit::{AuditEnd, AuditError, AuditRecord};
pub use boot::BootError;
pub use calls::{MAX_KEY_CHARACTERS, STEPS, Step};
pub use chain::{ChainParams, Identity, OperatorConfig};
pub use error::{node_error, upstream_error};
pub use examine::{Finding, examine};
pub use flow::LedgerReceipt;
pub use indexer_client::IndexerClient;
pub use journal::{JournalError, Recovered, Row};
pub use operator::Operator;
pub use order::Asker;
pub use prepare::{Estimate, LedgerCall, Prepared};
pub use reads::Reader;
pub use recovery::RecoveryError;
pub use signer::WindowBound;
pub use snapshot::{Agent, Allowance, Authorization, Gate, Snapshot, Versions};

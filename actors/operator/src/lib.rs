//! The operator of one corporation: acts for exactly one corporation with exactly one key.
//!
//! An [`Operator`] reads the corporation and its authorizations, keeps them as a snapshot, writes through the pipeline of
//! `svc-pipeline` and waits for the indexer before it answers. It logs in to the corporation's agents, and it keeps an audit of all
//! writes. Everything that must survive the death of an actor (transactions in flight, the published snapshot, the indexer's height)
//! is retained by the supervision tree. Any ractor actor can supervise the tree.
//!
//! It is no front end: it knows neither MCP nor the environment. Its errors name the next step ([`svc_wire::error_envelope::NextStep`]),
//! and the front end adds the tool or the setting.
//!
//! A snapshot decides without a network:
//!
//! ```
//! use prost_types::Timestamp;
//! use svc_operator::{CorporationSnapshot, GrantStatus, OperatorAuthorization};
//!
//! let authorization = OperatorAuthorization {
//!     id: 1,
//!     msg_types: vec!["/svc.ec.v1.MsgCreateEcosystem".to_owned()],
//!     expiration: None,
//!     renews: false,
//!     body: serde_json::Value::Null,
//! };
//! let snapshot = CorporationSnapshot { authorizations: vec![authorization], ..CorporationSnapshot::default() };
//! let now = Timestamp { seconds: 1_767_225_600, nanos: 0 };
//! assert_eq!(snapshot.grant_status("/svc.ec.v1.MsgCreateEcosystem", &now), GrantStatus::Granted);
//! assert_eq!(snapshot.grant_status("/svc.ec.v1.MsgArchiveEcosystem", &now), GrantStatus::NotGranted);
//! ```

mod agent_directory;
mod agent_session;
mod barrier;
mod boot;
mod clients;
mod error;
mod graph_watch;
mod operator;
mod refresher;
mod snapshot;
mod subscription;
mod write;

pub use agent_directory::{AgentDirectory, AgentEndpoint};
pub use agent_session::AgentRequest;
pub use boot::{
    config::{BootPatience, MissingServer, OperatorConfig},
    error::{BootError, BootSubject},
    preflight::{PreflightFinding, preflight},
};
pub use clients::indexer::IndexerClient;
pub use error::{node_error, upstream_error};
pub use operator::{Operator, reads::HeightSource, status::LinkStatus};
pub use snapshot::{
    CorporationAgent, CorporationSnapshot, GrantStatus, KnownAllowance, OperatorAuthorization, UnknownPayer,
    publisher::SnapshotVersions,
};
pub use svc_pipeline::{
    AccountIdentity, ChainParams, DEFAULT_PRINCIPAL, DiscoveryError, EncodedMessage, FeeAllowance, FeeBudget,
    FeeLimits, FeePolicy, JournalError, JournalRecord, NodeRelease, RecoverySummary, RegistryChain, SetGasPrice,
    WindowBound, WriteOrigin, WriteStatus,
};
pub use write::{
    active::ActiveWrite,
    admission::MAX_KEY_CHARACTERS,
    audit::{AuditCall, AuditChain, AuditCompletion, AuditError, AuditLog, AuditRecord, verify_audit},
    receipt::{WriteAnswer, WriteReceipt},
    request::{FeeEstimate, WriteRequest, WriteRequester},
};

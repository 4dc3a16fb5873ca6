//! The front ends of the `svc` program: the command line, the MCP tool server, the indexer's HTTP surface, and a local network
//! that runs all of them in one process.
//!
//! A front end parses a request, asks one handle, shapes the answer and maps the error. The crate holds no chain logic, no
//! retries and no actors: those are in `svc-operator`, `svc-indexer` and `svc-devnet`, and each can be embedded without a front
//! end.
//!
//! The configuration of the tool server is a pure function of the environment and the secrets:
//!
//! ```
//! use std::collections::HashMap;
//! use svc::{config, mcp::{CallPolicy, ToolEffect}, secrets::ProcessSecrets};
//!
//! let environment = HashMap::from([
//!     ("SVC_CORPORATION", "7"),
//!     ("SVC_RPC", "http://127.0.0.1:26657"),
//!     ("SVC_INDEXER", "http://127.0.0.1:3001"),
//!     ("SVC_TOOLS_DENY", "svc.ledger.pp.slash*"),
//! ]);
//! let mut secrets = ProcessSecrets::from_pairs([
//!     ("MCP_SVC_MNEMONIC", "legal winner thank year wave sausage worth useful legal winner thank yellow"),
//!     ("MCP_BEARER_TOKEN", "0123456789abcdef0123456789abcdef"),
//! ]);
//! let config = config::read_serve(&environment, &mut secrets)?;
//! assert_eq!(config.operator.corporation_id, 7);
//! let policy = config.selection.policy_for("svc.ledger.pp.slashParticipantTrustDeposit", ToolEffect::Ends);
//! assert_eq!(policy, CallPolicy::Excluded);
//! # Ok::<(), config::ConfigError>(())
//! ```

pub mod admin;
pub mod cli;
pub mod config;
pub mod indexer;
pub mod listener;
pub mod mcp;
pub mod mcp_client;
#[cfg(feature = "devnet")]
pub mod network;
pub mod principals;
pub mod program;
pub mod secrets;
pub mod settings;
mod shutdown;
mod status;
mod tools;
mod visible_text;

//! A running agent: its configuration, its tree and its end.
//!
//! ```text
//! agent (one-for-one)
//! ├── store_guard       shows that the store can be written and is this process's own
//! ├── document_keeper   the DID Document and its presentations, one version at a time
//! ├── token_issuer      logins to the admin API; only where external callers are served
//! ├── courier           events to a backend, one at a time; only with a receiver
//! ├── credential_keeper  credentials: issued, imported, renewed, anchored, withdrawn; the steps to a trusted DID
//! ├── key_rotator       the steps of a rotation of the document's keys
//! ├── resolution_trigger  has the document resolved again after a change
//! ├── trust_watch       ends the decision about a peer when its verdict changes
//! ├── access_granter    decides about requests of peers for access, and takes grants back
//! ├── access_asker      this agent's requests for access, and the grants that it holds
//! ├── peer_sessions
//! │   └── peer_session/<hash>   one peer with work: its messages, and the outbox to it
//! ├── peer_directory    starts and ends sessions with peers
//! ├── flow_sessions
//! │   └── flow_session/<id>   one flow with work: its steps, one after the other
//! ├── flow_directory    starts and ends the sessions of flows, and has participants read that events name
//! ├── chain_link        finds the chain, and then starts the rest
//! ├── journal, signer, confirmer, node_link   the write pipeline of the agent's account
//! └── registry_watcher  registry events, each stored once and in order
//! ```

mod agent;
mod config;
mod error;
mod launch;
mod older_log;
mod opening;
mod rebase;
mod wiring;

pub use self::{
    agent::Agent,
    config::{AgentConfig, EventsConfig},
    error::AgentBootError,
    older_log::OtherPublicLog,
    rebase::{AgentRebase, AgentRebaseError, rebase_agent},
};

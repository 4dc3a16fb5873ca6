//! A registry chain in one process: a [`node`] around the rules of `svc-ledger` that speaks CometBFT RPC, seeded by a [`scenario`].
//!
//! It is a test bed and a rehearsal stage: real signatures, sequences and blocks, over real sockets. A scenario can bring
//! [`services`] with DIDs and credentials, one of them with the agent of the
//! [`first_generation`]. Tests order [faults](node::NodeFaults), clock moves, snapshots and restarts, in the
//! process or at the [`control`] endpoint. It is not a validator: there is one node without consensus, and its keys are public.
//!
//! ```
//! use svc_devnet::{Devnet, DevnetConfig};
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! // Without a block time the chain produces a block on request only.
//! let devnet = Devnet::launch(DevnetConfig { block_time: None, ..DevnetConfig::default() }).await?;
//! let slot = devnet.operator_slot.as_ref().ok_or("the scenario has an operator")?;
//! assert_eq!(slot.corporation_id, 1);
//! let height = *devnet.node.watch_heights().borrow();
//! let block = devnet.node.produce_block()?;
//! assert_eq!(block.height, height + 1);
//! assert!(devnet.node.origin().starts_with("http://127.0.0.1:"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod config;
mod devnet;
mod genesis_file;
mod seeding;

pub mod control;
pub mod first_generation;
pub mod node;
pub mod scenario;
pub mod services;

pub use config::DevnetConfig;
pub use devnet::{Devnet, DevnetError, OperatorSlot};
pub use genesis_file::{GenesisFile, GenesisFileError};
pub use svc_ledger::UpgradePlan;

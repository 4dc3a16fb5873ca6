//! A registry chain in one process: a pure [`ledger`] and a [`node`] around it that speaks CometBFT RPC.
//!
//! The node is a test bed and a rehearsal stage: real signatures, real sequences, real blocks, over real sockets. What its
//! chain holds at first is a [`scenario`], which may bring [`services`] with DIDs and credentials; [faults](node::Faults), the clock
//! and snapshots are on order.

mod control;
mod devnet;
pub mod ledger;
pub mod node;
pub mod scenario;
pub mod services;

pub use control::{Control, ControlError};
pub use devnet::{Devnet, DevnetConfig, DevnetError, Seat};
pub use scenario::GAS_PRICE_MICROS;

//! A registry chain in one process: a pure [`ledger`] and a [`node`] around it that speaks CometBFT RPC.
//!
//! The node is a test bed and a rehearsal stage: real signatures, real sequences, real blocks, over real sockets; its
//! [faults](node::Faults) can be ordered. It keeps everything in memory.

pub mod ledger;
pub mod node;
pub mod seed;

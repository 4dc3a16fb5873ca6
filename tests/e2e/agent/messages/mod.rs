//! Peers that send messages, and the gate before them.

pub(in crate::e2e) mod peer_adversaries;
pub(in crate::e2e) mod peer_ecosystems;
pub(in crate::e2e) mod peer_faults;
pub(in crate::e2e) mod peer_load;
pub(in crate::e2e) mod peer_trust;
pub(in crate::e2e) mod peers;
pub(in crate::e2e) mod scripted_peer;

//! Trust: which DIDs of the registry are trusted, judged from the registry and from their own material.
//!
//! The evaluation follows the block checkpoint with a checkpoint of its own: each height is opened with what its block triggers,
//! its DIDs are judged as of that height, and it is written with their verdicts. Blocks never wait for it. What it fetches from
//! web servers it keeps, and fetches again only when the registry asks for it.

mod actor;
mod judging;
mod opening;
mod record;
mod rounds;
mod triggers;

use std::{collections::BTreeSet, time::Duration};

use svc_kit::hosts::HostPolicy;
use svc_trust::EssentialSchemas;

pub use actor::{Arbiter, Args, Msg};
pub use judging::Judging;

/// What the evaluation of trust goes by.
#[derive(Debug, Clone, Default)]
pub struct TrustConfig {
    /// Hosts that DIDs and their documents may lead to.
    pub hosts: HostPolicy,
    /// Which schemas are essential.
    pub essential: EssentialSchemas,
    /// DIDs of the ecosystems whose essential schemas are relied on; any when empty.
    pub ecosystems: BTreeSet<String>,
    /// How long a height waits for web servers; half the time between blocks, within bounds, when left out.
    pub patience: Option<Duration>,
}

impl TrustConfig {
    /// How long a height waits for web servers.
    pub fn patience(&self, block_interval: Duration) -> Duration {
        // Below this a slow machine would not even get through what it has fetched already.
        const SHORTEST: Duration = Duration::from_millis(200);
        const LONGEST: Duration = Duration::from_secs(2);
        self.patience.unwrap_or_else(|| (block_interval / 2).clamp(SHORTEST, LONGEST))
    }
}

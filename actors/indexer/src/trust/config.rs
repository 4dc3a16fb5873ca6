//! The settings of the evaluation of trust.

use std::time::Duration;

use svc_net::host_policy::HostPolicy;
use svc_trust::EssentialSchemas;

use super::patience::DEFAULT_PATIENCE;

/// Settings of the evaluation of trust.
#[derive(Debug, Clone, Default)]
pub struct TrustConfig {
    /// Hosts from which DID documents and the resources behind them may be fetched.
    pub hosts: HostPolicy,
    /// The schemas that are essential, in the ecosystems that are relied on. None is by default.
    pub essential_schemas: EssentialSchemas,
    /// How long a round waits for web servers; by default half the block interval, within bounds.
    pub wait_limit: Option<Duration>,
    /// How long an evaluation waits for a web server that fails for a reason that may pass; an hour by default.
    pub patience: Option<Duration>,
}

impl TrustConfig {
    /// Returns how long an evaluation waits for a web server that fails for a reason that may pass.
    pub fn patience(&self) -> Duration {
        self.patience.unwrap_or(DEFAULT_PATIENCE)
    }
}

/// How long a round waits for web servers, unless it is configured.
pub(super) fn usual_wait_limit(block_interval: Duration) -> Duration {
    // A slow machine needs this time to evaluate evidence that is already fetched.
    const SHORTEST: Duration = Duration::from_millis(200);
    const LONGEST: Duration = Duration::from_secs(2);
    (block_interval / 2).clamp(SHORTEST, LONGEST)
}

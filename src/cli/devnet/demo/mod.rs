//! The demos of `svc devnet`: each runs on a network of its own, prints its steps and stops. A file per demo, or per part of one.

pub(super) mod agent;
pub(super) mod ecosystem;
mod first_agent;
mod flow_session;
pub(super) mod flows;
mod home;
pub(super) mod peers;
mod setup;
mod webhook_consumer;

use std::time::Duration;

use anyhow::bail;
use async_trait::async_trait;

use super::arguments::DevnetArgs;
use crate::network::{LocalNetwork, LocalNetworkConfig};

/// Time that the network gets to finish.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// A demo.
#[async_trait(?Send)]
pub(super) trait Demo {
    /// The scenario that the demo needs; `None` for the chosen one.
    fn scenario(&self) -> Option<&'static str> {
        None
    }

    /// Sets up the network of the demo, and starts its helpers. Fails when the options do not suit the demo.
    async fn configure(&mut self, args: &DevnetArgs, config: &mut LocalNetworkConfig) -> anyhow::Result<()>;

    /// Runs the steps and prints each. Fails when the check of a step finds another outcome.
    async fn show(&mut self, network: &LocalNetwork) -> anyhow::Result<()>;
}

/// Runs a demo on a network of its own.
pub(super) async fn run(demo: &mut dyn Demo, args: &DevnetArgs, mut config: LocalNetworkConfig) -> anyhow::Result<()> {
    demo.configure(args, &mut config).await?;
    let network = LocalNetwork::launch(config).await?;
    let outcome = demo.show(&network).await;
    network.shutdown(SHUTDOWN_TIMEOUT).await;
    outcome
}

/// Refuses a chain that makes blocks on order only: the steps wait for blocks.
fn require_block_time(config: &LocalNetworkConfig) -> anyhow::Result<()> {
    if config.devnet.block_time.is_none() {
        bail!("the demo needs a time between the blocks");
    }
    Ok(())
}

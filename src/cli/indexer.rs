//! `svc indexer`: the indexer, configured by the environment, the inspections of its nodes and its store, and the rollback of its store.

use std::{io::Write, time::Duration};

use anyhow::Context;
use clap::Subcommand;
use svc_indexer::{Indexer, IndexerConfig, IndexerError, check_start, roll_back_index, verify_index};
use svc_kit::backoff::Backoff;

use super::output::{OutputForm, print_content};
use crate::{
    config::IndexerServerConfig,
    indexer::{IndexerApi, cross_origin, serve},
    listener::{bind_listener, starting::StartupResponder},
    settings::indexer::SVC_ESSENTIAL_ECOSYSTEMS,
    shutdown::stop_signal,
};

#[derive(Debug, Subcommand)]
pub enum IndexerCommand {
    /// Compares every entity of the store with the node, at one height; fails when one differs. The indexer may run meanwhile.
    Verify {
        /// Height to compare; the newest of the store when left out.
        #[arg(long)]
        height: Option<u64>,
    },
    /// Removes the blocks above a height, which the chain does not have any more. The indexer must be stopped. One that was interrupted is
    /// repeated.
    Rollback {
        /// Newest height to keep: one that the chain and the index both have.
        #[arg(long, value_name = "HEIGHT")]
        to: u64,
    },
    /// Names the height at which an empty store would begin, and everything that it would lack.
    Check,
}

fn print_progress(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Longest wait for open connections after a stop signal.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);

/// Runs an inspection.
pub(super) async fn inspect(
    command: IndexerCommand,
    settings: IndexerServerConfig,
    as_json: bool,
) -> anyhow::Result<()> {
    match command {
        IndexerCommand::Check => {
            let mut check = serde_json::to_value(check_start(&settings.indexer).await?)?;
            check["warnings"] = warnings(&settings.indexer).into();
            print_content(&check, OutputForm::chosen(as_json, false))
        }
        IndexerCommand::Rollback { to } => {
            let progress = |height| print_progress(&format!("the index is at block {height}, on the way to {to}"));
            let done = roll_back_index(&settings.indexer.database, to, progress).await?;
            print_content(&serde_json::to_value(&done)?, OutputForm::chosen(as_json, false))
        }
        IndexerCommand::Verify { height } => {
            let found = verify_index(&settings.indexer, height).await?;
            print_content(&serde_json::to_value(&found)?, OutputForm::chosen(as_json, false))?;
            match found.difference_count {
                0 => Ok(()),
                count => anyhow::bail!("{count} values differ from the node at height {}", found.height),
            }
        }
    }
}

/// Settings that make verdicts useless, in words.
fn warnings(config: &IndexerConfig) -> Vec<String> {
    let name = SVC_ESSENTIAL_ECOSYSTEMS.name;
    let warning = format!("{name} names no ecosystem: no schema is essential, and no DID trusted");
    Some(warning).filter(|_| config.trust.essential_schemas.is_empty()).into_iter().collect()
}

/// Starts the indexer as soon as its node answers.
async fn launch_patiently(config: IndexerConfig) -> Result<Indexer, IndexerError> {
    let mut attempt = 0_u32;
    loop {
        match Indexer::launch(config.clone()).await {
            Err(error) if error.is_passing() => {
                if attempt == 0 {
                    tracing::warn!(%error, "waiting for the node to come up");
                }
                tokio::time::sleep(Backoff::STARTUP.delay(attempt, 0.5)).await;
                attempt = attempt.saturating_add(1);
            }
            launched => return launched,
        }
    }
}

/// Runs the indexer until a stop signal or until its supervisor gives up, then closes every connection.
pub(super) async fn run(settings: IndexerServerConfig) -> anyhow::Result<()> {
    for warning in warnings(&settings.indexer) {
        tracing::warn!("{warning}");
    }
    // One future for the whole run: between two of them a signal would be lost.
    let stop = stop_signal()?;
    tokio::pin!(stop);
    // The ports are taken before the start of the indexer, so that a wrong port fails at once.
    let listener = bind_listener(settings.listen).with_context(|| format!("cannot listen on {}", settings.listen))?;
    let address = listener.local_addr()?;
    let rpc = settings.indexer.rpc.clone();
    let _metrics = settings.listener.start_metrics()?;
    let _reload = settings.listener.reload_at_hang_ups()?;
    // A page reads that the index starts, and not that it may not read.
    let starting = StartupResponder::start(
        "indexer",
        listener.try_clone()?,
        &settings.listener,
        || Some("node"),
        |routes| routes.layer(cross_origin()),
    )?;
    let launched = tokio::select! {
        launched = launch_patiently(settings.indexer) => launched,
        () = &mut stop => return Ok(()),
    };
    starting.stop().await;
    let indexer = launched?;
    let api = IndexerApi::new(&indexer);
    let shutdown = api.shutdown_token();
    let serving = tokio::spawn(serve(listener, api, settings.listener.clone()));
    tracing::info!(%address, %rpc, "serving reads and the block subscription");
    let end_reason = tokio::select! {
        () = &mut stop => None,
        reason = indexer.supervisor.wait_until_ended() => Some(reason),
    };
    shutdown.cancel();
    let abort = serving.abort_handle();
    if tokio::time::timeout(DRAIN_TIMEOUT, serving).await.is_err() {
        abort.abort();
    }
    indexer.shutdown(DRAIN_TIMEOUT).await;
    tracing::info!("stopped");
    match end_reason {
        Some(reason) => anyhow::bail!("the indexer has given up: {reason}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use svc_trust::EssentialSchemas;

    use super::*;

    #[test]
    fn the_check_and_the_start_warn_where_no_ecosystem_counts() {
        let mut config = IndexerConfig::new("http://node:26657", "sqlite::memory:");
        let warning = "SVC_ESSENTIAL_ECOSYSTEMS names no ecosystem: no schema is essential, and no DID trusted";
        assert_eq!(warnings(&config), [warning]);
        config.trust.essential_schemas = EssentialSchemas::default().in_ecosystems(["did:web:ecosystem.example"]);
        assert!(warnings(&config).is_empty());
    }
}

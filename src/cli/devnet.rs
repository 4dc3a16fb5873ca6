//! `svc devnet`: a whole network in one process, and the commands that control it.

mod arguments;
mod control;
mod demo;
mod description;
mod home;
mod network_config;
mod without_tool_server;

use anyhow::bail;
use svc_devnet::scenario::Scenario;

pub(super) use self::arguments::DevnetArgs;
use self::{
    arguments::DevnetAction,
    demo::{Demo, agent::AgentDemo, ecosystem::EcosystemDemo, flows::FlowDemo, peers::PeerDemo},
    description::describe_network,
};
use super::output::print_line;
use crate::{
    config,
    network::{LocalNetwork, LocalNetworkConfig},
    secrets::ProcessSecrets,
    shutdown::{DRAIN_TIMEOUT, stop_signal},
};

/// Runs a devnet until a stop signal, or a command that controls one. Fails when a part cannot start or the operator gives up.
pub(super) async fn run(args: DevnetArgs, secrets: &mut ProcessSecrets) -> anyhow::Result<()> {
    match &args.action {
        Some(DevnetAction::Reset { home }) => return home::reset_home(home),
        Some(DevnetAction::Save(snapshot)) => return control::request_snapshot(snapshot, "").await,
        Some(DevnetAction::Load(snapshot)) => return control::request_snapshot(snapshot, "/load").await,
        Some(DevnetAction::Export { file, control }) => return control::export_genesis(file, control).await,
        None => {}
    }
    let bearer = secrets.take(crate::settings::mcp::MCP_BEARER_TOKEN).map(|token| token.expose_secret().to_owned());
    if bearer.as_ref().is_some_and(|token| token.len() < config::MIN_TOKEN_CHARACTERS) {
        bail!("MCP_BEARER_TOKEN needs at least {} characters", config::MIN_TOKEN_CHARACTERS);
    }
    let demo = chosen_demo(&args);
    let config = LocalNetworkConfig { bearer_token: bearer, ..args.network_config(demo.as_deref())? };
    match demo {
        Some(mut demo) => demo::run(demo.as_mut(), &args, config).await,
        None => run_until_stopped(&args, config).await,
    }
}

/// The demo that an option chooses.
fn chosen_demo(args: &DevnetArgs) -> Option<Box<dyn Demo>> {
    if args.demo_agent {
        return Some(Box::<AgentDemo>::default());
    }
    if args.demo_flows {
        return Some(Box::<FlowDemo>::default());
    }
    if args.demo_peers {
        return Some(Box::<PeerDemo>::default());
    }
    args.demo.then(|| Box::new(EcosystemDemo::begin()) as Box<dyn Demo>)
}

/// Runs the network until a stop signal.
async fn run_until_stopped(args: &DevnetArgs, config: LocalNetworkConfig) -> anyhow::Result<()> {
    let scenario = Scenario::load(&config.devnet.scenario)?;
    args.check_ports(&config, &scenario)?;
    if scenario.operator_slot.is_none() {
        return without_tool_server::run(config, args.json).await;
    }
    let network = LocalNetwork::launch(config).await?;
    // A program that reads the line may stop the network at once.
    let stop = stop_signal()?;
    print_line(describe_network(&network, args.json)?);
    tokio::select! {
        () = stop => {}
        reason = network.operator.supervisor().wait_until_ended() => bail!("the operator has given up: {reason}"),
    }
    network.shutdown(DRAIN_TIMEOUT).await;
    Ok(())
}

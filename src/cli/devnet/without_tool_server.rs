//! A devnet whose scenario has no seat: the chain and its indexer.

use serde_json::json;

use super::description::describe_services;
use crate::{
    cli::output::{print_line, render_table},
    network::{ChainAndIndexer, LocalNetworkConfig, essential_schemas},
    shutdown::stop_signal,
};

/// Runs a scenario without a seat: the chain and its indexer.
pub(super) async fn run(config: LocalNetworkConfig, as_json: bool) -> anyhow::Result<()> {
    let network = ChainAndIndexer::launch(&config).await?;
    let devnet = &network.devnet;
    let control = devnet.control.as_ref().map(|control| format!("http://{}", control.address));
    let stop = stop_signal()?;
    print_line(if as_json {
        json!({
            "rpc": devnet.node.origin(), "indexer": network.indexer_origin(), "control": control, "services": describe_services(devnet),
            "rest": devnet.node.rest_origin(), "grpc": devnet.node.grpc_address(),
            "essential_ecosystems": essential_schemas(devnet).ecosystems().collect::<Vec<_>>(),
            "values": devnet.saved_values, "delegable": devnet.delegable_types(),
            "namespace": devnet.namespace.as_str(), "chain_id": devnet.chain_id, "denom": devnet.denom,
        })
        .to_string()
    } else {
        let rows = [("node RPC", devnet.node.origin()), ("indexer", network.indexer_origin())]
            .into_iter()
            .chain(devnet.node.rest_origin().map(|origin| ("node REST", origin)))
            .chain(devnet.node.grpc_address().map(|address| ("node gRPC", address.to_string())))
            .chain(control.map(|control| ("control", control)))
            .chain(devnet.services.as_ref().map(|services| ("services", services.origin())))
            .chain(devnet.ecosystem_did().map(|did| ("essential schemas of", did.to_owned())))
            .map(|(left, right)| (left.to_owned(), right));
        let rows: Vec<_> = rows.collect();
        format!(
            "The devnet is running, without a tool server. Stop it with Ctrl-C.\n\n{}",
            render_table(&rows).trim_end()
        )
    });
    stop.await;
    Ok(())
}

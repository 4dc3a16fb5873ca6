//! The description of a running devnet: its endpoints, its token and the configuration of an MCP client, as text or JSON.

use serde_json::{Value, json};
use svc_devnet::Devnet;

use crate::{
    cli::output::render_table,
    network::{LocalAgent, LocalNetwork, essential_schemas},
};

/// The origin of the services, and the facts about each that a test can check.
pub(super) fn describe_services(devnet: &Devnet) -> Option<Value> {
    let services = devnet.services.as_ref()?;
    Some(json!({"origin": services.origin(), "services": services.all()}))
}

/// The names, addresses and DIDs of the agents.
fn describe_agents(network: &LocalNetwork) -> Vec<Value> {
    let describe = |LocalAgent { name, server }: &LocalAgent| {
        json!({
            "name": name, "did": server.did(), "admin": format!("http://{}", server.admin),
            "public": format!("http://localhost:{}", server.public.port()),
        })
    };
    network.agents.iter().map(describe).collect()
}

pub(super) fn describe_network(network: &LocalNetwork, as_json: bool) -> anyhow::Result<String> {
    let client = json!({"mcpServers": {"svc": {
        "type": "http", "url": network.mcp_url(), "headers": {"Authorization": format!("Bearer {}", network.bearer_token)},
    }}});
    let (devnet, seat) = (&network.devnet, &network.operator_slot);
    let control = devnet.control.as_ref().map(|control| format!("http://{}", control.address));
    if as_json {
        let all = json!({
            "mcp": network.mcp_url(), "bearer": network.bearer_token, "rpc": devnet.node.origin(), "indexer": network.indexer_origin(),
            "rest": devnet.node.rest_origin(), "grpc": devnet.node.grpc_address(),
            "control": control, "services": describe_services(devnet), "agents": describe_agents(network),
            "essential_ecosystems": essential_schemas(devnet).ecosystems().collect::<Vec<_>>(),
            "corporation_id": seat.corporation_id, "policy_address": seat.policy_address,
            "operator": seat.operator_address, "member": devnet.address("member"), "values": devnet.saved_values,
            "namespace": devnet.namespace.as_str(),
            "chain_id": network.operator.chain().params.chain_id, "denom": network.operator.chain().params.denom,
            "client_configuration": client,
        });
        return Ok(all.to_string());
    }
    let rows = [
        ("MCP endpoint", network.mcp_url()),
        ("bearer token", network.bearer_token.clone()),
        ("node RPC", devnet.node.origin()),
        ("indexer", network.indexer_origin()),
        ("corporation", format!("{} ({})", seat.corporation_id, seat.policy_address)),
        ("operator", seat.operator_address.clone()),
    ];
    let rows: Vec<_> = rows
        .into_iter()
        .chain(devnet.node.rest_origin().map(|origin| ("node REST", origin)))
        .chain(devnet.node.grpc_address().map(|address| ("node gRPC", address.to_string())))
        .chain(control.map(|control| ("control", control)))
        .chain(devnet.services.as_ref().map(|services| ("services", services.origin())))
        .chain(devnet.ecosystem_did().map(|did| ("essential schemas of", did.to_owned())))
        .chain(network.agents.iter().map(|LocalAgent { name, server }| {
            (name.as_str(), format!("{} (admin API at http://{})", server.did(), server.admin))
        }))
        .map(|(left, right)| (left.to_owned(), right))
        .collect();
    // The program may not be on the path of the other terminal.
    let program = std::env::args().next().unwrap_or_else(|| "svc".to_owned());
    Ok(format!(
        "The devnet is running. Stop it with Ctrl-C.\n\n{}\nFor an MCP client:\n\n{}\n\nIn another terminal:\n\n  export \
         SVC_MCP_URL={}\n  export MCP_BEARER_TOKEN={}\n  {program} tools",
        render_table(&rows),
        serde_json::to_string_pretty(&client)?,
        network.mcp_url(),
        network.bearer_token
    ))
}

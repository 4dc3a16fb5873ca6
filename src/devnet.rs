//! The `devnet` command: a whole network in one process, and what controls it.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use svc_devnet::{Devnet, DevnetConfig};

use crate::{
    client::{Client, table},
    config,
    network::{Grounds, Network, NetworkConfig},
    output,
    secrets::Secrets,
    serve,
};

/// File of the indexer in a home.
const INDEXER_FILE: &str = "indexer.db";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DevnetArgs {
    #[command(subcommand)]
    order: Option<Order>,
    /// Time between blocks: 1s, 20ms, …; `order` makes blocks on order only, with header times a second apart.
    #[arg(long, default_value = "1s", value_parser = block_time)]
    block_time: BlockTime,
    /// What the chain holds at first: empty, corporation, marketplace, services, or a TOML file (docs/devnet.md).
    #[arg(long, default_value = "corporation")]
    scenario: String,
    /// Directory that keeps the chain and the indexer between runs; in memory when left out.
    #[arg(long)]
    home: Option<PathBuf>,
    /// Namespace word of packages and account prefix.
    #[arg(long, default_value = "svc")]
    namespace: String,
    /// Chain id.
    #[arg(long, default_value = "svc-devnet-1")]
    chain_id: String,
    /// Fee and bond denom.
    #[arg(long, default_value = "usvc")]
    denom: String,
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    bind: IpAddr,
    /// Port of the node's RPC; 0 takes a free one.
    #[arg(long, default_value_t = 26657)]
    rpc_port: u16,
    /// Port of the indexer; 0 takes a free one.
    #[arg(long, default_value_t = 3001)]
    indexer_port: u16,
    /// Port of the tool server; 0 takes a free one.
    #[arg(long, default_value_t = 3000)]
    mcp_port: u16,
    /// Port of the control endpoint, always on loopback; 0 takes a free one. There is none when left out.
    #[arg(long)]
    control_port: Option<u16>,
    /// Port of the services a scenario brings, always on loopback; 0 takes a free one. A home keeps its first: DIDs name it.
    #[arg(long, default_value_t = 3002)]
    services_port: u16,
    /// Store of the indexer: a file path; the home's own, or in memory, when left out.
    #[arg(long)]
    indexer_db: Option<PathBuf>,
    /// Take free ports, create an ecosystem through a real MCP client, read it back, print both, stop.
    #[arg(long)]
    demo: bool,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// What can be ordered besides running one.
#[derive(Debug, Subcommand)]
enum Order {
    /// Removes the chain and the indexer of a home.
    Reset {
        /// The directory.
        #[arg(long)]
        home: PathBuf,
    },
    /// Keeps the chain of a running devnet under a name.
    Save(SnapshotArgs),
    /// Takes the chain of a running devnet back to a snapshot. Start its indexer and tool server anew afterwards.
    Load(SnapshotArgs),
}

#[derive(Debug, Args)]
struct SnapshotArgs {
    /// Name of the snapshot.
    name: String,
    /// The devnet's control endpoint.
    #[arg(long, default_value = "http://127.0.0.1:26650")]
    control: String,
}

/// A time between blocks, or blocks on order.
#[derive(Debug, Clone, Copy)]
struct BlockTime(Option<Duration>);

fn block_time(text: &str) -> Result<BlockTime, String> {
    if text == "order" {
        return Ok(BlockTime(None));
    }
    duration(text).map(|span| BlockTime(Some(span))).map_err(|reason| format!("{reason}, nor is it `order`"))
}

fn duration(text: &str) -> Result<Duration, String> {
    let allowed = || format!("{text:?} is not a duration of 20ms to 1h, such as 20ms or 1s");
    let split = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(allowed)?;
    let number: u64 = text[..split].parse().map_err(|_| allowed())?;
    let span = match &text[split..] {
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(number.saturating_mul(60)),
        "h" => Duration::from_secs(number.saturating_mul(3600)),
        _ => return Err(allowed()),
    };
    let is_allowed = (Duration::from_millis(20)..=Duration::from_secs(3600)).contains(&span);
    if is_allowed { Ok(span) } else { Err(allowed()) }
}

/// Runs the command.
pub async fn run(args: DevnetArgs, secrets: &mut Secrets) -> anyhow::Result<()> {
    match &args.order {
        Some(Order::Reset { home }) => return reset(home),
        Some(Order::Save(snapshot)) => return order(snapshot, "").await,
        Some(Order::Load(snapshot)) => return order(snapshot, "/load").await,
        None => {}
    }
    let bearer = secrets.take("MCP_BEARER_TOKEN").map(|token| token.expose().to_owned());
    if bearer.as_ref().is_some_and(|token| token.len() < config::MIN_TOKEN_CHARACTERS) {
        bail!("MCP_BEARER_TOKEN needs at least {} characters", config::MIN_TOKEN_CHARACTERS);
    }
    let started = tokio::time::Instant::now();
    let config = NetworkConfig { bearer, ..args.network() };
    let scenario = svc_devnet::scenario::Scenario::load(&args.scenario)?;
    if scenario.seat.is_none() {
        return without_tool_server(&args, config).await;
    }
    let network = Network::launch(config).await?;
    if args.demo {
        let outcome = demo(&network, started).await;
        network.shutdown(Duration::from_secs(5)).await;
        return outcome;
    }
    output::line(describe(&network, args.json)?);
    let stop = serve::stop_signal()?;
    tokio::select! {
        () = stop => {}
        reason = network.operator.supervisor().ended() => bail!("the operator has given up: {reason}"),
    }
    network.shutdown(serve::DRAIN).await;
    Ok(())
}

impl DevnetArgs {
    fn network(&self) -> NetworkConfig {
        let port = |port: u16| (self.bind, if self.demo { 0 } else { port }).into();
        let file = self.indexer_db.clone().or_else(|| self.home.as_ref().map(|home| home.join(INDEXER_FILE)));
        let database = match file {
            Some(path) => format!("sqlite://{}?mode=rwc", path.display()),
            None => "sqlite::memory:".to_owned(),
        };
        NetworkConfig {
            devnet: DevnetConfig {
                namespace: self.namespace.clone(),
                chain_id: self.chain_id.clone(),
                denom: self.denom.clone(),
                block_time: self.block_time.0,
                listen: port(self.rpc_port),
                scenario: self.scenario.clone(),
                home: self.home.clone(),
                control_port: self.control_port,
                services_listen: ([127, 0, 0, 1], if self.demo { 0 } else { self.services_port }).into(),
            },
            database,
            indexer_listen: port(self.indexer_port),
            mcp_listen: port(self.mcp_port),
            ..NetworkConfig::default()
        }
    }
}

/// A scenario without a seat: the chain and its indexer alone.
async fn without_tool_server(args: &DevnetArgs, config: NetworkConfig) -> anyhow::Result<()> {
    if args.demo {
        bail!("the demo needs a scenario with a seat, such as corporation");
    }
    let grounds = Grounds::launch(&config).await?;
    let devnet = &grounds.devnet;
    let control = devnet.control.as_ref().map(|control| format!("http://{}", control.address));
    output::line(if args.json {
        json!({
            "rpc": devnet.node.origin(), "indexer": grounds.indexer_origin(), "control": control, "services": services(devnet),
            "values": devnet.values, "delegable": devnet.delegable(),
            "namespace": devnet.namespace.as_str(), "chain_id": args.chain_id, "denom": args.denom,
        })
        .to_string()
    } else {
        let rows = [("node RPC", devnet.node.origin()), ("indexer", grounds.indexer_origin())]
            .into_iter()
            .chain(control.map(|control| ("control", control)))
            .chain(devnet.services.as_ref().map(|services| ("services", services.origin())))
            .map(|(left, right)| (left.to_owned(), right));
        let rows: Vec<_> = rows.collect();
        format!("The devnet is running, without a tool server. Stop it with Ctrl-C.\n\n{}", table(&rows).trim_end())
    });
    serve::stop_signal()?.await;
    Ok(())
}

fn reset(home: &std::path::Path) -> anyhow::Result<()> {
    let had_chain = svc_devnet::node::reset(home)?;
    for suffix in ["", "-wal", "-shm"] {
        match std::fs::remove_file(home.join(format!("{INDEXER_FILE}{suffix}"))) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error).context("cannot reset"),
            _ => {}
        }
    }
    let what = if had_chain { "is empty now" } else { "had no chain" };
    output::line(format!("{} {what}.", home.display()));
    Ok(())
}

async fn order(snapshot: &SnapshotArgs, suffix: &str) -> anyhow::Result<()> {
    let url = format!("{}/snapshots/{}{suffix}", snapshot.control.trim_end_matches('/'), snapshot.name);
    let answer =
        reqwest::Client::new().post(&url).send().await.with_context(|| {
            format!("no devnet answers at {}: was it started with --control-port?", snapshot.control)
        })?;
    let is_done = answer.status().is_success();
    let body: Value = answer.json().await?;
    if !is_done {
        bail!("{}", body["error"].as_str().unwrap_or("refused"));
    }
    output::line(format!("at height {}, application hash {}", body["height"], body["app_hash"].as_str().unwrap_or("")));
    Ok(())
}

/// Where the services are, which there are, and what is to be found out about each.
fn services(devnet: &Devnet) -> Option<Value> {
    let services = devnet.services.as_ref()?;
    Some(json!({"origin": services.origin(), "services": services.all()}))
}

fn describe(network: &Network, as_json: bool) -> anyhow::Result<String> {
    let client = json!({"mcpServers": {"svc": {
        "type": "http", "url": network.mcp_url(), "headers": {"Authorization": format!("Bearer {}", network.bearer)},
    }}});
    let (devnet, seat) = (&network.devnet, &network.seat);
    let control = devnet.control.as_ref().map(|control| format!("http://{}", control.address));
    if as_json {
        let all = json!({
            "mcp": network.mcp_url(), "bearer": network.bearer, "rpc": devnet.node.origin(), "indexer": network.indexer_origin(),
            "control": control, "services": services(devnet),
            "corporation_id": seat.corporation_id, "policy_address": seat.policy_address,
            "operator": seat.operator_address, "member": devnet.address("member"), "values": devnet.values,
            "namespace": devnet.namespace.as_str(),
            "chain_id": network.operator.chain().chain_id, "denom": network.operator.chain().denom,
            "client_configuration": client,
        });
        return Ok(all.to_string());
    }
    let rows = [
        ("MCP endpoint", network.mcp_url()),
        ("bearer token", network.bearer.clone()),
        ("node RPC", devnet.node.origin()),
        ("indexer", network.indexer_origin()),
        ("corporation", format!("{} ({})", seat.corporation_id, seat.policy_address)),
        ("operator", seat.operator_address.clone()),
    ];
    let rows: Vec<_> = rows
        .into_iter()
        .chain(control.map(|control| ("control", control)))
        .chain(devnet.services.as_ref().map(|services| ("services", services.origin())))
        .map(|(left, right)| (left.to_owned(), right))
        .collect();
    Ok(format!(
        "The devnet is running. Stop it with Ctrl-C.\n\n{}\nFor an MCP client:\n\n{}\n\nIn another terminal:\n\n  export \
         MCP_BEARER_TOKEN={}\n  svc tools --url {}",
        table(&rows),
        serde_json::to_string_pretty(&client)?,
        network.bearer,
        network.mcp_url()
    ))
}

/// The main job, once, through a real MCP client over HTTP.
async fn demo(network: &Network, started: tokio::time::Instant) -> anyhow::Result<()> {
    let booted = started.elapsed();
    let client = Client::connect(&network.mcp_url(), &network.bearer).await?;
    let arguments = json!({
        "did": "did:web:ecosystem.devnet.example", "language": "en", "doc_url": "https://ecosystem.devnet.example/framework-v1.pdf",
        "doc_digest_sri": "sha384-Ly4tLCsqKSgnJiUkIyIhIB8eHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgEA",
    });
    let Value::Object(object) = arguments.clone() else { bail!("arguments are an object") };
    let begun = tokio::time::Instant::now();
    let written = client.call("svc.ledger.es.createEcosystem", object).await?.structured_content.unwrap_or_default();
    let took = begun.elapsed();
    output::line(format!("svc.ledger.es.createEcosystem answered:\n{}\n", serde_json::to_string_pretty(&written)?));
    let id = written["response"]["ecosystem_id"].clone();
    let mut by_id = Map::new();
    by_id.insert("id".to_owned(), id.clone());
    let begun = tokio::time::Instant::now();
    let read = client.call("svc.idx.es.getEcosystem", by_id).await?.structured_content.unwrap_or_default();
    let read_took = begun.elapsed();
    client.close().await;
    output::line(format!("svc.idx.es.getEcosystem answered:\n{}\n", serde_json::to_string_pretty(&read)?));
    let stages = &written["timings_ms"];
    let rows = [
        ("start of the network", format!("{} ms", booted.as_millis())),
        ("simulate, sign, broadcast", format!("{} ms", stages["submit"])),
        ("inclusion in a block", format!("{} ms", stages["inclusion"])),
        ("indexer barrier", format!("{} ms", stages["index"])),
        ("whole write, as the client saw it", format!("{} ms", took.as_millis())),
        ("read back", format!("{} ms", read_took.as_millis())),
    ]
    .map(|(left, right)| (left.to_owned(), right));
    output::line(table(&rows));
    let is_same = read["ecosystem"]["did"] == arguments["did"]
        && read["ecosystem"]["id"].as_u64() == id.as_str().and_then(|id| id.parse().ok());
    if written["indexer_synced"] != true || !is_same {
        bail!("the read-back does not match what was written");
    }
    output::line("indexer_synced was true, and the read-back matches.");
    Ok(())
}

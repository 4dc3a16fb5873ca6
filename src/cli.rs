//! The command line.

use std::{net::IpAddr, time::Duration};

use anyhow::{Context, bail};
use clap::{Args, Parser, Subcommand};
use serde_json::{Map, Value, json};
use svc_devnet::seed::DevnetConfig;
use tracing::level_filters::LevelFilter;

use crate::{
    client::{Client, rows_of, table},
    config::{self, ProcessEnvironment},
    network::{Network, NetworkConfig},
    output,
    secrets::Secrets,
    serve,
};

/// Operates one corporation's place in a public trust registry.
#[derive(Debug, Parser)]
#[command(name = "svc", version, about)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The tool server, configured by the environment (docs/operating.md lists the variables).
    Serve,
    /// A whole network with its tool server in one process, for trying and testing. Nothing in it is worth anything.
    Devnet(Box<DevnetArgs>),
    /// Calls a tool of a running server; its bearer token is read from MCP_BEARER_TOKEN.
    Call {
        /// Tool name, for example svc.ledger.es.createEcosystem.
        tool: String,
        /// Arguments as a JSON object.
        #[arg(default_value = "{}")]
        arguments: String,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Lists the tools of a running server; its bearer token is read from MCP_BEARER_TOKEN.
    Tools {
        #[command(flatten)]
        server: ServerArgs,
    },
}

#[derive(Debug, Args)]
struct DevnetArgs {
    /// Time between blocks: 1s, 20ms, …
    #[arg(long, default_value = "1s", value_parser = duration)]
    block_time: Duration,
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
    /// Store of the indexer: a file path; in memory when left out.
    #[arg(long)]
    indexer_db: Option<std::path::PathBuf>,
    /// Take free ports, create an ecosystem through a real MCP client, read it back, print both, stop.
    #[arg(long)]
    demo: bool,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ServerArgs {
    /// MCP endpoint.
    #[arg(long, env = "SVC_MCP_URL", default_value = "http://127.0.0.1:3000/mcp")]
    url: String,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
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

impl Cli {
    /// Level of the logs when none is set: a client's own messages say what it has to say.
    pub fn default_log_level(&self) -> LevelFilter {
        match self.command {
            Command::Serve | Command::Devnet(_) => LevelFilter::INFO,
            Command::Call { .. } | Command::Tools { .. } => LevelFilter::OFF,
        }
    }

    /// Runs the command.
    pub async fn run(self, mut secrets: Secrets) -> anyhow::Result<()> {
        match self.command {
            Command::Serve => serve::run(config::read(&ProcessEnvironment, &mut secrets)?).await,
            Command::Devnet(args) => devnet(*args, &mut secrets).await,
            Command::Call { tool, arguments, server } => call(&tool, &arguments, &server, &mut secrets).await,
            Command::Tools { server } => tools(&server, &mut secrets).await,
        }
    }
}

async fn connect(server: &ServerArgs, secrets: &mut Secrets) -> anyhow::Result<Client> {
    let bearer = secrets
        .take("MCP_BEARER_TOKEN")
        .filter(|token| !token.expose().is_empty())
        .context("MCP_BEARER_TOKEN is not set: the server printed or was given it")?;
    Client::connect(&server.url, bearer.expose()).await
}

async fn call(tool: &str, arguments: &str, server: &ServerArgs, secrets: &mut Secrets) -> anyhow::Result<()> {
    let arguments: Map<String, Value> =
        serde_json::from_str(arguments).context("the arguments are not a JSON object")?;
    let client = connect(server, secrets).await?;
    let result = client.call(tool, arguments).await;
    client.close().await;
    let result = result?;
    let content = result.structured_content.unwrap_or_default();
    output::line(
        if server.json { serde_json::to_string_pretty(&content)? } else { table(&rows_of(&content)) }.trim_end(),
    );
    if result.is_error == Some(true) {
        bail!("{} failed: {}", tool, content["code"].as_str().unwrap_or("error"));
    }
    Ok(())
}

async fn tools(server: &ServerArgs, secrets: &mut Secrets) -> anyhow::Result<()> {
    let client = connect(server, secrets).await?;
    let tools = client.tools().await;
    client.close().await;
    let tools = tools?;
    if server.json {
        output::line(serde_json::to_string_pretty(&tools)?);
        return Ok(());
    }
    let rows: Vec<_> =
        tools.iter().map(|tool| (tool.name.to_string(), tool.title.clone().unwrap_or_default())).collect();
    output::line(table(&rows).trim_end());
    Ok(())
}

async fn devnet(args: DevnetArgs, secrets: &mut Secrets) -> anyhow::Result<()> {
    let port = |port: u16| (args.bind, if args.demo { 0 } else { port }).into();
    let database = match &args.indexer_db {
        Some(path) => format!("sqlite://{}?mode=rwc", path.display()),
        None => "sqlite::memory:".to_owned(),
    };
    let bearer = secrets.take("MCP_BEARER_TOKEN").map(|token| token.expose().to_owned());
    if bearer.as_ref().is_some_and(|token| token.len() < config::MIN_TOKEN_CHARACTERS) {
        bail!("MCP_BEARER_TOKEN needs at least {} characters", config::MIN_TOKEN_CHARACTERS);
    }
    let started = tokio::time::Instant::now();
    let network = Network::launch(NetworkConfig {
        devnet: DevnetConfig {
            namespace: args.namespace.clone(),
            chain_id: args.chain_id.clone(),
            denom: args.denom.clone(),
            block_time: args.block_time,
            listen: port(args.rpc_port),
        },
        database,
        indexer_listen: port(args.indexer_port),
        mcp_listen: port(args.mcp_port),
        bearer,
        ..NetworkConfig::default()
    })
    .await?;
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

fn describe(network: &Network, as_json: bool) -> anyhow::Result<String> {
    let client = json!({"mcpServers": {"svc": {
        "type": "http", "url": network.mcp_url(), "headers": {"Authorization": format!("Bearer {}", network.bearer)},
    }}});
    let devnet = &network.devnet;
    if as_json {
        let all = json!({
            "mcp": network.mcp_url(), "bearer": network.bearer, "rpc": devnet.node.origin(), "indexer": network.indexer_origin(),
            "corporation_id": devnet.corporation_id, "policy_address": devnet.policy_address,
            "operator": devnet.operator_address, "member": devnet.member_address, "namespace": devnet.namespace.as_str(),
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
        ("corporation", format!("{} ({})", devnet.corporation_id, devnet.policy_address)),
        ("operator", devnet.operator_address.clone()),
    ]
    .map(|(left, right)| (left.to_owned(), right));
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

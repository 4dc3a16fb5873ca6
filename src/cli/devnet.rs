//! `svc devnet`: a whole network in one process, and the commands that control it.

mod agent_demo;
mod description;
mod first_agent_demo;
mod flow_demo;
mod peer_demo;
mod setup_demo;

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use svc_agent::{AccessSettings, FlowFormat, FlowSettings, PublishedProofs};
use svc_devnet::{DevnetConfig, GenesisFile, UpgradePlan, scenario::Scenario};
use svc_wire::proto_registry::NodeGeneration;

use self::{
    agent_demo::WebhookConsumer,
    description::{describe_network, describe_services},
};
use super::output::{print_line, render_table};
use crate::{
    config,
    listener::bind_listener,
    mcp_client::McpClient,
    network::{ChainAndIndexer, LocalAgentConfig, LocalNetwork, LocalNetworkConfig, ReceiverConfig, essential_schemas},
    secrets::ProcessSecrets,
    shutdown::{DRAIN_TIMEOUT, stop_signal},
};

/// File name of the indexer's database in a home.
const INDEXER_FILE: &str = "indexer.db";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct DevnetArgs {
    #[command(subcommand)]
    action: Option<DevnetAction>,
    /// Show the main job and stop: create an ecosystem through a real MCP client, and read it back.
    #[arg(long)]
    demo: bool,
    /// Show an agent and stop: make its DID trusted, add a service entry through MCP, and follow it to the document, a block, the indexer
    /// and a webhook.
    #[arg(long, conflicts_with_all = ["demo", "scenario", "genesis"])]
    demo_agent: bool,
    /// Show flows and stop: one agent validates an applicant and issues its credential, driven through MCP; then an agent of the first
    /// generation applies, and validates.
    #[arg(long, conflicts_with_all = ["demo", "demo_agent", "scenario", "genesis"])]
    demo_flows: bool,
    /// Show a peer and stop: make two agents trusted; one opens the tool server to peers, and the other calls it as `svc peer call` does.
    #[arg(long, conflicts_with_all = ["demo", "demo_agent", "demo_flows", "scenario", "genesis"])]
    demo_peers: bool,
    /// Content of the chain: corporation, empty, generations, marketplace, peers, services, or a TOML file (docs/devnet.md).
    #[arg(long, value_name = "NAME|FILE", default_value = "corporation")]
    scenario: String,
    /// Directory that keeps the chain and the indexer between runs; in memory when left out.
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// Time between blocks: 1s, 20ms, …; `order` makes blocks only at the control endpoint, with header times a second apart.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_block_time)]
    block_time: BlockTime,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    /// Namespace of the protobuf packages, and prefix of addresses.
    #[arg(long, help_heading = "Chain", value_name = "WORD", default_value = "svc")]
    namespace: String,
    /// Chain id.
    #[arg(long, help_heading = "Chain", value_name = "ID", default_value = "svc-devnet-1")]
    chain_id: String,
    /// Fee and bond denom.
    #[arg(long, help_heading = "Chain", value_name = "DENOM", default_value = "usvc")]
    denom: String,
    /// Genesis document of another chain to begin with, as `svc devnet export` writes it: its accounts, coins and registry, its
    /// id, namespace and denom. The devnet then has no scenario and no tool server.
    #[arg(long, help_heading = "Chain", value_name = "FILE", conflicts_with_all = ["scenario", "namespace", "chain_id", "denom", "demo"])]
    genesis: Option<PathBuf>,
    /// Keep the state of this number of newest heights, as `pruning-keep-recent` does; blocks stay. 0 keeps all.
    #[arg(long, help_heading = "Chain", value_name = "HEIGHTS", default_value_t = 0)]
    prune_state: u64,
    /// Have the weaknesses of a real node: after each start it refuses transactions until its next block, and results come behind blocks.
    #[arg(long, help_heading = "Chain")]
    like_a_node: bool,
    /// Generation of the node: N0 to N4, each with the messages and the answers of that release (docs/devnet.md).
    #[arg(long, help_heading = "Chain", value_name = "GENERATION", default_value = "N0", value_parser = parse_generation)]
    generation: NodeGeneration,
    /// Upgrade of the chain: before the block of the height the node halts, and goes on as the later generation (docs/devnet.md).
    #[arg(long, help_heading = "Chain", value_name = "GENERATION@HEIGHT", value_parser = parse_upgrade)]
    upgrade: Option<UpgradePlan>,
    /// Time for which the node answers nothing at an upgrade: 3s, 500ms, …
    #[arg(long, help_heading = "Chain", value_name = "TIME", default_value = "3s", value_parser = parse_duration)]
    upgrade_pause: Duration,
    /// Address to listen on.
    #[arg(long, help_heading = "Ports", value_name = "ADDRESS", default_value = "127.0.0.1")]
    bind: IpAddr,
    /// Port of the tool server; 0 takes a free one.
    #[arg(long, help_heading = "Ports", value_name = "PORT", default_value_t = 3000)]
    mcp_port: u16,
    /// Port of the node's RPC; 0 takes a free one.
    #[arg(long, help_heading = "Ports", value_name = "PORT", default_value_t = 26657)]
    rpc_port: u16,
    /// Port of the node's REST; 0 takes a free one. There is none when left out.
    #[arg(long, help_heading = "Ports", value_name = "PORT")]
    rest_port: Option<u16>,
    /// Port of the node's gRPC; 0 takes a free one. There is none when left out.
    #[arg(long, help_heading = "Ports", value_name = "PORT")]
    grpc_port: Option<u16>,
    /// Port of the indexer; 0 takes a free one.
    #[arg(long, help_heading = "Ports", value_name = "PORT", default_value_t = 3001)]
    indexer_port: u16,
    /// Port of the services a scenario brings, always on loopback; 0 takes a free one. A home keeps its first port: DIDs name it.
    #[arg(long, help_heading = "Ports", value_name = "PORT", default_value_t = 3002)]
    services_port: u16,
    /// Port of the admin API of the scenario's first agent; the second one's is two higher. 0 takes free ones.
    #[arg(long, help_heading = "Ports", value_name = "PORT", default_value_t = 3003)]
    agent_admin_port: u16,
    /// Port of the public files of the scenario's first agent; the second one's is two higher. 0 takes free ones. The DIDs name them.
    #[arg(long, help_heading = "Ports", value_name = "PORT", default_value_t = 3004)]
    agent_public_port: u16,
    /// Port of the control endpoint, always on loopback; 0 takes a free one. Without it there is no control endpoint.
    #[arg(long, help_heading = "Ports", value_name = "PORT")]
    control_port: Option<u16>,
    /// Start no agents.
    #[arg(long, help_heading = "Agents", conflicts_with_all = ["demo_agent", "demo_flows", "demo_peers"])]
    no_agents: bool,
    /// Format of the credentials that the agents issue in flows: w3c-di, or ld-proof, which agents of the first generation need.
    #[arg(long, help_heading = "Agents", value_name = "FORMAT", default_value = "w3c-di", value_parser = parse_issue_format)]
    issue_format: FlowFormat,
    /// Proofs of the credentials that the agents issue outside of flows: data-integrity, both, or ed25519-2020, which agents of the first
    /// generation need.
    #[arg(long, help_heading = "Agents", value_name = "PROOFS", default_value = "data-integrity", value_parser = parse_proofs)]
    published_proofs: PublishedProofs,
    /// File with the conditions of access to endpoints of the scenario's first agent (docs/access.md). The tool server takes the tokens of
    /// its peers then.
    #[arg(long, help_heading = "Agents", value_name = "FILE", conflicts_with_all = ["no_agents", "demo_peers"])]
    access: Option<PathBuf>,
    /// Leave the answers to requests for access to a backend of the scenario's first agent: they are basic messages then.
    #[arg(long, help_heading = "Agents", conflicts_with_all = ["access", "no_agents", "demo_peers"])]
    access_by_backend: bool,
    /// URL that gets the events of the scenario's first agent.
    #[arg(long, help_heading = "Agents", value_name = "URL", conflicts_with_all = ["no_agents", "demo_agent", "demo_flows", "demo_peers"])]
    agent_webhook: Option<url::Url>,
    /// Store of the indexer: a file path; the home's own, or in memory, when left out.
    #[arg(long, help_heading = "Indexer", value_name = "FILE")]
    indexer_db: Option<PathBuf>,
}

/// Commands other than running a devnet.
#[derive(Debug, Subcommand)]
enum DevnetAction {
    /// Removes the chain, the indexer and the agent of a home.
    Reset {
        /// The directory.
        #[arg(long)]
        home: PathBuf,
    },
    /// Keeps the chain of a running devnet under a name.
    Save(SnapshotArgs),
    /// Takes the chain of a running devnet back to a snapshot.
    Load(SnapshotArgs),
    /// Writes the newest state of a running devnet as a genesis document, for `--genesis`.
    Export {
        /// The file to write.
        file: PathBuf,
        /// The devnet's control endpoint.
        #[arg(long, default_value = "http://127.0.0.1:26650")]
        control: String,
    },
}

#[derive(Debug, Args)]
struct SnapshotArgs {
    /// Name of the snapshot.
    name: String,
    /// The devnet's control endpoint.
    #[arg(long, default_value = "http://127.0.0.1:26650")]
    control: String,
}

/// Time between blocks; `None` makes blocks on order only.
#[derive(Debug, Clone, Copy)]
struct BlockTime(Option<Duration>);

fn parse_generation(text: &str) -> Result<NodeGeneration, String> {
    let known = || format!("one of {}", NodeGeneration::ALL.map(NodeGeneration::as_str).join(", "));
    NodeGeneration::parse(text).ok_or_else(known)
}

fn parse_upgrade(text: &str) -> Result<UpgradePlan, String> {
    let (generation, height) = text.split_once('@').ok_or("a generation and a height, such as N3@120")?;
    let height = height.parse().map_err(|_| format!("{height:?} is not a height"))?;
    Ok(UpgradePlan { generation: parse_generation(generation)?, height })
}

fn parse_issue_format(text: &str) -> Result<FlowFormat, String> {
    FlowFormat::parse(text).ok_or_else(|| "w3c-di or ld-proof".to_owned())
}

fn parse_proofs(text: &str) -> Result<PublishedProofs, String> {
    PublishedProofs::parse(text).ok_or_else(|| "ed25519-2020, data-integrity or both".to_owned())
}

fn parse_block_time(text: &str) -> Result<BlockTime, String> {
    if text == "order" {
        return Ok(BlockTime(None));
    }
    parse_duration(text).map(|span| BlockTime(Some(span))).map_err(|reason| format!("{reason}, nor is it `order`"))
}

fn parse_duration(text: &str) -> Result<Duration, String> {
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

/// Runs a devnet until a stop signal, or a command that controls one. Fails when a part cannot start or the operator gives up.
pub(super) async fn run(args: DevnetArgs, secrets: &mut ProcessSecrets) -> anyhow::Result<()> {
    match &args.action {
        Some(DevnetAction::Reset { home }) => return reset_home(home),
        Some(DevnetAction::Save(snapshot)) => return request_snapshot(snapshot, "").await,
        Some(DevnetAction::Load(snapshot)) => return request_snapshot(snapshot, "/load").await,
        Some(DevnetAction::Export { file, control }) => return export_genesis(file, control).await,
        None => {}
    }
    let bearer = secrets.take(crate::settings::mcp::MCP_BEARER_TOKEN).map(|token| token.expose_secret().to_owned());
    if bearer.as_ref().is_some_and(|token| token.len() < config::MIN_TOKEN_CHARACTERS) {
        bail!("MCP_BEARER_TOKEN needs at least {} characters", config::MIN_TOKEN_CHARACTERS);
    }
    let started = tokio::time::Instant::now();
    let config = LocalNetworkConfig { bearer_token: bearer, ..args.network_config()? };
    if args.demo_agent {
        return run_agent_demo(config).await;
    }
    if args.demo_flows {
        return run_flow_demo(config).await;
    }
    if args.demo_peers {
        return run_peer_demo(config).await;
    }
    let scenario = Scenario::load(&config.devnet.scenario)?;
    args.check_ports(&config, &scenario)?;
    if scenario.operator_slot.is_none() {
        return run_without_tool_server(&args, config).await;
    }
    let network = LocalNetwork::launch(config).await?;
    if args.demo {
        let outcome = run_demo(&network, started).await;
        network.shutdown(Duration::from_secs(5)).await;
        return outcome;
    }
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

/// Runs the demo of the agent on a network of its own.
async fn run_agent_demo(mut config: LocalNetworkConfig) -> anyhow::Result<()> {
    if config.devnet.block_time.is_none() {
        bail!("the demo needs a time between the blocks");
    }
    let consumer = WebhookConsumer::start().await?;
    config.agent.receiver = Some(consumer.receiver());
    config.agent.waits_for_setup = true;
    let network = LocalNetwork::launch(config).await?;
    let outcome = match setup_demo::run(&network).await {
        Ok(()) => agent_demo::run(&network, consumer).await,
        Err(error) => Err(error),
    };
    network.shutdown(Duration::from_secs(5)).await;
    outcome
}

/// Runs the demo of flows on a network of its own.
async fn run_flow_demo(mut config: LocalNetworkConfig) -> anyhow::Result<()> {
    if config.devnet.block_time.is_none() {
        bail!("the demo needs a time between the blocks");
    }
    let consumer = WebhookConsumer::start().await?;
    config.agent.receiver = Some(consumer.receiver());
    let home = peer_demo::DemoHome::make()?;
    home.keep(&mut config.agent);
    let network = LocalNetwork::launch(config).await?;
    let outcome = match network.agents.first() {
        Some(validator) => flow_demo::run(&network, consumer, home.socket(validator)).await,
        None => Err(anyhow::anyhow!("the scenario has no agent")),
    };
    network.shutdown(Duration::from_secs(5)).await;
    outcome
}

/// Runs the demo of the peer flow on a network of its own.
async fn run_peer_demo(mut config: LocalNetworkConfig) -> anyhow::Result<()> {
    if config.devnet.block_time.is_none() {
        bail!("the demo needs a time between the blocks");
    }
    let home = peer_demo::DemoHome::make()?;
    home.configure(&mut config.agent);
    let network = LocalNetwork::launch(config).await?;
    let outcome = peer_demo::run(&network, &home).await;
    network.shutdown(Duration::from_secs(5)).await;
    outcome
}

/// Agents that have ports of their own.
const AGENTS: u16 = 3;

impl DevnetArgs {
    /// Fails when a port is taken, with the option that chooses another one.
    fn check_ports(&self, config: &LocalNetworkConfig, scenario: &Scenario) -> anyhow::Result<()> {
        let control = self.control_port.map(|port| ("--control-port", ([127, 0, 0, 1], port).into()));
        let mut listeners = vec![("--rpc-port", config.devnet.listen), ("--indexer-port", config.indexer_listen)];
        if scenario.operator_slot.is_some() {
            listeners.push(("--mcp-port", config.mcp_listen));
        }
        if !scenario.services.is_empty() {
            listeners.push(("--services-port", config.devnet.services_listen));
        }
        let agents = if self.no_agents { 0 } else { scenario.agents.len() };
        for (admin, public) in config.agent.listens.iter().take(agents) {
            listeners.extend([("--agent-admin-port", *admin), ("--agent-public-port", *public)]);
        }
        let is_fixed = |(_, address): &(_, SocketAddr)| address.port() != 0;
        // Each listener stays open until all are checked: two options may name one port.
        let mut held = Vec::new();
        for (option, address) in listeners.into_iter().chain(control).filter(is_fixed) {
            match bind_listener(address) {
                Ok(listener) => held.push(listener),
                Err(error) => {
                    bail!("cannot listen on {address}: {error}; {option} chooses another port, and 0 takes a free one")
                }
            }
        }
        Ok(())
    }

    /// Access to endpoints of the first agent, where an option says something about it.
    fn first_access(&self) -> Option<AccessSettings> {
        let by_backend = AccessSettings { is_answered_by_backend: true, ..AccessSettings::default() };
        self.access.as_deref().map(access_settings).or_else(|| self.access_by_backend.then_some(by_backend))
    }

    fn network_config(&self) -> anyhow::Result<LocalNetworkConfig> {
        let genesis = self.genesis.as_deref().map(GenesisFile::load).transpose()?;
        let takes_free_ports = self.demo || self.demo_agent || self.demo_flows || self.demo_peers;
        let port = |port: u16| (self.bind, if takes_free_ports { 0 } else { port }).into();
        let scenario = match (self.demo_agent || self.demo_peers, self.demo_flows) {
            (true, _) => "marketplace",
            (false, true) => "generations",
            (false, false) => &self.scenario,
        };
        let file = self.indexer_db.clone().or_else(|| self.home.as_ref().map(|home| home.join(INDEXER_FILE)));
        let database = match file {
            Some(path) => format!("sqlite://{}?mode=rwc", path.display()),
            None => "sqlite::memory:".to_owned(),
        };
        Ok(LocalNetworkConfig {
            devnet: DevnetConfig {
                namespace: self.namespace.clone(),
                chain_id: self.chain_id.clone(),
                denom: self.denom.clone(),
                block_time: self.block_time.0,
                listen: port(self.rpc_port),
                rest_listen: self.rest_port.map(port),
                grpc_listen: self.grpc_port.map(port),
                scenario: if genesis.is_some() { "empty".to_owned() } else { scenario.to_owned() },
                home: self.home.clone(),
                control_port: self.control_port,
                services_listen: ([127, 0, 0, 1], if takes_free_ports { 0 } else { self.services_port }).into(),
                kept_states: self.prune_state,
                is_like_a_node: self.like_a_node,
                generation: self.generation,
                upgrade: self.upgrade,
                upgrade_pause: self.upgrade_pause,
                genesis,
            },
            database,
            agent: LocalAgentConfig {
                listens: (0..AGENTS)
                    .map(|place| {
                        let nth = |first: u16| if first == 0 { 0 } else { first.saturating_add(2 * place) };
                        (port(nth(self.agent_admin_port)), port(nth(self.agent_public_port)))
                    })
                    .collect(),
                is_off: self.no_agents,
                home: self.home.clone(),
                access: self.first_access().into_iter().collect(),
                receiver: self.agent_webhook.clone().map(|url| ReceiverConfig { url, secret: None }),
                proofs: Some(self.published_proofs),
                flows: FlowSettings { format: self.issue_format, ..FlowSettings::default() },
                ..LocalAgentConfig::default()
            },
            indexer_listen: port(self.indexer_port),
            mcp_listen: port(self.mcp_port),
            ..LocalNetworkConfig::default()
        })
    }
}

/// Requests for access of one peer in a minute: trials ask more often than a peer does.
const ACCESS_RATE: u32 = 600;

/// Access by the conditions of a file.
fn access_settings(file: &Path) -> AccessSettings {
    AccessSettings { terms_file: Some(file.to_owned()), rate_per_peer: ACCESS_RATE, ..AccessSettings::default() }
}

/// Runs a scenario without a seat: the chain and its indexer.
async fn run_without_tool_server(args: &DevnetArgs, config: LocalNetworkConfig) -> anyhow::Result<()> {
    if args.demo {
        bail!("the demo needs a scenario with a seat, such as corporation");
    }
    let network = ChainAndIndexer::launch(&config).await?;
    let devnet = &network.devnet;
    let control = devnet.control.as_ref().map(|control| format!("http://{}", control.address));
    let stop = stop_signal()?;
    print_line(if args.json {
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

/// The names of the agents that have files in a home; a scenario chooses them.
fn agents_of_home(home: &std::path::Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    if !home.exists() {
        return Ok(names);
    }
    for entry in std::fs::read_dir(home)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "head") {
            names.extend(path.file_stem().and_then(|name| name.to_str()).map(str::to_owned));
        }
    }
    Ok(names)
}

fn reset_home(home: &std::path::Path) -> anyhow::Result<()> {
    let had_chain = svc_devnet::node::reset_home(home)?;
    let agents = agents_of_home(home).context("cannot reset")?;
    let databases = agents.iter().flat_map(|name| [format!("{name}.db"), format!("{name}.journal")]);
    let with_suffixes = databases
        .chain([INDEXER_FILE.to_owned()])
        .flat_map(|file| ["", "-wal", "-shm", ".lock"].map(|suffix| format!("{file}{suffix}")));
    // The head files name the agents, so they go last.
    let others = agents.iter().flat_map(|name| [format!("{name}.sock"), format!("{name}.head")]);
    for file in with_suffixes.chain(others) {
        match std::fs::remove_file(home.join(file)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error).context("cannot reset"),
            _ => {}
        }
    }
    let outcome = if had_chain { "is empty now" } else { "had no chain" };
    print_line(format!("{} {outcome}.", home.display()));
    Ok(())
}

/// Sends an order to the control endpoint of a running devnet.
async fn send_order(control: &str, method: reqwest::Method, path: &str) -> anyhow::Result<Value> {
    let url = format!("{}{path}", control.trim_end_matches('/'));
    let answer = reqwest::Client::new()
        .request(method, &url)
        .send()
        .await
        .with_context(|| format!("no devnet answers at {control}: was it started with --control-port?"))?;
    let is_done = answer.status().is_success();
    let body: Value = answer.json().await?;
    if !is_done {
        bail!("{}", body["error"].as_str().unwrap_or("refused"));
    }
    Ok(body)
}

async fn export_genesis(file: &std::path::Path, control: &str) -> anyhow::Result<()> {
    let document = send_order(control, reqwest::Method::GET, "/genesis").await?;
    std::fs::write(file, serde_json::to_vec_pretty(&document)?)
        .with_context(|| format!("cannot write {}", file.display()))?;
    let (id, time) = (&document["chain_id"], &document["genesis_time"]);
    print_line(format!("{}: chain {id} at {time}", file.display()));
    Ok(())
}

async fn request_snapshot(snapshot: &SnapshotArgs, suffix: &str) -> anyhow::Result<()> {
    let path = format!("/snapshots/{}{suffix}", snapshot.name);
    let body = send_order(&snapshot.control, reqwest::Method::POST, &path).await?;
    print_line(format!("at height {}, application hash {}", body["height"], body["app_hash"].as_str().unwrap_or("")));
    Ok(())
}

/// Creates an ecosystem and reads it back, through a real MCP client over HTTP. Fails when the two differ.
async fn run_demo(network: &LocalNetwork, started: tokio::time::Instant) -> anyhow::Result<()> {
    let booted = started.elapsed();
    let client = McpClient::connect(&network.mcp_url(), &network.bearer_token).await?;
    let arguments = json!({
        "did": "did:web:ecosystem.devnet.example", "language": "en", "doc_url": "https://ecosystem.devnet.example/framework-v1.pdf",
        "doc_digest_sri": "sha384-Ly4tLCsqKSgnJiUkIyIhIB8eHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgEA",
    });
    let Value::Object(object) = arguments.clone() else { bail!("arguments are an object") };
    let begun = tokio::time::Instant::now();
    let written =
        client.call_tool("svc.ledger.es.createEcosystem", object).await?.structured_content.unwrap_or_default();
    let took = begun.elapsed();
    print_line(format!("svc.ledger.es.createEcosystem answered:\n{}\n", serde_json::to_string_pretty(&written)?));
    let id = written["response"]["ecosystem_id"].clone();
    let mut by_id = Map::new();
    by_id.insert("id".to_owned(), id.clone());
    let begun = tokio::time::Instant::now();
    let read = client.call_tool("svc.idx.es.getEcosystem", by_id).await?.structured_content.unwrap_or_default();
    let read_took = begun.elapsed();
    client.close().await;
    print_line(format!("svc.idx.es.getEcosystem answered:\n{}\n", serde_json::to_string_pretty(&read)?));
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
    print_line(render_table(&rows));
    let is_same = read["ecosystem"]["did"] == arguments["did"]
        && read["ecosystem"]["id"].as_u64() == id.as_str().and_then(|id| id.parse().ok());
    if written["indexer_synced"] != true || !is_same {
        bail!("the read-back differs from the written ecosystem");
    }
    print_line("indexer_synced was true, and the read-back matches.");
    Ok(())
}

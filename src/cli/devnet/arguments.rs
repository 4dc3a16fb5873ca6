//! The options of `svc devnet`, and their values.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use clap::{Args, Subcommand};
use svc_agent::{FlowFormat, PublishedProofs};
use svc_devnet::UpgradePlan;
use svc_wire::proto_registry::NodeGeneration;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(in crate::cli) struct DevnetArgs {
    #[command(subcommand)]
    pub(super) action: Option<DevnetAction>,
    /// Show the main job and stop: create an ecosystem through a real MCP client, and read it back.
    #[arg(long)]
    pub(super) demo: bool,
    /// Show an agent and stop: make its DID trusted, add a service entry through MCP, and follow it to the document, a block, the indexer
    /// and a webhook.
    #[arg(long, conflicts_with_all = ["demo", "scenario", "genesis"])]
    pub(super) demo_agent: bool,
    /// Show flows and stop: one agent validates an applicant and issues its credential, driven through MCP; then an agent of the first
    /// generation applies, and validates.
    #[arg(long, conflicts_with_all = ["demo", "demo_agent", "scenario", "genesis"])]
    pub(super) demo_flows: bool,
    /// Show a peer and stop: make two agents trusted; one opens the tool server to peers, and the other calls it as `svc peer call` does.
    #[arg(long, conflicts_with_all = ["demo", "demo_agent", "demo_flows", "scenario", "genesis"])]
    pub(super) demo_peers: bool,
    /// Content of the chain: corporation, empty, generations, marketplace, peers, services, or a TOML file (docs/devnet.md).
    #[arg(long, value_name = "NAME|FILE", default_value = "corporation")]
    pub(super) scenario: String,
    /// Directory that keeps the chain and the indexer between runs; in memory when left out.
    #[arg(long, value_name = "DIR")]
    pub(super) home: Option<PathBuf>,
    /// Time between blocks: 1s, 20ms, …; `order` makes blocks only at the control endpoint, with header times a second apart.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_block_time)]
    pub(super) block_time: BlockTime,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub(super) json: bool,
    /// Namespace of the protobuf packages, and prefix of addresses.
    #[arg(long, help_heading = "Chain", value_name = "WORD", default_value = "svc")]
    pub(super) namespace: String,
    /// Chain id.
    #[arg(long, help_heading = "Chain", value_name = "ID", default_value = "svc-devnet-1")]
    pub(super) chain_id: String,
    /// Fee and bond denom.
    #[arg(long, help_heading = "Chain", value_name = "DENOM", default_value = "usvc")]
    pub(super) denom: String,
    /// Genesis document of another chain to begin with, as `svc devnet export` writes it: its accounts, coins and registry, its
    /// id, namespace and denom. The devnet then has no scenario and no tool server.
    #[arg(long, help_heading = "Chain", value_name = "FILE", conflicts_with_all = ["scenario", "namespace", "chain_id", "denom", "demo"])]
    pub(super) genesis: Option<PathBuf>,
    /// Folder with published texts of essential schemas, as JSON files: the services' ecosystem has these in the place of the devnet's own.
    #[arg(long, help_heading = "Chain", value_name = "FOLDER", conflicts_with = "genesis")]
    pub(super) schemas: Option<PathBuf>,
    /// Keep the state of this number of newest heights, as `pruning-keep-recent` does; blocks stay. 0 keeps all.
    #[arg(long, help_heading = "Chain", value_name = "HEIGHTS", default_value_t = 0)]
    pub(super) prune_state: u64,
    /// Have the weaknesses of a real node: after each start it refuses transactions until its next block, and results come behind blocks.
    #[arg(long, help_heading = "Chain")]
    pub(super) like_a_node: bool,
    /// Generation of the node: N0 to N4, each with the messages and the answers of that release (docs/devnet-generations.md).
    #[arg(long, help_heading = "Chain", value_name = "GENERATION", default_value = "N0", value_parser = parse_generation)]
    pub(super) generation: NodeGeneration,
    /// Upgrade of the chain: before the block of the height the node halts, and goes on as the later generation (docs/devnet-generations.md).
    #[arg(long, help_heading = "Chain", value_name = "GENERATION@HEIGHT", value_parser = parse_upgrade)]
    pub(super) upgrade: Option<UpgradePlan>,
    /// Time for which the node answers nothing at an upgrade: 3s, 500ms, …
    #[arg(long, help_heading = "Chain", value_name = "TIME", default_value = "3s", value_parser = parse_duration)]
    pub(super) upgrade_pause: Duration,
    /// Address to listen on.
    #[arg(long, help_heading = "Ports", value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(super) bind: IpAddr,
    /// Port of the tool server; 0 takes a free one.
    #[arg(long, help_heading = "Ports", value_name = "PORT", default_value_t = 3000)]
    pub(super) mcp_port: u16,
    /// Port of the node's RPC; 0 takes a free one.
    #[arg(long, help_heading = "Ports", value_name = "PORT", default_value_t = 26657)]
    pub(super) rpc_port: u16,
    /// Port of the node's REST; 0 takes a free one. There is none when left out.
    #[arg(long, help_heading = "Ports", value_name = "PORT")]
    pub(super) rest_port: Option<u16>,
    /// Port of the node's gRPC; 0 takes a free one. There is none when left out.
    #[arg(long, help_heading = "Ports", value_name = "PORT")]
    pub(super) grpc_port: Option<u16>,
    /// Port of the indexer; 0 takes a free one.
    #[arg(long, help_heading = "Ports", value_name = "PORT", default_value_t = 3001)]
    pub(super) indexer_port: u16,
    /// Port of the services a scenario brings, always on loopback; 0 takes a free one. A home keeps its first port: DIDs name it.
    #[arg(long, help_heading = "Ports", value_name = "PORT", default_value_t = 3002)]
    pub(super) services_port: u16,
    /// Port of the admin API of the scenario's first agent; the second one's is two higher. 0 takes free ones.
    #[arg(long, help_heading = "Ports", value_name = "PORT", default_value_t = 3003)]
    pub(super) agent_admin_port: u16,
    /// Port of the public files of the scenario's first agent; the second one's is two higher. 0 takes free ones. The DIDs name them.
    #[arg(long, help_heading = "Ports", value_name = "PORT", default_value_t = 3004)]
    pub(super) agent_public_port: u16,
    /// Port of the control endpoint, always on loopback; 0 takes a free one. Without it there is no control endpoint.
    #[arg(long, help_heading = "Ports", value_name = "PORT")]
    pub(super) control_port: Option<u16>,
    /// Start no agents.
    #[arg(long, help_heading = "Agents", conflicts_with_all = ["demo_agent", "demo_flows", "demo_peers"])]
    pub(super) no_agents: bool,
    /// Format of the credentials that the agents issue in flows: w3c-di, or ld-proof, which agents of the first generation need.
    #[arg(long, help_heading = "Agents", value_name = "FORMAT", default_value = "w3c-di", value_parser = parse_issue_format)]
    pub(super) issue_format: FlowFormat,
    /// Proofs of the credentials that the agents issue outside of flows: data-integrity, both, or ed25519-2020, which agents of the first
    /// generation need.
    #[arg(long, help_heading = "Agents", value_name = "PROOFS", default_value = "data-integrity", value_parser = parse_proofs)]
    pub(super) published_proofs: PublishedProofs,
    /// File with the conditions of access to endpoints of the scenario's first agent (docs/access.md). The tool server takes the tokens of
    /// its peers then.
    #[arg(long, help_heading = "Agents", value_name = "FILE", conflicts_with_all = ["no_agents", "demo_peers"])]
    pub(super) access: Option<PathBuf>,
    /// Leave the answers to requests for access to a backend of the scenario's first agent: they are basic messages then.
    #[arg(long, help_heading = "Agents", conflicts_with_all = ["access", "no_agents", "demo_peers"])]
    pub(super) access_by_backend: bool,
    /// URL that gets the events of the scenario's first agent.
    #[arg(long, help_heading = "Agents", value_name = "URL", conflicts_with_all = ["no_agents", "demo_agent", "demo_flows", "demo_peers"])]
    pub(super) agent_webhook: Option<url::Url>,
    /// Store of the indexer: a file path; the home's own, or in memory, when left out.
    #[arg(long, help_heading = "Indexer", value_name = "FILE")]
    pub(super) indexer_db: Option<PathBuf>,
}

/// Commands other than running a devnet.
#[derive(Debug, Subcommand)]
pub(super) enum DevnetAction {
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
pub(super) struct SnapshotArgs {
    /// Name of the snapshot.
    pub(super) name: String,
    /// The devnet's control endpoint.
    #[arg(long, default_value = "http://127.0.0.1:26650")]
    pub(super) control: String,
}

/// Time between blocks; `None` makes blocks on order only.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockTime(pub(super) Option<Duration>);

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

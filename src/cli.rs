//! The command line.

use anyhow::{Context, bail};
use clap::{Args, Parser, Subcommand};
use serde_json::{Map, Value};
use tracing::level_filters::LevelFilter;

use crate::{
    blocks,
    client::{Client, rows_of, table},
    config::{self, ProcessEnvironment},
    devnet, output,
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
    /// The indexer: reads and the block subscription of any node, configured by the environment (docs/indexer.md).
    Indexer,
    /// A whole network with its tool server in one process, for trying and testing. Nothing in it is worth anything.
    Devnet(Box<devnet::DevnetArgs>),
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
struct ServerArgs {
    /// MCP endpoint.
    #[arg(long, env = "SVC_MCP_URL", default_value = "http://127.0.0.1:3000/mcp")]
    url: String,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl Cli {
    /// Level of the logs when none is set: a client's own messages say what it has to say.
    pub fn default_log_level(&self) -> LevelFilter {
        match self.command {
            Command::Serve | Command::Indexer | Command::Devnet(_) => LevelFilter::INFO,
            Command::Call { .. } | Command::Tools { .. } => LevelFilter::OFF,
        }
    }

    /// Runs the command.
    pub async fn run(self, mut secrets: Secrets) -> anyhow::Result<()> {
        match self.command {
            Command::Serve => serve::run(config::read(&ProcessEnvironment, &mut secrets)?).await,
            Command::Indexer => blocks::run(config::read_indexer(&ProcessEnvironment, &mut secrets)?).await,
            Command::Devnet(args) => devnet::run(*args, &mut secrets).await,
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

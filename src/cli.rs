//! The command line.

use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use tracing::level_filters::LevelFilter;

use crate::{
    blocks, check, commands,
    config::{self, ProcessEnvironment},
    devnet,
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
    /// Tests the tool server's configuration and everything it depends on, and says in words what is wrong.
    Check {
        /// Print JSON instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// The indexer: reads and the block subscription of any node, configured by the environment (docs/indexer.md).
    Indexer,
    /// A whole network with its tool server in one process, for trying and testing. Nothing in it is worth anything.
    Devnet(Box<devnet::DevnetArgs>),
    /// Calls a tool of a running server; its bearer token is read from MCP_BEARER_TOKEN.
    Call {
        /// Tool name, for example svc.ledger.es.createEcosystem; `svc tools NAME` explains its arguments.
        tool: String,
        /// Arguments: name=value for each, or one JSON object.
        arguments: Vec<String>,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Lists the tools of a running server, or explains one of them; its bearer token is read from MCP_BEARER_TOKEN.
    Tools {
        /// Explain this tool and its arguments.
        name: Option<String>,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Lists the resources of a running server, or reads one; its bearer token is read from MCP_BEARER_TOKEN.
    Resource {
        /// URI, for example svc://own/status.
        uri: Option<String>,
        /// Print it again whenever it changes, until interrupted.
        #[arg(long, requires = "uri")]
        watch: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Values an argument of a tool can have, one a line: what shell completion of `svc call` asks.
    #[command(hide = true)]
    Complete {
        tool: String,
        /// `name=begun`, or the beginning of a name.
        #[arg(default_value = "")]
        word: String,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Prints the completion script of a shell.
    Completions { shell: Shell },
}

#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// MCP endpoint.
    #[arg(long, env = "SVC_MCP_URL", default_value = "http://127.0.0.1:3000/mcp")]
    pub url: String,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

impl Cli {
    /// Level of the logs when none is set: a client's own messages say what it has to say.
    pub fn default_log_level(&self) -> LevelFilter {
        match self.command {
            Command::Serve | Command::Indexer | Command::Devnet(_) => LevelFilter::INFO,
            Command::Check { .. }
            | Command::Call { .. }
            | Command::Tools { .. }
            | Command::Resource { .. }
            | Command::Complete { .. }
            | Command::Completions { .. } => LevelFilter::OFF,
        }
    }

    /// Runs the command.
    pub async fn run(self, mut secrets: Secrets) -> anyhow::Result<()> {
        match self.command {
            Command::Serve => serve::run(config::read(&ProcessEnvironment, &mut secrets)?).await,
            Command::Check { json } => check::run(config::read(&ProcessEnvironment, &mut secrets)?, json).await,
            Command::Indexer => blocks::run(config::read_indexer(&ProcessEnvironment, &mut secrets)?).await,
            Command::Devnet(args) => devnet::run(*args, &mut secrets).await,
            Command::Call { tool, arguments, server } => commands::call(&tool, &arguments, &server, &mut secrets).await,
            Command::Tools { name, server } => commands::tools(name.as_deref(), &server, &mut secrets).await,
            Command::Resource { uri, watch, server } => {
                commands::resource(uri.as_deref(), watch, &server, &mut secrets).await
            }
            Command::Complete { tool, word, server } => commands::complete(&tool, &word, &server, &mut secrets).await,
            Command::Completions { shell } => {
                clap_complete::generate(shell, &mut Self::command(), "svc", &mut std::io::stdout());
                Ok(())
            }
        }
    }
}

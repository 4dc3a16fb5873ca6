//! The command line: the definitions of all commands here, and a file per command.

mod agent;
mod approve;
mod arguments;
mod audit;
mod call;
mod check;
mod complete;
mod confirm;
mod connection;
#[cfg(feature = "devnet")]
mod devnet;
mod findings;
mod indexer;
mod journal;
mod output;
#[cfg(feature = "devnet")]
#[cfg(test)]
mod pages;
mod peer;
mod port_owner;
mod resource;
mod serve;
mod token;
mod tools;

use clap::{Parser, Subcommand};
use clap_complete::Shell;
use svc_otel::LogLevels;
use tracing::level_filters::LevelFilter;

use self::connection::ClientArgs;
use crate::{
    config::{self, Environment, ProcessEnvironment},
    secrets::ProcessSecrets,
    settings::{
        Process,
        agent::{ADMIN_API_LOG_LEVEL, AGENT_LOG_LEVEL},
        chain::SVC_LOG_LEVEL,
        help::settings_of,
    },
};

/// Operates one corporation's place in a public trust registry.
#[derive(Debug, Parser)]
#[command(name = "svc", version, about, after_help = FIRST_STEPS)]
pub struct CommandLine {
    #[command(subcommand)]
    command: CliCommand,
}

#[cfg(feature = "devnet")]
const FIRST_STEPS: &str = "\
To try it:          svc devnet --demo   a write through MCP on a network in one process, and its read-back
To go on:           svc devnet          a network that prints its endpoints, its bearer token and a host's configuration
On a live network:  svc check           a test of the configuration of svc serve (docs/operating.md)";
#[cfg(not(feature = "devnet"))]
const FIRST_STEPS: &str =
    "On a live network:  svc check   a test of the configuration of svc serve (docs/operating.md)";

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Runs chain, indexer, agents and tool server in one process, to try and to test; nothing in it is worth anything.
    #[command(after_long_help = settings_of(Process::Devnet))]
    #[cfg(feature = "devnet")]
    Devnet(Box<devnet::DevnetArgs>),
    /// Runs the tool server: MCP over HTTP or stdio for one corporation, configured by the environment (docs/operating.md).
    #[command(after_long_help = settings_of(Process::Serve))]
    Serve,
    /// Tests the tool server's configuration and everything that it depends on, and names each problem.
    #[command(after_long_help = settings_of(Process::Serve))]
    Check {
        /// Print JSON instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Runs the indexer of a node: reads at every height, verdicts on DIDs and a WebSocket of blocks, configured by the environment
    /// (docs/indexer.md).
    #[command(after_long_help = settings_of(Process::Indexer))]
    Indexer {
        #[command(subcommand)]
        command: Option<indexer::IndexerCommand>,
        /// Print JSON instead of a table.
        #[arg(long, global = true)]
        json: bool,
    },
    /// Runs the agent of one DID, configured by the environment (docs/agent.md). Most of its commands ask the running agent.
    ///
    /// `import` and `recover` need a stopped agent, and `check` reads the environment.
    #[command(after_long_help = settings_of(Process::Agent))]
    Agent {
        #[command(subcommand)]
        command: Option<agent::AgentCommand>,
        /// Print JSON instead of a table.
        #[arg(long, global = true)]
        json: bool,
    },
    /// Asks for the trust in a DID, talks with it, or calls one of its endpoints, through your agent.
    ///
    /// Exit status: 0 done, 2 usage, 3 not trusted, 4 not known whether trusted, 5 denied, 6 unreachable or unanswered, 7 refused by the
    /// endpoint, 8 type of endpoint not spoken, 1 any other failure.
    #[command(after_long_help = settings_of(Process::Peer))]
    Peer {
        #[command(subcommand)]
        command: peer::PeerCommand,
        /// Print JSON, also of a failure.
        #[arg(long, global = true)]
        json: bool,
    },
    /// Lists the tools of a running server, or explains one of them.
    Tools {
        /// Explain this tool and its arguments.
        name: Option<String>,
        #[command(flatten)]
        server: ClientArgs,
    },
    /// Calls a tool of a running server.
    Call {
        /// Tool name, for example svc.ledger.es.createEcosystem; `svc tools NAME` explains its arguments.
        tool: String,
        /// Arguments: name=value for each, one JSON object, @FILE with one, or - for one on standard input.
        arguments: Vec<String>,
        /// Do not ask before a call that revokes, slashes, archives, deletes or grants.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        server: ClientArgs,
    },
    /// Lists the resources of a running server, or reads one.
    Resource {
        /// URI, for example svc://own/status.
        uri: Option<String>,
        /// Print it again whenever it changes, until interrupted.
        #[arg(long, requires = "uri")]
        watch: bool,
        #[command(flatten)]
        server: ClientArgs,
    },
    /// Lists the calls that wait for the approval of another principal, or approves one.
    Approve {
        /// Id of the call.
        id: Option<String>,
        /// Decline it.
        #[arg(long, requires = "id")]
        decline: bool,
        /// Do not ask before the call is approved.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        server: ClientArgs,
    },
    /// Makes bearer tokens for the principals of a tool server.
    Token {
        #[command(subcommand)]
        command: token::TokenCommand,
    },
    /// Checks the audit of a tool server, which may run meanwhile.
    Audit {
        #[command(subcommand)]
        command: audit::AuditCommand,
        /// Print JSON instead of a table.
        #[arg(long, global = true)]
        json: bool,
    },
    /// Copies and checks the journal of a tool server, which may run meanwhile, and rebases that of a stopped one.
    #[command(after_long_help = settings_of(Process::Journal))]
    Journal {
        #[command(subcommand)]
        command: journal::JournalCommand,
        /// Print JSON instead of a table.
        #[arg(long, global = true)]
        json: bool,
    },
    /// Values an argument of a tool can have, one per line: the shell completion of `svc call` runs this.
    #[command(hide = true)]
    Complete {
        tool: String,
        /// `name=begun`, or the beginning of a name.
        #[arg(default_value = "")]
        word: String,
        #[command(flatten)]
        server: ClientArgs,
    },
    /// Prints the completion script of a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// Exit status of a command that others have to complete.
const STEPS_LEFT: u8 = 3;

/// The exit status of a command that has failed.
pub(crate) fn exit_status(error: &anyhow::Error) -> u8 {
    if error.is::<agent::init::StepsLeft>() {
        return STEPS_LEFT;
    }
    peer::exit_status(error).unwrap_or(1)
}

impl CommandLine {
    /// The log levels of the command, from the environment or by default.
    pub fn log_levels(&self, environment: &impl Environment) -> LogLevels {
        if let CliCommand::Agent { command: None, .. } = self.command {
            let environment = config::WithFormerNames(environment);
            let level = |setting, default| config::read_log_level(&environment, setting, default);
            return LogLevels {
                crates: level(AGENT_LOG_LEVEL, LevelFilter::WARN),
                program: level(ADMIN_API_LOG_LEVEL, LevelFilter::INFO),
            };
        }
        config::read_log_level(environment, SVC_LOG_LEVEL, self.default_log_level()).into()
    }

    /// Log level when none is configured. Client commands log nothing: their own output says all.
    fn default_log_level(&self) -> LevelFilter {
        match self.command {
            CliCommand::Serve | CliCommand::Indexer { command: None, .. } => LevelFilter::INFO,
            #[cfg(feature = "devnet")]
            CliCommand::Devnet(_) => LevelFilter::INFO,
            CliCommand::Check { .. }
            | CliCommand::Agent { .. }
            | CliCommand::Indexer { .. }
            | CliCommand::Journal { .. }
            | CliCommand::Audit { .. }
            | CliCommand::Peer { .. }
            | CliCommand::Call { .. }
            | CliCommand::Approve { .. }
            | CliCommand::Token { .. }
            | CliCommand::Tools { .. }
            | CliCommand::Resource { .. }
            | CliCommand::Complete { .. }
            | CliCommand::Completions { .. } => LevelFilter::OFF,
        }
    }

    /// Runs the command.
    pub async fn run(self, mut secrets: ProcessSecrets) -> anyhow::Result<()> {
        match self.command {
            CliCommand::Serve => serve::run(config::read_serve(&ProcessEnvironment, &mut secrets)?).await,
            CliCommand::Check { json } => {
                check::run(config::read_serve(&ProcessEnvironment, &mut secrets)?, json).await
            }
            CliCommand::Indexer { command, json } => {
                let settings = config::read_indexer(&ProcessEnvironment, &mut secrets)?;
                match command {
                    None => indexer::run(settings).await,
                    Some(command) => indexer::inspect(command, settings, json).await,
                }
            }
            CliCommand::Agent { command, json } => agent::run(command, json, &mut secrets).await,
            CliCommand::Peer { command, json } => peer::run(command, json, &mut secrets).await,
            CliCommand::Audit { command, json } => audit::run(command, json),
            CliCommand::Journal { command, json } => journal::run(command, json).await,
            #[cfg(feature = "devnet")]
            CliCommand::Devnet(args) => devnet::run(*args, &mut secrets).await,
            CliCommand::Call { tool, arguments, yes, server } => {
                call::run(&tool, &arguments, yes, &server, &mut secrets).await
            }
            CliCommand::Approve { id, decline, yes, server } => {
                approve::run(id.as_deref(), decline, yes, &server, &mut secrets).await
            }
            CliCommand::Token { command } => token::run(command),
            CliCommand::Tools { name, server } => tools::run(name.as_deref(), &server, &mut secrets).await,
            CliCommand::Resource { uri, watch, server } => {
                resource::run(uri.as_deref(), watch, &server, &mut secrets).await
            }
            CliCommand::Complete { tool, word, server } => complete::run(&tool, &word, &server, &mut secrets).await,
            CliCommand::Completions { shell } => {
                complete::print_script::<Self>(shell);
                Ok(())
            }
        }
    }
}

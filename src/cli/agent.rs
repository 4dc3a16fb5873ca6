//! `svc agent`: the agent, configured by the environment, and the commands of its machine.

mod access;
mod check;
mod flows;
pub(super) mod init;
mod init_answer;
mod init_progress;
mod messaging_check;
mod rebase;
mod store_file;
mod trust;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Subcommand;
use serde_json::{Value, json};
use svc_agent::{AccessGranterHandle, AgentStore, document_digest, recover_log};
use svc_net::{
    fetch::{BoundedFetcher, FetchLimits},
    host_policy::HostPolicy,
};
use svc_peer::{AgentAddress, AgentApi};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::task::AbortOnDropHandle;

use super::output::{OutputForm, print_content, print_json, print_line};
use crate::{
    admin::{AgentListeners, AgentServer},
    config::{AgentSettings, ProcessEnvironment, read_agent, read_hosts, read_paths, read_stopped_agent},
    secrets::ProcessSecrets,
    shutdown::{DRAIN_TIMEOUT, stop_signal},
};

#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// Tests the configuration and everything that the agent depends on, and reports each problem.
    Check,
    /// Shows the steps that make the DID trusted, and has a tool server send those that are missing. Exit status: 0 all are done, 3 others
    /// have to act, 1 a step failed.
    Init(init::InitArgs),
    /// Shows the DID of the running agent, its document's version, and the state of its resolution.
    Did,
    /// The webhooks of the running agent.
    Webhooks {
        #[command(subcommand)]
        command: WebhookCommand,
    },
    /// The credentials that the DID presents and issues.
    Credential {
        #[command(subcommand)]
        command: CredentialCommand,
    },
    /// Computes the digest of a document as a claim has it, such as ECS_CLAIMS_SERVICE_LOGO_DIGEST_SRI for a logo.
    Digest {
        /// URL of the document, which has at most 4 MiB and no redirect. SVC_ALLOW_PRIVATE_HOSTS allows hosts on this machine.
        url: String,
    },
    /// The flows with peers: participants that are validated, credentials that are issued.
    Flows {
        #[command(subcommand)]
        command: flows::FlowCommand,
    },
    /// The access that peers have to endpoints of the DID.
    Access {
        #[command(subcommand)]
        command: access::AccessCommand,
    },
    /// Gives the running agent other keys.
    Rotate {
        /// The key of the log, the keys of the document, or the store key: SVC_AGENT_STORE_KEY is the new one then, and
        /// SVC_AGENT_STORE_KEY_PREVIOUS the one before.
        #[arg(value_enum)]
        kind: RotatedKey,
        /// Issue own credentials again, so that the old key leaves the document earlier.
        #[arg(long)]
        reissue: bool,
        /// A thief may have the keys of the document: they leave it at once.
        #[arg(long)]
        compromised: bool,
    },
    /// Writes the store of the running agent to a file. Private keys stay encrypted with the store key, which the file does not have.
    Export {
        /// The file; it must not be there.
        file: PathBuf,
        /// Replace a file that is there.
        #[arg(long)]
        force: bool,
    },
    /// Writes a file of `export` into the empty store of an agent that does not run, in SQLite or PostgreSQL.
    Import {
        /// The file.
        file: PathBuf,
    },
    /// Lets the store of a stopped agent take a longer log of its DID, after a restored backup.
    Recover {
        /// The log: a file, or its URL.
        #[arg(long)]
        log: String,
    },
    /// Lets a stopped agent go on from a height, after the chain has gone back and made other blocks. Transactions, digests and events
    /// above it are looked for once more. One that was interrupted is repeated.
    Rebase {
        /// Newest height that the chain and the agent both have.
        #[arg(long, value_name = "HEIGHT")]
        to: u64,
    },
}

/// Keys that can be rotated.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum RotatedKey {
    /// The key that signs the entries of the log.
    Update,
    /// The keys of the document.
    Document,
    /// The key that encrypts the private keys of the store.
    Store,
}

impl RotatedKey {
    fn as_str(self) -> &'static str {
        match self {
            Self::Update => "update",
            Self::Document => "document",
            Self::Store => "store",
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum CredentialCommand {
    /// Lists the credentials that the DID presents, and those that it has issued.
    List,
    /// Presents a credential that another DID has issued to this one.
    Import {
        /// File with the credential as JSON.
        file: PathBuf,
    },
    /// Presents an imported credential no more.
    Remove {
        /// Id of the credential.
        id: String,
    },
    /// Issues a credential to a DID that has a HOLDER participant under the agent's, and prints it as a file for its subject.
    Issue {
        /// DID of the subject.
        #[arg(long)]
        to: String,
        /// Id of the schema.
        #[arg(long)]
        schema: String,
        /// File with the claims as a JSON object.
        #[arg(long)]
        claims: PathBuf,
        /// End of the validity, RFC 3339; the longest that is allowed when absent.
        #[arg(long)]
        valid_until: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub enum WebhookCommand {
    /// Lists the events that could not be delivered.
    Dead,
    /// Queues one of them again.
    Retry {
        /// Id of the event.
        id: String,
    },
    /// Lists the heights whose events were dropped.
    Gaps,
    /// Reads the events of these heights from the indexer again.
    Refill,
}

/// Runs a command, or the agent.
pub(super) async fn run(
    command: Option<AgentCommand>,
    as_json: bool,
    secrets: &mut ProcessSecrets,
) -> anyhow::Result<()> {
    let environment = ProcessEnvironment;
    let mut local = || local_api(&read_paths(&environment, &mut *secrets).socket);
    match command {
        None => serve(read_agent(&environment, secrets)?).await,
        Some(AgentCommand::Check) => check::run(read_agent(&environment, secrets)?, as_json).await,
        Some(AgentCommand::Init(args)) => {
            let api = local()?;
            init::run(&args, &api, as_json, secrets).await
        }
        Some(AgentCommand::Did) => {
            print_content(&local()?.get("/v2/agent/info").await?, OutputForm::chosen(as_json, false))
        }
        Some(AgentCommand::Webhooks { command }) => run_webhooks(&local()?, command, as_json).await,
        Some(AgentCommand::Credential { command }) => run_credentials(&local()?, command, as_json).await,
        Some(AgentCommand::Digest { url }) => {
            let fetcher = BoundedFetcher::new(read_hosts(&environment)?, FetchLimits::default())?;
            let (digest, bytes) = document_digest(&fetcher, &url).await?;
            if as_json {
                return print_json(&json!({"url": url, "digest": digest, "bytes": bytes}));
            }
            print_line(digest);
            Ok(())
        }
        Some(AgentCommand::Flows { command }) => flows::run(&local()?, command, as_json).await,
        Some(AgentCommand::Access { command }) => access::run(&local()?, command, as_json).await,
        Some(AgentCommand::Rotate { kind, reissue, compromised }) => {
            let mut body = json!({"kind": kind.as_str()});
            for (name, flag) in [("reissue", reissue), ("compromised", compromised)] {
                if flag {
                    body[name] = true.into();
                }
            }
            let rotated = local()?.post_json("/v2/agent/keys/rotate", &body).await?;
            print_content(&rotated, OutputForm::chosen(as_json, false))
        }
        Some(AgentCommand::Export { file, force }) => {
            let exported = store_file::export(&local()?, &file, force).await?;
            print_content(&exported, OutputForm::chosen(as_json, false))
        }
        Some(AgentCommand::Import { file }) => {
            let imported = store_file::import(read_stopped_agent(&environment, secrets)?, &file).await?;
            print_content(&imported, OutputForm::chosen(as_json, false))
        }
        Some(AgentCommand::Recover { log }) => {
            let stopped = read_stopped_agent(&environment, secrets)?;
            let recovered = recover_log(stopped.store, &stopped.paths.head, read_log(&log).await?).await?;
            print_content(&serde_json::to_value(recovered)?, OutputForm::chosen(as_json, false))
        }
        Some(AgentCommand::Rebase { to }) => {
            let rebased = rebase::run(read_agent(&environment, secrets)?, to).await?;
            print_content(&rebased, OutputForm::chosen(as_json, false))
        }
    }
}

/// A client of the local socket of the running agent.
fn local_api(socket: &Path) -> anyhow::Result<AgentApi> {
    let settings = "with the same SVC_AGENT_SOCKET or SVC_AGENT_DB";
    Ok(AgentApi::new(AgentAddress::Socket(socket.to_owned()), settings)?)
}

async fn run_webhooks(api: &AgentApi, command: WebhookCommand, as_json: bool) -> anyhow::Result<()> {
    match command {
        WebhookCommand::Dead => {
            let letters = api.all("/v2/events/dead-letters").await?;
            print_items(&letters, as_json, |letter| {
                let reason = match (&letter["lastStatus"], &letter["lastError"]) {
                    (Value::Number(status), _) => format!("status {status}"),
                    (_, Value::String(error)) => error.clone(),
                    _ => "no attempt".to_owned(),
                };
                format!("{}  {}  {} attempts, {reason}", text(&letter["id"]), text(&letter["type"]), letter["attempts"])
            })
        }
        WebhookCommand::Retry { id } => {
            let path = format!("/v2/events/dead-letters/{}/retry", urlencoding(&id));
            print_content(&api.post(&path).await?, OutputForm::chosen(as_json, false))
        }
        WebhookCommand::Gaps => {
            let gaps = api.all("/v2/events/gaps").await?;
            print_items(&gaps, as_json, |gap| {
                format!("heights {} to {}: {} events", gap["fromHeight"], gap["toHeight"], gap["count"])
            })
        }
        WebhookCommand::Refill => {
            print_content(&api.post("/v2/events/gaps/refill").await?, OutputForm::chosen(as_json, false))
        }
    }
}

async fn run_credentials(api: &AgentApi, command: CredentialCommand, as_json: bool) -> anyhow::Result<()> {
    match command {
        CredentialCommand::List => {
            let mut all = api.all("/v2/vt/linked-credentials").await?;
            all.extend(api.all("/v2/vt/schema-credentials").await?);
            let issued = api.all("/v2/vt/issued-credentials").await?;
            all.extend(issued.into_iter().filter(|one| one["kind"] == "issued"));
            print_items(&all, as_json, |one| {
                let state = if one["presented"] == true { "presented" } else { text(&one["state"]) };
                let reason = one["reason"].as_str().map(|reason| format!(" ({reason})")).unwrap_or_default();
                let until = one["validUntil"].as_str().map(|until| format!(", until {until}")).unwrap_or_default();
                format!("{}  {} {}: {state}{reason}{until}", text(&one["id"]), text(&one["kind"]), text(&one["name"]))
            })
        }
        CredentialCommand::Import { file } => {
            let body = json!({"credential": read_json(&file)?});
            let imported = api.post_json("/v2/vt/linked-credentials", &body).await?;
            print_content(&imported, OutputForm::chosen(as_json, false))
        }
        CredentialCommand::Remove { id } => {
            let removed = api.delete(&format!("/v2/vt/linked-credentials/{}", urlencoding(&id))).await?;
            print_content(&removed, OutputForm::chosen(as_json, false))
        }
        CredentialCommand::Issue { to, schema, claims, valid_until } => {
            let mut body = json!({"did": to, "schemaId": schema, "claims": read_json(&claims)?});
            if let Some(until) = valid_until {
                body["validUntil"] = until.into();
            }
            // The credential alone is printed: it is the file that its subject imports.
            print_json(&api.post_json("/v2/vt/issued-credentials", &body).await?["credential"])
        }
    }
}

fn read_json(file: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is no JSON", file.display()))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A path segment.
pub(super) fn urlencoding(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

fn print_items(items: &[Value], as_json: bool, line: impl Fn(&Value) -> String) -> anyhow::Result<()> {
    if as_json {
        print_json(&items)?;
    } else if items.is_empty() {
        print_line("none");
    } else {
        items.iter().for_each(|item| print_line(line(item)));
    }
    Ok(())
}

async fn read_log(source: &str) -> anyhow::Result<Bytes> {
    if source.starts_with("http://") || source.starts_with("https://") {
        let limits = svc_net::did::LARGE_LOG_LIMITS;
        let fetcher = BoundedFetcher::new(HostPolicy::AllowPrivate, limits)?;
        let fetched = fetcher.get_within(source, &limits).await;
        return Ok(fetched.with_context(|| format!("{source} does not give a log"))?.body);
    }
    let path = PathBuf::from(source);
    Ok(Bytes::from(std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?))
}

/// Reads the conditions of access again at each SIGHUP. Fails when no signal handler can be installed.
fn reload_access_at_hang_ups(access: AccessGranterHandle) -> anyhow::Result<AbortOnDropHandle<()>> {
    let mut hang_ups = signal(SignalKind::hangup())?;
    Ok(AbortOnDropHandle::new(tokio::spawn(async move {
        while hang_ups.recv().await.is_some() {
            // The granter reports the problems of a bad file.
            let _ = access.reload().await;
        }
    })))
}

/// Time that the actors and the store get after the last answer.
const STOP_TIME: Duration = Duration::from_secs(8);

/// Serves the agent until a stop signal, or until it must end.
async fn serve(settings: AgentSettings) -> anyhow::Result<()> {
    // One future for the whole run: between two of them a signal would be lost.
    let stop = stop_signal()?;
    tokio::pin!(stop);
    for warning in &settings.warnings {
        tracing::warn!("{warning}");
    }
    let listeners = match AgentListeners::bind(&settings.server) {
        Ok(listeners) => listeners,
        // The process on the port may be the owner of the store, which is the better reason.
        Err(error) => {
            AgentStore::open(settings.agent.store).await?.close().await;
            return Err(error);
        }
    };
    let front = settings.server.listener.clone();
    let _metrics = front.start_metrics()?;
    let _reload = front.reload_at_hang_ups()?;
    let started = tokio::select! {
        started = AgentServer::start(settings.agent, settings.server, listeners) => started,
        () = &mut stop => return Ok(()),
    };
    let mut server = started?;
    let did = server.did();
    tracing::info!(did, admin = %server.admin, public = %server.public, "serving the agent");
    front.warn_of_clear_text(server.admin);
    let _access = reload_access_at_hang_ups(server.agent.access().clone())?;
    let reason = tokio::select! {
        () = &mut stop => None,
        reason = server.wait_until_ended() => Some(reason),
    };
    server.stop(DRAIN_TIMEOUT.saturating_sub(STOP_TIME)).await;
    tracing::info!("stopped");
    match reason {
        None => Ok(()),
        Some(reason) => bail!("the agent has ended: {reason}"),
    }
}

//! `svc agent check`: the configuration, the running agent, its document at its public URL, the verdict on its DID, the messages that
//! its node takes, its grant, its fees, the ends of all of these, its webhooks, and its endpoints for peers.

use std::time::Duration;

use serde_json::Value;
use svc_agent::{
    AccessSettings, AccessTerms, AgentAccount, AgentConfig, ChainConfig, CredentialSettings, GrantError,
    PublicLocation, SIGNED_MESSAGES, WantedGrant, read_grant,
};
use svc_kit::wall_clock;
use svc_net::{
    did::DidResolver,
    host_policy::HostPolicy,
    upstream::{
        IndexReport, IndexerGuard, NodeClient, UpstreamEndpoints, UpstreamKind, UpstreamOrigins, read_indexed_height,
        select_indexer,
    },
};
use svc_pipeline::{AccountIdentity, FeeBudget, RegistryChain, discover_chain, query_account, query_balance};
use svc_wire::timestamp;
use tokio::time::timeout;

use super::{
    local_api,
    messaging_check::check_messaging,
    trust::{check_registry_ends, check_trust},
};
use crate::{
    cli::findings::{CheckFinding, report},
    config::AgentSettings,
};

/// Longest run of all checks.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);
/// Age of the oldest undelivered event above which the receiver counts as failing.
const LATE_SECONDS: i64 = 600;

/// Runs all checks and prints the findings. Fails when a finding would keep the agent from working.
pub(super) async fn run(settings: AgentSettings, as_json: bool) -> anyhow::Result<()> {
    let mut findings = vec![CheckFinding::good("configuration", "every variable can be used")];
    let AgentSettings { agent, server, .. } = settings;
    let info = match server.socket.as_deref().map(local_api).transpose()? {
        None => None,
        Some(api) => match timeout(CHECK_TIMEOUT, api.get("/v2/agent/info")).await {
            Ok(Ok(info)) => Some(info),
            Ok(Err(error)) => {
                findings.push(CheckFinding::bad("agent", format!("{error:#}")));
                None
            }
            Err(_) => {
                findings.push(CheckFinding::bad("agent", format!("no answer within {CHECK_TIMEOUT:?}")));
                None
            }
        },
    };
    let AgentConfig { location, chain, events, peers, access, hosts, credentials, .. } = agent;
    let credentials = match info.as_ref().and_then(|info| info["did"].as_str()) {
        Some(did) => credentials.with_did(did),
        None => credentials,
    };
    findings.push(check_ecosystems(&credentials));
    findings.push(match timeout(CHECK_TIMEOUT, check_indexer(&events.indexer, &chain)).await {
        Ok(finding) => finding,
        Err(_) => CheckFinding::bad("SVC_INDEXER_BASE_URL", format!("no answer within {CHECK_TIMEOUT:?}")),
    });
    let has_receiver = events.receiver.is_some();
    let api = server.socket.as_deref().map(local_api).transpose()?.filter(|_| info.is_some());
    if let (Some(api), Some(did)) = (&api, info.as_ref().and_then(|info| info["did"].as_str())) {
        let checked = timeout(CHECK_TIMEOUT, check_trust(api, &events.indexer, did)).await;
        findings.extend(
            checked.unwrap_or_else(|_| vec![CheckFinding::bad("trust", format!("no answer within {CHECK_TIMEOUT:?}"))]),
        );
    }
    if let Some(api) = &api {
        match timeout(CHECK_TIMEOUT, api.get("/v2/agent/setup")).await {
            Ok(Ok(setup)) => findings.extend(check_setup(&setup)),
            Ok(Err(error)) => findings.push(CheckFinding::bad("setup", format!("{error:#}"))),
            Err(_) => findings.push(CheckFinding::bad("setup", format!("no answer within {CHECK_TIMEOUT:?}"))),
        }
    }
    match timeout(CHECK_TIMEOUT, check_parts(info, &location, &chain, has_receiver)).await {
        Ok(found) => findings.extend(found),
        Err(_) => findings.push(CheckFinding::bad("upstreams", format!("no end after {CHECK_TIMEOUT:?}"))),
    }
    match timeout(CHECK_TIMEOUT, check_messaging(&peers, &location, hosts)).await {
        Ok(found) => findings.extend(found),
        Err(_) => findings.push(CheckFinding::bad("DIDCOMM_TRANSPORTS", format!("no end after {CHECK_TIMEOUT:?}"))),
    }
    findings.extend(check_conditions(&access));
    report(&findings, as_json)
}

/// The settings that keep the agent from issuing a credential, and the steps that it has begun.
fn check_setup(setup: &Value) -> Vec<CheckFinding> {
    let steps = setup["steps"].as_array().into_iter().flatten();
    let waiting = steps.filter(|step| step["state"] == "waiting" && step["by"] == "operator");
    let findings = waiting.map(|step| {
        let (id, reason) = (step["id"].as_str().unwrap_or_default(), step["reason"].as_str().unwrap_or_default());
        match step["setting"].as_str() {
            Some(_) => CheckFinding::bad("claims", reason),
            None => CheckFinding::warning("setup", format!("{id}: {reason}")),
        }
    });
    findings.collect()
}

/// Whether any schema is essential.
fn check_ecosystems(credentials: &CredentialSettings) -> CheckFinding {
    let subject = "SVC_ESSENTIAL_ECOSYSTEMS";
    let relied_on: Vec<&str> = credentials.essential_schemas.ecosystems().collect();
    if relied_on.is_empty() {
        let detail =
            "neither it nor TRUSTED_ECS_ECOSYSTEM_DIDS names an ecosystem: no schema is essential, and no peer trusted";
        return CheckFinding::bad(subject, detail);
    }
    CheckFinding::good(subject, format!("essential schemas count in {}", relied_on.join(", ")))
}

/// Whether the conditions of access can be used.
fn check_conditions(access: &AccessSettings) -> Option<CheckFinding> {
    let (file, subject) = (access.terms_file.as_ref()?, "ENDPOINT_ACCESS_FILE");
    Some(match AccessTerms::read(file, access.token_seconds) {
        Ok(terms) => CheckFinding::good(subject, format!("conditions of {} endpoints", terms.endpoints().count())),
        Err(error) => CheckFinding::bad(subject, error.to_string()),
    })
}

async fn check_parts(
    info: Option<Value>,
    location: &PublicLocation,
    chain: &ChainConfig,
    has_receiver: bool,
) -> Vec<CheckFinding> {
    let mut findings = Vec::new();
    let did = info.as_ref().and_then(|info| info["did"].as_str()).map(str::to_owned);
    if let Some(info) = &info {
        let (did, version) = (did.as_deref().unwrap_or_default(), &info["document"]["versionId"]);
        findings.push(CheckFinding::good("agent", format!("{did}, version {}", version.as_str().unwrap_or_default())));
        findings.push(check_document(did, version.as_str().unwrap_or_default(), location).await);
    }
    match find_chain(chain).await {
        Err(finding) => findings.push(finding),
        Ok((node, found)) => {
            let detail = format!("{} runs {}", node.origin(), found.params.chain_id);
            findings.push(CheckFinding::good("SVC_RPC_ENDPOINT_URL", detail));
            findings.push(check_release(&found));
            findings.extend(check_account(chain, &node, &found, did.as_deref()).await);
        }
    }
    if let Some(info) = &info {
        findings.extend(check_history(&info["chain"]));
        findings.push(check_resolution(&info["resolution"]));
        findings.push(check_webhooks(&info["events"], has_receiver));
    }
    findings
}

/// The height of the indexer, and each one that does not follow the chain of the node.
async fn check_indexer(origins: &UpstreamOrigins, chain: &ChainConfig) -> CheckFinding {
    let subject = "SVC_INDEXER_BASE_URL";
    let indexer = match UpstreamEndpoints::new(UpstreamKind::Indexer, origins) {
        Ok(indexer) => indexer,
        Err(error) => return CheckFinding::bad(subject, error.to_string()),
    };
    let guard = NodeClient::new(&chain.rpc).and_then(|node| IndexerGuard::new(&indexer, node));
    let guard = match guard {
        Ok(guard) => guard,
        Err(error) => return CheckFinding::bad(subject, error.to_string()),
    };
    guard.compare_due().await;
    select_indexer(&indexer, 0, None).await;
    let problems: Vec<String> = guard.reports().iter().filter_map(IndexReport::problem).collect();
    match read_indexed_height(indexer.current()).await {
        Ok(height) if problems.is_empty() => CheckFinding::good(subject, format!("{origins} is at block {height}")),
        Ok(height) => {
            let used = indexer.current().origin();
            CheckFinding::warning(subject, format!("{used} is at block {height}; {}", problems.join("; ")))
        }
        Err(_) if guard.has_none_left() => CheckFinding::bad(subject, problems.join("; ")),
        Err(error) => CheckFinding::bad(subject, error.to_string()),
    }
}

/// Whether the newest document is at its public URL.
async fn check_document(did: &str, version: &str, location: &PublicLocation) -> CheckFinding {
    let subject = "PUBLIC_API_BASE_URL";
    let resolver = match DidResolver::new(HostPolicy::AllowPrivate) {
        Ok(resolver) => resolver,
        Err(error) => return CheckFinding::bad(subject, error.to_string()),
    };
    if let Err(error) = resolver.resolve_fresh(did).await {
        return CheckFinding::bad(subject, format!("the document is not at {}: {error}", location.base_url()));
    }
    if !did.starts_with("did:webvh:") {
        return CheckFinding::good(subject, format!("the document is at {}", location.base_url()));
    }
    let newest = match resolver.fetch_published_log(did).await {
        Ok(log) => newest_version(&log),
        Err(error) => return CheckFinding::bad(subject, error.to_string()),
    };
    match newest {
        Some(newest) if newest == version => {
            CheckFinding::good(subject, format!("version {version} is at {}", location.base_url()))
        }
        found => {
            let found = found.unwrap_or_else(|| "no version".to_owned());
            CheckFinding::bad(subject, format!("{found} is at {}, and the newest is {version}", location.base_url()))
        }
    }
}

fn newest_version(log: &[u8]) -> Option<String> {
    let line = log.split(|byte| *byte == b'\n').rfind(|line| !line.trim_ascii().is_empty())?;
    let entry: Value = serde_json::from_slice(line).ok()?;
    entry["versionId"].as_str().map(str::to_owned)
}

async fn find_chain(chain: &ChainConfig) -> Result<(NodeClient, RegistryChain), CheckFinding> {
    let bad = |error: String| CheckFinding::bad("SVC_RPC_ENDPOINT_URL", error);
    let node = NodeClient::new(&chain.rpc).map_err(|error| bad(error.to_string()))?;
    node.select_current(Some(0)).await;
    let found = discover_chain(&node, &chain.expected).await.map_err(|error| bad(error.to_string()))?;
    Ok((node, found))
}

/// Whether the node takes the messages that the agent signs.
fn check_release(chain: &RegistryChain) -> CheckFinding {
    let (subject, release) = ("release of the node", &chain.release);
    let namespace = chain.registry.namespace();
    let problem = |name: &&str| Some(format!("{name}: {}", release.problem_of(&namespace.type_url("pp", name))?));
    let not_taken: Vec<String> = SIGNED_MESSAGES.iter().filter_map(problem).collect();
    let description = format!("the node is of {}", release.description);
    if !not_taken.is_empty() {
        let not_taken = not_taken.join("; ");
        return CheckFinding::bad(subject, format!("{description}; the agent does not sign {not_taken}"));
    }
    if !release.is_compared {
        let detail = format!("{description}; messages are signed without a comparison of their fields");
        return CheckFinding::warning(subject, detail);
    }
    CheckFinding::good(subject, description)
}

async fn check_account(
    config: &ChainConfig,
    node: &NodeClient,
    chain: &RegistryChain,
    did: Option<&str>,
) -> Vec<CheckFinding> {
    let identity = match AccountIdentity::new(&config.key, &chain.params.prefix) {
        Ok(identity) => identity,
        Err(error) => return vec![CheckFinding::bad("SVC_ACCOUNT_MNEMONIC", error.to_string())],
    };
    let address = identity.address.to_string();
    let mut findings = vec![CheckFinding::good("SVC_ACCOUNT_MNEMONIC", format!("is the key of {address}"))];
    let mut budget = None;
    if let Some(did) = did {
        let agent =
            AgentAccount { did: did.to_owned(), corporation_id: config.corporation_id, address: address.clone() };
        findings.push(
            match read_grant(node, (chain, &chain.release), &agent, &WantedGrant::TRIGGER, &wall_clock::now()).await {
                Ok(grant) => {
                    // An allowance of an account without coins pays nothing.
                    let coins = query_balance(node, &grant.corporation, &chain.params.denom).await.unwrap_or(0);
                    budget = grant.budget.filter(|_| coins > 0);
                    let end = grant.expires_at.as_ref().or(grant.participant.effective_until.as_ref());
                    let until = end.map_or_else(
                        || "without an end".to_owned(),
                        |end| format!("until {}", timestamp::iso_millis(end)),
                    );
                    CheckFinding::good("grant", format!("participant {} {until}", grant.participant.id))
                }
                Err(GrantError::Blocked(reason)) => {
                    CheckFinding::bad("grant", format!("{}; `svc agent init` shows the step", reason.as_str()))
                }
                Err(GrantError::Node(error)) => CheckFinding::bad("grant", error.to_string()),
            },
        );
        findings.extend(check_registry_ends(node, chain, &agent).await);
    }
    findings.push(check_fees(node, chain, &address, budget).await);
    findings
}

async fn check_fees(
    node: &NodeClient,
    chain: &RegistryChain,
    address: &str,
    budget: Option<FeeBudget>,
) -> CheckFinding {
    let denom = &chain.params.denom;
    match budget {
        Some(FeeBudget::Unlimited) => return CheckFinding::good("fees", "the corporation's allowance pays any fee"),
        Some(FeeBudget::UpTo(most)) if most > 0 => {
            return CheckFinding::good("fees", format!("the corporation's allowance pays up to {most}{denom}"));
        }
        _ => {}
    }
    match query_account(node, address).await {
        Ok(None) => return CheckFinding::bad("fees", "the account does not exist yet: it must be sent coins"),
        Err(error) => return CheckFinding::bad("fees", error.to_string()),
        Ok(Some(_)) => {}
    }
    match query_balance(node, address, denom).await {
        Ok(0) => CheckFinding::bad("fees", "no allowance, and the account has no coins"),
        Ok(balance) => CheckFinding::good("fees", format!("no allowance: the account pays, and has {balance}{denom}")),
        Err(error) => CheckFinding::bad("fees", error.to_string()),
    }
}

/// Whether the chain has the history of the agent.
fn check_history(chain: &Value) -> Option<CheckFinding> {
    let code = chain["code"].as_str()?;
    Some(CheckFinding::bad("history", format!("{code}: {}", chain["text"].as_str().unwrap_or_default())))
}

fn check_resolution(resolution: &Value) -> CheckFinding {
    let state = resolution["state"].as_str().unwrap_or_default();
    match resolution["reason"].as_str() {
        Some(reason) => {
            let text = resolution["text"].as_str().map(|text| format!(": {text}")).unwrap_or_default();
            CheckFinding::bad("resolution", format!("{state}: {reason}{text}"))
        }
        None => CheckFinding::good("resolution", state),
    }
}

fn check_webhooks(events: &Value, has_receiver: bool) -> CheckFinding {
    let subject = "EVENTS_WEBHOOK_URL";
    if !has_receiver {
        return CheckFinding::good(subject, "not set: no event is delivered");
    }
    let (stored, dead) = (&events["stored"], events["deadLetters"].as_u64().unwrap_or(0));
    let oldest = events["oldestAt"].as_str().and_then(timestamp::parse_rfc3339);
    let age = oldest.map_or(0, |oldest| wall_clock::now().seconds - oldest.seconds);
    if dead > 0 {
        return CheckFinding::bad(subject, format!("{dead} events could not be delivered: svc agent webhooks dead"));
    }
    if age > LATE_SECONDS {
        return CheckFinding::bad(subject, format!("{stored} events wait, the oldest for {age} s"));
    }
    CheckFinding::good(subject, format!("{stored} events wait"))
}

//! The variables of `svc serve`.

use std::{collections::BTreeSet, net::IpAddr, path::PathBuf, sync::Arc};

use svc_net::host_policy::HostPolicy;
use svc_operator::{BootPatience, FeePolicy, OperatorConfig, SetGasPrice, WindowBound};
use svc_wire::{account_key::AccountKey, secret::SecretString};
use tracing::level_filters::LevelFilter;

use super::{
    environment::{ConfigError, Environment, EnvironmentReader, PHRASE, PORT},
    listener::read_listener,
    tool_selection::{read_selection, read_session_limits},
};
use crate::{
    listener::ListenerConfig,
    mcp::{SessionLimits, ToolNames, ToolSelection},
    principals::{OauthConfig, PeerConfig, PrincipalDirectory},
    secrets::ProcessSecrets,
};

/// The transport between clients and the tool server.
pub enum TransportConfig {
    /// HTTP with a bearer token.
    Http(Box<HttpTransportConfig>),
    /// Standard input and output.
    Stdio,
}

/// The HTTP listener.
pub struct HttpTransportConfig {
    /// Address.
    pub bind: IpAddr,
    /// Port; 0 takes a free one.
    pub port: u16,
    /// The principals with static tokens.
    pub principals: Arc<PrincipalDirectory>,
    /// Issuer of access tokens.
    pub oauth: Option<OauthConfig>,
    /// The agent whose tokens for peers are accepted.
    pub peers: Option<PeerConfig>,
    /// Host names that clients may use, in addition to the loopback names and the bound address.
    pub allowed_hosts: Vec<String>,
    /// Limits of the sessions.
    pub sessions: SessionLimits,
    /// Limits and encryption of the listener.
    pub listener: ListenerConfig,
}

/// The configuration of `svc serve`.
pub struct ServeConfig {
    /// The operator.
    pub operator: OperatorConfig,
    /// The key of the operator account.
    pub key: AccountKey,
    /// The transport of the tool server.
    pub transport: TransportConfig,
    /// The tools of the deployment.
    pub selection: ToolSelection,
}

/// Fewest characters of a bearer token.
pub const MIN_TOKEN_CHARACTERS: usize = 32;

/// Log level of the process; a missing or malformed value gives the default.
pub fn read_log_level(environment: &impl Environment, variable: &str, default: LevelFilter) -> LevelFilter {
    environment.get(variable).and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Reads the configuration of `svc serve`. Fails with the problems of all variables at once.
pub fn read_serve(environment: &impl Environment, secrets: &mut ProcessSecrets) -> Result<ServeConfig, ConfigError> {
    let mut reader = EnvironmentReader::new(environment);
    let key = match secrets.take("MCP_SVC_MNEMONIC") {
        None => {
            reader.add_problem("MCP_SVC_MNEMONIC", "not set", PHRASE);
            None
        }
        Some(phrase) => reader.parse_phrase("MCP_SVC_MNEMONIC", &phrase),
    };
    let corporation_id = reader.read_parsed("SVC_CORPORATION", "a corporation id, 1 or more", None, |text| {
        text.parse().ok().filter(|id| *id > 0_u64)
    });
    let (rpc, indexer) = (reader.read_origins("SVC_RPC"), reader.read_origins("SVC_INDEXER"));
    let graph = reader.read_optional_origin("SVC_GRAPH");
    let hosts = reader.read_host_policy();
    let allows_plaintext_node = reader.read_flag("SVC_ALLOW_PLAINTEXT_NODE");
    let uses_live_descriptors = reader.read_flag("SVC_LIVE_DESCRIPTORS");
    let unbound_logins = reader.read_parsed(
        "SVC_VSA_UNBOUND_LOGINS",
        "a comma-separated list of DIDs of agents",
        Some(BTreeSet::new()),
        |text| {
            let dids: BTreeSet<String> = text.split(',').map(|did| did.trim().to_owned()).collect();
            Some(dids).filter(|dids| dids.iter().all(|did| did.starts_with("did:")))
        },
    );
    let fees = read_fees(&mut reader);
    let chain_id = reader.read_optional("SVC_CHAIN_ID", CHAIN_ID, is_chain_id);
    let denom = reader.read_optional("SVC_DENOM", DENOM, is_denom);
    let tx_timeout = reader.read_millis("SVC_TX_TIMEOUT_MS", 30_000);
    let indexer_timeout = reader.read_millis("SVC_INDEXER_TIMEOUT_MS", 15_000);
    let refresh_period = reader.read_millis("SVC_CACHE_REFRESH_MS", 60_000);
    let window = reader.read_parsed(
        "SVC_TX_WINDOW",
        "adaptive, or how many transactions may be in flight at once, 1 to 1024",
        Some(WindowBound::Adaptive),
        parse_window_bound,
    );
    let (journal, audit) = (environment.get("SVC_JOURNAL"), environment.get("SVC_AUDIT"));
    let min_free_disk = read_min_free_disk(&mut reader);
    reader.read_parsed("SVC_LOG_LEVEL", LOG_LEVELS, Some(LevelFilter::INFO), parse_log_level);
    let transport = read_transport(&mut reader, secrets, hosts.unwrap_or(HostPolicy::PublicOnly));
    let selection = read_selection(&mut reader)?;
    match (
        key,
        corporation_id,
        rpc,
        indexer,
        hosts,
        unbound_logins,
        allows_plaintext_node,
        uses_live_descriptors,
        fees,
        tx_timeout,
        indexer_timeout,
        refresh_period,
        window,
        min_free_disk,
        transport,
        selection,
    ) {
        (
            Some(key),
            Some(corporation_id),
            Some(rpc),
            Some(indexer),
            Some(hosts),
            Some(unbound_logins),
            Some(allows_plaintext_node),
            Some(uses_live_descriptors),
            Some((fees, set_price)),
            Some(tx_timeout),
            Some(indexer_timeout),
            Some(refresh_period),
            Some(window),
            Some(min_free_disk),
            Some(transport),
            Some(selection),
        ) if reader.problems.is_empty() => Ok(ServeConfig {
            operator: OperatorConfig {
                graph,
                hosts,
                unbound_logins,
                allows_plaintext_node,
                uses_live_descriptors,
                corporation_id,
                rpc,
                indexer,
                chain_id,
                denom,
                fees,
                set_price,
                tx_timeout,
                indexer_timeout,
                refresh_period,
                window,
                journal,
                min_free_disk,
                audit,
                // Services that start together wait for each other; `/healthz` and the status say so meanwhile.
                patience: BootPatience::limited(None),
            },
            key,
            transport,
            selection,
        }),
        _ => Err(ConfigError::Variables(reader.problems)),
    }
}

fn read_transport<E: Environment>(
    reader: &mut EnvironmentReader<'_, E>,
    secrets: &mut ProcessSecrets,
    policy: HostPolicy,
) -> Option<TransportConfig> {
    let is_http = reader.read_parsed("MCP_TRANSPORT", "http, stdio", Some(true), |text| match text {
        "http" => Some(true),
        "stdio" => Some(false),
        _ => None,
    });
    if is_http == Some(false) {
        return Some(TransportConfig::Stdio);
    }
    let port = reader.read_parsed("MCP_HTTP_PORT", PORT, Some(3000), |text| text.parse().ok());
    let bind =
        reader.read_parsed("MCP_HTTP_BIND", "an IP address", Some([0, 0, 0, 0].into()), |text| text.parse().ok());
    let hosts = reader.environment.get("MCP_ALLOWED_HOSTS").unwrap_or_default();
    let allowed_hosts = hosts.split(',').map(str::trim).filter(|host| !host.is_empty()).map(str::to_owned).collect();
    let allowed = format!("at least {MIN_TOKEN_CHARACTERS} visible ASCII characters");
    let oauth = read_oauth(reader, policy);
    let peers = read_peers(reader, policy);
    let bearer = secrets.take("MCP_BEARER_TOKEN");
    let characters = bearer.as_ref().map_or(0, |token| token.expose_secret().chars().count());
    match &bearer {
        None => reader.add_problem("MCP_BEARER_TOKEN", "not set", allowed),
        Some(_) if characters < MIN_TOKEN_CHARACTERS => {
            reader.add_problem("MCP_BEARER_TOKEN", format!("{characters} characters"), allowed);
        }
        Some(token) if !token.expose_secret().bytes().all(|byte| byte.is_ascii_graphic()) => {
            reader.add_problem("MCP_BEARER_TOKEN", "characters that no header can carry", allowed);
        }
        Some(_) => {}
    }
    let sessions = read_session_limits(reader);
    let listener = read_listener(reader);
    let principals = bearer.as_ref().and_then(|bearer| read_principals(reader, bearer));
    is_http?;
    Some(TransportConfig::Http(Box::new(HttpTransportConfig {
        bind: bind?,
        port: port?,
        principals: principals?,
        oauth: oauth?,
        peers: peers?,
        allowed_hosts,
        sessions: sessions?,
        listener: listener?,
    })))
}

/// Reads the file of the principals.
fn read_principals<E: Environment>(
    reader: &mut EnvironmentReader<'_, E>,
    bearer: &SecretString,
) -> Option<Arc<PrincipalDirectory>> {
    let file = reader.environment.get("SVC_PRINCIPALS").map(PathBuf::from);
    let names = ToolNames::load().ok()?;
    match PrincipalDirectory::open(bearer, file, names) {
        Ok(directory) => Some(directory),
        Err(error) => {
            let allowed = "a TOML file of principals that only its owner may write (docs/operating.md)";
            reader.add_problem("SVC_PRINCIPALS", error.to_string(), allowed);
            None
        }
    }
}

/// Reads the agent whose tokens for peers are accepted, and this server as they name it. Both or none are set.
fn read_peers<E: Environment>(reader: &mut EnvironmentReader<'_, E>, hosts: HostPolicy) -> Option<Option<PeerConfig>> {
    let (issuer, audience) = (reader.environment.get("SVC_PEER_ISSUER"), reader.environment.get("SVC_PEER_AUDIENCE"));
    if issuer.is_none() && audience.is_none() {
        return Some(None);
    }
    let is_did = |did: &String| {
        (did.starts_with("did:web:") || did.starts_with("did:webvh:")) && !did.contains(['#', '?', '/', ' '])
    };
    let mut check = |name: &'static str, value: Option<String>, is_good: bool, allowed: &str| {
        if !is_good {
            let found = if value.is_some() { "no such value" } else { "not set" };
            reader.add_problem(name, found, allowed);
        }
        value.filter(|_| is_good)
    };
    let is_good = issuer.as_ref().is_some_and(is_did);
    let allowed = "the DID of the agent whose tokens are accepted, of the method web or webvh";
    let issuer = check("SVC_PEER_ISSUER", issuer, is_good, allowed);
    // It is compared byte for byte, so that it stays the text that was set.
    let is_good = audience.as_ref().is_some_and(|text| hosts.check_url(text).is_ok());
    let allowed = "the URL of the MCP entry in the agent's document, such as https://svc.example/mcp";
    let audience = check("SVC_PEER_AUDIENCE", audience, is_good, allowed);
    Some(Some(PeerConfig { issuer: issuer?, audience: audience?, hosts }))
}

/// Reads the issuer of access tokens, and this server as they name it. Both or none are set.
fn read_oauth<E: Environment>(reader: &mut EnvironmentReader<'_, E>, hosts: HostPolicy) -> Option<Option<OauthConfig>> {
    let (issuer, audience) = (reader.environment.get("SVC_OAUTH_ISSUER"), reader.environment.get("SVC_OAUTH_AUDIENCE"));
    if issuer.is_none() && audience.is_none() {
        return Some(None);
    }
    let mut read = |name: &'static str, text: Option<String>, allowed: &str| {
        let url = text.as_ref().and_then(|text| hosts.check_url(text).ok());
        let url = url.filter(|url| url.query().is_none() && url.fragment().is_none());
        if url.is_none() {
            reader.add_problem(name, if text.is_some() { "no such URL" } else { "not set" }, allowed);
        }
        url
    };
    let allowed = "the https URL of the issuer; http on this machine, with SVC_ALLOW_PRIVATE_HOSTS=true";
    let issuer = read("SVC_OAUTH_ISSUER", issuer, allowed);
    let allowed = "the URL of the MCP endpoint that tokens name as their audience, such as https://svc.example/mcp";
    let audience = read("SVC_OAUTH_AUDIENCE", audience, allowed);
    Some(Some(OauthConfig { issuer: issuer?, audience: audience?, hosts }))
}

pub(super) const CHAIN_ID: &str = "a chain id of 1 to 50 characters without blanks";
pub(super) const DENOM: &str = "a coin denom: a letter, then 2 to 127 letters, digits or / : . _ -";
pub(super) const LOG_LEVELS: &str = "error, warn, info, debug, trace";

pub(super) fn is_chain_id(text: &str) -> bool {
    text.len() <= 50 && !text.contains(char::is_whitespace)
}

pub(super) fn parse_log_level(text: &str) -> Option<LevelFilter> {
    LOG_LEVELS.split(", ").any(|level| level == text).then(|| text.parse().ok())?
}

/// Free bytes on the disk of the journal below which nothing is signed.
pub(super) fn read_min_free_disk<E: Environment>(reader: &mut EnvironmentReader<'_, E>) -> Option<u64> {
    let bytes = |text: &str| text.parse().ok();
    reader.read_parsed("SVC_MIN_FREE_DISK", "a number of bytes", Some(DEFAULT_MIN_FREE_DISK), bytes)
}

/// The gas price and the ceilings of a transaction, and whether the price is set.
pub(super) fn read_fees<E: Environment>(
    reader: &mut EnvironmentReader<'_, E>,
) -> Option<(FeePolicy, Option<SetGasPrice>)> {
    let price_allowed =
        "a decimal such as 0.025 with at most six digits behind the point, and the fee denom or nothing behind it";
    let price = reader.read_parsed("SVC_GAS_PRICE", price_allowed, Some((DEFAULT_GAS_PRICE_MICROS, None)), |text| {
        parse_gas_price(text).map(|(micros, denom)| (micros, Some(SetGasPrice { denom })))
    });
    let defaults = FeePolicy::at_price(price.as_ref().map_or(DEFAULT_GAS_PRICE_MICROS, |(price, _)| *price));
    let max_gas = reader.read_parsed("SVC_MAX_GAS", "a gas limit, 1 or more", Some(defaults.max_gas), |text| {
        parse_digits(text).filter(|gas| *gas > 0)
    });
    let fee_allowed = "an amount of the fee denom in digits";
    let max_fee = reader.read_parsed("SVC_MAX_FEE", fee_allowed, Some(defaults.max_fee), parse_digits);
    let day_allowed = "an amount of the fee denom in digits, or nothing for no limit";
    let max_fee_per_day =
        reader.read_parsed("SVC_MAX_FEE_PER_DAY", day_allowed, Some(None), |text| parse_digits(text).map(Some));
    let (price, set_price) = price?;
    let (max_gas, max_fee, max_fee_per_day) = (max_gas?, max_fee?, max_fee_per_day?);
    Some((FeePolicy { gas_price_micros: price, max_gas, max_fee, max_fee_per_day }, set_price))
}

/// Free bytes below which a full disk is near.
const DEFAULT_MIN_FREE_DISK: u64 = 64 << 20;
const DEFAULT_GAS_PRICE_MICROS: u64 = 25_000;

fn parse_digits<T: std::str::FromStr>(text: &str) -> Option<T> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// Parses a gas price: digits with one point and, optionally, a denom. In millionths of the denom.
fn parse_gas_price(text: &str) -> Option<(u64, Option<String>)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, denom) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    // `1e-3` would be the price 1 in the denom `e-3`.
    let is_exponent = denom.starts_with(['e', 'E']) && denom[1..].bytes().all(|byte| !byte.is_ascii_alphabetic());
    if fraction.len() > 6 || is_exponent || (!denom.is_empty() && !is_denom(denom)) {
        return None;
    }
    let whole: u64 = parse_digits(whole)?;
    parse_digits::<u64>(fraction)?;
    let millionths: u64 = parse_digits(&format!("{fraction:0<6}"))?;
    let micros = whole.checked_mul(1_000_000)?.checked_add(millionths)?;
    Some((micros, (!denom.is_empty()).then(|| denom.to_owned())))
}

/// Whether a text is a coin denom: a letter, then 2 to 127 letters, digits or `/ : . _ -`.
pub(super) fn is_denom(text: &str) -> bool {
    let mut characters = text.chars();
    let starts_well = characters.next().is_some_and(|first| first.is_ascii_alphabetic());
    starts_well
        && (3..=128).contains(&text.len())
        && characters.all(|c| c.is_ascii_alphanumeric() || "/:._-".contains(c))
}

fn parse_window_bound(text: &str) -> Option<WindowBound> {
    if text == "adaptive" {
        return Some(WindowBound::Adaptive);
    }
    text.parse().ok().filter(|size| (1..=1_024).contains(size)).map(WindowBound::Fixed)
}

#[cfg(test)]
mod tests;

//! The variables of `svc serve`.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use svc_net::host_policy::HostPolicy;
use svc_operator::{BootPatience, FeePolicy, OperatorConfig, SetGasPrice, WindowBound};
use svc_store::MinFreeSpace;
use svc_wire::{account_key::AccountKey, secret::SecretString};
use tracing::level_filters::LevelFilter;

use super::{
    dids::parse_dids,
    environment::{ConfigError, Environment, EnvironmentReader},
    listener::read_listener,
    tool_selection::{read_selection, read_session_limits},
};
use crate::{
    listener::ListenerConfig,
    mcp::{SessionLimits, ToolNames, ToolSelection},
    principals::{OauthConfig, PeerConfig, PrincipalDirectory},
    secrets::ProcessSecrets,
    settings::{
        Setting, chain,
        mcp::{self, MCP_BEARER_TOKEN},
    },
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
pub fn read_log_level(environment: &impl Environment, setting: &Setting, default: LevelFilter) -> LevelFilter {
    environment.get(setting.key()).and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Reads the configuration of `svc serve`. Fails with the problems of all variables at once.
pub fn read_serve(environment: &impl Environment, secrets: &mut ProcessSecrets) -> Result<ServeConfig, ConfigError> {
    let mut reader = EnvironmentReader::new(environment);
    let key = match secrets.take(chain::MCP_SVC_MNEMONIC) {
        None => {
            reader.refuse(chain::MCP_SVC_MNEMONIC, "not set");
            None
        }
        Some(phrase) => reader.parse_phrase(chain::MCP_SVC_MNEMONIC, &phrase),
    };
    let hosts = reader.read_host_policy();
    let operator = read_operator(&mut reader, hosts);
    reader.read_or(chain::SVC_LOG_LEVEL, LevelFilter::INFO, |text| text.parse().ok());
    let transport = read_transport(&mut reader, secrets, hosts.unwrap_or(HostPolicy::PublicOnly));
    let selection = read_selection(&mut reader)?;
    match (operator, key, transport, selection) {
        (Some(operator), Some(key), Some(transport), Some(selection)) if reader.problems.is_empty() => {
            Ok(ServeConfig { operator, key, transport, selection })
        }
        _ => Err(ConfigError::Variables(reader.problems)),
    }
}

/// Reads the settings of the operator. All of them are read before the first missing one ends it, so that each problem is named.
fn read_operator<E: Environment>(
    reader: &mut EnvironmentReader<'_, E>,
    hosts: Option<HostPolicy>,
) -> Option<OperatorConfig> {
    let corporation_id = reader.read_number(chain::SVC_CORPORATION);
    let (rpc, indexer) = (reader.read_origins(chain::SVC_RPC), reader.read_origins(chain::SVC_INDEXER));
    let graph = reader.read_optional_origin(chain::SVC_GRAPH);
    let allows_plaintext_node = reader.read_flag(chain::SVC_ALLOW_PLAINTEXT_NODE);
    let uses_live_descriptors = reader.read_flag(chain::SVC_LIVE_DESCRIPTORS);
    let unbound_logins = reader.read_or(mcp::SVC_VSA_UNBOUND_LOGINS, BTreeSet::new(), parse_dids);
    let fees = read_fees(reader);
    let (chain_id, denom) = read_chain_names(reader);
    let tx_timeout = reader.read_millis(chain::SVC_TX_TIMEOUT_MS);
    let indexer_timeout = reader.read_millis(chain::SVC_INDEXER_TIMEOUT_MS);
    let refresh_period = reader.read_millis(chain::SVC_CACHE_REFRESH_MS);
    let window = reader.read(chain::SVC_TX_WINDOW, parse_window_bound);
    let min_free_disk = read_min_free_disk(reader);
    let (fees, set_price) = fees?;
    Some(OperatorConfig {
        graph,
        hosts: hosts?,
        unbound_logins: unbound_logins?,
        allows_plaintext_node: allows_plaintext_node?,
        uses_live_descriptors: uses_live_descriptors?,
        corporation_id: corporation_id?,
        rpc: rpc?,
        indexer: indexer?,
        chain_id,
        denom,
        fees,
        set_price,
        tx_timeout: tx_timeout?,
        indexer_timeout: indexer_timeout?,
        refresh_period: refresh_period?,
        window: window?,
        journal: reader.get(chain::SVC_JOURNAL),
        min_free_disk: min_free_disk?,
        audit: reader.get(chain::SVC_AUDIT),
        // Services that start together wait for each other; `/healthz` and the status say so meanwhile.
        patience: BootPatience::limited(None),
    })
}

/// The free bytes that the disks of journal and audit must have, under the name of the setting.
pub(super) fn read_min_free_disk<E: Environment>(reader: &mut EnvironmentReader<'_, E>) -> Option<MinFreeSpace> {
    let bytes = reader.read_number(chain::SVC_MIN_FREE_DISK)?;
    Some(MinFreeSpace { bytes, name: chain::SVC_MIN_FREE_DISK.name })
}

/// The id of the chain and the fee denom, where they are set. A bad one is a problem.
pub(super) fn read_chain_names<E: Environment>(
    reader: &mut EnvironmentReader<'_, E>,
) -> (Option<String>, Option<String>) {
    let chain_id = reader.read_optional(chain::SVC_CHAIN_ID, |text| is_chain_id(text).then(|| text.to_owned()));
    let denom = reader.read_optional(chain::SVC_DENOM, |text| is_denom(text).then(|| text.to_owned()));
    (chain_id.flatten(), denom.flatten())
}

fn read_transport<E: Environment>(
    reader: &mut EnvironmentReader<'_, E>,
    secrets: &mut ProcessSecrets,
    policy: HostPolicy,
) -> Option<TransportConfig> {
    let is_http = reader.read_choice(mcp::MCP_TRANSPORT, "http");
    if is_http == Some(false) {
        return Some(TransportConfig::Stdio);
    }
    let port = reader.read_number(mcp::MCP_HTTP_PORT);
    let bind = reader.read(mcp::MCP_HTTP_BIND, |text| text.parse().ok());
    let hosts = reader.get(mcp::MCP_ALLOWED_HOSTS).unwrap_or_default();
    let allowed_hosts = hosts.split(',').map(str::trim).filter(|host| !host.is_empty()).map(str::to_owned).collect();
    let oauth = read_oauth(reader, policy);
    let peers = read_peers(reader, policy);
    let bearer = secrets.take(MCP_BEARER_TOKEN);
    let characters = bearer.as_ref().map_or(0, |token| token.expose_secret().chars().count());
    match &bearer {
        None => reader.refuse(MCP_BEARER_TOKEN, "not set"),
        Some(_) if characters < MIN_TOKEN_CHARACTERS => {
            reader.refuse(MCP_BEARER_TOKEN, format!("{characters} characters"));
        }
        Some(token) if !token.expose_secret().bytes().all(|byte| byte.is_ascii_graphic()) => {
            reader.refuse(MCP_BEARER_TOKEN, "characters that no header can carry");
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
    let file = reader.get_path(mcp::SVC_PRINCIPALS);
    let names = ToolNames::load().ok()?;
    match PrincipalDirectory::open(bearer, file, names) {
        Ok(directory) => Some(directory),
        Err(error) => {
            reader.refuse(mcp::SVC_PRINCIPALS, error.to_string());
            None
        }
    }
}

/// Reads the agent whose tokens for peers are accepted, and this server as they name it. Both or none are set.
fn read_peers<E: Environment>(reader: &mut EnvironmentReader<'_, E>, hosts: HostPolicy) -> Option<Option<PeerConfig>> {
    let (issuer, audience) = (reader.get(mcp::SVC_PEER_ISSUER), reader.get(mcp::SVC_PEER_AUDIENCE));
    if issuer.is_none() && audience.is_none() {
        return Some(None);
    }
    let is_did = |did: &String| {
        (did.starts_with("did:web:") || did.starts_with("did:webvh:")) && !did.contains(['#', '?', '/', ' '])
    };
    let mut check = |setting: &'static Setting, value: Option<String>, is_good: bool| {
        if !is_good {
            reader.refuse(setting, if value.is_some() { "no such value" } else { "not set" });
        }
        value.filter(|_| is_good)
    };
    let is_good = issuer.as_ref().is_some_and(is_did);
    let issuer = check(mcp::SVC_PEER_ISSUER, issuer, is_good);
    // It is compared byte for byte, so that it stays the text that was set.
    let is_good = audience.as_ref().is_some_and(|text| hosts.check_url(text).is_ok());
    let audience = check(mcp::SVC_PEER_AUDIENCE, audience, is_good);
    Some(Some(PeerConfig { issuer: issuer?, audience: audience?, hosts }))
}

/// Reads the issuer of access tokens, and this server as they name it. Both or none are set.
fn read_oauth<E: Environment>(reader: &mut EnvironmentReader<'_, E>, hosts: HostPolicy) -> Option<Option<OauthConfig>> {
    let (issuer, audience) = (reader.get(mcp::SVC_OAUTH_ISSUER), reader.get(mcp::SVC_OAUTH_AUDIENCE));
    if issuer.is_none() && audience.is_none() {
        return Some(None);
    }
    let mut read = |setting: &'static Setting, text: Option<String>| {
        let url = text.as_ref().and_then(|text| hosts.check_url(text).ok());
        let url = url.filter(|url| url.query().is_none() && url.fragment().is_none());
        if url.is_none() {
            reader.refuse(setting, if text.is_some() { "no such URL" } else { "not set" });
        }
        url
    };
    let issuer = read(mcp::SVC_OAUTH_ISSUER, issuer);
    let audience = read(mcp::SVC_OAUTH_AUDIENCE, audience);
    Some(Some(OauthConfig { issuer: issuer?, audience: audience?, hosts }))
}

fn is_chain_id(text: &str) -> bool {
    text.len() <= 50 && !text.contains(char::is_whitespace)
}

/// The gas price and the ceilings of a transaction, and whether the price is set.
pub(super) fn read_fees<E: Environment>(
    reader: &mut EnvironmentReader<'_, E>,
) -> Option<(FeePolicy, Option<SetGasPrice>)> {
    let price = reader.read_or(chain::SVC_GAS_PRICE, (DEFAULT_GAS_PRICE_MICROS, None), |text| {
        parse_gas_price(text).map(|(micros, denom)| (micros, Some(SetGasPrice { denom })))
    });
    let defaults = FeePolicy::at_price(price.as_ref().map_or(DEFAULT_GAS_PRICE_MICROS, |(price, _)| *price));
    let max_gas = reader.read_or(chain::SVC_MAX_GAS, defaults.max_gas, parse_digits);
    let max_fee = reader.read_or(chain::SVC_MAX_FEE, defaults.max_fee, parse_digits);
    let max_fee_per_day = reader.read_optional(chain::SVC_MAX_FEE_PER_DAY, parse_digits);
    let (price, set_price) = price?;
    let (max_gas, max_fee, max_fee_per_day) = (max_gas?, max_fee?, max_fee_per_day?);
    Some((FeePolicy { gas_price_micros: price, max_gas, max_fee, max_fee_per_day }, set_price))
}

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
fn is_denom(text: &str) -> bool {
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

//! The environment, validated: one message names every bad variable at once.

mod indexer;
mod tools;

use std::{collections::HashMap, fmt, net::IpAddr, time::Duration};

use svc_kit::{hosts::HostPolicy, upstream::Origins};
use svc_operator::{OperatorConfig, WindowBound};
use svc_wire::{
    key::{AccountKey, KeyError},
    secret::Secret,
};
use tracing::level_filters::LevelFilter;
use url::Url;

use crate::{
    mcp::{Selection, SessionLimits},
    secrets::Secrets,
};

pub use indexer::read_indexer;

/// Where variables are read from; tests pass a map.
pub trait Environment {
    /// The value of a variable; empty counts as unset.
    fn get(&self, name: &str) -> Option<String>;
}

/// The process's own environment.
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn get(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| !value.is_empty())
    }
}

impl Environment for HashMap<&str, &str> {
    fn get(&self, name: &str) -> Option<String> {
        HashMap::get(self, name).map(|value| (*value).to_owned()).filter(|value| !value.is_empty())
    }
}

/// How clients reach the server.
pub enum Transport {
    /// HTTP with a bearer token.
    Http(HttpConfig),
    /// Standard input and output.
    Stdio,
}

/// The HTTP listener.
pub struct HttpConfig {
    /// Address.
    pub bind: IpAddr,
    /// Port; 0 takes a free one.
    pub port: u16,
    /// Token clients present.
    pub bearer: Secret,
    /// Host names clients may use besides the loopback names and the bound address.
    pub allowed_hosts: Vec<String>,
    /// Bounds of the sessions.
    pub sessions: SessionLimits,
}

/// Everything `svc serve` needs.
pub struct ServeConfig {
    /// The operator.
    pub operator: OperatorConfig,
    /// Its key.
    pub key: AccountKey,
    /// How clients reach it.
    pub transport: Transport,
    /// Which tools it has.
    pub selection: Selection,
}

/// Every bad variable.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigError(pub Vec<Problem>);

/// One bad variable: what was found (never a secret's value) and what is allowed.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    /// Name of the variable.
    pub variable: &'static str,
    /// What was found.
    pub found: String,
    /// What is allowed.
    pub allowed: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.len();
        write!(formatter, "{count} environment variable{} cannot be used:", if count == 1 { "" } else { "s" })?;
        for Problem { variable, found, allowed } in &self.0 {
            write!(formatter, "\n  {variable}: {found}; allowed: {allowed}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// Shortest bearer token.
pub const MIN_TOKEN_CHARACTERS: usize = 32;

struct Reader<'a, E> {
    environment: &'a E,
    problems: Vec<Problem>,
}

impl<E: Environment> Reader<'_, E> {
    fn problem(&mut self, variable: &'static str, found: impl Into<String>, allowed: impl Into<String>) {
        self.problems.push(Problem { variable, found: found.into(), allowed: allowed.into() });
    }

    /// Parses a variable; `None` and a problem when it is bad, the default when it is unset.
    fn parsed<T>(
        &mut self,
        variable: &'static str,
        allowed: &str,
        default: Option<T>,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        match self.environment.get(variable) {
            Some(text) => {
                let value = parse(&text);
                if value.is_none() {
                    self.problem(variable, format!("{text:?}"), allowed);
                }
                value
            }
            None => {
                if default.is_none() {
                    self.problem(variable, "not set", allowed);
                }
                default
            }
        }
    }

    fn flag(&mut self, variable: &'static str) -> Option<bool> {
        self.parsed(variable, "true or false", Some(false), |text| text.parse().ok())
    }

    /// Hosts that documents of others may lead to.
    fn hosts(&mut self) -> Option<HostPolicy> {
        let allows_private = self.flag("SVC_ALLOW_PRIVATE_HOSTS")?;
        Some(if allows_private { HostPolicy::AllowPrivate } else { HostPolicy::PublicOnly })
    }

    fn optional(&mut self, variable: &'static str, allowed: &str, is_allowed: impl Fn(&str) -> bool) -> Option<String> {
        let text = self.environment.get(variable)?;
        if !is_allowed(&text) {
            self.problem(variable, format!("{text:?}"), allowed);
        }
        Some(text)
    }

    fn millis(&mut self, variable: &'static str, default: u64) -> Option<Duration> {
        let allowed = "milliseconds, 1 to 86400000";
        let parse = |text: &str| text.parse().ok().filter(|millis| (1..=86_400_000).contains(millis));
        self.parsed(variable, allowed, Some(default), parse).map(Duration::from_millis)
    }

    fn origin(&mut self, variable: &'static str) -> Option<String> {
        self.parsed(variable, ORIGIN, None, origin)
    }

    fn origins(&mut self, variable: &'static str) -> Option<Origins> {
        let allowed = format!("{ORIGIN}, or several of them with commas between");
        self.parsed(variable, &allowed, None, |text| Origins::parse(text, origin))
    }

    fn optional_origin(&mut self, variable: &'static str) -> Option<String> {
        self.environment.get(variable)?;
        self.origin(variable)
    }
}

const ORIGIN: &str =
    "an http or https origin, such as http://127.0.0.1:26657 for a node or http://127.0.0.1:3001 for an indexer";

fn origin(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    let is_origin = matches!(url.scheme(), "http" | "https") && url.has_host() && url.username().is_empty();
    is_origin.then(|| text.trim_end_matches('/').to_owned())
}

/// Gas price in millionths of the denom: a decimal, with the denom or without.
fn gas_price(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (whole, fraction) = text[..end].split_once('.').unwrap_or((&text[..end], ""));
    let fraction = format!("{:0<6}", fraction.get(..fraction.len().min(6))?);
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    if end == 0 {
        return None;
    }
    whole.checked_mul(1_000_000)?.checked_add(fraction.parse().ok()?)
}

fn window(text: &str) -> Option<WindowBound> {
    if text == "adaptive" {
        return Some(WindowBound::Adaptive);
    }
    text.parse().ok().filter(|size| (1..=1_024).contains(size)).map(WindowBound::Fixed)
}

/// Level of the logs.
pub fn log_level(environment: &impl Environment, default: LevelFilter) -> LevelFilter {
    environment.get("SVC_LOG_LEVEL").and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Reads everything `svc serve` needs.
pub fn read(environment: &impl Environment, secrets: &mut Secrets) -> Result<ServeConfig, ConfigError> {
    let mut reader = Reader { environment, problems: Vec::new() };
    let phrase_allowed = "a BIP-39 English phrase of 12 to 24 words";
    let key = match secrets.take("MCP_SVC_MNEMONIC") {
        None => {
            reader.problem("MCP_SVC_MNEMONIC", "not set", phrase_allowed);
            None
        }
        Some(phrase) => match AccountKey::from_mnemonic(phrase.expose()) {
            Ok(key) => Some(key),
            Err(error) => {
                let found = match error {
                    KeyError::Mnemonic { reason } => reason,
                    other => other.to_string(),
                };
                reader.problem("MCP_SVC_MNEMONIC", found, phrase_allowed);
                None
            }
        },
    };
    let corporation_id = reader.parsed("SVC_CORPORATION", "a corporation id, 1 or more", None, |text| {
        text.parse().ok().filter(|id| *id > 0_u64)
    });
    let (rpc, indexer) = (reader.origins("SVC_RPC"), reader.origins("SVC_INDEXER"));
    let graph = reader.optional_origin("SVC_GRAPH");
    let hosts = reader.hosts();
    let price =
        reader.parsed("SVC_GAS_PRICE", "a decimal such as 0.025, with the denom or without", Some(25_000), gas_price);
    let chain_id = reader.optional("SVC_CHAIN_ID", "a chain id of 1 to 50 characters without blanks", |text| {
        text.len() <= 50 && !text.contains(char::is_whitespace)
    });
    let denom_allowed = "a coin denom: a letter, then 2 to 127 letters, digits or / : . _ -";
    let denom = reader.optional("SVC_DENOM", denom_allowed, |text| {
        let mut characters = text.chars();
        let starts_well = characters.next().is_some_and(|first| first.is_ascii_alphabetic());
        starts_well
            && (3..=128).contains(&text.len())
            && characters.all(|c| c.is_ascii_alphanumeric() || "/:._-".contains(c))
    });
    let tx_timeout = reader.millis("SVC_TX_TIMEOUT_MS", 30_000);
    let indexer_timeout = reader.millis("SVC_INDEXER_TIMEOUT_MS", 15_000);
    let refresh_period = reader.millis("SVC_CACHE_REFRESH_MS", 60_000);
    let window = reader.parsed(
        "SVC_TX_WINDOW",
        "adaptive, or how many transactions may be in flight at once, 1 to 1024",
        Some(WindowBound::Adaptive),
        window,
    );
    let (journal, audit) = (environment.get("SVC_JOURNAL"), environment.get("SVC_AUDIT"));
    let levels = "error, warn, info, debug, trace";
    reader.parsed("SVC_LOG_LEVEL", levels, Some(LevelFilter::INFO), |text| {
        levels.split(", ").any(|level| level == text).then(|| text.parse().ok())?
    });
    let transport = read_transport(&mut reader, secrets);
    let selection = tools::read_selection(&mut reader);
    match (
        key,
        corporation_id,
        rpc,
        indexer,
        hosts,
        price,
        tx_timeout,
        indexer_timeout,
        refresh_period,
        window,
        transport,
        selection,
    ) {
        (
            Some(key),
            Some(corporation_id),
            Some(rpc),
            Some(indexer),
            Some(hosts),
            Some(gas_price_micros),
            Some(tx_timeout),
            Some(indexer_timeout),
            Some(refresh_period),
            Some(window),
            Some(transport),
            Some(selection),
        ) if reader.problems.is_empty() => Ok(ServeConfig {
            operator: OperatorConfig {
                graph,
                hosts,
                corporation_id,
                rpc,
                indexer,
                chain_id,
                denom,
                gas_price_micros,
                tx_timeout,
                indexer_timeout,
                refresh_period,
                window,
                journal,
                audit,
            },
            key,
            transport,
            selection,
        }),
        _ => Err(ConfigError(reader.problems)),
    }
}

fn read_transport<E: Environment>(reader: &mut Reader<'_, E>, secrets: &mut Secrets) -> Option<Transport> {
    let is_http = reader.parsed("MCP_TRANSPORT", "http, stdio", Some(true), |text| match text {
        "http" => Some(true),
        "stdio" => Some(false),
        _ => None,
    });
    if is_http == Some(false) {
        return Some(Transport::Stdio);
    }
    let port = reader.parsed("MCP_HTTP_PORT", "a port, 0 to 65535", Some(3000), |text| text.parse().ok());
    let bind = reader.parsed("MCP_HTTP_BIND", "an IP address", Some([0, 0, 0, 0].into()), |text| text.parse().ok());
    let hosts = reader.environment.get("MCP_ALLOWED_HOSTS").unwrap_or_default();
    let allowed_hosts = hosts.split(',').map(str::trim).filter(|host| !host.is_empty()).map(str::to_owned).collect();
    let allowed = format!("at least {MIN_TOKEN_CHARACTERS} visible ASCII characters");
    let bearer = secrets.take("MCP_BEARER_TOKEN");
    let characters = bearer.as_ref().map_or(0, |token| token.expose().chars().count());
    match &bearer {
        None => reader.problem("MCP_BEARER_TOKEN", "not set", allowed),
        Some(_) if characters < MIN_TOKEN_CHARACTERS => {
            reader.problem("MCP_BEARER_TOKEN", format!("{characters} characters"), allowed);
        }
        Some(token) if !token.expose().bytes().all(|byte| byte.is_ascii_graphic()) => {
            reader.problem("MCP_BEARER_TOKEN", "characters that no header can carry", allowed);
        }
        Some(_) => {}
    }
    let sessions = tools::read_session_limits(reader);
    is_http?;
    Some(Transport::Http(HttpConfig { bind: bind?, port: port?, bearer: bearer?, allowed_hosts, sessions: sessions? }))
}

#[cfg(test)]
mod tests;

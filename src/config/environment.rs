//! Variables as text, and the errors of reading them.

use std::{borrow::Cow, collections::HashMap, fmt, time::Duration};

use svc_net::{host_policy::HostPolicy, upstream::UpstreamOrigins};
use svc_wire::{
    account_key::{AccountKey, KeyError},
    secret::SecretString,
};
use url::Url;

use crate::mcp::CatalogError;

pub(super) const PORT: &str = "a port, 0 to 65535";
/// The phrases that give an account.
pub(super) const PHRASE: &str = "a BIP-39 English phrase of 12 to 24 words";

/// A source of variables; tests pass a map.
pub trait Environment {
    /// The value of a variable; empty counts as unset.
    fn get(&self, name: &str) -> Option<String>;
    /// The names of the variables that are set.
    fn names(&self) -> Vec<String>;
}

/// The environment of the process.
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn get(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| !value.is_empty())
    }

    fn names(&self) -> Vec<String> {
        std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect()
    }
}

impl Environment for HashMap<&str, &str> {
    fn get(&self, name: &str) -> Option<String> {
        HashMap::get(self, name).map(|value| (*value).to_owned()).filter(|value| !value.is_empty())
    }

    fn names(&self) -> Vec<String> {
        self.keys().map(|name| (*name).to_owned()).collect()
    }
}

/// The reason for which a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Variables are missing or malformed; the text names all of them at once.
    #[error("{}", VariableProblems(.0))]
    Variables(Vec<VariableProblem>),
    /// The embedded tool tables, which tool patterns are checked against, cannot be read.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

/// One bad variable: the value (never that of a secret) and the allowed values.
#[derive(Debug, PartialEq, Eq)]
pub struct VariableProblem {
    /// Name of the variable.
    pub variable: Cow<'static, str>,
    /// The value, or the state of the variable.
    pub found: String,
    /// The allowed values.
    pub allowed: String,
}

struct VariableProblems<'a>(&'a [VariableProblem]);

impl fmt::Display for VariableProblems<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.len();
        write!(formatter, "{count} environment variable{} cannot be used:", if count == 1 { "" } else { "s" })?;
        for VariableProblem { variable, found, allowed } in self.0 {
            write!(formatter, "\n  {variable}: {found}; allowed: {allowed}")?;
        }
        Ok(())
    }
}

/// Reads the hosts that may be contacted.
pub fn read_hosts(environment: &impl Environment) -> Result<HostPolicy, ConfigError> {
    let mut reader = EnvironmentReader::new(environment);
    let hosts = reader.read_host_policy();
    hosts.ok_or(ConfigError::Variables(reader.problems))
}

/// Reads variables and collects the problems of all of them.
pub(super) struct EnvironmentReader<'a, E> {
    pub(super) environment: &'a E,
    pub(super) problems: Vec<VariableProblem>,
}

impl<'a, E: Environment> EnvironmentReader<'a, E> {
    pub(super) fn new(environment: &'a E) -> Self {
        Self { environment, problems: Vec::new() }
    }

    pub(super) fn add_problem(
        &mut self,
        variable: impl Into<Cow<'static, str>>,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) {
        self.problems.push(VariableProblem { variable: variable.into(), found: found.into(), allowed: allowed.into() });
    }

    /// Whether a variable has a problem.
    pub(super) fn has_problem(&self, variable: &str) -> bool {
        self.problems.iter().any(|problem| problem.variable == variable)
    }

    /// Derives the account of a phrase that a variable holds or leads to.
    pub(super) fn parse_phrase(&mut self, variable: &'static str, phrase: &SecretString) -> Option<AccountKey> {
        match AccountKey::from_mnemonic(phrase.expose_secret()) {
            Ok(key) => Some(key),
            Err(error) => {
                let found = match error {
                    KeyError::Mnemonic { reason } => reason,
                    other => other.to_string(),
                };
                self.add_problem(variable, found, PHRASE);
                None
            }
        }
    }

    /// Parses a variable. A bad value gives `None` and a problem; an unset variable gives the default, and a problem without one.
    pub(super) fn read_parsed<T>(
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
                    self.add_problem(variable, shown(&text), allowed);
                }
                value
            }
            None => {
                if default.is_none() {
                    self.add_problem(variable, "not set", allowed);
                }
                default
            }
        }
    }

    pub(super) fn read_flag(&mut self, variable: &'static str) -> Option<bool> {
        self.read_parsed(variable, "true or false", Some(false), |text| text.parse().ok())
    }

    /// Hosts that documents of other parties may refer to.
    pub(super) fn read_host_policy(&mut self) -> Option<HostPolicy> {
        let allows_private = self.read_flag("SVC_ALLOW_PRIVATE_HOSTS")?;
        Some(if allows_private { HostPolicy::AllowPrivate } else { HostPolicy::PublicOnly })
    }

    pub(super) fn read_optional(
        &mut self,
        variable: &'static str,
        allowed: &str,
        is_allowed: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let text = self.environment.get(variable)?;
        if !is_allowed(&text) {
            self.add_problem(variable, format!("{text:?}"), allowed);
        }
        Some(text)
    }

    pub(super) fn read_millis(&mut self, variable: &'static str, default: u64) -> Option<Duration> {
        let default = Some(Duration::from_millis(default));
        self.read_parsed(variable, "milliseconds, 1 to 86400000", default, parse_millis)
    }

    pub(super) fn read_origin(&mut self, variable: &'static str) -> Option<String> {
        self.read_parsed(variable, ALLOWED_ORIGIN, None, parse_origin)
    }

    pub(super) fn read_origins(&mut self, variable: &'static str) -> Option<UpstreamOrigins> {
        let allowed = format!("{ALLOWED_ORIGIN}, or a comma-separated list of them");
        self.read_parsed(variable, &allowed, None, |text| UpstreamOrigins::parse(text, parse_origin))
    }

    pub(super) fn read_optional_origin(&mut self, variable: &'static str) -> Option<String> {
        self.environment.get(variable)?;
        self.read_origin(variable)
    }
}

/// A value as a problem shows it. The credentials of a URL are a secret.
pub(super) fn shown(text: &str) -> String {
    if text.contains('@') { "a text with credentials".to_owned() } else { format!("{text:?}") }
}

/// Milliseconds, up to a day.
pub(super) fn parse_millis(text: &str) -> Option<Duration> {
    text.parse().ok().filter(|millis| (1..=86_400_000).contains(millis)).map(Duration::from_millis)
}

const ALLOWED_ORIGIN: &str =
    "an http or https origin, such as http://127.0.0.1:26657 for a node or http://127.0.0.1:3001 for an indexer";

fn parse_origin(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    let has_credentials = !url.username().is_empty() || url.password().is_some();
    let is_origin = matches!(url.scheme(), "http" | "https") && url.has_host() && !has_credentials;
    is_origin.then(|| text.trim_end_matches('/').to_owned())
}

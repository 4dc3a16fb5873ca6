//! Variables as text, and the errors of reading them.

use std::{borrow::Cow, collections::HashMap, fmt, path::PathBuf, str::FromStr, time::Duration};

use svc_net::{host_policy::HostPolicy, upstream::UpstreamOrigins};
use svc_wire::{
    account_key::{AccountKey, KeyError},
    secret::SecretString,
};
use url::Url;

use crate::{
    mcp::CatalogError,
    settings::{
        Setting, SettingDefault, SettingName,
        chain::{PHRASE, SVC_ALLOW_PRIVATE_HOSTS},
    },
};

/// A source of variables; tests pass a map.
pub trait Environment {
    /// The value of a variable; empty counts as unset. The name is that of a row.
    fn get(&self, name: SettingName<'_>) -> Option<String>;
    /// The names of the variables that are set.
    fn names(&self) -> Vec<String>;
    /// The former name under which a variable is set, where it is set under no other.
    fn former_name(&self, _name: &str) -> Option<&'static str> {
        None
    }
}

/// The environment of the process.
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn get(&self, name: SettingName<'_>) -> Option<String> {
        std::env::var(name.as_str()).ok().filter(|value| !value.is_empty())
    }

    fn names(&self) -> Vec<String> {
        std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect()
    }
}

impl Environment for HashMap<&str, &str> {
    fn get(&self, name: SettingName<'_>) -> Option<String> {
        HashMap::get(self, name.as_str()).map(|value| (*value).to_owned()).filter(|value| !value.is_empty())
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
        // A person finds the name that was set.
        let variable = variable.into();
        let variable = self.environment.former_name(&variable).map_or(variable, Cow::Borrowed);
        self.problems.push(VariableProblem { variable, found: found.into(), allowed: allowed.into() });
    }

    /// A problem with the values that the row allows.
    pub(super) fn refuse(&mut self, setting: &'static Setting, found: impl Into<String>) {
        self.add_problem(setting.name, found, setting.kind.allowed());
    }

    /// Whether a variable has a problem.
    pub(super) fn has_problem(&self, setting: &Setting) -> bool {
        let name = self.environment.former_name(setting.name).unwrap_or(setting.name);
        self.problems.iter().any(|problem| problem.variable == name)
    }

    /// The text of a variable.
    pub(super) fn get(&self, setting: &Setting) -> Option<String> {
        self.environment.get(setting.key())
    }

    /// The path that a variable holds.
    pub(super) fn get_path(&self, setting: &Setting) -> Option<PathBuf> {
        self.get(setting).map(PathBuf::from)
    }

    /// Derives the account of a phrase that a variable holds or leads to.
    pub(super) fn parse_phrase(&mut self, setting: &'static Setting, phrase: &SecretString) -> Option<AccountKey> {
        match AccountKey::from_mnemonic(phrase.expose_secret()) {
            Ok(key) => Some(key),
            Err(error) => {
                let found = match error {
                    KeyError::Mnemonic { reason } => reason,
                    other => other.to_string(),
                };
                self.add_problem(setting.name, found, PHRASE.allowed());
                None
            }
        }
    }

    /// Parses a variable, or the default of its row. A bad value, and a missing one without a default, give `None` and a problem.
    pub(super) fn read<T>(&mut self, setting: &'static Setting, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let default = match setting.default {
            SettingDefault::Value(text) => parse(text),
            SettingDefault::Required | SettingDefault::Words(_) => None,
        };
        self.read_allowed(setting, &setting.kind.allowed(), default, parse)
    }

    /// Parses a variable whose default is no text.
    pub(super) fn read_or<T>(
        &mut self,
        setting: &'static Setting,
        default: T,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        self.read_allowed(setting, &setting.kind.allowed(), Some(default), parse)
    }

    /// Parses a variable that may be absent. A bad value gives `None`.
    pub(super) fn read_optional<T>(
        &mut self,
        setting: &'static Setting,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<Option<T>> {
        self.read_or(setting, None, |text| parse(text).map(Some))
    }

    /// Parses a variable whose allowed values this process knows better than the row.
    pub(super) fn read_allowed<T>(
        &mut self,
        setting: &'static Setting,
        allowed: &str,
        default: Option<T>,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        match self.get(setting) {
            Some(text) => {
                let value = if setting.kind.takes(&text) { parse(&text) } else { None };
                if value.is_none() {
                    self.add_problem(setting.name, shown(&text), allowed);
                }
                value
            }
            None => {
                if default.is_none() {
                    self.add_problem(setting.name, "not set", allowed);
                }
                default
            }
        }
    }

    pub(super) fn read_number<T: FromStr>(&mut self, setting: &'static Setting) -> Option<T> {
        self.read(setting, |text| text.parse().ok())
    }

    pub(super) fn read_flag(&mut self, setting: &'static Setting) -> Option<bool> {
        self.read(setting, |text| text.parse().ok())
    }

    /// Reads which of two words a variable has; true for this one.
    pub(super) fn read_choice(&mut self, setting: &'static Setting, word: &str) -> Option<bool> {
        self.read(setting, |text| Some(text == word))
    }

    /// Hosts that documents of other parties may refer to.
    pub(super) fn read_host_policy(&mut self) -> Option<HostPolicy> {
        let allows_private = self.read_flag(SVC_ALLOW_PRIVATE_HOSTS)?;
        Some(if allows_private { HostPolicy::AllowPrivate } else { HostPolicy::PublicOnly })
    }

    pub(super) fn read_millis(&mut self, setting: &'static Setting) -> Option<Duration> {
        self.read_number(setting).map(Duration::from_millis)
    }

    pub(super) fn read_origins(&mut self, setting: &'static Setting) -> Option<UpstreamOrigins> {
        self.read(setting, |text| UpstreamOrigins::parse(text, parse_origin))
    }

    pub(super) fn read_optional_origin(&mut self, setting: &'static Setting) -> Option<String> {
        self.read_optional(setting, parse_origin)?
    }
}

/// A value as a problem shows it. The credentials of a URL are a secret.
pub(super) fn shown(text: &str) -> String {
    if text.contains('@') { "a text with credentials".to_owned() } else { format!("{text:?}") }
}

fn parse_origin(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    let has_credentials = !url.username().is_empty() || url.password().is_some();
    let is_origin = matches!(url.scheme(), "http" | "https") && url.has_host() && !has_credentials;
    is_origin.then(|| text.trim_end_matches('/').to_owned())
}

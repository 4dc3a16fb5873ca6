//! The store of an agent, its keys, and the files beside it.

use std::path::{Path, PathBuf};

use svc_agent::{StoreKey, StoreKeys, StoreSettings};
use svc_wire::secret::SecretString;

use crate::{
    admin::{SOCKET_PATH, is_short_enough},
    config::environment::{Environment, EnvironmentReader},
    secrets::ProcessSecrets,
    settings::{
        Setting,
        agent::{self, SVC_AGENT_DB, SVC_AGENT_HEAD, SVC_AGENT_SOCKET, SVC_AGENT_STORE_KEY, SVC_AGENT_STORE_KEY_FILE},
        chain::SVC_JOURNAL,
    },
};

/// URL schemes of the databases that the agent supports.
const DATABASE_SCHEMES: [&str; 3] = ["sqlite:", "postgres://", "postgresql://"];

/// The store of an agent that does not run.
pub struct StoppedAgent {
    /// The store.
    pub store: StoreSettings,
    /// Its files.
    pub paths: AgentPaths,
}

/// The files of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentPaths {
    /// Socket of the local commands.
    pub socket: PathBuf,
    /// File of the last published version.
    pub head: PathBuf,
    /// Journal of the write pipeline.
    pub journal: PathBuf,
}

/// Reads the files, for a command that needs nothing else. The URL of the database names those that are not set.
pub fn read_paths(environment: &impl Environment, secrets: &mut ProcessSecrets) -> AgentPaths {
    let url = secrets.take(SVC_AGENT_DB);
    paths_of(environment, url.as_ref().map_or(default_database(), SecretString::expose_secret))
}

fn default_database() -> &'static str {
    SVC_AGENT_DB.default_text().unwrap_or_default()
}

fn paths_of(environment: &impl Environment, url: &str) -> AgentPaths {
    let base = svc_store::sqlite_file(url).unwrap_or_else(|| PathBuf::from("svc-agent.db"));
    let path = |setting: &Setting, extension: &str| {
        environment.get(setting.key()).map_or_else(|| base.with_extension(extension), PathBuf::from)
    };
    AgentPaths {
        socket: path(SVC_AGENT_SOCKET, "sock"),
        head: path(SVC_AGENT_HEAD, "head"),
        journal: path(SVC_JOURNAL, "journal"),
    }
}

/// Reads the store with its keys and its files.
pub(super) fn read_store<E: Environment>(
    reader: &mut EnvironmentReader<'_, E>,
    secrets: &mut ProcessSecrets,
) -> Option<StoppedAgent> {
    let url = secrets.take(SVC_AGENT_DB).filter(|url| !url.expose_secret().is_empty());
    let url = url.map_or_else(|| default_database().to_owned(), |url| url.expose_secret().to_owned());
    let is_known = DATABASE_SCHEMES.iter().any(|scheme| url.starts_with(scheme));
    if !is_known {
        reader.refuse(SVC_AGENT_DB, "a URL of another kind");
    }
    let paths = paths_of(reader.environment, &url);
    let database = svc_store::sqlite_file(&url);
    let files = [(SVC_AGENT_SOCKET, &paths.socket), (SVC_AGENT_HEAD, &paths.head), (SVC_JOURNAL, &paths.journal)];
    for (position, (setting, path)) in files.iter().enumerate() {
        let others = files.iter().take(position).map(|(_, other)| *other);
        if others.chain(database.as_ref()).any(|other| other == *path) {
            reader.add_problem(setting.name, format!("{}", path.display()), "a file of its own");
        }
    }
    if !is_short_enough(&paths.socket) {
        let length = paths.socket.as_os_str().len();
        reader.add_problem(SVC_AGENT_SOCKET.name, format!("{}, {length} bytes", paths.socket.display()), SOCKET_PATH);
    }
    let current = read_key(reader, secrets, (SVC_AGENT_STORE_KEY, SVC_AGENT_STORE_KEY_FILE), CREDENTIAL);
    if current.is_none() && !reader.has_problem(SVC_AGENT_STORE_KEY) && !reader.has_problem(SVC_AGENT_STORE_KEY_FILE) {
        let allowed = format!("{}; or {}", SVC_AGENT_STORE_KEY.kind.allowed(), SVC_AGENT_STORE_KEY_FILE.name);
        reader.add_problem(SVC_AGENT_STORE_KEY.name, "not set", allowed);
    }
    let previous = (agent::SVC_AGENT_STORE_KEY_PREVIOUS, agent::SVC_AGENT_STORE_KEY_PREVIOUS_FILE);
    let previous = read_key(reader, secrets, previous, None);
    let store = StoreSettings { url, keys: StoreKeys { current: current?, previous } };
    is_known.then_some(StoppedAgent { store, paths })
}

const CREDENTIAL: Option<&str> = Some("svc-agent-store-key");

fn read_key<E: Environment>(
    reader: &mut EnvironmentReader<'_, E>,
    secrets: &mut ProcessSecrets,
    (setting, file_setting): (&'static Setting, &'static Setting),
    credential: Option<&str>,
) -> Option<StoreKey> {
    let (text, source) = read_secret(reader, secrets, (setting, file_setting), credential)?;
    let key = StoreKey::parse(&text).ok();
    if key.is_none() {
        reader.add_problem(source.name, "another text", SVC_AGENT_STORE_KEY.kind.allowed());
    }
    key
}

/// Reads a secret from its variable, from the file that another variable names, or from a credential of systemd. Returns it with the
/// variable to name in a problem.
pub(super) fn read_secret<E: Environment>(
    reader: &mut EnvironmentReader<'_, E>,
    secrets: &mut ProcessSecrets,
    (setting, file_setting): (&'static Setting, &'static Setting),
    credential: Option<&str>,
) -> Option<(SecretString, &'static Setting)> {
    let value = secrets.take(setting).filter(|text| !text.expose_secret().is_empty());
    let file = reader.get_path(file_setting);
    if value.is_some() && file.is_some() {
        reader.add_problem(file_setting.name, format!("set beside {}", setting.name), "one of the two");
        return None;
    }
    if let Some(value) = value {
        return Some((value, setting));
    }
    let credential_file = || {
        let directory = reader.get(agent::CREDENTIALS_DIRECTORY)?;
        Some(Path::new(&directory).join(credential?)).filter(|path| path.exists())
    };
    let file = file.or_else(credential_file)?;
    match std::fs::read_to_string(&file) {
        Ok(text) => {
            let secret = SecretString::new(text.trim().to_owned());
            svc_wire::secret::wipe_secret(text);
            Some((secret, file_setting))
        }
        Err(error) => {
            reader.refuse(file_setting, format!("{}: {error}", file.display()));
            None
        }
    }
}

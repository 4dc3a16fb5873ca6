//! The variables of `svc agent`.

mod access;
mod account;
mod claims;
mod credentials;
mod events;
mod flows;
mod listeners;
mod peers;
mod store;
mod superseded;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use svc_agent::{AgentConfig, DidMethod, PublicLocation, RotationPauses};
use svc_net::host_policy::HostPolicy;

use self::superseded::former_names;
use self::{
    account::read_chain,
    credentials::read_credentials,
    events::read_events,
    listeners::{AdminSettings, read_admin},
};
pub use self::{
    store::{AgentPaths, StoppedAgent, read_paths},
    superseded::WithFormerNames,
};
use super::{
    environment::{ConfigError, Environment, EnvironmentReader},
    listener::read_listener,
};
use crate::{admin::AgentServerConfig, secrets::ProcessSecrets, settings::agent as settings};

/// The configuration of `svc agent`.
pub struct AgentSettings {
    /// The agent.
    pub agent: AgentConfig,
    /// Its listeners.
    pub server: AgentServerConfig,
    /// Settings that are not used, in words.
    pub warnings: Vec<String>,
}

/// The reason for which variables about passports are not used.
const PASSPORTS: &str = "passports and identity cards are not read";
/// Prefixes of variables of other agents that this release does not use, with the reason.
const UNUSED: [(&str, &str); 2] = [("MRTD_", PASSPORTS), ("OID4VC_", "OpenID4VC is not served")];

/// Reads the configuration of `svc agent`. Fails with the problems of all variables at once.
pub fn read_agent(environment: &impl Environment, secrets: &mut ProcessSecrets) -> Result<AgentSettings, ConfigError> {
    let former_names = former_names(environment);
    let environment = &WithFormerNames(environment);
    let mut reader = EnvironmentReader::new(environment);
    let hosts = reader.read_host_policy();
    let store = store::read_store(&mut reader, secrets);
    let paths = store.as_ref().map(|store| store.paths.clone());
    let chain = read_chain(&mut reader, secrets, paths.as_ref());
    let mut warnings = former_names;
    warnings.extend(unused_variables(environment));
    let credentials = read_credentials(&mut reader, &mut warnings);
    let claims = credentials.as_ref().map(|(_, claims)| claims.clone()).unwrap_or_default();
    let flows = flows::read_flows(&mut reader, claims);
    let events = read_events(&mut reader, secrets, &mut warnings);
    let peers = peers::read_peers(&mut reader);
    let access = access::read_access(&mut reader);
    let policy = hosts.unwrap_or(HostPolicy::PublicOnly);
    let admin = read_admin(&mut reader, policy);
    let location = read_location(&mut reader, policy);
    let public_bind = reader.read(settings::PUBLIC_API_BIND, |text| text.parse().ok());
    let public_port = reader.read_number(settings::PUBLIC_API_PORT);
    let method = reader.read(settings::AGENT_PUBLIC_DID_METHOD, DidMethod::parse);
    let pre_rotation = reader.read_flag(settings::AGENT_WEBVH_PRE_ROTATION);
    for setting in [settings::AGENT_LOG_LEVEL, settings::ADMIN_API_LOG_LEVEL] {
        reader.read(setting, |_| Some(()));
    }
    check_ports(&mut reader, admin.as_ref(), public_bind, public_port);
    let listener = read_listener(&mut reader);
    let server = (admin, location, public_bind, public_port, listener);
    match (hosts, store, chain, credentials, (events, peers, flows, access), server, method, pre_rotation) {
        (
            Some(hosts),
            Some(StoppedAgent { store, paths }),
            Some(chain),
            Some((credentials, _)),
            (Some(events), Some(peers), Some(flows), Some(access)),
            (Some(admin), Some(location), Some(public_bind), Some(public_port), Some(listener)),
            Some(method),
            Some(pre_rotation),
        ) if reader.problems.is_empty() => Ok(AgentSettings {
            agent: AgentConfig {
                store,
                head: Some(paths.head),
                method,
                location,
                pre_rotation,
                hosts,
                admin_api: admin.public_url,
                logins: admin.logins,
                chain,
                credentials,
                rotation_pauses: RotationPauses::default(),
                events,
                peers,
                flows,
                access,
            },
            server: AgentServerConfig {
                admin: admin.admin,
                public: SocketAddr::new(public_bind, public_port),
                socket: Some(paths.socket),
                listener,
            },
            warnings,
        }),
        _ => Err(ConfigError::Variables(reader.problems)),
    }
}

/// Reads the settings of the store alone, for a command that works on a stopped agent.
pub fn read_stopped_agent(
    environment: &impl Environment,
    secrets: &mut ProcessSecrets,
) -> Result<StoppedAgent, ConfigError> {
    let mut reader = EnvironmentReader::new(environment);
    let store = store::read_store(&mut reader, secrets);
    match store {
        Some(store) if reader.problems.is_empty() => Ok(store),
        _ => Err(ConfigError::Variables(reader.problems)),
    }
}

fn read_location<E: Environment>(reader: &mut EnvironmentReader<'_, E>, hosts: HostPolicy) -> Option<PublicLocation> {
    let setting = settings::PUBLIC_API_BASE_URL;
    let Some(text) = reader.get(setting) else {
        reader.refuse(setting, "not set");
        return None;
    };
    let checked = hosts.check_url(&text).map_err(|error| error.to_string());
    match checked.and_then(|_| PublicLocation::parse(&text).map_err(|error| error.to_string())) {
        Ok(location) => Some(location),
        Err(reason) => {
            // A URL with a password is not printed.
            let shown = if text.contains('@') { "a URL with credentials".to_owned() } else { reason };
            reader.refuse(setting, shown);
            None
        }
    }
}

/// Refuses one port for both listeners: each has callers of its own.
fn check_ports<E: Environment>(
    reader: &mut EnvironmentReader<'_, E>,
    admin: Option<&AdminSettings>,
    public_bind: Option<std::net::IpAddr>,
    public_port: Option<u16>,
) {
    let (Some(admin), Some(bind), Some(port)) = (admin, public_bind, public_port) else { return };
    let overlaps = bind == admin.admin.bind.ip() || bind.is_unspecified() || admin.admin.bind.ip().is_unspecified();
    if port != 0 && port == admin.admin.bind.port() && overlaps {
        let allowed = format!("another port than {}", settings::ADMIN_API_PORT.name);
        reader.add_problem(settings::PUBLIC_API_PORT.name, port.to_string(), allowed);
    }
}

fn unused_variables(environment: &impl Environment) -> Vec<String> {
    let mut names = environment.names();
    names.sort();
    let reason = |name: &str| UNUSED.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, reason)| *reason);
    names.iter().filter_map(|name| Some(format!("{name} is not used: {}", reason(name)?))).collect()
}

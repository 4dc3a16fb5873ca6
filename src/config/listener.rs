//! The variables of the listeners, the same for every command that serves.

use std::{net::SocketAddr, path::PathBuf};

use ipnet::IpNet;
use svc_net::listener::{LimitNames, ListenerSettings, TlsFiles, TlsIdentity};

use super::environment::{Environment, EnvironmentReader};
use crate::{
    listener::ListenerConfig,
    settings::{
        listener::{self, SVC_TLS_CERT, SVC_TLS_CLIENT_CA, SVC_TLS_KEY},
        mcp::MCP_ALLOWED_HOSTS,
    },
};

/// Reads the settings of the listeners; `None` when a variable is bad.
pub(super) fn read_listener<E: Environment>(reader: &mut EnvironmentReader<'_, E>) -> Option<ListenerConfig> {
    let max_connections = reader.read_number(listener::SVC_HTTP_MAX_CONNECTIONS);
    let max_per_address = reader.read_number(listener::SVC_HTTP_MAX_PER_ADDRESS);
    let header_timeout = reader.read_millis(listener::SVC_HTTP_HEADER_TIMEOUT_MS);
    let idle_timeout = reader.read_millis(listener::SVC_HTTP_IDLE_TIMEOUT_MS);
    let proxies = reader.read(listener::SVC_HTTP_PROXIES, parse_networks);
    let metrics_bind = reader.read_optional(listener::SVC_METRICS_BIND, |text| text.parse::<SocketAddr>().ok());
    let metrics_hosts = reader.read_or(listener::SVC_METRICS_HOSTS, Vec::new(), parse_names);
    let tls = read_tls(reader);
    Some(ListenerConfig {
        settings: ListenerSettings {
            max_connections: max_connections?,
            max_per_address: max_per_address?,
            header_timeout: header_timeout?,
            idle_timeout: idle_timeout?,
            proxies: proxies?,
            names: LIMIT_NAMES,
            ..ListenerSettings::default()
        },
        tls: tls?,
        metrics_bind: metrics_bind?,
        metrics_hosts: metrics_hosts?,
    })
}

/// The names that the log of a listener gives to its limits.
const LIMIT_NAMES: LimitNames = LimitNames {
    connections: listener::SVC_HTTP_MAX_CONNECTIONS.name,
    per_address: "SVC_HTTP_MAX_PER_ADDRESS, SVC_HTTP_PROXIES",
    header_timeout: listener::SVC_HTTP_HEADER_TIMEOUT_MS.name,
    idle_timeout: listener::SVC_HTTP_IDLE_TIMEOUT_MS.name,
    tls: "SVC_TLS_CERT, SVC_TLS_KEY, SVC_TLS_CLIENT_CA",
    hosts: MCP_ALLOWED_HOSTS.name,
};

/// An address is a network of one.
fn parse_networks(text: &str) -> Option<Vec<IpNet>> {
    if text == "none" {
        return Some(Vec::new());
    }
    let network =
        |one: &str| one.parse::<IpNet>().ok().or_else(|| one.parse::<std::net::IpAddr>().ok().map(IpNet::from));
    text.split(',').map(|one| network(one.trim())).collect()
}

fn parse_names(text: &str) -> Option<Vec<String>> {
    let is_name = |name: &str| !name.is_empty() && !name.contains(['/', '@', ' ', '*']);
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_ascii_lowercase()).collect();
    names.iter().all(|name| is_name(name)).then_some(names)
}

/// Reads certificate and key. Without both the listeners are not encrypted.
fn read_tls<E: Environment>(reader: &mut EnvironmentReader<'_, E>) -> Option<Option<std::sync::Arc<TlsIdentity>>> {
    let [certificate, key, authorities] =
        [SVC_TLS_CERT, SVC_TLS_KEY, SVC_TLS_CLIENT_CA].map(|setting| reader.get_path(setting));
    let (certificate, key) = match (certificate, key) {
        (Some(certificate), Some(key)) => (certificate, key),
        (None, None) if authorities.is_none() => return Some(None),
        (certificate, key) => {
            for (setting, value) in [(SVC_TLS_CERT, certificate), (SVC_TLS_KEY, key)] {
                if value.is_none() {
                    reader.refuse(setting, "not set, and another variable of TLS is");
                }
            }
            return None;
        }
    };
    let files = TlsFiles { certificate, key, client_authorities: authorities };
    let setting = |path: &PathBuf| match path {
        path if *path == files.key => SVC_TLS_KEY,
        path if Some(path) == files.client_authorities.as_ref() => SVC_TLS_CLIENT_CA,
        _ => SVC_TLS_CERT,
    };
    match TlsIdentity::load(files.clone()) {
        Ok(identity) => Some(Some(identity)),
        Err(error) => {
            reader.refuse(setting(&error.path), error.to_string());
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn every_bad_variable_is_named_and_no_variable_is_needed() {
        let good = HashMap::from([("SVC_HTTP_PROXIES", "10.0.0.0/8, 192.0.2.7"), ("SVC_METRICS_HOSTS", "Metrics.lan")]);
        let mut reader = EnvironmentReader::new(&good);
        let config = read_listener(&mut reader).expect("usable");
        assert!(config.settings.is_proxy([10, 9, 9, 9].into()) && config.settings.is_proxy([192, 0, 2, 7].into()));
        assert!(!config.settings.is_proxy([192, 0, 2, 8].into()) && config.tls.is_none());
        assert_eq!(config.metrics_hosts, ["metrics.lan"]);
        assert_eq!(config.settings.names, LIMIT_NAMES);
        let bad = HashMap::from([
            ("SVC_HTTP_MAX_CONNECTIONS", "0"),
            ("SVC_HTTP_MAX_PER_ADDRESS", "many"),
            ("SVC_HTTP_HEADER_TIMEOUT_MS", "10s"),
            ("SVC_HTTP_PROXIES", "proxy.lan"),
            ("SVC_METRICS_BIND", "9464"),
            ("SVC_METRICS_HOSTS", "http://metrics"),
            ("SVC_TLS_KEY", "key.pem"),
        ]);
        let mut reader = EnvironmentReader::new(&bad);
        assert!(read_listener(&mut reader).is_none());
        let mut named: Vec<&str> = reader.problems.iter().map(|problem| &*problem.variable).collect();
        named.sort_unstable();
        let mut expected: Vec<&str> = bad.keys().copied().filter(|name| *name != "SVC_TLS_KEY").collect();
        expected.push("SVC_TLS_CERT");
        expected.sort_unstable();
        assert_eq!(named, expected);
    }
}

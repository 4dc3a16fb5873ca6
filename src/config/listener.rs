//! The variables of the listeners, the same for every command that serves.

use std::{net::SocketAddr, path::PathBuf};

use ipnet::IpNet;
use svc_net::listener::{ListenerSettings, TlsFiles, TlsIdentity};

use super::environment::{Environment, EnvironmentReader};
use crate::listener::ListenerConfig;

/// Reads the settings of the listeners; `None` when a variable is bad.
pub(super) fn read_listener<E: Environment>(reader: &mut EnvironmentReader<'_, E>) -> Option<ListenerConfig> {
    let defaults = ListenerSettings::default();
    let count = |text: &str| text.parse().ok().filter(|count| (1..=1_000_000).contains(count));
    let allowed = "a number, 1 to 1000000";
    let max_connections =
        reader.read_parsed("SVC_HTTP_MAX_CONNECTIONS", allowed, Some(defaults.max_connections), count);
    let max_per_address =
        reader.read_parsed("SVC_HTTP_MAX_PER_ADDRESS", allowed, Some(defaults.max_per_address), count);
    let millis = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let header_timeout = reader.read_millis("SVC_HTTP_HEADER_TIMEOUT_MS", millis(defaults.header_timeout));
    let idle_timeout = reader.read_millis("SVC_HTTP_IDLE_TIMEOUT_MS", millis(defaults.idle_timeout));
    let allowed = "none, or a comma-separated list of addresses and networks such as 10.0.0.0/8";
    let proxies = reader.read_parsed("SVC_HTTP_PROXIES", allowed, Some(Vec::new()), parse_networks);
    let metrics_bind =
        reader.read_parsed("SVC_METRICS_BIND", "an address with a port, such as 127.0.0.1:9464", Some(None), |text| {
            text.parse::<SocketAddr>().ok().map(Some)
        });
    let metrics_hosts = reader.read_parsed(
        "SVC_METRICS_HOSTS",
        "a comma-separated list of host names without ports",
        Some(Vec::new()),
        parse_names,
    );
    let tls = read_tls(reader);
    Some(ListenerConfig {
        settings: ListenerSettings {
            max_connections: max_connections?,
            max_per_address: max_per_address?,
            header_timeout: header_timeout?,
            idle_timeout: idle_timeout?,
            proxies: proxies?,
            ..defaults
        },
        tls: tls?,
        metrics_bind: metrics_bind?,
        metrics_hosts: metrics_hosts?,
    })
}

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
    let [certificate, key, authorities] = ["SVC_TLS_CERT", "SVC_TLS_KEY", "SVC_TLS_CLIENT_CA"]
        .map(|name| reader.environment.get(name).map(PathBuf::from));
    let (certificate, key) = match (certificate, key) {
        (Some(certificate), Some(key)) => (certificate, key),
        (None, None) if authorities.is_none() => return Some(None),
        (certificate, key) => {
            for (name, value) in [("SVC_TLS_CERT", certificate), ("SVC_TLS_KEY", key)] {
                if value.is_none() {
                    reader.add_problem(name, "not set, and another variable of TLS is", "a file in PEM");
                }
            }
            return None;
        }
    };
    let files = TlsFiles { certificate, key, client_authorities: authorities };
    let variable = |path: &PathBuf| match path {
        path if *path == files.key => "SVC_TLS_KEY",
        path if Some(path) == files.client_authorities.as_ref() => "SVC_TLS_CLIENT_CA",
        _ => "SVC_TLS_CERT",
    };
    match TlsIdentity::load(files.clone()) {
        Ok(identity) => Some(Some(identity)),
        Err(error) => {
            reader.add_problem(variable(&error.path), error.to_string(), "a file in PEM");
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

//! The listener of the admin API, and the trust in its callers.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use ipnet::IpNet;
use svc_agent::LoginRules;
use svc_net::host_policy::HostPolicy;
use svc_wire::address::Address;
use url::Url;

use crate::{
    admin::AdminConfig,
    config::environment::{Environment, EnvironmentReader, shown},
    settings::agent,
};

/// The settings of the admin API, and of logins there.
pub(super) struct AdminSettings {
    pub admin: AdminConfig,
    /// Origin for external callers; `None` while none is served.
    pub public_url: Option<String>,
    pub logins: Option<LoginRules>,
}

/// Reads the admin API.
pub(super) fn read_admin<E: Environment>(
    reader: &mut EnvironmentReader<'_, E>,
    hosts: HostPolicy,
) -> Option<AdminSettings> {
    let is_corporation = reader.read_choice(agent::ADMIN_API_AUTH_MODE, "corporation");
    let everywhere = is_corporation == Some(true);
    let default_bind = if everywhere { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::LOCALHOST };
    let bind = reader.read_or(agent::ADMIN_API_BIND, IpAddr::V4(default_bind), |text| text.parse().ok());
    let port = reader.read_number(agent::ADMIN_API_PORT);
    let trusted_networks = reader.read(agent::ADMIN_API_TRUSTED_NETWORKS, parse_networks);
    let allowed_hosts = reader.read_or(agent::ADMIN_API_ALLOWED_HOSTS, BTreeSet::new(), parse_hosts);
    let login_audience = reader.read_flag(agent::ADMIN_API_LOGIN_AUDIENCE);
    let public_url = read_public_url(reader, hosts, everywhere);
    let (accounts, account_prefix) = read_accounts(reader, everywhere);
    is_corporation?;
    let public_host = public_url.as_ref().and_then(|origin| origin.split_once("://")).map(|(_, host)| host.to_owned());
    let admin = AdminConfig {
        bind: SocketAddr::new(bind?, port?),
        trusted_networks: trusted_networks?,
        allowed_hosts: allowed_hosts?,
        public_host,
    };
    let names_audience = login_audience?;
    let logins = public_url.clone().map(|origin| LoginRules {
        audience: names_audience.then_some(origin),
        prefix: account_prefix,
        allowed_accounts: accounts,
    });
    Some(AdminSettings { admin, public_url, logins })
}

fn parse_networks(text: &str) -> Option<Vec<IpNet>> {
    if text == "none" {
        return Some(Vec::new());
    }
    text.split(',').map(|network| network.trim().parse().ok()).collect()
}

fn parse_hosts(text: &str) -> Option<BTreeSet<String>> {
    let is_host = |host: &str| !host.is_empty() && !host.contains(['/', '@', ' ', '*']);
    let hosts: BTreeSet<String> = text.split(',').map(|host| host.trim().to_ascii_lowercase()).collect();
    Some(hosts).filter(|hosts| hosts.iter().all(|host| is_host(host)))
}

fn read_public_url<E: Environment>(
    reader: &mut EnvironmentReader<'_, E>,
    hosts: HostPolicy,
    is_needed: bool,
) -> Option<String> {
    let (setting, mode) = (agent::ADMIN_API_PUBLIC_URL, agent::ADMIN_API_AUTH_MODE.name);
    match (reader.get(setting), is_needed) {
        (None, false) => None,
        (None, true) => {
            reader.refuse(setting, format!("not set, and {mode} is corporation"));
            None
        }
        (Some(text), false) => {
            let found = format!("{}, and {mode} is internal", shown(&text));
            reader.add_problem(setting.name, found, "nothing in mode internal");
            None
        }
        (Some(text), true) => {
            let origin = hosts.check_url(&text).ok().as_ref().and_then(origin_of);
            match origin {
                Some(origin) if origin == text => Some(origin),
                Some(origin) => {
                    let allowed = format!("the origin in its usual form, {origin}");
                    reader.add_problem(setting.name, format!("{text:?}"), allowed);
                    None
                }
                None => {
                    reader.refuse(setting, shown(&text));
                    None
                }
            }
        }
    }
}

/// The origin of a URL that has nothing else.
fn origin_of(url: &Url) -> Option<String> {
    let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    is_bare.then(|| url.origin().ascii_serialization())
}

fn read_accounts<E: Environment>(reader: &mut EnvironmentReader<'_, E>, is_needed: bool) -> (BTreeSet<String>, String) {
    let (setting, mode) = (agent::ADMIN_API_CORPORATION_ALLOWED_ACCOUNTS, agent::ADMIN_API_AUTH_MODE.name);
    let none = (BTreeSet::new(), String::new());
    match (reader.get(setting), is_needed) {
        (None, false) => none,
        (None, true) => {
            reader.refuse(setting, format!("not set, and {mode} is corporation"));
            none
        }
        (Some(_), false) => {
            let found = format!("set, and {mode} is internal");
            reader.add_problem(setting.name, found, "nothing in mode internal");
            none
        }
        (Some(text), true) => {
            let accounts: BTreeSet<String> = text.split(',').map(|one| one.trim().to_owned()).collect();
            let prefixes: BTreeSet<Option<String>> = accounts.iter().map(|one| Address::prefix_of(one)).collect();
            let prefix = prefixes.first().cloned().flatten().filter(|_| prefixes.len() == 1);
            match prefix {
                Some(prefix) => (accounts, prefix),
                None => {
                    reader.refuse(setting, format!("{text:?}"));
                    none
                }
            }
        }
    }
}

//! The variables of `svc peer`.

use svc_net::host_policy::HostPolicy;
use svc_peer::AgentAddress;

use super::{
    agent::read_paths,
    environment::{ConfigError, Environment, EnvironmentReader},
};
use crate::{secrets::ProcessSecrets, settings::access::SVC_PEER_AGENT};

/// The configuration of `svc peer`.
#[derive(Debug)]
pub struct PeerCommandConfig {
    /// The admin API of the own agent.
    pub agent: AgentAddress,
    /// Hosts that endpoints may be at.
    pub hosts: HostPolicy,
}

/// Reads the configuration of `svc peer`. Fails with the problems of all variables at once.
pub fn read_peer(
    environment: &impl Environment,
    secrets: &mut ProcessSecrets,
) -> Result<PeerCommandConfig, ConfigError> {
    let mut reader = EnvironmentReader::new(environment);
    let own = AgentAddress::Socket(read_paths(environment, secrets).socket);
    let agent = reader.read_or(SVC_PEER_AGENT, own, |text| text.parse().ok());
    match (agent, reader.read_host_policy()) {
        (Some(agent), Some(hosts)) => Ok(PeerCommandConfig { agent, hosts }),
        _ => Err(ConfigError::Variables(reader.problems)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn the_own_agent_is_the_one_of_the_setting_or_of_its_socket() {
        let read = |pairs: &[(&'static str, &'static str)]| {
            let environment: HashMap<&str, &str> = pairs.iter().copied().collect();
            read_peer(&environment, &mut ProcessSecrets::default()).map(|config| config.agent.to_string())
        };
        for (pairs, expected) in [
            (&[][..], "svc-agent.sock"),
            (&[("SVC_AGENT_SOCKET", "/run/a.sock")], "/run/a.sock"),
            (&[("SVC_AGENT_SOCKET", "/run/a.sock"), ("SVC_PEER_AGENT", "unix:/b")], "/b"),
            (&[("SVC_PEER_AGENT", "http://10.0.0.5:3000")], "http://10.0.0.5:3000"),
        ] {
            assert_eq!(read(pairs).expect("usable"), expected, "{pairs:?}");
        }
        let refused = read(&[("SVC_PEER_AGENT", "nonsense"), ("SVC_ALLOW_PRIVATE_HOSTS", "yes")]).expect_err("bad");
        let refused = refused.to_string();
        assert!(refused.contains("SVC_PEER_AGENT") && refused.contains("SVC_ALLOW_PRIVATE_HOSTS"), "{refused}");
    }
}

//! The network that the options of `svc devnet` describe, and its ports.

use std::{net::SocketAddr, path::Path};

use anyhow::{Context, bail};
use svc_agent::{AccessSettings, FlowSettings};
use svc_devnet::{DevnetConfig, GenesisFile, scenario::Scenario};
use svc_trust::EssentialSchemas;

use super::{arguments::DevnetArgs, demo::Demo, home::INDEXER_FILE};
use crate::{
    listener::bind_listener,
    network::{LocalAgentConfig, LocalNetworkConfig, ReceiverConfig},
};

/// Agents that have ports of their own.
const AGENTS: u16 = 3;
/// Requests for access of one peer in a minute: trials ask more often than a peer does.
const ACCESS_RATE: u32 = 600;

impl DevnetArgs {
    /// Fails when a port is taken, with the option that chooses another one.
    pub(super) fn check_ports(&self, config: &LocalNetworkConfig, scenario: &Scenario) -> anyhow::Result<()> {
        let control = self.control_port.map(|port| ("--control-port", ([127, 0, 0, 1], port).into()));
        let mut listeners = vec![("--rpc-port", config.devnet.listen), ("--indexer-port", config.indexer_listen)];
        if scenario.operator_slot.is_some() {
            listeners.push(("--mcp-port", config.mcp_listen));
        }
        if !scenario.services.is_empty() {
            listeners.push(("--services-port", config.devnet.services_listen));
        }
        let agents = if self.no_agents { 0 } else { scenario.agents.len() };
        for (admin, public) in config.agent.listens.iter().take(agents) {
            listeners.extend([("--agent-admin-port", *admin), ("--agent-public-port", *public)]);
        }
        let is_fixed = |(_, address): &(_, SocketAddr)| address.port() != 0;
        // Each listener stays open until all are checked: two options may name one port.
        let mut held = Vec::new();
        for (option, address) in listeners.into_iter().chain(control).filter(is_fixed) {
            match bind_listener(address) {
                Ok(listener) => held.push(listener),
                Err(error) => {
                    bail!("cannot listen on {address}: {error}; {option} chooses another port, and 0 takes a free one")
                }
            }
        }
        Ok(())
    }

    /// Access to endpoints of the first agent, where an option says something about it.
    fn first_access(&self) -> Option<AccessSettings> {
        let by_backend = AccessSettings { is_answered_by_backend: true, ..AccessSettings::default() };
        self.access.as_deref().map(access_settings).or_else(|| self.access_by_backend.then_some(by_backend))
    }

    /// The configuration that the options describe. A demo has free ports, and may have a scenario of its own.
    pub(super) fn network_config(&self, demo: Option<&dyn Demo>) -> anyhow::Result<LocalNetworkConfig> {
        let essential_texts = self.schemas.as_deref().map(essential_texts).transpose()?.unwrap_or_default();
        let genesis = self.genesis.as_deref().map(GenesisFile::load).transpose()?;
        let takes_free_ports = demo.is_some();
        let port = |port: u16| (self.bind, if takes_free_ports { 0 } else { port }).into();
        let scenario = demo.and_then(Demo::scenario).unwrap_or(&self.scenario);
        let file = self.indexer_db.clone().or_else(|| self.home.as_ref().map(|home| home.join(INDEXER_FILE)));
        let database = match file {
            Some(path) => format!("sqlite://{}?mode=rwc", path.display()),
            None => "sqlite::memory:".to_owned(),
        };
        Ok(LocalNetworkConfig {
            devnet: DevnetConfig {
                namespace: self.namespace.clone(),
                chain_id: self.chain_id.clone(),
                denom: self.denom.clone(),
                block_time: self.block_time.0,
                listen: port(self.rpc_port),
                rest_listen: self.rest_port.map(port),
                grpc_listen: self.grpc_port.map(port),
                scenario: if genesis.is_some() { "empty".to_owned() } else { scenario.to_owned() },
                essential_texts,
                home: self.home.clone(),
                control_port: self.control_port,
                services_listen: ([127, 0, 0, 1], if takes_free_ports { 0 } else { self.services_port }).into(),
                kept_states: self.prune_state,
                is_like_a_node: self.like_a_node,
                generation: self.generation,
                upgrade: self.upgrade,
                upgrade_pause: self.upgrade_pause,
                genesis,
            },
            database,
            agent: LocalAgentConfig {
                listens: (0..AGENTS)
                    .map(|place| {
                        let nth = |first: u16| if first == 0 { 0 } else { first.saturating_add(2 * place) };
                        (port(nth(self.agent_admin_port)), port(nth(self.agent_public_port)))
                    })
                    .collect(),
                is_off: self.no_agents,
                home: self.home.clone(),
                access: self.first_access().into_iter().collect(),
                receiver: self.agent_webhook.clone().map(|url| ReceiverConfig { url, secret: None }),
                proofs: Some(self.published_proofs),
                flows: FlowSettings { format: self.issue_format, ..FlowSettings::default() },
                ..LocalAgentConfig::default()
            },
            indexer_listen: port(self.indexer_port),
            mcp_listen: port(self.mcp_port),
            ..LocalNetworkConfig::default()
        })
    }
}

/// The texts of the JSON files in a folder. Each is a known text of an essential schema.
fn essential_texts(folder: &Path) -> anyhow::Result<Vec<String>> {
    let known = EssentialSchemas::default();
    let mut texts = Vec::new();
    let entries = std::fs::read_dir(folder).with_context(|| format!("--schemas {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = std::fs::read_to_string(&path).with_context(|| format!("--schemas: {}", path.display()))?;
        if known.content(&text).is_none() {
            bail!("--schemas: {} is no known text of an essential schema", path.display());
        }
        texts.push(text);
    }
    if texts.is_empty() {
        bail!("--schemas: {} has no JSON file", folder.display());
    }
    Ok(texts)
}

/// Access by the conditions of a file.
pub(super) fn access_settings(file: &Path) -> AccessSettings {
    AccessSettings { terms_file: Some(file.to_owned()), rate_per_peer: ACCESS_RATE, ..AccessSettings::default() }
}

#[cfg(test)]
mod tests {
    use svc_trust::EssentialCredential;

    use super::*;

    #[test]
    fn the_schemas_of_a_folder_are_known_texts() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let refusal = || format!("{:#}", essential_texts(folder.path()).expect_err("refused"));
        assert!(refusal().contains("has no JSON file"), "{}", refusal());
        let known = EssentialCredential::Service.schema();
        std::fs::write(path("service.json"), known).expect("written");
        std::fs::write(path("README.md"), "about them").expect("written");
        assert_eq!(essential_texts(folder.path()).expect("texts"), [known]);
        std::fs::write(path("other.json"), known.replace("ServiceCredential", "OtherCredential")).expect("written");
        assert!(refusal().contains("other.json is no known text"), "{}", refusal());
        assert!(essential_texts(&path("nowhere")).is_err());
    }
}

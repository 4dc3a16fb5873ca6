//! The default of each row is the default of the configuration that it fills, as a program that embeds the crates has it.

use std::{collections::HashMap, fmt::Debug};

use svc_agent::{AccessSettings, CredentialSettings, FlowSettings, PeerSettings};
use svc_indexer::IndexerConfig;
use svc_net::listener::ListenerSettings;
use svc_operator::OperatorConfig;

use super::*;
use crate::{listener::ListenerConfig, secrets::ProcessSecrets};

const PHRASE: &str = "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about";
const STORE_KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const NODE: &str = "http://127.0.0.1:26657";
const INDEXER: &str = "http://127.0.0.1:3001";

/// Compares all fields of two configurations. Their types have no other comparison.
fn assert_same(read: &impl Debug, default: &impl Debug) {
    assert_eq!(format!("{read:#?}"), format!("{default:#?}"));
}

fn assert_default_listener(read: &ListenerConfig) {
    let names = read.settings.names.clone();
    assert_same(&read.settings, &ListenerSettings { names, ..ListenerSettings::default() });
}

#[test]
fn an_indexer_without_settings_has_the_defaults_of_the_crate() {
    let environment = HashMap::from([("SVC_RPC", NODE)]);
    let read = read_indexer(&environment, &mut ProcessSecrets::default()).expect("enough");
    assert_same(&read.indexer, &IndexerConfig::new(NODE, read.indexer.database.clone()));
    assert_default_listener(&read.listener);
}

#[test]
fn an_operator_without_settings_has_the_defaults_of_the_crate() {
    let environment = HashMap::from([("SVC_CORPORATION", "7"), ("SVC_RPC", NODE), ("SVC_INDEXER", INDEXER)]);
    let mut secrets = ProcessSecrets::from_pairs([("MCP_SVC_MNEMONIC", PHRASE), ("MCP_BEARER_TOKEN", TOKEN)]);
    let Ok(read) = read_serve(&environment, &mut secrets) else { panic!("too little") };
    // The crate asks for no free space and waits for a minute; the program keeps 64 MiB and waits for as long as it takes.
    let (min_free_disk, patience) = (read.operator.min_free_disk, read.operator.patience.clone());
    assert_eq!((min_free_disk.to_string().as_str(), patience.limit), ("SVC_MIN_FREE_DISK=67108864", None));
    assert_same(&read.operator, &OperatorConfig { min_free_disk, patience, ..OperatorConfig::new(7, NODE, INDEXER) });
    let TransportConfig::Http(http) = read.transport else { panic!("http") };
    assert_default_listener(&http.listener);
}

#[test]
fn an_agent_without_settings_has_the_defaults_of_the_crates() {
    let environment = HashMap::from([
        ("SVC_CORPORATION_ID", "7"),
        ("SVC_RPC_ENDPOINT_URL", NODE),
        ("SVC_INDEXER_BASE_URL", INDEXER),
        ("PUBLIC_API_BASE_URL", "https://agent.example.com"),
        ("TRUSTED_ECS_ECOSYSTEM_DIDS", "did:web:ecosystem.example.com"),
        ("ECS_CLAIMS_SERVICE_NAME", "Shop"),
    ]);
    let mut secrets =
        ProcessSecrets::from_pairs([("SVC_ACCOUNT_MNEMONIC", PHRASE), ("SVC_AGENT_STORE_KEY", STORE_KEY)]);
    let Ok(read) = read_agent(&environment, &mut secrets) else { panic!("too little") };
    assert_same(&read.agent.peers, &PeerSettings::default());
    assert_same(&read.agent.access, &AccessSettings::default());
    let claims = read.agent.flows.claims.clone();
    assert_same(&read.agent.flows, &FlowSettings { claims, ..FlowSettings::default() });
    let (days, renew_days) = (CredentialSettings::DEFAULT_DAYS, CredentialSettings::DEFAULT_RENEW_DAYS);
    assert_eq!((read.agent.credentials.days, read.agent.credentials.renew_days), (days, renew_days));
    assert_default_listener(&read.server.listener);
}

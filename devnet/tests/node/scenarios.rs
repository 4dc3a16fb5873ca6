//! Tests of scenarios: the contents of the shipped ones, and the errors of a failing one.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use svc_devnet::{Devnet, DevnetConfig};
use svc_ledger::broken_invariant;

use super::harness::{config, devnet};

fn ask(devnet: &Devnet, path: &str, request: &Value) -> Value {
    devnet.node.read_core(|core| {
        let full = format!("/svc.{}", path.replacen('.', ".v1.Query/", 1));
        let rpc = core.chain.registry.rpc_methods().find(|rpc| rpc.path == full).expect("a query");
        let request = core.chain.registry.encode(rpc.request.full_name(), request).expect("encodes");
        let reply =
            svc_ledger::query(core.state(), &core.chain, core.block_context(), &full, &request).expect("answered");
        core.chain.registry.decode(rpc.response.full_name(), &reply).expect("decodes")
    })
}

fn all(found: &Value, list: &str, field: &str) -> BTreeSet<String> {
    found[list]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one[field].to_string().trim_matches('"').to_owned())
        .collect()
}

#[tokio::test]
async fn the_marketplace_has_every_role_state_and_mode() {
    let devnet = devnet("marketplace").await;
    let participants = ask(&devnet, "pp.ListParticipants", &json!({"response_max_size": 1024}));
    assert_eq!(all(&participants, "participants", "role").len(), 6);
    assert_eq!(all(&participants, "participants", "op_state").len(), 3);
    for life in ["slashed", "repaid", "revoked", "adjusted"] {
        assert!(all(&participants, "participants", life).len() > 1, "{life}");
    }
    let schemas = ask(&devnet, "cs.ListCredentialSchemas", &json!({}));
    for mode in ["issuer_onboarding_mode", "verifier_onboarding_mode", "pricing_asset_type"] {
        assert_eq!(all(&schemas, "schemas", mode).len(), 3, "{mode}");
    }
    assert_eq!(all(&schemas, "schemas", "holder_onboarding_mode").len(), 2);
    let services = devnet.services.as_ref().expect("services").all().len();
    let corporations = ask(&devnet, "co.ListCorporations", &json!({"response_max_size": 1024}));
    assert_eq!(all(&corporations, "corporations", "id").len(), 4 + services);
    assert_eq!(all(&ask(&devnet, "pp.ListParticipantSessions", &json!({})), "participant_sessions", "id").len(), 2);
    assert_eq!(
        all(&ask(&devnet, "xr.ListExchangeRates", &json!({})), "exchange_rates", "rate"),
        BTreeSet::from(["100000".to_owned(), "1050000".to_owned()])
    );
    let slashed = ask(&devnet, "td.GetTrustDeposit", &json!({"corporation_id": devnet.address("grantor_id")}));
    assert_eq!(slashed["trust_deposit"]["repaid_deposit"], "2000000");
    // All twenty-seven operations ran.
    let sent: BTreeSet<String> = devnet.node.read_core(|core| {
        let actions = core.blocks().iter().flat_map(|block| &block.tx_outcomes).flat_map(|outcome| &outcome.events);
        let actions = actions.filter(|event| event.kind == "message").flat_map(|event| &event.attributes);
        actions
            .filter(|(key, value)| key == "action" && value.starts_with("/svc."))
            .map(|(_, value)| value.clone())
            .collect()
    });
    let policies = sent.iter().filter(|url| url.contains("SchemaAuthorizationPolicy")).count();
    let rates = sent.iter().filter(|url| url.starts_with("/svc.xr.")).count();
    assert_eq!(sent.len() - policies - rates, 27, "{sent:?}");
    assert_eq!(devnet.node.read_core(|core| broken_invariant(core.state(), &core.chain)), None);
}

#[tokio::test]
async fn a_scenario_that_fails_names_its_step() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("bad.toml");
    let text = include_str!("../../scenarios/corporation.toml").replace("did:web:corporation", "web:corporation");
    std::fs::write(&file, text).expect("written");
    let config = DevnetConfig { scenario: file.display().to_string(), ..config("empty") };
    let error = Devnet::launch(config).await.err().expect("refused");
    assert_eq!(
        error.to_string(),
        "step \"create corporation\": invalid DID: \"web:corporation.devnet.example\": invalid DID syntax"
    );
}

#[tokio::test]
async fn an_aged_chain_ends_at_the_present() {
    let config = DevnetConfig { block_time: Some(std::time::Duration::from_secs(3600)), ..config("marketplace") };
    let devnet = Devnet::launch(config).await.expect("starts");
    let newest = devnet.node.read_core(|core| core.latest().expect("a block").time.seconds);
    let now = svc_kit::wall_clock::now().seconds;
    assert!((now - 60..=now + 1).contains(&newest), "{newest} {now}");
}

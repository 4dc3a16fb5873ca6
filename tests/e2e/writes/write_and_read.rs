//! The main path: an ecosystem is created through MCP, included, indexed, and read back by every surface.

use serde_json::{Value, json};

use crate::e2e::harness::{CREATE_ECOSYSTEM, ecosystem_arguments, schema_arguments, start_quick_network};

#[tokio::test(flavor = "multi_thread")]
async fn an_ecosystem_is_created_indexed_and_read_back() {
    let world = start_quick_network().await;
    let receipt = world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments("guild")).await;
    assert_eq!(receipt["indexer_synced"], true);
    assert_eq!(receipt["response"]["ecosystem_id"], "1");
    assert_eq!(receipt["fee_payer"], "corporation");
    assert!(receipt["indexer_height"].as_u64() >= receipt["block_height"].as_u64());

    let read = world.call_ok("svc.idx.es.getEcosystem", json!({"id": 1})).await;
    assert_eq!(read["ecosystem"]["did"], "did:web:guild.example");
    assert_eq!(read["ecosystem"]["archived"], Value::Null);

    let tx = world.call_ok("svc.cosmos.tx.getTx", json!({"hash": receipt["tx_hash"]})).await;
    assert_eq!((&tx["state"], &tx["block_height"]), (&json!("included"), &receipt["block_height"]));

    let events = world.call_ok("svc.idx.indexer.listEvents", json!({"dids": ["did:web:guild.example"]})).await;
    assert_eq!(events["events"][0]["event_type"], "CreateNewEcosystem");
    assert_eq!(events["events"][0]["tx_hash"], receipt["tx_hash"]);
    assert_eq!(events["events"][0]["payload"]["sender"], world.network.operator_slot.operator_address);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_effect_of_each_write_tool_shows_in_its_read() {
    let world = start_quick_network().await;
    let created = world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments("first")).await;
    let before = created["block_height"].clone();
    world.call_ok("svc.ledger.es.updateEcosystem", json!({"id": "1", "did": "did:web:second.example"})).await;
    world.call_ok("svc.ledger.es.archiveEcosystem", json!({"id": 1, "archive": true})).await;
    let document = json!({
        "ecosystem_id": 1, "doc_language": "en", "doc_url": "https://first.example/v2.pdf",
        "doc_digest_sri": "sha256-AAEC", "version": 2,
    });
    world.call_ok("svc.ledger.gf.addGovernanceFrameworkDocument", document).await;
    world.call_ok("svc.ledger.gf.increaseActiveGovernanceFrameworkVersion", json!({"ecosystem_id": 1})).await;
    world.call_ok("svc.ledger.co.updateCorporation", json!({"did": "did:web:renamed.example"})).await;

    let now = world.call_ok("svc.idx.es.getEcosystem", json!({"id": 1, "gf_data": "all"})).await["ecosystem"].clone();
    assert_eq!((&now["did"], &now["active_version"]), (&json!("did:web:second.example"), &json!(2)));
    assert!(now["archived"].is_string() && now["versions"].as_array().is_some_and(|versions| versions.len() == 2));
    let then = world.call_ok("svc.idx.es.getEcosystem", json!({"id": 1, "at_block_height": before})).await["ecosystem"]
        .clone();
    assert_eq!((&then["did"], &then["archived"]), (&json!("did:web:first.example"), &Value::Null));

    let versions =
        world.call_ok("svc.idx.gf.listGovernanceFrameworkVersions", json!({"ecosystem_id": 1, "sort": "id"})).await;
    assert_eq!(versions["versions"][1]["documents"][0]["url"], "https://first.example/v2.pdf");
    let id = versions["versions"][1]["id"].clone();
    let version = world.call_ok("svc.idx.gf.getGovernanceFrameworkVersion", json!({"id": id})).await;
    assert_eq!((&version["version"]["ecosystem_id"], &version["version"]["corporation_id"]), (&json!(1), &Value::Null));
    let corporation = world.call_ok("svc.idx.co.getCorporation", json!({"id": 1})).await;
    assert_eq!(corporation["corporation"]["did"], "did:web:renamed.example");

    let founded = json!({
        "members": [{"address": world.network.devnet.address("member"), "weight": "1"}],
        "decision_policy": {"@type": "/cosmos.group.v1.PercentageDecisionPolicy", "percentage": "0.5",
            "windows": {"voting_period": "60s", "min_execution_period": "0s"}},
        "did": "did:web:daughter.example", "language": "de", "doc_url": "https://daughter.example/v1.pdf",
        "doc_digest_sri": "sha256-AAEC",
    });
    // This message type cannot be granted, so no allowance pays for it: the operator does.
    let created = world.call_ok("svc.ledger.co.createCorporation", founded).await;
    assert_eq!(created["fee_payer"], "operator", "{created:#}");
    let list = world.call_ok("svc.idx.co.listCorporations", json!({"did": "did:web:renamed.example"})).await;
    assert_eq!(list["corporations"].as_array().map(Vec::len), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_and_wallet_tools_agree_with_the_chain() {
    let world = start_quick_network().await;
    world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments("guild")).await;
    let seat = &world.network.operator_slot;
    world
        .wait_until("the ecosystem is in the snapshot", async || {
            world.read_resource("svc://own/corporation").await["ecosystems"][0]["did"] == "did:web:guild.example"
        })
        .await;
    let operator = world.read_resource("svc://own/operator").await;
    assert_eq!((&operator["address"], &operator["sequence"]), (&json!(seat.operator_address), &json!(1)));
    assert_eq!(operator, world.call_ok("svc.wallet.getAddress", json!({})).await);
    let corporation = world.read_resource("svc://own/corporation").await;
    assert_eq!((&corporation["id"], &corporation["policy_address"]), (&json!(1), &json!(seat.policy_address)));
    let authorizations = world.read_resource("svc://own/authorizations").await;
    assert_eq!(authorizations[0]["fee_grant_state"], "active");
    assert_eq!(authorizations[0]["msg_types"].as_array().map(Vec::len), Some(28));
    let grant = world.read_resource("svc://own/fee-grant").await;
    assert_eq!((&grant["granter"], &grant["budget"]), (&json!(seat.policy_address), &Value::Null));
    let status = world.read_resource("svc://own/status").await;
    assert_eq!((&status["bootstrap_complete"], &status["rpc_ws"]["connected"]), (&json!(true), &json!(true)));
    let actors: Vec<_> =
        status["actors"].as_array().expect("actors").iter().map(|actor| actor["name"].clone()).collect();
    assert_eq!(
        json!(actors),
        json!([
            "journal",
            "signer",
            "confirmer",
            "node_link",
            "barrier",
            "refresher",
            "subscriptions",
            "agent_sessions",
            "agents"
        ])
    );
    assert_eq!(world.call_ok("svc.wallet.listVSAgents", json!({})).await, json!({"vs_agents": []}));
    let names = world.tool_names().await;
    assert_eq!(names.iter().filter(|name| name.starts_with("svc.ledger.")).count(), 26, "all but sessions");
    // This network has no graph and no agents.
    assert_eq!((names.iter().filter(|name| name.starts_with("svc.idx.")).count(), names.len()), (56, 26 + 56 + 11 + 5));
}

/// The default scenario has a price of the trust unit, so that fees can be asked and paid; a renewal has to repeat them.
#[tokio::test(flavor = "multi_thread")]
async fn a_participant_with_fees_is_validated_and_its_renewal_is_told_which_values_it_repeats() {
    let world = start_quick_network().await;
    let ecosystem = world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments("guild")).await;
    let mut schema = schema_arguments(&ecosystem["response"]["ecosystem_id"]);
    schema["issuer_onboarding_mode"] = "ECOSYSTEM_ONBOARDING_PROCESS".into();
    let schema = world.call_ok("svc.ledger.cs.createCredentialSchema", schema).await;
    let soon = || {
        let now = svc_wire::timestamp::unix_nanos(&svc_kit::wall_clock::now()) + 1_500_000_000;
        svc_wire::timestamp::iso_millis(&svc_wire::timestamp::from_unix_nanos(now))
    };
    let root = json!({
        "schema_id": schema["response"]["id"], "did": "did:web:root.example", "effective_from": soon(),
        "effective_until": "2030-01-01T00:00:00Z", "validation_fees": 2, "issuance_fees": 0, "verification_fees": 0,
    });
    let root = world.call_ok("svc.ledger.pp.createRootParticipant", root).await["response"]["id"].clone();
    let read = json!({"id": root});
    world
        .wait_until("the root is in effect", async || {
            world.call_ok("svc.idx.pp.getParticipant", read.clone()).await["participant"]["participant_state"]
                == "ACTIVE"
        })
        .await;
    let apply = json!({"role": "ISSUER", "validator_participant_id": root, "did": "did:web:issuer.example"});
    let started = world.call_ok("svc.ledger.pp.startParticipantOp", apply).await;
    let id = started["response"]["participant_id"].clone();
    let terms = json!({"id": id, "validation_fees": 3, "issuance_fees": 5});
    let validate = "svc.ledger.pp.setParticipantOpToValidated";
    world.call_ok(validate, terms.clone()).await;
    world.call_ok("svc.ledger.pp.renewParticipantOp", json!({"id": id})).await;
    let refused = world.call_error(validate, json!({"id": id}), "SIMULATION_FAILED").await;
    assert!(
        refused["message"].as_str().is_some_and(|text| text.contains("validation_fees cannot be changed")),
        "{refused:#}"
    );
    let hint = refused["hint"].as_str().expect("a hint");
    assert!(hint.contains("validation_fees 3, issuance_fees 5, verification_fees 0"), "{hint}");
    world.call_ok(validate, terms).await;
}

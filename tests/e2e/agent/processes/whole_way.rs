//! The whole way of two agents on one node: `svc agent init` makes both trusted, a flow gives one a credential of the other, and with it the
//! first calls the endpoints of the second.

use serde_json::json;
use svc_test_support::published_schemas::published_schemas;
use svc_trust::{EssentialSchemas, essential_schema::schema_digest};
use svc_wire::proto_registry::NodeGeneration;

use crate::e2e::{
    agent::{
        credentials::identity_process::{did_of, import_organisation},
        endpoints::peer_flow::PeerWorld,
        processes::two_agents::{TwoAgents, ValidatorPlace},
        validation::flow_faults::seconds_from_now,
    },
    harness::{CREATE_ECOSYSTEM, ecosystem_arguments, schema_arguments},
};

impl TwoAgents {
    /// Makes both trusted as their people do: by `svc agent init`, and by the chamber's validation and credential for the validator.
    async fn become_trusted(&self) {
        let world = &self.world;
        let (validator, applicant) = (did_of(&self.validator).await, &self.applicant_did);
        let chamber = world.id_of("chamber.organization.issuer").to_string();
        let (is_done, shown) = self.validator_home.init(world, &["--apply-to", &chamber]).await;
        assert!(!is_done && shown.contains("holder-validation"), "the chamber has not validated it yet: {shown}");
        let setup = self.validator.send("GET", &format!("/v2/agent/setup?applyTo={chamber}"), None).await.body;
        let waiting = setup["steps"].as_array().expect("steps").iter().find(|step| step["id"] == "holder-validation");
        let validation = &waiting.expect("the step of the chamber")["message"];
        let validated = json!({
            "corporation": "$chamber.corporation", "operator": "$clerk", "id": validation["id"],
            "effective_until": validation["effective_until"],
        });
        let validated = [("pp.MsgSetParticipantOPToValidated", validated)];
        world.network.devnet.send_messages("clerk", &validated).await.expect("validated");
        import_organisation(world, &self.validator, &validator).await;
        let (is_done, shown) = self.validator_home.init(world, &["--apply-to", &chamber]).await;
        assert!(is_done, "{shown}");
        // The flow for its service credential begins with its participant.
        let (_, shown) = self.applicant_home.init(world, &[]).await;
        assert!(shown.contains("holder: svc.ledger.pp.startParticipantOp"), "{shown}");
        for (did, pattern) in [(&validator, "self"), (applicant, "parent")] {
            world.await_verdict_on(did, |verdict| verdict["trusted"] == true && verdict["pattern"] == pattern).await;
        }
        let (is_done, shown) = self.applicant_home.init(world, &[]).await;
        assert!(is_done && !shown.contains("transaction"), "nothing is sent again: {shown}");
    }

    /// Founds an ecosystem of the validator with a schema that it issues, by the tool server; returns its issuer.
    async fn found_ecosystem(&self) -> u64 {
        let world = &self.world;
        let did = did_of(&self.validator).await;
        let mut ecosystem = ecosystem_arguments("licenses");
        ecosystem["did"] = did.as_str().into();
        let ecosystem = world.call_ok(CREATE_ECOSYSTEM, ecosystem).await["response"]["ecosystem_id"].clone();
        let mut schema = schema_arguments(&ecosystem);
        schema["json_schema"] = LICENSE.into();
        schema["holder_onboarding_mode"] = "ISSUER_ONBOARDING_PROCESS".into();
        schema["holder_validation_validity_period"] = 365.into();
        schema["pricing_asset_type"] = "COIN".into();
        schema["pricing_asset"] = world.network.devnet.denom.as_str().into();
        let schema = world.call_ok("svc.ledger.cs.createCredentialSchema", schema).await["response"]["id"].clone();
        let root = json!({
            "schema_id": schema, "did": did, "validation_fees": 0, "issuance_fees": 0, "verification_fees": 0,
            "effective_from": seconds_from_now(3), "effective_until": seconds_from_now(30_000_000),
        });
        let root = world.call_ok("svc.ledger.pp.createRootParticipant", root).await["response"]["id"].clone();
        let root = world.await_in_effect(&root).await;
        let fees = json!([{"denom": world.network.devnet.denom, "amount": "10000000"}]);
        let issuer = json!({
            "role": "ISSUER", "validator_participant_id": root, "did": did, "effective_from": seconds_from_now(3),
            "effective_until": seconds_from_now(3_000_000), "vs_operator": world.network.devnet.address("agent"),
            "vs_operator_authz_msg_types":
                ["/svc.pp.v1.MsgCreateOrUpdateParticipantSession", "/svc.pp.v1.MsgSetParticipantOPToValidated"],
            "vs_operator_authz_with_feegrant": true, "vs_operator_authz_fee_spend_limit": fees,
        });
        let issuer = world.call_ok("svc.ledger.pp.selfCreateParticipant", issuer).await["response"]["id"].clone();
        let issuer = world.await_in_effect(&issuer).await;
        // The schema's own credential is a step of the same command.
        let chamber = world.id_of("chamber.organization.issuer").to_string();
        let (is_done, shown) = self.validator_home.init(world, &["--apply-to", &chamber]).await;
        assert!(is_done && shown.contains("svc.ledger.di.storeDigest"), "{shown}");
        issuer
    }
}

const LICENSE: &str = r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"License","description":"License of a holder","type":"object","properties":{"credentialSubject":{"type":"object","properties":{"id":{"type":"string"},"grade":{"type":"string","minLength":1,"maxLength":40}},"required":["id","grade"],"additionalProperties":false}},"required":["credentialSubject"]}"#;

async fn go(generation: NodeGeneration, essential_texts: Vec<String>) {
    let place = ValidatorPlace { generation: Some(generation), essential_texts, ..ValidatorPlace::default() };
    let texts = place.essential_texts.clone();
    let world = PeerWorld::start_unknown(place).await;
    let agents = &world.agents;
    if !texts.is_empty() {
        let schema = agents.world.id_of("service.schema");
        let stored = agents.world.call_ok("svc.idx.cs.getJsonSchema", json!({"id": schema})).await.to_string();
        assert!(texts.iter().any(|text| schema_digest(text) == schema_digest(&stored)), "{stored}");
    }
    agents.become_trusted().await;
    let issuer = agents.found_ecosystem().await;

    let participant = agents.apply_under("HOLDER", issuer).await;
    let session = agents.validate(participant, "A").await;
    let (held, issued) = agents.await_completed(participant, 1).await;
    assert_eq!(agents.world.records_of(&session).await, 1);
    assert!(held["credentialId"].is_string() && held["credentialId"] == issued["credentialId"], "{held} {issued}");

    let (_tools, _, _) = world.serve_endpoints().await;
    assert!(world.call(&["mcp", "--list"]).await.done().contains("getEcosystem"));
    let caller = &agents.applicant_did;
    assert_eq!(world.call(&["read"]).await.done(), format!("hello {caller}\n"));
    assert_eq!(world.call(&["members"]).await.done(), format!("hello member {caller}\n"));
    // Where the generation has them, the successor of a participant that runs may be started.
    if generation > NodeGeneration::N0 {
        agents.apply_under("HOLDER", issuer).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn init_flow_and_access_succeed_in_one_run_at_a_node_of_the_first_generation() {
    go(NodeGeneration::N0, Vec::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn init_flow_and_access_succeed_in_one_run_at_a_node_of_a_later_generation() {
    go(NodeGeneration::N3, Vec::new()).await;
}

/// The texts that live networks have.
#[tokio::test(flavor = "multi_thread")]
async fn init_flow_and_access_succeed_with_the_published_schemas_at_the_oldest_and_a_newer_node() {
    let Some(texts) = published_schemas() else { return };
    let known = EssentialSchemas::default();
    let texts: Vec<String> = texts.into_iter().filter(|text| known.content(text).is_some()).collect();
    for generation in [NodeGeneration::N0, NodeGeneration::N3] {
        go(generation, texts.clone()).await;
    }
}

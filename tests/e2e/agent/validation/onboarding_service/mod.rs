//! A service that leads applicants through an onboarding, as others build it, against the agent and the indexer: it has a session at the agent's
//! admin API, reads the chain at the indexer, signs nothing, and uses words of an older text.

mod case;
mod endings;
mod holder;
mod issuer;
mod many_applicants;
mod registry;
mod service;

use std::collections::BTreeMap;

use serde_json::json;

use crate::e2e::{
    agent::{
        credentials::identity_process::did_of,
        document::login,
        processes::two_agents::{TwoAgents, ValidatorPlace},
        validation::flow_faults::seconds_from_now,
    },
    harness::schema_arguments,
};

/// The account of the service, which logs in.
const SERVICE_ACCOUNT: u8 = 77;

const DAY: i64 = 86_400;

fn at(seconds: i64) -> String {
    svc_wire::timestamp::iso_seconds(&prost_types::Timestamp { seconds, nanos: 0 })
}

/// An instant so many days from now, in whole seconds.
fn days_from_now(days: i64) -> String {
    at(svc_kit::wall_clock::now().seconds + days * DAY)
}

/// Two agents; the validator's takes logins of the service.
async fn start_agents() -> TwoAgents {
    let of_both = [("FLOW_PUBLISH_SCHEMAS", "*".to_owned()), ("FLOW_SEND_TERMS", "true".to_owned())];
    let place = ValidatorPlace {
        login: Some(login::account(SERVICE_ACCOUNT)),
        of_both: BTreeMap::from(of_both),
        ..ValidatorPlace::default()
    };
    TwoAgents::start(place).await
}

/// A schema of the validator's ecosystem whose issuers its agent may validate, with or without an allowance for the fees; returns its root.
async fn create_root(agents: &TwoAgents, with_feegrant: bool) -> u64 {
    let world = &agents.world;
    let mut schema = schema_arguments(&json!(world.id_of("flows.ecosystem")));
    schema["issuer_onboarding_mode"] = "ECOSYSTEM_ONBOARDING_PROCESS".into();
    schema["pricing_asset_type"] = "COIN".into();
    schema["pricing_asset"] = world.network.devnet.denom.as_str().into();
    let schema = world.call_ok("svc.ledger.cs.createCredentialSchema", schema).await["response"]["id"].clone();
    let root = json!({
        "schema_id": schema, "did": did_of(&agents.validator).await, "effective_from": seconds_from_now(3),
        "effective_until": seconds_from_now(30_000_000), "vs_operator": world.network.devnet.address("agent"),
        "vs_operator_authz_msg_types": ["/svc.pp.v1.MsgSetParticipantOPToValidated"],
        "vs_operator_authz_with_feegrant": with_feegrant,
        // Deposits move with each message.
        "validation_fees": 1_000,
    });
    let made = world.call_ok("svc.ledger.pp.createRootParticipant", root).await;
    world.await_in_effect(&made["response"]["id"]).await
}

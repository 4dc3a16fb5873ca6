//! Claims of an agent's own credentials: a file of them, the documents that they name, and the schema that decides.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::Path,
};

use axum::{Router, response::Redirect, routing::get};
use serde_json::{Value, json};
use svc::network::received_claims;
use svc_trust::digest::{DigestAlgorithm, sri_digest};

use crate::e2e::{
    agent::{
        credentials::identity_process::{did_of, standalone_without_claims, start_without_agents},
        processes::{
            agent_process::AgentProcess,
            two_agents::{TwoAgents, ValidatorPlace},
        },
    },
    harness::{TEST_TIMEOUT, TestNetwork},
};

/// A server that sends its callers elsewhere, as a web server sends them from one host to another.
async fn start_redirect(target: String) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let router = Router::new().route("/logo", get(async move || Redirect::temporary(&target)));
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// The steps that name a setting, once there are some.
async fn settings_named(world: &TestNetwork, agent: &AgentProcess) -> Vec<(String, String)> {
    let mut heights = world.network.devnet.node.watch_heights();
    let named = async {
        loop {
            let setup = agent.send("GET", "/v2/agent/setup", None).await.body;
            let steps = setup["steps"].as_array().cloned().unwrap_or_default();
            let text = |step: &Value, name: &str| step[name].as_str().map(str::to_owned);
            let named: Vec<_> =
                steps.iter().filter_map(|step| Some((text(step, "setting")?, text(step, "reason")?))).collect();
            if !named.is_empty() {
                return named;
            }
            heights.changed().await.expect("blocks");
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, named).await.expect("a setting is named in time")
}

fn write_claims(path: &Path, service: &Value) {
    std::fs::write(path, json!({"service": service}).to_string()).expect("written");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_signed_about_documents_that_are_not_as_the_claims_say() {
    let world = start_without_agents().await;
    let devnet = &world.network.devnet;
    let services = devnet.services.as_ref().expect("services");
    let fitting = Value::Object(received_claims(devnet, "service"));
    let elsewhere = start_redirect(fitting["logoUri"].as_str().expect("a text").to_owned()).await;
    let large = "x".repeat(50_000_000);
    services.publish("/large", "text/plain", large.as_str());
    let mut claims = fitting.clone();
    claims["logoUri"] = format!("http://{elsewhere}/logo").into();
    claims["termsAndConditionsUri"] = format!("{}/large", services.origin()).into();
    claims["termsAndConditionsDigestSri"] = sri_digest(large.as_bytes(), DigestAlgorithm::Sha384).into();
    claims["privacyPolicyDigestSri"] = sri_digest(b"another", DigestAlgorithm::Sha384).into();

    let mut home = standalone_without_claims(&world);
    let file = home.path("claims.json");
    write_claims(&file, &claims);
    home.settings.insert("ECS_CLAIMS_FILE", file.display().to_string());
    let agent = home.start();
    did_of(&agent).await;
    let named = settings_named(&world, &agent).await;
    let settings: BTreeSet<&str> = named.iter().map(|(setting, _)| setting.as_str()).collect();
    let member = |name: &str| format!("ECS_CLAIMS_FILE service.{name}");
    let expected = [member("logoUri"), member("privacyPolicyDigestSri"), member("termsAndConditionsUri")];
    assert_eq!(settings, expected.iter().map(String::as_str).collect(), "{named:?}");
    let reason_of = |setting: &str| named.iter().find(|(one, _)| one == setting).map_or("", |(_, reason)| reason);
    assert!(reason_of(&expected[0]).contains("redirects; allowed: the URL of the document itself"), "{named:?}");
    assert!(reason_of(&expected[1]).contains("svc agent digest"), "{named:?}");
    assert!(reason_of(&expected[2]).contains("is longer than 4194304 bytes"), "{named:?}");
    let (is_ok, shown) = home.run(&["check"]).await;
    assert!(!is_ok && shown.matches("FAIL claims").count() == 3, "{shown}");
    // It ends at once: a person has to change the settings.
    let (is_ok, shown) = home.run(&["init"]).await;
    assert!(!is_ok && shown.contains("waiting  service-claim-1"), "{shown}");

    // A claim that the schema lacks or refuses is named too, and another digest is computed.
    let mut incomplete = fitting.clone();
    incomplete.as_object_mut().expect("an object").remove("logoDigestSri");
    incomplete["minimumAgeRequired"] = 300.into();
    write_claims(&file, &incomplete);
    agent.kill();
    let agent = home.start();
    let named = settings_named(&world, &agent).await;
    let settings: Vec<&str> = named.iter().map(|(setting, _)| setting.as_str()).collect();
    assert_eq!(settings, ["ECS_CLAIMS_SERVICE_LOGO_DIGEST_SRI", "ECS_CLAIMS_FILE service.minimumAgeRequired"]);
    let logo = fitting["logoUri"].as_str().expect("a text");
    let (is_ok, digest) = home.run(&["digest", logo]).await;
    assert!(is_ok && digest.trim() == fitting["logoDigestSri"], "{digest}");
    let credentials = agent.send("GET", "/v2/vt/linked-credentials", None).await.body;
    assert_eq!(credentials["items"], json!([]));

    // The claims that a parent is to be asked for are judged before it is asked.
    write_claims(&file, &claims);
    agent.kill();
    home.settings.extend([
        ("AGENT_MODE", "delegated".to_owned()),
        ("AGENT_DELEGATED_PARENT_VS_DID", "did:web:parent.example".to_owned()),
    ]);
    let agent = home.start();
    let named = settings_named(&world, &agent).await;
    let settings: BTreeSet<&str> = named.iter().map(|(setting, _)| setting.as_str()).collect();
    assert_eq!(settings, expected.iter().map(String::as_str).collect(), "{named:?}");
    let (is_ok, shown) = home.run(&["check"]).await;
    assert!(!is_ok && shown.matches("FAIL claims").count() == 3, "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_is_asked_for_claims_whose_documents_are_as_they_say() {
    let folder = tempfile::tempdir().expect("a folder");
    let of_both = BTreeMap::from([("FLOW_CLAIMS_DIR", folder.path().display().to_string())]);
    let agents = TwoAgents::start(ValidatorPlace { of_both, ..ValidatorPlace::default() }).await;
    let devnet = &agents.world.network.devnet;
    let file = folder.path().join(format!("{}.json", devnet.address("flows.license.schema")));
    let logo = received_claims(devnet, "service")["logoUri"].clone();
    let digest = sri_digest(b"another", DigestAlgorithm::Sha384);
    let claims = json!({"grade": "A", "logoUri": logo, "logoDigestSri": digest});
    std::fs::write(&file, claims.to_string()).expect("written");
    let participant = agents.apply().await;
    let reason = |flow: &Value| flow["blocked"]["reason"].as_str().map(str::to_owned);
    let is_held = |flow: &Value| reason(flow).as_deref() == Some("CLAIMS_UNREADABLE");
    let held = agents.await_flow(&agents.applicant, participant, is_held).await;
    let text = held["blocked"]["text"].as_str().expect("a text");
    let setting = format!("{} logoDigestSri", file.display());
    assert!(text.contains(&setting) && text.contains("svc agent digest"), "{text}");
    assert_eq!(agents.flow(&agents.validator, participant).await, Value::Null, "its issuer was not asked");
}

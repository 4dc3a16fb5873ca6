//! Tests of pages: content, persistence, replacement.

use std::net::SocketAddr;

use serde_json::{Value, json};
use svc_devnet::{
    Devnet, DevnetConfig, DevnetError,
    services::{CredentialFormat, DevnetServices, MAIN_KEY_LABEL, ServicesError, schema_path},
};
use svc_trust::{
    RejectionCode,
    did_document::{ProofPurpose, linked_presentations, verification_key},
    digest::{DigestAlgorithm, digest_jcs},
    proof::parse_proofs,
};
use svc_wire::timestamp;

use super::trust_checker::{TrustChecker, document, fetch, query_chain};
use crate::node::harness::{config, devnet, devnet_at};

fn services(devnet: &Devnet) -> &DevnetServices {
    devnet.services.as_ref().expect("services")
}

fn did<'a>(devnet: &'a Devnet, name: &str) -> &'a str {
    &services(devnet).get(name).expect("known").identity.did
}

/// Returns all pages as (path, body).
async fn all_pages(devnet: &Devnet) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (name, service) in services(devnet).all() {
        let mut paths = vec![service.identity.document_path()];
        paths.extend(
            ["service", "organization", "persona", "riddle"].map(|schema| format!("/{name}/vt/{schema}-vp.json")),
        );
        let schema_id = |schema: &str| devnet.address(&format!("{schema}.schema"));
        paths.extend(["service", "persona"].map(|schema| schema_path(name, schema_id(schema))));
        for path in paths {
            all.extend(services(devnet).page(&path).map(|page| (path, page.body)));
        }
    }
    all
}

#[tokio::test]
async fn linked_presentations_are_served_signed_and_anchored() {
    let devnet = devnet("services").await;
    let origin = services(&devnet).origin();
    assert!(origin.starts_with("http://localhost:"));
    for (name, schemas) in [("harbor", 2), ("mill", 2), ("kiosk", 2), ("ferry", 1), ("registrar", 2)] {
        let service = services(&devnet).get(name).expect("known");
        assert_eq!(devnet.saved_values[name], service.identity.did, "steps refer to it by its name");
        let document = document(&service.identity.did).await.expect("resolves");
        assert_eq!(services(&devnet).document(name).expect("known"), document);
        let links = linked_presentations(&document);
        assert_eq!(links.len(), schemas, "{name}");
        for link in links {
            let text = fetch(&link.url).await.expect("served");
            let presentation: Value = serde_json::from_str(&text).expect("JSON");
            let proof = parse_proofs(&presentation).expect("proved").remove(0).expect("understood");
            let key = verification_key(&document, &proof.verification_method, ProofPurpose::Authentication, 0)
                .expect("a key");
            let now = timestamp::unix_nanos(&svc_kit::wall_clock::now());
            proof.verify(&presentation, &key, now).expect("verifies");
            let credential = &presentation["verifiableCredential"][0];
            let digest = format!("sha384-{}", digest_jcs(credential, DigestAlgorithm::Sha384).expect("canonical"));
            assert!(query_chain(&devnet, "di.GetDigest", &json!({"digest": digest})).is_some(), "{name}: {digest}");
        }
    }
    let harbor = document(did(&devnet, "harbor")).await.expect("resolves");
    assert_eq!(svc_trust::did_document::offered_services(&harbor)[0]["type"], "MCP");
    assert_eq!(
        fetch(&format!("{origin}/nowhere")).await.expect_err("nothing").code,
        RejectionCode::ResourceUnavailable
    );
}

#[tokio::test]
async fn runs_on_one_port_have_equal_pages() {
    let first = devnet("services").await;
    let origin = services(&first).origin();
    let port: u16 = origin.rsplit_once(':').expect("a port").1.parse().expect("a number");
    let told = async |devnet: &Devnet| {
        (all_pages(devnet).await, devnet.saved_values.clone(), devnet.node.read_core(|core| core.app_hash_hex()))
    };
    let before = told(&first).await;
    assert!(before.0.len() > 90, "{}", before.0.len());
    drop(first);
    let services_listen = SocketAddr::from(([127, 0, 0, 1], port));
    let second = Devnet::launch(DevnetConfig { services_listen, ..config("services") }).await.expect("starts");
    assert_eq!(told(&second).await, before);
}

#[tokio::test]
async fn a_home_keeps_pages_and_address() {
    let home = tempfile::tempdir().expect("a directory");
    let first = devnet_at(home.path(), "services").await;
    let (origin, all) = (services(&first).origin(), services(&first).all().clone());
    let served = all_pages(&first).await;
    drop(first);
    let again = devnet_at(home.path(), "services").await;
    assert_eq!((services(&again).origin(), services(&again).all()), (origin.clone(), &all));
    assert_eq!(all_pages(&again).await, served);
    assert!(TrustChecker::new(&again).evaluate_did(did(&again, "harbor")).await.is_trusted());
    drop(again);
    let port: u16 = origin.rsplit_once(':').expect("a port").1.parse().expect("a number");
    let taken = std::net::TcpListener::bind(("127.0.0.1", port)).expect("free");
    let config = DevnetConfig { home: Some(home.path().to_owned()), ..config("services") };
    let error = Devnet::launch(config).await.err().expect("refused");
    assert!(matches!(error, DevnetError::Services(ServicesError::Listen { .. })), "{error}");
    assert!(error.to_string().contains(&format!("127.0.0.1:{port} for the services")), "{error}");
    drop(taken);
}

#[tokio::test]
async fn keys_rotate_and_pages_can_be_replaced() {
    let devnet = devnet("services").await;
    let judged = async |name: &str| {
        let verdict = TrustChecker::new(&devnet).evaluate_did(did(&devnet, name)).await;
        verdict.reasons.first().map(|reason| reason.code)
    };
    let services = services(&devnet);
    // A rotation invalidates the credentials that the issuer has signed, in a log as in a document.
    for (name, child) in [("harbor", "ferry"), ("chamber", "registrar")] {
        assert_eq!(judged(child).await, None);
        services.rotate_key(name, "key-3").await.expect("rotates");
        services.rotate_key(name, "key-4").await.expect("rotates");
        assert_eq!(
            (judged(name).await, judged(child).await),
            (Some(RejectionCode::KeyUnknown), Some(RejectionCode::KeyUnknown))
        );
        services.rotate_key(name, MAIN_KEY_LABEL).await.expect("rotates");
        assert_eq!((judged(name).await, judged(child).await), (None, None));
    }
    let log = services.page("/harbor/did.jsonl").expect("served").body;
    assert_eq!(log.lines().count(), 4);
    // A presentation can be replaced, with the same credentials and with others.
    let shown = services.published_presentation("ferry", "service").expect("served");
    let credentials = shown["verifiableCredential"].as_array().expect("a list").clone();
    services.unpublish("/ferry/vt/service-vp.json");
    assert_eq!(judged("ferry").await, Some(RejectionCode::ResourceUnavailable));
    let at = "2026-01-01T00:00:00Z";
    services.publish_presentation("ferry", "service", credentials, CredentialFormat::Rdfc, at).expect("signs");
    assert_eq!(judged("ferry").await, None);
    // A credential can be replaced, with its digest on the chain.
    let mut credential =
        services.published_presentation("ferry", "service").expect("served")["verifiableCredential"][0].take();
    credential.as_object_mut().expect("members").remove("proof");
    credential["credentialSubject"]["description"] = "carries more".into();
    let issuer = services.get("harbor").expect("known").identity.prover(MAIN_KEY_LABEL);
    svc_trust::issuance::sign_credential(&mut credential, &issuer, CredentialFormat::Jcs.suite(), at).expect("signs");
    let digest = digest_jcs(&credential, DigestAlgorithm::Sha384).expect("canonical");
    services.publish_presentation("ferry", "service", vec![credential], CredentialFormat::Jcs, at).expect("signs");
    assert_eq!(judged("ferry").await, Some(RejectionCode::DigestNotAnchored));
    let message =
        json!({"authority": "$harbor.corporation", "operator": "$clerk", "digest": format!("sha384-{digest}")});
    devnet.send_messages("clerk", &[("di.MsgStoreDigest", message)]).await.expect("sent");
    assert_eq!(judged("ferry").await, None);
    services.publish("/ferry/vt/service-vp.json", svc_devnet::services::JSON_CONTENT_TYPE, "{}");
    assert_eq!(judged("ferry").await, Some(RejectionCode::PresentationInvalid));
    assert!(matches!(services.rotate_key("nobody", MAIN_KEY_LABEL).await, Err(ServicesError::Unknown(_))));
}

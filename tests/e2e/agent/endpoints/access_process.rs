//! Grants of an agent whose store is a restored backup, that runs twice, or whose disk is full.

use std::sync::OnceLock;

use serde_json::{Value, json};
use svc_net::host_policy::HostPolicy;
use svc_peer::verifier::{AccessRejection, AccessToken, TokenRejection, TokenVerifier};
use svc_test_support::small_disk::{SmallDisk, fill};

use crate::e2e::agent::{
    endpoints::peer_flow::PeerWorld, messages::scripted_peer::now, processes::two_agents::ValidatorPlace,
};

const SITE: &str = "http://127.0.0.1:9/site";
const CONDITIONS: &str = "[[endpoint]]\nid = \"site\"\nmaterial = \"bearer\"\nscopes = []\nallow = \"*\"\n";
/// Messages that fill the small disk for certain.
const MESSAGES_OF_A_DISK: usize = 1_000;

/// Verifies a token now, by the public files of its issuer.
async fn verify(world: &PeerWorld, token: &str) -> Result<String, TokenRejection> {
    let verifier = TokenVerifier::new(&world.owner, SITE, HostPolicy::AllowPrivate).expect("a verifier");
    let token = AccessToken::read(token).expect("readable");
    verifier.verify(&token, &|_| true, now()).await.map(|claims| claims.subject)
}

/// Asks for the site, in the place of an earlier request where there is one.
async fn ask_again(world: &PeerWorld, replaces: &Value) -> Value {
    let mut body = json!({"endpoint": world.endpoint("site")});
    if replaces.is_string() {
        body["replaces"] = replaces.clone();
    }
    world.agents.applicant.send("POST", "/v2/vt/access-requests", Some(&body)).await.body
}

/// Asks until a token is there: the index may have looked for the owner's document while its agent was down, and then does not call it trusted.
async fn ask_until_granted(world: &PeerWorld, replaces: &Value) -> Value {
    let granted = OnceLock::new();
    world
        .agents
        .world
        .wait_until("a token is granted", async || {
            let answer = ask_again(world, replaces).await;
            let is_granted = answer["token"].is_string();
            assert!(is_granted || answer["error"]["code"] == "PEER_NOT_AUTHORIZED", "{answer}");
            is_granted && granted.set(answer).is_ok()
        })
        .await;
    granted.into_inner().expect("granted")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_store_voids_the_tokens_of_before_and_a_second_instance_grants_nothing() {
    let mut world = PeerWorld::start_unknown(ValidatorPlace::default()).await;
    world.agents.admit().await;
    // The backup knows nothing of the endpoint and its grants.
    assert!(world.agents.validator.terminate().0);
    let home = &world.agents.validator_home;
    home.keep("agent.db", "backup.db");
    world.agents.validator = home.start();
    world.put_entry("site", "Website", SITE).await;
    world.set_conditions(CONDITIONS).await;
    let granted = ask_until_granted(&world, &Value::Null).await;
    let token = granted["token"].as_str().expect("a text").to_owned();
    assert_eq!(verify(&world, &token).await.as_ref(), Ok(&world.agents.applicant_did));

    let home = &world.agents.validator_home;
    let (is_ok, shown) = home.run(&[]).await;
    assert!(!is_ok && shown.contains(&format!("process {}", world.agents.validator.child.id())), "{shown}");

    let log = home.stop_with_log(world.agents.validator).await;
    home.restore("backup.db");
    let (is_ok, shown) = home.run(&[]).await;
    assert!(!is_ok && shown.contains("older than"), "{shown}");
    let (is_ok, shown) = home.run(&["recover", "--log", &log]).await;
    assert!(is_ok, "{shown}");
    world.agents.validator = home.start();
    assert_eq!(verify(&world, &token).await, Err(TokenRejection::Invalid(AccessRejection::Void)));
    // The store does not know the grant, and gives another one.
    world.set_conditions(CONDITIONS).await;
    let next = ask_until_granted(&world, &granted["requestId"]).await;
    let next = next["token"].as_str().expect("a text");
    assert_eq!(verify(&world, next).await.as_ref(), Ok(&world.agents.applicant_did));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_space_on_the_disk_no_token_leaves_and_with_space_again_it_does() {
    let Some(disk) = SmallDisk::mount("size=8m") else { return };
    let outside = disk.outside();
    let world = PeerWorld::start_unknown(ValidatorPlace { disk: Some(disk), ..ValidatorPlace::default() }).await;
    world.agents.admit().await;
    world.put_entry("site", "Website", SITE).await;
    world.set_conditions(CONDITIONS).await;
    let granted = ask_again(&world, &Value::Null).await;
    assert!(granted["token"].is_string(), "{granted}");
    let filler = fill(&outside);
    // The file of the write-ahead log may have room for some writes yet.
    let validator = &world.agents.validator;
    let connections = validator.send("GET", "/v2/didcomm/connections", None).await.body;
    let connection = &connections["items"][0]["id"];
    let mut is_full = false;
    for _ in 0..MESSAGES_OF_A_DISK {
        let body = json!({"connectionId": connection, "content": "x".repeat(8_000)});
        if validator.send("POST", "/v2/didcomm/basic-messages", Some(&body)).await.status != 200 {
            is_full = true;
            break;
        }
    }
    assert!(is_full, "the disk is full");
    let denied = ask_again(&world, &granted["requestId"]).await;
    assert_eq!(denied["token"], Value::Null);
    assert_eq!(denied["error"]["details"]["code"], "unavailable", "{denied}");
    std::fs::remove_file(filler).expect("removed");
    let again = async || ask_again(&world, &Value::Null).await["token"].is_string();
    world.agents.world.wait_until("a token leaves again", again).await;
}

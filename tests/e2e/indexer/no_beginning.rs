//! The verdict on a participant that a node of the first generation stores without `effective_from`: it authorises nothing there, nor after an
//! upgrade of the chain. An index that begins behind the upgrade says the same. A later node stores the time of its block.

use serde_json::{Value, json};
use svc::network::ChainAndIndexer;
use svc_indexer::{IndexerConfig, TrustConfig};
use svc_net::host_policy::HostPolicy;
use svc_wire::proto_registry::NodeGeneration;

use super::{
    IndexerReplica, await_verdicts, produce_blocks, read_ok, start_chain_and_indexer,
    verdicts::{codes, did, resolve},
};

/// Makes the issuer of the persona credential of `unlisted-issuer` one without a beginning; returns the participant as the index shows it.
async fn create(grounds: &ChainAndIndexer) -> Value {
    let message = json!({
        "corporation": "$bureau-unlisted.corporation", "operator": "$clerk", "role": "ISSUER",
        "validator_participant_id": "$persona.root", "did": did(grounds, "bureau-unlisted"),
    });
    let made = grounds.devnet.send_messages("clerk", &[("pp.MsgSelfCreateParticipant", message)]).await.expect("made");
    produce_blocks(grounds, 1).await;
    let id = made[0]["id"].as_str().expect("an id");
    read_ok(&grounds.indexer_origin(), &format!("/v4/participant/get/{id}")).await["participant"].clone()
}

/// Whether an index has a reason against `unlisted-issuer`, as of the newest block.
async fn has_reason(grounds: &ChainAndIndexer, origin: &str, code: &str) -> bool {
    loop {
        await_verdicts(origin, *grounds.devnet.node.watch_heights().borrow()).await;
        if read_ok(origin, "/v4/indexer/status").await["trust"]["dids_to_judge"] == 0 {
            break;
        }
        grounds.devnet.node.produce_block().expect("a block");
    }
    let verdict = resolve(origin, &did(grounds, "unlisted-issuer")).await;
    assert_eq!(verdict["trusted"], false, "{verdict}");
    codes(&verdict).contains(&code)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_participant_without_a_beginning_authorises_nothing_before_and_after_an_upgrade() {
    let grounds = start_chain_and_indexer("marketplace").await;
    let origin = grounds.indexer_origin();
    assert!(has_reason(&grounds, &origin, "issuer_never_authorised").await);
    let made = create(&grounds).await;
    // The state follows the text of the index, which knows no such participant. The verdict follows the chain.
    assert_eq!((&made["effective_from"], &made["participant_state"]), (&Value::Null, &json!("ACTIVE")), "{made}");
    assert!(has_reason(&grounds, &origin, "issuer_not_effective").await);

    let node = &grounds.devnet.node;
    node.stop();
    node.upgrade(NodeGeneration::N3).expect("upgrades");
    node.start().expect("starts");
    produce_blocks(&grounds, 1).await;
    let essential_schemas = svc::network::essential_schemas(&grounds.devnet);
    let trust = TrustConfig { hosts: HostPolicy::AllowPrivate, essential_schemas, wait_limit: None, patience: None };
    let config = IndexerConfig { trust, ..IndexerConfig::new(node.origin(), "sqlite::memory:") };
    let replica = IndexerReplica::launch(config).await;
    for origin in [&origin, &replica.origin] {
        assert!(has_reason(&grounds, origin, "issuer_not_effective").await, "{origin}");
    }

    // Of the later generation one begins with its block, which is behind the anchor of the credential.
    let made = create(&grounds).await;
    assert!(made["effective_from"].is_string(), "{made}");
    for origin in [&origin, &replica.origin] {
        assert!(has_reason(&grounds, origin, "anchored_too_early").await, "{origin}");
    }
}

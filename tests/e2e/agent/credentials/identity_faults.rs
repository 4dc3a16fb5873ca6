//! Credentials under a node that refuses, forgets or lags, and credentials of hostile issuers.

use std::time::Duration;

use serde_json::{Value, json};
use svc_agent::{CredentialState, IssueRequest, RefusalCode, SetupOptions, StepState};
use svc_devnet::node::CheckTxRefusal;

use super::identity::{start_agents_with, start_marketplace};
use crate::e2e::harness::{TEST_TIMEOUT, TestNetwork};

impl TestNetwork {
    /// Waits until every credential that was issued to others has a state; it changes with blocks.
    async fn await_issued(&self, state: CredentialState) {
        let mut heights = self.network.devnet.node.watch_heights();
        let store = self.agent(0).store();
        let waited = tokio::time::timeout(TEST_TIMEOUT, async {
            while !store.issued_credentials(None, 100).await.expect("read").iter().all(|one| one.state == state) {
                heights.changed().await.expect("blocks");
            }
        });
        assert!(waited.await.is_ok(), "{:?}", store.issued_credentials(None, 100).await);
    }

    fn branch_request(&self, name: &str) -> IssueRequest {
        self.issue_request(&self.agent_did(1), name)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_whose_transaction_is_refused_waits_and_is_anchored_later_by_one_session() {
    let world = start_agents_with("marketplace", |agents| agents.tx_timeout = Some(Duration::from_secs(2))).await;
    let before = world.session_records().await;
    // The node takes no fee of this size: nothing is in a block, and the credential is not handed out.
    let refusal = CheckTxRefusal::sdk(1_000, 13, "insufficient fees; got: 1usvc required: 2usvc: insufficient fee");
    world.network.devnet.node.update_faults(|faults| faults.refuse = Some(refusal));
    let refused = world.agent(0).credentials().issue(world.branch_request("Waits")).await.expect_err("refused");
    assert_eq!(refused.code, RefusalCode::ResolverUnavailable, "{refused}");
    let rows = world.agent(0).store().issued_credentials(None, 100).await.expect("read");
    let waits = rows.iter().find(|one| one.state == CredentialState::Signed).expect("it is stored");
    assert!(waits.reason.as_deref().is_some_and(|reason| reason.contains("NO_FEES")), "{waits:?}");
    assert_eq!(world.session_records().await, before);
    world.network.devnet.node.update_faults(|faults| faults.refuse = None);
    // The same request again is the same credential.
    let id = waits.id.clone();
    let issued = world.agent(0).credentials().issue(world.branch_request("Waits")).await.expect("issued");
    assert_eq!((issued.id, issued.state), (id, CredentialState::Anchored));
    assert_eq!(world.session_records().await, before + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_forgets_or_loses_transactions_is_paid_once_for_each_credential() {
    let world = start_marketplace().await;
    let before = world.session_records().await;
    for (round, change) in [0_u32, 1, 2].into_iter().enumerate() {
        world.network.devnet.node.update_faults(|faults| match change {
            0 => faults.drop_after_check = 1,
            1 => faults.unindexed_blocks = 8,
            _ => faults.lag_blocks = 3,
        });
        let request = world.branch_request(&format!("Forgotten {round}"));
        let issuing = || world.agent(0).credentials().issue(request.clone());
        let mut heights = world.network.devnet.node.watch_heights();
        let issued = tokio::time::timeout(TEST_TIMEOUT * 2, async {
            loop {
                match issuing().await {
                    Ok(issued) => return issued,
                    Err(refusal) => assert!(refusal.retry_after.is_some(), "{refusal}"),
                }
                heights.changed().await.expect("blocks");
            }
        });
        issued.await.expect("issued in the end");
        world.network.devnet.node.update_faults(|faults| *faults = Default::default());
        assert_eq!(world.session_records().await, before + round + 1);
    }
    world.await_issued(CredentialState::Anchored).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_issuer_issues_nothing_and_the_setup_names_the_step() {
    let world = start_marketplace().await;
    let listed =
        world.call_ok("svc.idx.pp.listParticipants", json!({"did": world.agent_did(0), "role": "ISSUER"})).await;
    let issuer = listed["participants"][0]["id"].clone();
    let issued = world.agent(0).credentials().issue(world.branch_request("Before")).await.expect("issued");
    world.call_ok("svc.ledger.pp.revokeParticipant", json!({"id": issuer})).await;
    for request in [world.branch_request("Before"), world.branch_request("After")] {
        let refused = world.agent(0).credentials().issue(request).await.expect_err("revoked");
        assert_eq!(refused.code, RefusalCode::NotAuthorized, "{refused}");
    }
    let row = world.agent(0).store().credential(&issued.id).await.expect("read").expect("there");
    assert_eq!((row.state, row.reason.as_deref()), (CredentialState::Withdrawn, Some("issuer_revoked")));
    // Both lose the trust that came by it, and the setup shows the step towards another.
    world.await_verdict(0, |verdict| verdict["trusted"] == false).await;
    let setup = world.agent(0).credentials().setup(SetupOptions::default()).await.expect("read");
    let step = setup.steps.iter().find(|step| step.id == "service-issuer").expect("a step");
    assert_eq!((step.state, step.tool), (StepState::Missing, Some("svc.ledger.pp.selfCreateParticipant")), "{step:?}");
    let mut heights = world.network.devnet.node.watch_heights();
    let gone = tokio::time::timeout(TEST_TIMEOUT, async {
        while world.presented(0).iter().any(|entry| entry.contains("service")) {
            heights.changed().await.expect("blocks");
        }
    });
    assert!(gone.await.is_ok(), "{:?} {}", world.presented(0), world.describe(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_issuer_takes_no_place_and_no_time() {
    let world = start_marketplace().await;
    let second = world.agent(1);
    let held: Vec<Value> = {
        let held = second.store().held_credentials().await.expect("read");
        held.iter().map(|one| serde_json::from_str(&one.body).expect("JSON")).collect()
    };
    let good = held[0].clone();
    // A server that takes a connection and answers nothing.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let taken = tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = silent.accept().await {
            open.push(stream);
        }
    });
    let mut of_silent = good.clone();
    of_silent["issuer"] = format!("did:web:localhost%3A{port}:silent").into();
    let refused = tokio::time::timeout(TEST_TIMEOUT, second.credentials().import(of_silent)).await;
    let refused = refused.expect("bounded").expect_err("no answer");
    // The digest of the copy is not anchored, which no answer of its issuer changes.
    assert_eq!((refused.code, refused.retry_after), (RefusalCode::InvalidInput, None), "{refused}");
    assert!(refused.message.contains("digest_not_anchored"), "{refused}");
    taken.abort();

    // Larger than a reader takes, and an id that would stand in logs.
    let mut large = good.clone();
    large["credentialSubject"]["description"] = "x".repeat(900_000).into();
    let mut odd = good.clone();
    odd["id"] = "did:web:a#\u{202e}1".into();
    let mut deep = json!("end");
    for _ in 0..200 {
        deep = json!([deep]);
    }
    let mut nested = good.clone();
    nested["credentialSubject"]["name"] = deep;
    for (credential, named) in [(large, "bytes"), (odd, "id"), (nested, "proof_invalid")] {
        let refused = second.credentials().import(credential).await.expect_err(named);
        assert_eq!(refused.code, RefusalCode::InvalidInput, "{named}: {refused}");
        assert!(refused.message.contains(named), "{named}: {refused}");
    }
    let again: Vec<Value> = {
        let held = second.store().held_credentials().await.expect("read");
        held.iter().map(|one| serde_json::from_str(&one.body).expect("JSON")).collect()
    };
    assert_eq!(again, held, "nothing of a refused import is kept, and nothing has gone");
    assert!(!world.presented(1).is_empty());
    world.await_verdict(1, |one| one["trusted"] == true).await;
}

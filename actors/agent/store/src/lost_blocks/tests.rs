//! The rebase of a store on both databases.

use std::collections::BTreeSet;

use svc_agent_core::{
    flows::FlowWrite,
    lost_blocks::LostBlocks,
    notification::{NOTIFICATION, Notification},
};
use svc_didcomm::flow::{
    Cause, CredentialStage, FlowCredential, FlowState, FlowTx, FlowWork, Guard, NewFlow, Side, Trigger, TxStatus,
    Variant, begin, next_work,
};

use super::*;
use crate::{
    BlockEvents, EVERY_EVENT,
    peer_rows::testing::{LIMITS, NOW, on_both},
};

/// Most events that are stored.
const MAX: u64 = 1_000;

fn block(height: u64, count: usize) -> BlockEvents {
    let notification =
        |number| Notification { id: format!("{height}-{number}"), kind: NOTIFICATION, height, body: "{}".to_owned() };
    let notifications: Vec<Notification> = (0..count).map(notification).collect();
    let ids = notifications.iter().map(|one| one.id.clone()).collect();
    BlockEvents { height, hash: Some(format!("A{height}")), ids, notifications }
}

fn lost(newest_kept: u64) -> LostBlocks {
    let transactions = Some(BTreeSet::from(["LOST".to_owned()]));
    LostBlocks { newest_kept, kept_hash: Some(format!("A{newest_kept}")), transactions }
}

async fn queued(store: &AgentStore) -> Vec<String> {
    store.next_events(0, 100).await.expect("read").into_iter().map(|event| event.id).collect()
}

#[tokio::test]
async fn events_of_lost_blocks_are_named_in_one_gap_and_those_of_the_new_ones_are_delivered_once() {
    on_both(|store| async move {
        let blocks: Vec<BlockEvents> = (10..=13).map(|height| block(height, 2)).collect();
        store.store_blocks(&blocks, 1, MAX).await.expect("stored");
        assert_eq!(store.cursor_block().await.expect("read"), Some((13, "A13".to_owned())));
        // Further events of the block at the cursor leave its hash.
        let other = BlockEvents { hash: Some("B13".to_owned()), ..block(13, 3) };
        store.store_blocks(&[other], 1, MAX).await.expect("stored");
        assert_eq!(store.cursor_block().await.expect("read"), Some((13, "A13".to_owned())));
        let first = store.next_events(0, 1).await.expect("read").remove(0).number;
        store.settle_events(&[first], &[]).await.expect("delivered");

        let rebased = store.rebase(&lost(11), NOW).await.expect("rebased");
        let gap = EventGap { from_height: 12, to_height: 13, count: 5 };
        assert_eq!(rebased, RebasedStore { events: Some(gap.clone()), ..RebasedStore::default() });
        assert_eq!(store.event_gaps(None, 10).await.expect("read"), [gap]);
        assert_eq!(queued(&store).await, ["10-1", "11-0", "11-1"]);
        assert_eq!(store.event_cursor().await.expect("read"), Some(11));
        assert_eq!(store.cursor_block().await.expect("read"), Some((11, "A11".to_owned())));
        assert!(store.ids_at_cursor().await.expect("read").iter().any(|id| id == EVERY_EVENT));
        assert_eq!(store.rebase(&lost(11), NOW).await.expect("rebased"), RebasedStore::default(), "a second time");

        // The block at the height is read again, and the chain has made other ones above it.
        let again = [block(11, 2), block(12, 1)];
        store.store_blocks(&again, 2, MAX).await.expect("stored");
        assert_eq!(queued(&store).await, ["10-1", "11-0", "11-1", "12-0"]);
        assert_eq!(store.cursor_block().await.expect("read"), Some((12, "A12".to_owned())));
    })
    .await;
}

fn credential(id: &str, kind: CredentialKind, body: &str, tx_hash: Option<&str>) -> StoredCredential {
    StoredCredential {
        id: id.to_owned(),
        kind,
        name: id.to_owned(),
        schema_id: 4,
        issuer: "did:web:ours".to_owned(),
        subject: id.to_owned(),
        issuer_participant: 3,
        digest: format!("sha384-{id}"),
        claims_digest: String::new(),
        proof_method: "did:web:ours#key".to_owned(),
        body: body.to_owned(),
        state: CredentialState::Anchored,
        reason: None,
        tx_hash: tx_hash.map(str::to_owned),
        valid_until: None,
        created_at: 1,
    }
}

#[tokio::test]
async fn credentials_of_lost_blocks_are_looked_for_before_anything_is_sent() {
    use CredentialKind as Kind;
    use CredentialState as State;
    on_both(|store| async move {
        let cases = [
            ("own", Kind::Own, "{}", Some("LOST"), State::Anchored, true),
            ("own of before", Kind::Own, "{}", Some("KEPT"), State::Anchored, false),
            ("own without a hash", Kind::Own, "{}", None, State::Anchored, true),
            ("issued", Kind::Issued, "{}", Some("LOST"), State::Signed, true),
            ("issued before", Kind::Issued, "{}", Some("KEPT"), State::Anchored, false),
            ("of a flow", Kind::Issued, "", Some("LOST"), State::Anchored, false),
            ("received", Kind::Received, "{}", None, State::Anchored, false),
            ("schema", Kind::Schema, "{}", None, State::Anchored, true),
        ];
        for (id, kind, body, tx_hash, ..) in cases {
            store.write_credential(&credential(id, kind, body, tx_hash)).await.expect("written");
        }
        let rebased = store.rebase(&lost(11), NOW).await.expect("rebased");
        assert_eq!(rebased, RebasedStore { credentials: 4, ..RebasedStore::default() });
        assert_eq!(store.rebase(&lost(11), NOW).await.expect("rebased"), RebasedStore::default(), "a second time");
        for (id, _, _, _, state, is_doubtful) in cases {
            let found = store.credential(id).await.expect("read").expect("there");
            let reason = is_doubtful.then(|| CHAIN_CHANGED.to_owned());
            assert_eq!((found.state, found.reason), (state, reason), "{id}");
        }
        let doubtful = store.doubtful_credentials().await.expect("read");
        let ids: BTreeSet<&str> = doubtful.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(ids, BTreeSet::from(["own", "own without a hash", "schema"]));
        store.settle_doubt("own", true).await.expect("noted");
        store.settle_doubt("schema", false).await.expect("noted");
        let state = async |id| {
            let found = store.credential(id).await.expect("read").expect("there");
            (found.state, found.reason)
        };
        assert_eq!(state("own").await, (State::Anchored, None));
        assert_eq!(state("schema").await, (State::Signed, Some(CHAIN_CHANGED.to_owned())));
        assert!(store.knows_transaction("LOST").await.expect("read"), "in a new block it is no sign of another store");
    })
    .await;
}

/// A validator's flow whose credential was paid by a transaction.
fn completed(id: &str, hash: &str) -> FlowWrite {
    let new = NewFlow {
        id: id.to_owned(),
        side: Side::Validator,
        variant: Variant::Direct,
        peer_did: "did:web:theirs".to_owned(),
        connection_id: None,
        schema_id: 4,
        applicant_participant_id: None,
        validator_participant_id: Some(3),
        is_holder: true,
        session_id: format!("session of {id}"),
        claims: None,
        proofs: None,
    };
    let facts = [Guard::GatePassed, Guard::Permissionless, Guard::OwnIssuerActive, Guard::SessionFree];
    let cause = Cause { thread: Some(id.to_owned()), ..Cause::new(Trigger::IssuanceRequest, NOW) };
    let mut progress = begin(new, &cause.with_facts(facts)).expect("it begins");
    let tx =
        FlowTx { status: TxStatus::Succeeded, hash: Some(hash.to_owned()), height: None, reason: None, error: None };
    progress.record.state = FlowState::Completed;
    progress.record.round.read_at = 20;
    progress.record.credential = Some(FlowCredential {
        round: 1,
        session_id: progress.record.session_id.clone(),
        round_changed_at: None,
        paid_before: 0,
        validated_until: None,
        stage: CredentialStage::Held,
        id: Some(id.to_owned()),
        digest: Some("sha384-A".to_owned()),
        tx: Some(tx),
    });
    FlowWrite { progress, messages: Vec::new(), due_at: None, contents: Vec::new() }
}

#[tokio::test]
async fn flows_that_were_paid_in_lost_blocks_are_due_and_reads_of_lost_heights_count_no_more() {
    on_both(|store| async move {
        let key = store.content_key("did:web:ours").await.expect("a key");
        // More than a page.
        for number in 0..150 {
            let hash = if number % 50 == 0 { "LOST" } else { "KEPT" };
            let begun = completed(&format!("flow-{number:03}"), hash);
            store.begin_flow(&key, &begun, 1_000, &LIMITS).await.expect("stored");
        }
        let rebased = store.rebase(&lost(11), NOW).await.expect("rebased");
        assert_eq!(rebased, RebasedStore { flows: 3, ..RebasedStore::default() });
        assert_eq!(store.rebase(&lost(11), NOW).await.expect("rebased"), RebasedStore::default(), "a second time");
        let due = store.due_flows(NOW, 200).await.expect("read");
        assert_eq!(due, ["flow-000", "flow-050", "flow-100"]);
        for (id, work) in [("flow-050", Some(FlowWork::LookAgain)), ("flow-051", None)] {
            let flow = store.flow(id).await.expect("read").expect("there");
            assert_eq!((flow.round.read_at, next_work(&flow)), (11, work), "{id}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_resolution_in_a_lost_block_is_wanted_again() {
    on_both(|store| async move {
        store.end_resolution(3, "KEPT").await.expect("noted");
        assert!(!store.rebase(&lost(11), NOW).await.expect("rebased").resolves);
        store.end_resolution(4, "LOST").await.expect("noted");
        assert!(store.rebase(&lost(11), NOW).await.expect("rebased").resolves);
        assert_eq!(store.resolution_progress().await.expect("read").done, 0);
        assert!(!store.rebase(&lost(11), NOW).await.expect("rebased").resolves, "a second time");
    })
    .await;
}

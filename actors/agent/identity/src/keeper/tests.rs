//! Tests of the order and time of versions, then of the actor with a store.

use std::{path::Path, time::Duration};

use serde_json::{Value, json};
use svc_agent_core::error::RefusalCode;
use svc_agent_store::{
    AgentStore, HeadFile, StoreKey, StoreKeys, StoreSettings,
    guard::{StoreGuardHandle, StoreState},
};
use svc_kit::supervision::{Supervisor, SupervisorSpec};
use svc_net::{did::verify_own_log, host_policy::HostPolicy};
use svc_test_support::small_disk;
use svc_trust::did_document::ProofPurpose;

use super::{
    KeeperArgs, KeeperHandle,
    core::{Clocks, DocumentChange, KeeperCore, KeeperEffect, MAX_WAITING},
};
use crate::{
    document::{DidDocument, DocumentKeys, KeyChange, ManagedEntries, ServiceChange, ServiceIdPath},
    identity::{DidMethod, PublicLocation},
    resolution::ResolutionHandle,
};

const LAST: i64 = 1_800_000_000;

fn document() -> DidDocument {
    let keys = DocumentKeys { signing: "z6Mk".to_owned(), agreement: "z6LS".to_owned() };
    DidDocument::new("did:web:agent.example.com", &keys)
}

fn add(id: &str) -> ServiceChange {
    let id = Some(ServiceIdPath::new(id));
    ServiceChange::Add { id, kind: "MCP".to_owned(), endpoint: json!("https://example.com") }
}

/// The clocks at some milliseconds after the newest version.
fn at(millis: i64) -> Clocks {
    let running = Duration::from_millis(100_000 + millis.unsigned_abs());
    Clocks { running, wall: i128::from(LAST) * 1_000_000_000 + i128::from(millis) * 1_000_000 }
}

fn submit(core: &mut KeeperCore<u32>, change: ServiceChange, reply: u32, now: Clocks) -> Vec<KeeperEffect<u32>> {
    core.submit(change, reply, (&document(), HostPolicy::PublicOnly), now)
}

fn replies(effects: &[KeeperEffect<u32>]) -> Vec<u32> {
    let [KeeperEffect::Write(changes)] = effects else { panic!("{effects:?}") };
    changes.iter().filter_map(|change| change.reply).collect()
}

#[test]
fn changes_that_wait_for_the_next_second_go_into_one_version_in_their_order() {
    let mut core = KeeperCore::new(LAST);
    assert_eq!(submit(&mut core, add("a"), 1, at(200)), [KeeperEffect::Wake(Duration::from_millis(800))]);
    assert_eq!(submit(&mut core, add("b"), 2, at(900)), []);
    assert_eq!(replies(&core.woken(at(1_000))), [1, 2]);
    let effects = submit(&mut core, add("c"), 3, at(1_100));
    assert_eq!(effects, [KeeperEffect::Wake(Duration::from_millis(900))], "one version is written at a time");
    assert_eq!(core.written(LAST + 1, at(1_300)), []);
    assert_eq!(replies(&core.woken(at(2_000))), [3]);
}

#[test]
fn a_change_that_waits_for_a_version_that_does_not_end_is_refused_in_time() {
    let mut core = KeeperCore::new(LAST);
    assert_eq!(replies(&submit(&mut core, add("a"), 1, at(2_000))), [1]);
    assert_eq!(submit(&mut core, add("b"), 2, at(2_100)), [KeeperEffect::Wake(Duration::from_millis(900))]);
    let effects = core.woken(at(32_100));
    let [KeeperEffect::Refuse(2, refusal)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(refusal.code, RefusalCode::NotReady);
}

#[test]
fn a_lone_change_does_not_wait() {
    let mut core = KeeperCore::new(LAST);
    assert_eq!(replies(&submit(&mut core, add("a"), 1, at(5_000))), [1]);
}

#[test]
fn a_clock_behind_makes_changes_wait_and_then_refuses_them() {
    let mut core = KeeperCore::new(LAST);
    let hour_back = |millis: i64| Clocks { wall: at(0).wall - 3_600_000_000_000, ..at(millis) };
    assert_eq!(submit(&mut core, add("a"), 1, hour_back(0)), [KeeperEffect::Wake(Duration::from_secs(1))]);
    assert_eq!(core.woken(hour_back(29_000)), [KeeperEffect::Wake(Duration::from_secs(1))]);
    let effects = core.woken(hour_back(30_000));
    let [KeeperEffect::Refuse(1, refusal)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!((refusal.code, refusal.retry_after), (RefusalCode::NotReady, Some(5)));
}

#[test]
fn a_change_of_the_settings_waits_as_long_as_it_takes() {
    let mut core: KeeperCore<u32> = KeeperCore::new(LAST);
    let change = DocumentChange::Managed(ManagedEntries::default());
    assert_eq!(core.submit_own(change, at(0)), [KeeperEffect::Wake(Duration::from_secs(1))]);
    let later = Clocks { running: at(100_000).running, ..at(0) };
    assert_eq!(core.woken(later), [KeeperEffect::Wake(Duration::from_secs(1))]);
    assert!(replies(&core.woken(at(1_000))).is_empty());
}

#[test]
fn the_number_of_waiting_changes_is_bounded() {
    let mut core = KeeperCore::new(LAST);
    for number in 0..MAX_WAITING {
        let effects = submit(&mut core, add(&format!("a{number}")), 0, at(100));
        assert!(!matches!(effects.as_slice(), [KeeperEffect::Refuse(..)]));
    }
    let effects = submit(&mut core, add("b"), 1, at(100));
    let [KeeperEffect::Refuse(1, refusal)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(refusal.code, RefusalCode::NotReady);
}

#[test]
fn a_refusal_that_no_other_change_can_lift_is_answered_at_once() {
    let mut core = KeeperCore::new(LAST);
    let unknown = || ServiceChange::Delete { id: ServiceIdPath::new("b") };
    let code = |effects: Vec<KeeperEffect<u32>>| match effects.as_slice() {
        [KeeperEffect::Refuse(_, refusal)] => Some(refusal.code),
        _ => None,
    };
    assert_eq!(code(submit(&mut core, unknown(), 1, at(100))), Some(RefusalCode::UnknownId));
    assert_eq!(code(submit(&mut core, add("b"), 2, at(100))), None);
    // The entry is there once the change before is written.
    assert_eq!(code(submit(&mut core, unknown(), 3, at(100))), None);
    assert_eq!(code(submit(&mut core, add("files"), 4, at(100))), Some(RefusalCode::InvalidInput));
    assert_eq!(replies(&core.woken(at(1_000))), [2, 3]);
}

struct RunningKeeper {
    handle: KeeperHandle,
    guard: StoreGuardHandle,
    store: AgentStore,
    supervisor: Supervisor,
}

async fn start_keeper(directory: &Path, method: DidMethod, admin_api: Option<&str>) -> RunningKeeper {
    start_rotating_keeper(directory, method, admin_api, false).await
}

async fn start_rotating_keeper(
    directory: &Path,
    method: DidMethod,
    admin_api: Option<&str>,
    pre_rotation: bool,
) -> RunningKeeper {
    let url = format!("sqlite://{}?mode=rwc", directory.join("agent.db").display());
    let keys = StoreKeys { current: StoreKey::from_bytes([1; 32]), previous: None };
    let store = AgentStore::open(StoreSettings { url, keys }).await.expect("opens");
    let (head, _) = HeadFile::open(&directory.join("agent.head")).expect("opens");
    let (guard, guard_child) = StoreGuardHandle::child_spec(store.clone());
    let args = KeeperArgs {
        store: store.clone(),
        guard: guard.clone(),
        resolution: ResolutionHandle::default(),
        method,
        location: PublicLocation::parse("https://agent.example.com/a").expect("a location"),
        managed: ManagedEntries { admin_api: admin_api.map(str::to_owned), ..ManagedEntries::default() },
        hosts: HostPolicy::PublicOnly,
        pre_rotation,
        head: Some(head),
    };
    let (handle, child) = KeeperHandle::prepare(args).await.expect("a document");
    let supervisor = Supervisor::new("keeper");
    supervisor.start(SupervisorSpec::one_for_one(vec![guard_child, child])).await.expect("starts");
    RunningKeeper { handle, guard, store, supervisor }
}

impl RunningKeeper {
    async fn stop(self) {
        self.supervisor.shutdown(Duration::from_secs(5)).await;
        self.store.close().await;
    }

    /// Waits for a state of the store, which the guard looks for by itself.
    async fn wait_for_store(&self, is_wanted: impl Fn(&StoreState) -> bool) {
        while !is_wanted(&self.guard.state()) {
            tokio::task::yield_now().await;
        }
    }

    fn log_entries(&self) -> Vec<Value> {
        let log = self.handle.published().did_log.as_ref().expect("a log").body.clone();
        String::from_utf8_lossy(&log).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

#[tokio::test]
async fn a_webvh_document_is_changed_by_entries_that_verify_and_survives_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let keeper = start_keeper(directory.path(), DidMethod::WebVh, Some("https://admin.example.com")).await;
    let did = keeper.handle.published().document.did().to_owned();
    assert!(did.starts_with("did:webvh:Qm") && did.ends_with(":agent.example.com:a"), "{did}");
    let changes = ["a", "b", "a"].map(|id| keeper.handle.change(add(id)));
    let answers = futures::future::join_all(changes).await;
    assert_eq!(answers[0].as_ref().expect("added").id, format!("{did}#a"));
    assert!(answers[1].is_ok());
    assert_eq!(answers[2].as_ref().expect_err("there already").code, RefusalCode::DuplicateId);
    let published = keeper.handle.published();
    // Changes that come while a version is written go into the next one.
    assert!((2..=3).contains(&published.version.number), "{}", published.version.number);
    assert_eq!(published.document.services().len(), 3);
    assert_eq!(keeper.log_entries()[0]["parameters"]["portable"], false);
    let log = published.did_log.as_ref().expect("a log").body.clone();
    let proven = verify_own_log(&did, &log).expect("it verifies");
    assert_eq!(proven["service"].as_array().map(Vec::len), Some(5), "with those that the method adds");
    let web: Value = serde_json::from_slice(&published.did_json.body).expect("JSON");
    assert_eq!((&web["id"], &web["alsoKnownAs"]), (&json!("did:web:agent.example.com:a"), &json!([did])));
    keeper.stop().await;

    // The settings have another admin API now.
    let keeper = start_keeper(directory.path(), DidMethod::WebVh, None).await;
    assert_eq!(keeper.handle.published().document.did(), did);
    keeper.handle.change(ServiceChange::Delete { id: ServiceIdPath::new("b") }).await.expect("removed");
    let kinds: Vec<String> =
        keeper.handle.published().document.services().into_iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, ["MCP"]);
    let log = keeper.handle.published().did_log.as_ref().expect("a log").body.clone();
    verify_own_log(&did, &log).expect("it verifies");
    keeper.stop().await;
}

#[tokio::test]
async fn a_web_document_is_replaced_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    let keeper = start_keeper(directory.path(), DidMethod::Web, None).await;
    assert_eq!(keeper.handle.published().document.did(), "did:web:agent.example.com:a");
    let before = keeper.handle.published();
    keeper.handle.change(add("a")).await.expect("added");
    let published = keeper.handle.published();
    assert!(published.did_log.is_none() && published.did_json.etag != before.did_json.etag);
    let served: Value = serde_json::from_slice(&published.did_json.body).expect("JSON");
    assert_eq!(served, published.document.published_json());
    keeper.stop().await;
}

#[tokio::test]
async fn a_store_of_another_place_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let keeper = start_keeper(directory.path(), DidMethod::WebVh, None).await;
    let args = KeeperArgs {
        store: keeper.store.clone(),
        guard: keeper.guard.clone(),
        resolution: ResolutionHandle::default(),
        method: DidMethod::WebVh,
        location: PublicLocation::parse("https://other.example.com").expect("a location"),
        managed: ManagedEntries::default(),
        hosts: HostPolicy::PublicOnly,
        pre_rotation: false,
        head: Some(HeadFile::open(&directory.path().join("other.head")).expect("opens").0),
    };
    let refused = KeeperHandle::prepare(args).await.err().expect("refused").to_string();
    assert!(refused.contains("a DID never moves") && refused.contains("https://other.example.com"), "{refused}");
    keeper.stop().await;
}

#[tokio::test]
async fn pre_rotation_is_switched_on_and_off_and_its_keys_survive_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut hashes = Vec::new();
    for (number, pre_rotation) in [(0, false), (1, true), (2, true), (3, false), (4, false), (5, true)] {
        let keeper = start_rotating_keeper(directory.path(), DidMethod::WebVh, None, pre_rotation).await;
        keeper.handle.change(add(&format!("a{number}"))).await.expect("added");
        let published = keeper.handle.published();
        let log = published.did_log.as_ref().expect("a log").body.clone();
        verify_own_log(published.document.did(), &log).expect("it verifies");
        let parameters = keeper.log_entries().last().expect("an entry")["parameters"].clone();
        hashes.push(parameters["nextKeyHashes"].as_array().map(Vec::len));
        keeper.stop().await;
    }
    assert_eq!(hashes, [None, Some(1), Some(1), Some(0), None, Some(1)]);
}

/// The method that signs presentations and credentials.
fn signer(keeper: &RunningKeeper) -> String {
    let [presents, proves] = [ProofPurpose::Authentication, ProofPurpose::AssertionMethod]
        .map(|purpose| keeper.handle.prover(purpose).expect("a key").verification_method);
    assert_eq!(presents, proves);
    presents
}

fn verify_published(keeper: &RunningKeeper) {
    let published = keeper.handle.published();
    let log = published.did_log.as_ref().expect("a log").body.clone();
    verify_own_log(published.document.did(), &log).expect("it verifies");
}

#[tokio::test]
async fn an_update_key_is_rotated_by_an_entry_of_its_own_and_the_new_one_survives_a_restart() {
    for pre_rotation in [false, true] {
        let directory = tempfile::tempdir().expect("a directory");
        let keeper = start_rotating_keeper(directory.path(), DidMethod::WebVh, None, pre_rotation).await;
        let before = keeper.handle.published();
        let published = keeper.handle.rotate_update_key().await.expect("rotated");
        assert_eq!((published.version.number, &published.document), (2, &before.document));
        let entries = keeper.log_entries();
        let [first, second] = [0, 1].map(|entry| entries[entry]["parameters"]["updateKeys"].clone());
        assert!(second.is_array() && first != second, "{pre_rotation}: {first} {second}");
        keeper.stop().await;
        let keeper = start_rotating_keeper(directory.path(), DidMethod::WebVh, None, pre_rotation).await;
        keeper.handle.change(add("a")).await.expect("added");
        verify_published(&keeper);
        keeper.stop().await;
    }
}

#[tokio::test]
async fn a_web_document_has_no_update_key() {
    let directory = tempfile::tempdir().expect("a directory");
    let keeper = start_keeper(directory.path(), DidMethod::Web, None).await;
    let refusal = keeper.handle.rotate_update_key().await.expect_err("refused");
    assert_eq!((refusal.code, keeper.handle.published().version.number), (RefusalCode::InvalidState, 1));
    keeper.stop().await;
}

#[tokio::test]
async fn a_pair_signs_once_it_is_promoted_and_after_each_step_there_may_be_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let start = || start_keeper(directory.path(), DidMethod::WebVh, None);
    let mut keeper = start().await;
    let old = signer(&keeper);
    let keys = keeper.handle.prepare_keys(2).await.expect("made");
    assert_eq!(keeper.handle.prepare_keys(2).await.expect("found"), keys);
    let new = format!("{}#{}", keeper.handle.published().document.did(), keys.signing);
    let steps = [KeyChange::Add, KeyChange::Promote, KeyChange::RetireOthers].map(|step| step(keys.clone()));
    for ((step, number), expected) in steps.iter().zip(2..).zip([&old, &new, &new]) {
        for _ in 0..2 {
            let published = keeper.handle.change_keys(step.clone()).await.expect("published");
            assert_eq!(published.version.number, number, "a repetition writes nothing: {step:?}");
        }
        assert_eq!(&signer(&keeper), expected, "{step:?}");
        verify_published(&keeper);
        keeper.stop().await;
        keeper = start().await;
        assert_eq!(&signer(&keeper), expected, "{step:?} and a restart");
    }
    assert_eq!(keeper.handle.published().document.retired_keys(), [old]);
    keeper.stop().await;
}

#[tokio::test]
async fn changes_of_keys_and_of_services_go_into_one_version() {
    let directory = tempfile::tempdir().expect("a directory");
    let keeper = start_keeper(directory.path(), DidMethod::WebVh, None).await;
    let keys = keeper.handle.prepare_keys(2).await.expect("made");
    let (added, replaced, rotated) = tokio::join!(
        keeper.handle.change(add("a")),
        keeper.handle.change_keys(KeyChange::Replace(keys.clone())),
        keeper.handle.rotate_update_key(),
    );
    added.expect("added");
    let numbers = [replaced, rotated].map(|answer| answer.expect("published").version.number);
    assert!(numbers.iter().all(|number| *number <= 3), "{numbers:?}");
    assert!(signer(&keeper).ends_with(&keys.signing));
    verify_published(&keeper);
    keeper.stop().await;
}

#[test]
fn on_a_full_disk_nothing_is_published_and_with_space_again_the_next_change_succeeds() {
    small_disk::run(
        "keeper::tests::on_a_full_disk_nothing_is_published_and_with_space_again_the_next_change_succeeds",
        |directory| {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
            runtime.block_on(fill_and_free_the_disk(directory));
        },
    );
}

async fn fill_and_free_the_disk(directory: &Path) {
    let keeper = start_keeper(directory, DidMethod::WebVh, None).await;
    keeper.handle.change(add("a")).await.expect("added");
    let before = keeper.handle.published();
    let filler = small_disk::fill(directory);
    let large = |id: &str| ServiceChange::Add {
        id: Some(ServiceIdPath::new(id)),
        kind: "MCP".to_owned(),
        endpoint: json!({"text": "x".repeat(30_000)}),
    };
    let refused = keeper.handle.change(large("b")).await.expect_err("no space");
    assert_eq!(refused.code, RefusalCode::NotReady);
    assert_eq!(keeper.handle.published().version, before.version);
    keeper.wait_for_store(|state| matches!(state, StoreState::Failed(_))).await;
    std::fs::remove_file(filler).expect("removed");
    keeper.handle.change(large("c")).await.expect("added");
    keeper.wait_for_store(|state| *state == StoreState::Writable).await;
    let fragments: Vec<String> =
        keeper.handle.published().document.services().into_iter().map(|entry| entry.id).collect();
    assert!(fragments.len() == 2 && fragments[1].ends_with("#c"), "{fragments:?}");
    keeper.stop().await;
    let keeper = start_keeper(directory, DidMethod::WebVh, None).await;
    assert_eq!(keeper.handle.published().version.number, 3);
    keeper.stop().await;
}

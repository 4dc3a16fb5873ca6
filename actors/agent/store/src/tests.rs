use std::path::Path;

use svc_test_support::postgres_server::PostgresServer;
use zeroize::Zeroizing;

use super::{key_rows::ResealedKeys, *};

const DID: &str = "did:web:agent.example.com";

pub(crate) fn settings(url: &str, key: u8, previous: Option<u8>) -> StoreSettings {
    let keys = StoreKeys {
        current: StoreKey::from_bytes([key; 32]),
        previous: previous.map(|previous| StoreKey::from_bytes([previous; 32])),
    };
    StoreSettings { url: url.to_owned(), keys }
}

pub(crate) fn file_url(directory: &Path) -> String {
    format!("sqlite://{}?mode=rwc", directory.join("agent.db").display())
}

fn private_key(name: &str, version: u64, secret: u8) -> PrivateKey {
    PrivateKey { name: name.to_owned(), version, secret: Zeroizing::new([secret; 32]) }
}

fn version(number: u64, content: &str) -> DocumentVersion {
    DocumentVersion {
        number,
        version_id: number.to_string(),
        written_at: 1_800_000_000,
        content: content.to_owned(),
        presented: String::new(),
    }
}

async fn write_identity(store: &AgentStore) -> StoredIdentity {
    let identity = StoredIdentity { did: DID.to_owned(), base_url: "https://agent.example.com".to_owned() };
    let keys = [private_key("signing", 1, 1), private_key("update", 1, 2)];
    store.write_identity(&identity, &keys, &version(1, "{}")).await.expect("written");
    identity
}

/// Everything is as it was written, after a restart too.
async fn check_a_store(url: &str) {
    let store = AgentStore::open(settings(url, 1, None)).await.expect("opens");
    assert_eq!(store.identity().await.expect("read"), None);
    let identity = write_identity(&store).await;
    store.write_version(DID, &version(2, "first"), &[]).await.expect("written");
    // The commit of a failed write may have happened; the version was never published.
    store.discard_versions_after(1).await.expect("removed");
    store.write_version(DID, &version(2, "second"), &[private_key("update", 2, 3)]).await.expect("written again");
    store.close().await;
    drop(store);
    let store = AgentStore::open(settings(url, 1, None)).await.expect("opens again at once");
    assert_eq!(store.identity().await.expect("read"), Some(identity));
    assert_eq!(store.versions().await.expect("read"), [version(1, "{}"), version(2, "second")]);
    let keys = store.private_keys(DID).await.expect("they open");
    let keys: Vec<_> = keys.iter().map(|key| (key.name.as_str(), key.version, key.secret[0])).collect();
    assert_eq!(keys, [("signing", 1, 1), ("update", 1, 2), ("update", 2, 3)]);
    store.close().await;
}

#[tokio::test]
async fn a_store_is_the_same_after_a_restart_on_both_databases() {
    let directory = tempfile::tempdir().expect("a directory");
    check_a_store(&file_url(directory.path())).await;
    if let Some(server) = PostgresServer::start(None) {
        check_a_store(&server.url()).await;
    }
}

#[tokio::test]
async fn a_second_process_is_refused_with_the_name_of_the_first() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = file_url(directory.path());
    let _store = AgentStore::open(settings(&url, 1, None)).await.expect("opens");
    let refused = AgentStore::open(settings(&url, 1, None)).await.err().expect("held").to_string();
    assert!(refused.contains(&format!("in use by process {}", std::process::id())), "{refused}");
}

#[tokio::test]
async fn an_owner_whose_lease_was_taken_over_writes_nothing() {
    let Some(server) = PostgresServer::start(None) else { return };
    let paused = AgentStore::open(settings(&server.url(), 1, None)).await.expect("opens");
    write_identity(&paused).await;
    let renewing = async {
        loop {
            paused.renew().await.expect("still the owner");
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        }
    };
    let opened = tokio::select! {
        opened = AgentStore::open(settings(&server.url(), 1, None)) => opened,
        () = renewing => unreachable!("it renews until then"),
    };
    let refused = opened.err().expect("held").to_string();
    assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
    // The lease ends while its owner is paused.
    let pool = sqlx::PgPool::connect(&server.url()).await.expect("connects");
    sqlx::query("UPDATE owner SET renewed = renewed - 60").execute(&pool).await.expect("ended");
    let next = AgentStore::open(settings(&server.url(), 1, None)).await.expect("takes it over");
    for refused in [paused.renew().await, paused.write_version(DID, &version(2, "late"), &[]).await] {
        assert!(matches!(refused, Err(AgentStoreError::Lost)), "{refused:?}");
    }
    next.write_version(DID, &version(2, "new"), &[]).await.expect("written");
    assert_eq!(next.versions().await.expect("read"), [version(1, "{}"), version(2, "new")]);
}

#[tokio::test]
async fn private_keys_open_with_their_store_key_at_their_place_only() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = file_url(directory.path());
    let store = AgentStore::open(settings(&url, 1, None)).await.expect("opens");
    write_identity(&store).await;
    store.close().await;
    drop(store);
    let wrong = AgentStore::open(settings(&url, 2, None)).await.expect("opens");
    let refused = wrong.private_keys(DID).await.err().expect("another key").to_string();
    assert!(refused.contains("SVC_AGENT_STORE_KEY"), "{refused}");
    assert!(wrong.private_keys("did:web:other.example").await.is_err());
    wrong.close().await;
    drop(wrong);
    let changed = AgentStore::open(settings(&url, 2, Some(1))).await.expect("opens");
    assert_eq!(changed.private_keys(DID).await.expect("they open").len(), 2);
    changed.close().await;
    drop(changed);
    // A row is of no use at the place of another one.
    let pool = sqlx::SqlitePool::connect(&url).await.expect("connects");
    let sql =
        "UPDATE private_key SET sealed = (SELECT sealed FROM private_key WHERE name = 'signing') WHERE name = 'update'";
    sqlx::query(sql).execute(&pool).await.expect("exchanged");
    pool.close().await;
    let store = AgentStore::open(settings(&url, 1, None)).await.expect("opens");
    assert!(store.private_keys(DID).await.is_err());
}

#[test]
fn the_head_survives_and_a_damaged_one_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("agent.head");
    let (file, head) = HeadFile::open(&path).expect("created");
    assert_eq!(head, None);
    let long = PublishedHead { did: DID.to_owned(), number: 1_000_000, version_id: "1000000-Qm".to_owned() };
    let newest = PublishedHead { number: 7, version_id: "7-Qm".to_owned(), ..long.clone() };
    file.record(&long).expect("recorded");
    file.record(&newest).expect("recorded");
    assert_eq!(HeadFile::open(&path).expect("opened").1, Some(newest));
    std::fs::write(&path, "{").expect("damaged");
    assert!(HeadFile::open(&path).is_err());
}

/// The rows of private keys, as another program reads them.
async fn sealed_rows(url: &str) -> Vec<(String, i64, String)> {
    let pool = sqlx::SqlitePool::connect(url).await.expect("connects");
    let sql = "SELECT name, version, sealed FROM private_key ORDER BY name, version";
    let rows = sqlx::query_as(sql).fetch_all(&pool).await.expect("read");
    pool.close().await;
    rows
}

#[tokio::test]
async fn after_a_change_of_the_store_key_the_previous_one_opens_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = file_url(directory.path());
    let store = AgentStore::open(settings(&url, 1, None)).await.expect("opens");
    write_identity(&store).await;
    assert!(!store.has_previous_key());
    store.close().await;
    drop(store);

    let changed = AgentStore::open(settings(&url, 2, Some(1))).await.expect("opens");
    // A key of after the change of the settings has the current store key already.
    changed.write_new_keys(DID, &[private_key("signing", 2, 7)]).await.expect("written");
    let before = sealed_rows(&url).await;
    for from_previous in [2, 0] {
        let resealed = changed.reseal_keys(DID).await.expect("encrypted once more");
        assert_eq!(resealed, ResealedKeys { keys: 3, from_previous });
    }
    let after = sealed_rows(&url).await;
    assert!(before.iter().zip(&after).all(|(one, other)| one.1 == other.1 && one.2 != other.2));
    changed.close().await;
    drop(changed);

    for (current, previous, opens) in [(1, None, false), (3, Some(1), false), (2, None, true)] {
        let store = AgentStore::open(settings(&url, current, previous)).await.expect("opens");
        let keys = store.private_keys(DID).await;
        assert_eq!(keys.is_ok(), opens, "{current} {previous:?}");
        let secrets = keys.map(|keys| keys.iter().map(|key| key.secret[0]).collect::<Vec<u8>>());
        assert!(secrets.is_err() || secrets.is_ok_and(|secrets| secrets == [1, 7, 2]));
        store.close().await;
        drop(store);
    }
}

#[tokio::test]
async fn a_key_that_does_not_open_leaves_all_rows_as_they_are() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = file_url(directory.path());
    let store = AgentStore::open(settings(&url, 1, None)).await.expect("opens");
    write_identity(&store).await;
    store.close().await;
    drop(store);
    let pool = sqlx::SqlitePool::connect(&url).await.expect("connects");
    // The last row by name, so that the others come before it.
    sqlx::query("UPDATE private_key SET sealed = 'AAAA' WHERE name = 'update'").execute(&pool).await.expect("damaged");
    pool.close().await;
    let before = sealed_rows(&url).await;
    let changed = AgentStore::open(settings(&url, 2, Some(1))).await.expect("opens");
    assert!(changed.reseal_keys(DID).await.is_err());
    assert_eq!(sealed_rows(&url).await, before);
    changed.close().await;
}

#[tokio::test]
async fn a_key_that_is_there_is_never_overwritten() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = AgentStore::open(settings(&file_url(directory.path()), 1, None)).await.expect("opens");
    write_identity(&store).await;
    store.write_new_keys(DID, &[private_key("signing", 1, 9), private_key("signing", 2, 9)]).await.expect("written");
    let keys = store.private_keys(DID).await.expect("they open");
    let keys: Vec<_> = keys.iter().map(|key| (key.name.as_str(), key.version, key.secret[0])).collect();
    assert_eq!(keys, [("signing", 1, 1), ("signing", 2, 9), ("update", 1, 2)]);
}

/// The state of a rotation is as it was written, after a restart too.
async fn check_rotations(url: &str) {
    let store = AgentStore::open(settings(url, 1, None)).await.expect("opens");
    assert_eq!(store.rotation().await.expect("read"), None);
    let requested = StoredRotation {
        new_version: 2,
        phase: RotationPhase::Requested,
        since: 1_800_000_000,
        reissue: true,
        is_compromised: false,
    };
    let added = StoredRotation { phase: RotationPhase::Added, since: 1_800_000_001, ..requested };
    let other = StoredRotation { new_version: 3, reissue: false, is_compromised: true, ..requested };
    for rotation in [requested, added, other] {
        store.write_rotation(&rotation).await.expect("written");
        assert_eq!(store.rotation().await.expect("read"), Some(rotation));
    }
    store.end_rotation(2).await.expect("not this one");
    store.close().await;
    drop(store);
    let store = AgentStore::open(settings(url, 1, None)).await.expect("opens again");
    assert_eq!(store.rotation().await.expect("read"), Some(other));
    store.end_rotation(3).await.expect("removed");
    assert_eq!(store.rotation().await.expect("read"), None);
    store.close().await;
}

#[tokio::test]
async fn a_rotation_is_the_same_after_a_restart_on_both_databases() {
    let directory = tempfile::tempdir().expect("a directory");
    check_rotations(&file_url(directory.path())).await;
    if let Some(server) = PostgresServer::start(None) {
        check_rotations(&server.url()).await;
    }
}

#[tokio::test]
async fn names_of_presentations_are_the_ids_of_schemas_after_the_migration() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = file_url(directory.path());
    AgentStore::open(settings(&url, 1, None)).await.expect("opens").close().await;
    let pool = sqlx::SqlitePool::connect(&url).await.expect("connects");
    let columns: Vec<(String,)> =
        sqlx::query_as("SELECT name FROM pragma_table_info('credential') WHERE name NOT IN ('id', 'name')")
            .fetch_all(&pool)
            .await
            .expect("read");
    let (names, values): (Vec<String>, Vec<&str>) = columns.into_iter().map(|(name,)| (name, "0")).unzip();
    for (id, name) in [("https://agent.example.com/vt/cs-7-00000000-jsc.json", "cs-7"), ("urn:service", "service")] {
        let sql = format!(
            "INSERT INTO credential (id, name, {}) VALUES ('{id}', '{name}', {})",
            names.join(", "),
            values.join(", ")
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&pool).await.expect("inserted");
    }
    sqlx::raw_sql(include_str!("../migrations/0008_presentation_names.sql")).execute(&pool).await.expect("migrated");
    let sql = "SELECT id, name FROM credential ORDER BY name";
    let rows: Vec<(String, String)> = sqlx::query_as(sql).fetch_all(&pool).await.expect("read");
    // The id, and with it the URL, has been anchored by others.
    assert_eq!(rows[0], ("https://agent.example.com/vt/cs-7-00000000-jsc.json".to_owned(), "7".to_owned()));
    assert_eq!(rows[1], ("urn:service".to_owned(), "service".to_owned()));
}

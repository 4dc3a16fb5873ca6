use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    path::{Path, PathBuf},
};

use sqlx::{AssertSqlSafe, Row, SqlitePool};
use svc_test_support::postgres_server::PostgresServer;
use zeroize::Zeroizing;

use super::{
    super::*,
    file_mac::{FileMac, MAC_LINE_START, name_of_key},
    tables::{ColumnKind, EXCLUDED_TABLES, TABLES},
    *,
};

mod refused_files;
mod running_exports;

const DID: &str = "did:web:agent.example.com";

/// Rows of every kind in every table, also values at the bounds and characters that JSON escapes.
const ROWS: &str = "
    INSERT INTO credential VALUES ('c1', 'own', 'org', 1, 'i', 's', 2, 'd', 'cd', 'm', '{\"a\": \"\u{1F511}\"}', 'signed', NULL, NULL, NULL, 3);
    INSERT INTO credential VALUES ('c2', 'issued', '', 9223372036854775807, 'i', 's', 0, 'd', 'cd', 'm', '\n\t\\', 'anchored', 'r', 'AB', 5, 3);
    INSERT INTO key_rotation VALUES (1, 'document', 'added', 7, 2, 1, 0);
    INSERT INTO chain VALUES (1, 'svc-1', 'svc1abc', 12);
    INSERT INTO own_transaction VALUES ('AA'), ('BB');
    UPDATE resolution SET wanted = 1, submitted = 1, done = 1, tx_hash = 'AA';
    UPDATE event_cursor SET height = 9, stored = 301, next_number = 302;
    INSERT INTO event_at_cursor VALUES ('e9');
    INSERT INTO event_gap VALUES (1, 2, 3);
    INSERT INTO dead_letter VALUES (1, 'e1', 'k', 1, 2, '{}', 3, NULL, 'refused', 4);
    WITH RECURSIVE numbers(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM numbers WHERE n < 301)
    INSERT INTO outbox SELECT n, 'e' || n, 'k', -9223372036854775808, n, '{\"b\": \"' || n || '\"}' FROM numbers;
    INSERT INTO peer_connection VALUES
        ('c', 'responder', 'did:web:a', 'did:web:b', 'did:web:b', '[]', 0, 't', NULL, NULL, 1, 5, 6, 1, 0, 1, 7, 5, 6);
    INSERT INTO peer_did VALUES ('did:web:b', 'c');
    INSERT INTO own_peer_did VALUES ('did:peer:4z', 'did:peer:4z:z', 'o', 'c', NULL, 5);
    INSERT INTO peer_message VALUES (1, 'm', 'c', 'm', 'k', '{}', 'r', 5, 7, 0, NULL, 0, 0);
    INSERT INTO seen_message VALUES ('did:web:b', '1', 5, NULL);
    INSERT INTO seen_sender VALUES ('did:web:b', 1);
    INSERT INTO basic_message VALUES ('r', 'c', 'sender', 'text', 5, 5, 'waiting');
    INSERT INTO credential_exchange VALUES ('e', 'c', 't', NULL, 'done', 'holder', 'f', 7, '{}', '{}', NULL, 5, 6);
    INSERT INTO flow VALUES
        ('f', 'A', 'did:web:b', 'c', 'ESTABLISHED', 't', NULL, 7, 8, NULL, 's', 'OR_SENT', 1, NULL, '{}', 5);
    INSERT INTO flow_session VALUES ('s', 'f');
    INSERT INTO flow_content VALUES ('f', 'signed', 1, 'x', 'AA');
    INSERT INTO access_grant VALUES
        ('g', 'did:web:b', 'q', 'c', 'did:web:a#mcp', 'https://a/mcp', 'bearer', '{}', 'mcp:read', 5, 605, NULL, NULL);
    INSERT INTO access_key VALUES (1, 0);
    UPDATE access_validity SET valid_from = 4;
";

fn store_key(byte: u8) -> StoreKey {
    StoreKey::from_bytes([byte; 32])
}

fn settings(url: &str, current: u8, previous: Option<u8>) -> StoreSettings {
    StoreSettings {
        url: url.to_owned(),
        keys: StoreKeys { current: store_key(current), previous: previous.map(store_key) },
    }
}

fn private_key(name: &str, version: u64, secret: u8) -> PrivateKey {
    PrivateKey { name: name.to_owned(), version, secret: Zeroizing::new([secret; 32]) }
}

/// A directory with stores and files.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn url(&self, name: &str) -> String {
        format!("sqlite://{}?mode=rwc", self.path(name).display())
    }

    /// A store with rows in every table, which nothing has open.
    async fn fill(&self, name: &str) -> String {
        let url = self.url(name);
        let store = AgentStore::open(settings(&url, 1, None)).await.expect("opens");
        let identity = StoredIdentity { did: DID.to_owned(), base_url: "https://agent.example.com".to_owned() };
        let keys = [private_key("signing", 1, 1), private_key("update", 1, 2)];
        store.write_identity(&identity, &keys, &version(1)).await.expect("written");
        store.write_version(DID, &version(2), &[]).await.expect("written");
        store.close().await;
        run_sql(&url, ROWS).await;
        url
    }

    fn write(&self, name: &str, content: &[u8]) -> File {
        std::fs::write(self.path(name), content).expect("written");
        File::open(self.path(name)).expect("opens")
    }

    /// Imports content into a store, with the store key 1.
    async fn import(&self, url: &str, content: &[u8]) -> Result<ImportReport, ImportError> {
        let head = self.path("agent.head");
        import_store(settings(url, 1, None), &head, self.write("import.jsonl", content)).await
    }

    /// The message of a refused import, which leaves no trace.
    async fn refusal(&self, content: &[u8]) -> String {
        let refused = self.import(&self.url("refused.db"), content).await.expect_err("refused").to_string();
        if self.path("refused.db").exists() {
            let store = AgentStore::open(settings(&self.url("refused.db"), 1, None)).await.expect("opens");
            assert_eq!(store.identity().await.expect("read"), None, "{refused}");
            assert_eq!(store.event_cursor().await.expect("the row of the migrations"), None, "{refused}");
            store.close().await;
            let rows: i64 = count(&self.url("refused.db"), "private_key").await;
            assert_eq!(rows, 0, "{refused}");
        }
        assert_eq!(HeadFile::open(&self.path("agent.head")).expect("opens").1, None, "{refused}");
        refused
    }
}

fn version(number: u64) -> DocumentVersion {
    DocumentVersion {
        number,
        version_id: format!("{number}-Qm"),
        written_at: 5,
        content: format!("{{\"v\":{number}}}"),
        presented: String::new(),
    }
}

async fn run_sql(url: &str, sql: &'static str) {
    let pool = SqlitePool::connect(url).await.expect("connects");
    sqlx::raw_sql(sql).execute(&pool).await.expect("runs");
    pool.close().await;
}

async fn count(url: &str, table: &str) -> i64 {
    let pool = SqlitePool::connect(url).await.expect("connects");
    let sql = AssertSqlSafe(format!("SELECT COUNT(*) FROM {table}"));
    let count = sqlx::query_scalar(sql).fetch_one(&pool).await.expect("read");
    pool.close().await;
    count
}

/// The whole file of a store.
async fn export(url: &str) -> Vec<u8> {
    let store = AgentStore::open(settings(url, 1, None)).await.expect("opens");
    let content = collect(store.export().expect("no other runs")).await.expect("ends");
    store.close().await;
    content
}

async fn collect(mut export: StoreExport) -> Result<Vec<u8>, ExportError> {
    let mut content = Vec::new();
    while let Some(chunk) = export.next_chunk().await {
        content.extend_from_slice(&chunk?);
    }
    Ok(content)
}

/// The lines of a file with their ends.
fn lines(content: &[u8]) -> Vec<Vec<u8>> {
    content.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

/// A file with these lines and a right authentication code, as an owner of the store key could make it.
fn authenticated(lines: &[Vec<u8>]) -> Vec<u8> {
    let mut mac = FileMac::new(&store_key(1));
    let lines: Vec<_> = lines.iter().filter(|line| !line.starts_with(MAC_LINE_START)).collect();
    lines.iter().for_each(|line| mac.add_line(line));
    lines.iter().flat_map(|line| line.to_vec()).chain(mac.last_line()).collect()
}

/// Whether two SQLite stores have the same rows, by the database itself.
async fn assert_same_rows(one: &Path, other: &Path) {
    let mut options = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1);
    options = options.min_connections(1);
    let pool = options.connect(&format!("sqlite://{}", one.display())).await.expect("connects");
    let attach = format!("ATTACH '{}' AS other", other.display());
    sqlx::raw_sql(AssertSqlSafe(attach)).execute(&pool).await.expect("attached");
    for table in TABLES.iter().map(|table| table.name) {
        for (from, without) in [("main", "other"), ("other", "main")] {
            let sql =
                format!("SELECT COUNT(*) FROM (SELECT * FROM {from}.{table} EXCEPT SELECT * FROM {without}.{table})");
            let missing: i64 = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&pool).await.expect("read");
            assert_eq!(missing, 0, "{table}: {from} has rows that {without} has not");
        }
        let sql = format!("SELECT (SELECT COUNT(*) FROM main.{table}), (SELECT COUNT(*) FROM other.{table})");
        let counts = sqlx::query(AssertSqlSafe(sql)).fetch_one(&pool).await.expect("read");
        assert_eq!(counts.get::<i64, _>(0), counts.get::<i64, _>(1), "{table}");
        assert!(counts.get::<i64, _>(0) > 0, "{table} has no row to compare");
    }
    pool.close().await;
}

#[tokio::test]
async fn the_list_of_tables_is_that_of_the_migrations() {
    let home = Home::new();
    let url = home.url("agent.db");
    AgentStore::open(settings(&url, 1, None)).await.expect("opens").close().await;
    let pool = SqlitePool::connect(&url).await.expect("connects");
    let names: Vec<String> =
        sqlx::query_scalar("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
            .fetch_all(&pool)
            .await
            .expect("read");
    let listed = TABLES.iter().map(|table| table.name).chain(EXCLUDED_TABLES);
    assert_eq!(names.iter().map(String::as_str).collect::<BTreeSet<_>>(), listed.collect::<BTreeSet<_>>());
    for table in TABLES {
        let sql = AssertSqlSafe(format!("PRAGMA table_info({})", table.name));
        let rows = sqlx::query(sql).fetch_all(&pool).await.expect("read");
        let made: Vec<(String, String, bool)> = rows
            .iter()
            .map(|row| {
                let is_required = row.get::<i64, _>("notnull") != 0 || row.get::<i64, _>("pk") != 0;
                (row.get("name"), row.get("type"), !is_required)
            })
            .collect();
        let kind = |kind| match kind {
            ColumnKind::Integer => "BIGINT",
            ColumnKind::Text => "TEXT",
        };
        let column =
            |column: &tables::TableColumn| (column.name.to_owned(), kind(column.kind).to_owned(), column.is_nullable);
        assert_eq!(made, table.columns.iter().map(column).collect::<Vec<_>>(), "{}", table.name);
        let sql = AssertSqlSafe(format!("SELECT COUNT(*) FROM {}", table.name));
        let seeds: i64 = sqlx::query_scalar(sql).fetch_one(&pool).await.expect("read");
        assert_eq!(seeds, i64::from(table.is_seeded), "{}", table.name);
    }
}

#[tokio::test]
async fn a_store_is_the_same_after_sqlite_postgres_and_sqlite() {
    let home = Home::new();
    let first = home.fill("first.db").await;
    let mut content = export(&first).await;
    assert!(has_export_end(&content) && !has_export_end(&content[..content.len() - 1]));
    assert!(!String::from_utf8_lossy(&content).contains("owner"), "a lease is of one database");
    if let Some(server) = PostgresServer::start(None) {
        let report = home.import(&server.url(), &content).await.expect("imported");
        assert_eq!((report.did.as_str(), report.versions, report.version_id.as_str()), (DID, 2, "2-Qm"));
        content = export(&server.url()).await;
        std::fs::remove_file(home.path("agent.head")).expect("removed");
    }
    let report = home.import(&home.url("last.db"), &content).await.expect("imported");
    let expected: BTreeMap<&str, u64> =
        [("outbox", 300), ("private_key", 2), ("credential", 2), ("event_cursor", 1)].into();
    assert!(expected.iter().all(|(table, rows)| report.rows[table] == *rows), "{report:?}");
    assert_same_rows(&home.path("first.db"), &home.path("last.db")).await;
    let head = HeadFile::open(&home.path("agent.head")).expect("opens").1.expect("recorded");
    assert_eq!((head.did.as_str(), head.number, head.version_id.as_str()), (DID, 2, "2-Qm"));

    let store = AgentStore::open(settings(&home.url("last.db"), 1, None)).await.expect("opens");
    let keys = store.private_keys(DID).await.expect("they open");
    assert_eq!(keys.iter().map(|key| key.secret[0]).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(store.versions().await.expect("read"), [version(1), version(2)]);
    store.store_blocks(&[], 1, 10).await.expect("it can be written");
    store.close().await;
}

#[tokio::test]
async fn a_store_with_a_did_is_refused_and_a_file_is_imported_once() {
    let home = Home::new();
    let content = export(&home.fill("first.db").await).await;
    let url = home.url("second.db");
    home.import(&url, &content).await.expect("imported");
    for target in [url.as_str(), &home.url("first.db")] {
        let refused = home.import(target, &content).await.expect_err("refused").to_string();
        assert!(refused.contains(DID) && refused.contains("empty store"), "{refused}");
    }
    let busy = AgentStore::open(settings(&url, 1, None)).await.expect("opens");
    let refused = home.import(&url, &content).await.expect_err("refused").to_string();
    assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
    busy.close().await;

    let rows = home.url("rows.db");
    AgentStore::open(settings(&rows, 1, None)).await.expect("opens").close().await;
    run_sql(&rows, "INSERT INTO own_transaction VALUES ('AA')").await;
    let refused = home.import(&rows, &content).await.expect_err("refused").to_string();
    assert!(refused.contains("own_transaction"), "{refused}");
}

#[tokio::test]
async fn an_export_older_than_the_head_file_is_refused() {
    let home = Home::new();
    let url = home.fill("first.db").await;
    let older = export(&url).await;
    let store = AgentStore::open(settings(&url, 1, None)).await.expect("opens");
    store.write_version(DID, &version(3), &[]).await.expect("written");
    store.close().await;
    let newer = export(&url).await;
    home.import(&home.url("second.db"), &newer).await.expect("imported");
    let third = home.url("third.db");
    let refused = home.import(&third, &older).await.expect_err("refused").to_string();
    assert!(refused.contains("ends with version 2-Qm") && refused.contains(&format!("3-Qm of {DID}")), "{refused}");
    assert_eq!(count(&third, "outbox").await, 0);
    assert_eq!(count(&third, "event_cursor").await, 1, "the row of the migrations is there again");
    home.import(&third, &newer).await.expect("the same version is no older one");
    let other = PublishedHead { did: "did:web:other.example".to_owned(), number: 1, version_id: "1-Qm".to_owned() };
    HeadFile::open(&home.path("agent.head")).expect("opens").0.record(&other).expect("recorded");
    let refused = home.import(&home.url("fourth.db"), &newer).await.expect_err("refused").to_string();
    assert!(refused.contains("did:web:other.example"), "{refused}");
}

#[tokio::test]
async fn another_store_key_is_refused_by_name_and_the_previous_one_imports() {
    let home = Home::new();
    let content = export(&home.fill("first.db").await).await;
    let url = home.url("second.db");
    let import = async |current, previous| {
        let file = home.write("import.jsonl", &content);
        import_store(settings(&url, current, previous), &home.path("agent.head"), file).await
    };
    let refused = import(2, None).await.expect_err("refused").to_string();
    assert!(refused.contains("SVC_AGENT_STORE_KEY"), "{refused}");
    assert!(!home.path("second.db").exists(), "no database is made");
    assert_eq!(import(2, Some(1)).await.expect("imported").did, DID);
    let store = AgentStore::open(settings(&url, 2, Some(1))).await.expect("opens");
    assert_eq!(store.reseal_keys(DID).await.expect("they open").keys, 2);
    // Keys of before and after the change are authenticated by the key of now.
    let content = collect(store.export().expect("no other runs")).await.expect("ends");
    assert!(String::from_utf8_lossy(&lines(&content)[0]).contains(&name_of_key(&store_key(2))));
    store.close().await;
}

//! The files of an agent whose store has the names of an earlier release: they are served at their old URLs and at the new ones.

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, SqliteConnection};
use svc_agent::DidMethod;
use svc_trust::digest::{DigestAlgorithm, anchored_digest};

use crate::e2e::{
    agent::{AgentServer, Mode, request, sqlite_url},
    harness::poll_until,
};

/// Has a store hold the anchored credential of a schema, as a release before the migration of names has written it.
async fn add_older_credential(url: &str, id: &str, body: &Value) {
    let mut connection = SqliteConnection::connect(url).await.expect("opens");
    let sql = "INSERT INTO credential (id, kind, name, schema_id, issuer, subject, issuer_participant, digest, claims_digest, proof_method, body, \
               state, created_at) VALUES (?, 'schema', 'cs-7', 7, ?, 'vpr:svc:devnet:cs:7', 0, ?, '', '', ?, 'anchored', 1)";
    let digest = anchored_digest(body, DigestAlgorithm::Sha384).expect("a canonical form");
    let (issuer, body) = (body["issuer"].as_str().expect("a text"), body.to_string());
    sqlx::query(sql).bind(id).bind(issuer).bind(digest).bind(body).execute(&mut connection).await.expect("inserted");
    // The next start finds the store without the migration.
    let sql = "DELETE FROM _sqlx_migrations WHERE version = 8";
    let undone = sqlx::query(AssertSqlSafe(sql)).execute(&mut connection).await.expect("undone");
    assert_eq!(undone.rows_affected(), 1);
    connection.close().await.expect("closed");
}

async fn get(url: &str) -> (u16, String) {
    let answer = request("GET", url).send().await.expect("answered");
    (answer.status().as_u16(), answer.text().await.expect("a text"))
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_the_earlier_names_are_served_after_the_migration() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = sqlite_url(directory.path());
    let start = || AgentServer::start(directory.path(), &url, DidMethod::WebVh, Mode::Internal);
    let first = start().await;
    let (did, public) = (first.agent.keeper().published().document.did().to_owned(), first.public.clone());
    first.stop().await;
    let id = format!("{public}/vt/cs-7-0a1b2c3d-jsc.json");
    let body = json!({
        "@context": ["https://www.w3.org/ns/credentials/v2"], "id": id, "issuer": did,
        "type": ["VerifiableCredential", "JsonSchemaCredential"],
        "credentialSubject": {"id": "vpr:svc:devnet:cs:7", "type": "JsonSchema"},
        "proof": {"type": "DataIntegrityProof", "cryptosuite": "eddsa-jcs-2022", "proofValue": "z1"},
    });
    add_older_credential(&url, &id, &body).await;

    let server = start().await;
    assert_eq!(server.public, public, "the port is kept");
    let credential = server.agent.store().credential(&id).await.expect("read").expect("a row");
    assert_eq!(credential.name, "7", "the migration has run");
    poll_until("the credential is served at its id", async || get(&id).await.0 == 200).await;
    assert_eq!(get(&id).await.1, body.to_string(), "as it was anchored");
    let [former, present] = ["cs-7", "7"].map(|name| format!("{public}/vt/{name}-vtjsc-vp.json"));
    let (status, presented) = get(&former).await;
    assert_eq!((status, &presented), (200, &get(&present).await.1), "one file at both URLs");
    let presented: Value = serde_json::from_str(&presented).expect("JSON");
    assert_eq!((&presented["holder"], &presented["verifiableCredential"][0]), (&json!(did), &body));
    for absent in ["cs-7-0a1b2c3e-jsc.json", "cs-8-vtjsc-vp.json", "7-0a1b2c3d-jsc.json"] {
        assert_eq!(get(&format!("{public}/vt/{absent}")).await.0, 404, "{absent}");
    }
    server.stop().await;
}

//! Access to endpoints between two trusted agents, and a stranger.

use std::{os::unix::fs::PermissionsExt, path::Path, time::Duration};

use serde_json::{Value, json};
use svc_agent::{
    AccessGrantFilter, AccessSettings, BasicMessageFilter, GrantState, GrantedMaterial, PeerAccessRequest, PeerGrant,
    Refusal, RefusalCode,
    document::{ServiceChange, ServiceIdPath},
};
use svc_net::{did::DidResolver, host_policy::HostPolicy};
use svc_trust::access::{AccessClaims, AccessRejection, AccessRules, AccessToken};
use svc_wire::endpoint_access::{AccessDocument, Material, RevocationList};

use crate::e2e::{
    agent::{credentials::identity::start_agents_with, messages::scripted_peer::now},
    harness::{TEST_TIMEOUT, TestNetwork},
};

pub(in crate::e2e::agent) const URL: &str = "http://127.0.0.1:9/mcp";

/// Writes a file that only its owner can read.
pub(in crate::e2e::agent) fn write_private(path: &Path, text: &str) {
    std::fs::write(path, text).expect("written");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("set");
}

/// The agents of the scenario, of which the first has conditions for its endpoints.
pub(in crate::e2e::agent) struct AccessWorld {
    pub(in crate::e2e::agent) world: TestNetwork,
    pub(in crate::e2e::agent) home: tempfile::TempDir,
}

const CONDITIONS: &str = r##"
    [[endpoint]]
    id = "mcp"
    material = "bearer"
    scopes = ["mcp:read", "mcp:tool:svc.idx.es.getecosystem", "ledger"]
    default_scopes = ["mcp:read"]
    allow = "*"
    [[endpoint]]
    id = "api"
    material = "key"
    header = "X-Api-Key"
    value_file = "api.key"
    allow = ["PEER"]
    [[endpoint]]
    id = "members"
    material = "credential"
    schema_id = 7
    issuer = "did:web:issuer.example"
    allow = "*"
    [[endpoint]]
    id = "closed"
    material = "none"
    allow = []
"##;

impl AccessWorld {
    pub(in crate::e2e::agent) async fn start() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        write_private(&home.path().join("api.key"), "planted-key-value\n");
        let file = home.path().join("access.toml");
        write_private(&file, CONDITIONS.replace("PEER", "did:web:later.example").as_str());
        let stores = home.path().to_owned();
        let world = start_agents_with("peers", move |config| {
            config.home = Some(stores);
            config.access = vec![AccessSettings { terms_file: Some(file), ..AccessSettings::default() }];
        })
        .await;
        let access = Self { world, home };
        for fragment in ["mcp", "api", "members", "closed", "open"] {
            access.put_entry(fragment, URL).await;
        }
        access.set_conditions(str::to_owned).await;
        access
    }

    async fn set_conditions(&self, change: impl Fn(&str) -> String) {
        let conditions = CONDITIONS.replace("PEER", &self.world.agent_did(1));
        write_private(&self.home.path().join("access.toml"), &change(&conditions));
        self.world.agent(0).access().reload().await.expect("usable");
    }

    async fn put_entry(&self, fragment: &str, url: &str) {
        let (id, endpoint) = (ServiceIdPath::new(fragment), json!(url));
        let add = ServiceChange::Add { id: Some(id), kind: "MCP".to_owned(), endpoint };
        self.world.agent(0).keeper().change(add).await.expect("added");
    }

    pub(in crate::e2e::agent) fn endpoint(&self, fragment: &str) -> String {
        format!("{}#{fragment}", self.world.agent_did(0))
    }

    /// A request of the second agent.
    pub(in crate::e2e::agent) async fn ask(&self, fragment: &str) -> Result<Box<PeerGrant>, Refusal> {
        self.ask_with(PeerAccessRequest { endpoint: self.endpoint(fragment), ..PeerAccessRequest::default() }).await
    }

    pub(in crate::e2e::agent) async fn ask_with(&self, request: PeerAccessRequest) -> Result<Box<PeerGrant>, Refusal> {
        self.world.agent(1).peers().request_access(request).await
    }

    /// Asks until the grant is another one, since the notice of the end of the last has come.
    async fn await_another_than(&self, ended: &PeerGrant) -> Box<PeerGrant> {
        let next = async {
            loop {
                let next = self.ask("mcp").await.expect("granted");
                if next.id != ended.id {
                    return next;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, next).await.expect("the notice arrives")
    }

    /// Asks in the place of a material that the endpoint has refused.
    pub(in crate::e2e::agent) async fn ask_again(
        &self,
        fragment: &str,
        refused: &PeerGrant,
    ) -> Result<Box<PeerGrant>, Refusal> {
        let (endpoint, replaces) = (self.endpoint(fragment), Some(refused.id.clone()));
        self.ask_with(PeerAccessRequest { endpoint, replaces, ..PeerAccessRequest::default() }).await
    }

    async fn public_file(&self, file: &str) -> Value {
        let address = self.world.network.agents[0].server.public;
        let url = format!("http://localhost:{}/{file}", address.port());
        reqwest::get(url).await.expect("answered").json().await.expect("JSON")
    }

    /// Verifies a token as a tool server does: by the document of its issuer and the list of its revoked grants.
    async fn verify(&self, token: &str, audience: &str) -> Result<AccessClaims, AccessRejection> {
        let did = self.world.agent_did(0);
        let resolver = DidResolver::new(HostPolicy::AllowPrivate).expect("a resolver");
        let document = resolver.resolve(&did).await.expect("a document");
        let list = self.public_file("endpoint-access-revoked.json").await;
        let list = RevocationList::read(&list, &did).expect("a list");
        let rules = AccessRules { issuer: &did, audience, knows_scope: &|scope| scope.starts_with("mcp:") };
        AccessToken::read(token)?.verify(&rules, &document, &list, now())
    }

    async fn await_state(&self, id: &str, state: GrantState) -> String {
        let reached = async {
            loop {
                let filter = AccessGrantFilter { state: Some(state), ..AccessGrantFilter::default() };
                let found = self.world.agent(0).access().grants(&filter, None, 500).await.expect("read");
                if let Some(grant) = found.into_iter().find(|grant| grant.id == id) {
                    return grant.reason.unwrap_or_default();
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, reached).await.unwrap_or_else(|_| panic!("the grant is not {state:?}"))
    }
}

pub(in crate::e2e::agent) fn token_of(grant: &PeerGrant) -> &str {
    match &grant.material {
        GrantedMaterial::Bearer { token } => token.expose_secret(),
        other => panic!("{other:?}"),
    }
}

fn denial(refused: Result<Box<PeerGrant>, Refusal>) -> &'static str {
    let refusal = refused.expect_err("denied");
    assert_eq!(refusal.code, RefusalCode::AccessDenied, "{refusal:?}");
    refusal.denial.expect("the code of the peer").code.as_str()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trusted_peer_gets_the_material_of_each_endpoint_and_a_stranger_none() {
    let access = AccessWorld::start().await;
    let (owner, peer) = (access.world.agent_did(0), access.world.agent_did(1));
    let granted = access.ask("mcp").await.expect("granted");
    let claims = access.verify(token_of(&granted), URL).await.expect("a valid token");
    assert_eq!((&claims.subject, claims.scopes.as_slice()), (&peer, &["mcp:read".to_owned()][..]));
    assert_eq!((granted.url.as_str(), claims.endpoint), (URL, access.endpoint("mcp")));
    assert_eq!(access.verify(token_of(&granted), "http://127.0.0.1:9/other").await, Err(AccessRejection::Audience));
    // It is held, and another one is asked for when the endpoint has refused it.
    let again = access.ask("mcp").await.expect("held");
    assert_eq!(again.id, granted.id);
    let other = access.ask_again("mcp", &granted).await.expect("granted");
    assert_ne!(token_of(&other), token_of(&granted));
    // The other materials.
    assert_eq!(access.ask("open").await.expect("granted").material, GrantedMaterial::None);
    match access.ask("api").await.expect("granted").material {
        GrantedMaterial::Key { header, value } => {
            assert_eq!((header.as_str(), value.expose_secret()), ("X-Api-Key", "planted-key-value"));
        }
        other => panic!("{other:?}"),
    }
    let credential = GrantedMaterial::Credential { schema_id: "7".into(), issuer: "did:web:issuer.example".into() };
    assert_eq!(access.ask("members").await.expect("granted").material, credential);
    // The refusals of the owner.
    assert_eq!(denial(access.ask("closed").await), "not_allowed");
    let with = |scopes: Option<Vec<String>>, accept: Option<Vec<Material>>| PeerAccessRequest {
        endpoint: access.endpoint("mcp"),
        scopes,
        accept,
        ..PeerAccessRequest::default()
    };
    assert_eq!(denial(access.ask_with(with(Some(vec!["other".into()]), None)).await), "scope_refused");
    assert_eq!(denial(access.ask_with(with(None, Some(vec![Material::None]))).await), "material_unsupported");
    for entry in ["admin-api", "endpoint-access", "missing"] {
        let refused = access.ask(entry).await.expect_err("no such endpoint");
        let is_unknown = refused.code == RefusalCode::UnknownId
            || refused.denial.is_some_and(|denial| denial.code.as_str() == "unknown_endpoint");
        assert!(is_unknown, "{entry}: {refused:?}");
    }
    // A stranger may ask, and learns only that it is not trusted. It is not asked itself.
    let request = PeerAccessRequest { endpoint: access.endpoint("mcp"), ..PeerAccessRequest::default() };
    assert_eq!(denial(access.world.agent(2).peers().request_access(request).await), "not_trusted");
    let endpoint = format!("{}#mcp", access.world.agent_did(2));
    let refused = access.ask_with(PeerAccessRequest { endpoint, ..PeerAccessRequest::default() }).await;
    assert_eq!(refused.expect_err("not trusted").code, RefusalCode::PeerNotAuthorized);
    // The public files.
    let conditions = access.public_file("endpoint-access.json").await;
    let conditions = AccessDocument::read(&conditions, &owner).expect("conditions");
    assert_eq!(conditions.line(&access.endpoint("mcp")).map(|line| line.material), Some(Material::Bearer));
    let keys = access.public_file("endpoint-access-jwks.json").await;
    let named = access.world.agent(0).keeper().published().document.token_keys().join(" ");
    assert_eq!(keys["keys"][0]["kid"], named);
    // No frame is a record, and no store has a token or a key.
    for place in [0, 1] {
        let records = access.world.agent(place).peers();
        let found = records.basic_messages(&BasicMessageFilter::default(), None, 100, Duration::ZERO).await;
        assert_eq!(found.expect("read"), [], "of agent {place}");
    }
    let secrets = [token_of(&granted).to_owned(), token_of(&other).to_owned(), "planted-key-value".to_owned()];
    assert_eq!(files_with(access.home.path(), &secrets), ["api.key"]);
}

/// The names of the files below a directory in which a text stands.
fn files_with(directory: &Path, texts: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory").flatten() {
        if entry.path().is_dir() {
            found.extend(files_with(&entry.path(), texts));
            continue;
        }
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        let has = |text: &String| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        if texts.iter().any(has) {
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_ends_by_hand_with_its_entry_with_its_url_and_with_stricter_conditions() {
    let access = AccessWorld::start().await;
    let owner = access.world.agent(0).access();
    let granted = access.ask("mcp").await.expect("granted");
    let id = access.verify(token_of(&granted), URL).await.expect("valid").id;
    let revoked = owner.revoke(&id, "by hand").await.expect("revoked");
    assert_eq!(revoked.reason.as_deref(), Some("by hand"));
    assert_eq!(access.verify(token_of(&granted), URL).await, Err(AccessRejection::Revoked), "at once");
    assert_eq!(owner.revoke(&id, "again").await.expect_err("once").code, RefusalCode::InvalidState);
    // The notice reaches the asker: it asks for another one.
    let next = access.await_another_than(&granted).await;
    // Another URL.
    let id = access.verify(token_of(&next), URL).await.expect("valid").id;
    let keeper = access.world.agent(0).keeper();
    let delete = |fragment: &str| ServiceChange::Delete { id: ServiceIdPath::new(fragment) };
    keeper.change(delete("mcp")).await.expect("deleted");
    access.put_entry("mcp", "http://127.0.0.1:9/elsewhere").await;
    let reason = access.await_state(&id, GrantState::Revoked).await;
    assert!(reason.contains("entry of the endpoint was deleted") || reason.contains("URL"), "{reason}");
    let moved = access.ask("mcp").await.expect("granted");
    assert_eq!(moved.url, "http://127.0.0.1:9/elsewhere", "the material for the old URL is not used");
    // Stricter conditions.
    let id = access.verify(token_of(&moved), &moved.url).await.expect("valid").id;
    access.set_conditions(|text| text.replacen("allow = \"*\"", "allow = []", 1)).await;
    assert!(access.await_state(&id, GrantState::Revoked).await.contains("stricter"));
    assert_eq!(denial(access.ask_again("mcp", &moved).await), "not_allowed");
    // A bad file changes nothing.
    write_private(&access.home.path().join("access.toml"), "[[endpoint]]\nid = 7");
    owner.reload().await.expect_err("a bad file");
    assert_eq!(denial(access.ask("mcp").await), "not_allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_tokens_turn_and_a_void_ends_every_token() {
    let access = AccessWorld::start().await;
    let owner = access.world.agent(0).access();
    let granted = access.ask("mcp").await.expect("granted");
    let first = access.world.agent(0).keeper().published().document.token_keys().join(" ");
    let second = owner.rotate_key().await.expect("rotated");
    let published = access.world.agent(0).keeper().published();
    assert_eq!(published.document.token_keys(), [second.as_str(), first.as_str()], "both are known");
    assert!(access.verify(token_of(&granted), URL).await.is_ok(), "the old one verifies its tokens");
    let keys = access.public_file("endpoint-access-jwks.json").await;
    assert_eq!(keys["keys"].as_array().map(Vec::len), Some(2));
    owner.void().await.expect("void");
    let filter = AccessGrantFilter { state: Some(GrantState::Revoked), ..AccessGrantFilter::default() };
    let revoked = owner.grants(&filter, None, 10).await.expect("read");
    assert!(revoked.len() == 1 && revoked[0].reason.as_deref() == Some("every token of before is void"), "{revoked:?}");
    // The notice reaches the asker: it asks for another one.
    access.await_another_than(&granted).await;
    assert_eq!(access.verify(token_of(&granted), URL).await, Err(AccessRejection::Void));
    let next = access.ask_again("mcp", &granted).await.expect("granted");
    assert!(access.verify(token_of(&next), URL).await.is_ok(), "a token behind the void is valid");
}

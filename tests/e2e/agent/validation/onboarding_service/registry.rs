//! The reads of the service at the indexer.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::e2e::indexer::{post_at, read_at, read_ok};

pub(super) struct Registry {
    pub(super) origin: String,
}

fn list(answer: &Value, name: &str) -> Vec<Value> {
    answer[name].as_array().unwrap_or_else(|| panic!("a list of {name} in {answer:#}")).clone()
}

impl Registry {
    async fn read(&self, path: &str) -> Value {
        read_ok(&self.origin, path).await
    }

    /// The newest height. The index must be running and have caught up.
    pub(super) async fn height(&self) -> u64 {
        let status = self.read("/v4/indexer/status").await;
        assert_eq!((&status["is_running"], &status["is_crawling"]), (&json!(true), &json!(true)), "{status:#}");
        self.read("/v4/indexer/block-height").await["height"].as_u64().expect("a height")
    }

    /// A participant, and nothing before the index has it.
    pub(super) async fn participant(&self, id: u64) -> Value {
        let mut read = read_at(&self.origin, &format!("/v4/participant/get/{id}"), None).await;
        assert!([200, 404].contains(&read.status), "{}", read.body);
        read.body["participant"].take()
    }

    /// Ids of the participants that match a query.
    async fn participants(&self, query: &str) -> BTreeSet<u64> {
        let found = self.read(&format!("/v4/participant/list?limit=1024&{query}")).await;
        list(&found, "participants").iter().map(|one| one["id"].as_u64().expect("an id")).collect()
    }

    pub(super) async fn participants_of(&self, did: &str) -> BTreeSet<u64> {
        let did = percent_encoding::utf8_percent_encode(did, percent_encoding::NON_ALPHANUMERIC);
        self.participants(&format!("did={did}")).await
    }

    /// The applicants that wait for a validator.
    pub(super) async fn applicants_of(&self, validator: u64) -> BTreeSet<u64> {
        self.participants(&format!("validator_participant_id={validator}&op_state=PENDING")).await
    }

    /// A schema, whose JSON schema is read.
    pub(super) async fn schema(&self, id: &Value) -> Value {
        let mut schema = self.read(&format!("/v4/credential-schema/get/{id}")).await["schema"].take();
        let text = schema["json_schema"].as_str().expect("a text");
        schema["json_schema"] = serde_json::from_str(text).expect("JSON");
        schema
    }

    /// The documents of an ecosystem's active governance framework.
    pub(super) async fn framework(&self, ecosystem: &Value) -> Vec<Value> {
        let found = self.read(&format!("/v4/ecosystem/get/{ecosystem}?gf_data=only_active")).await;
        let versions = list(&found["ecosystem"], "versions");
        assert_eq!(versions.len(), 1, "{found:#}");
        list(&versions[0], "documents")
    }

    pub(super) async fn corporation(&self, id: &Value) -> Value {
        self.read(&format!("/v4/corporation/get/{id}")).await["corporation"].take()
    }

    /// The corporations for which an account may act.
    pub(super) async fn corporations_of(&self, operator: &str) -> Vec<Value> {
        let found = self.read(&format!("/v4/delegation/operator-authorizations?operator={operator}")).await;
        list(&found, "authorizations").iter().map(|one| one["corporation_id"].clone()).collect()
    }

    /// The message types that the agent's account may send for a participant.
    pub(super) async fn messages_of_agent(&self, participant: u64) -> Vec<String> {
        let path = format!("/v4/delegation/vs-operator-authorizations?participant_id={participant}");
        let found = self.read(&path).await;
        let records = list(&found, "authorizations").into_iter().flat_map(|one| list(&one, "records"));
        let records = records.filter(|record| record["participant_id"] == participant);
        let types = records.flat_map(|record| list(&record, "msg_types"));
        types.map(|one| one.as_str().expect("a text").to_owned()).collect()
    }

    /// Schemas of the credentials that a DID shows: the essential ones, and those of its presentations.
    pub(super) async fn shown_schemas(&self, did: &str) -> (BTreeSet<u64>, BTreeSet<u64>) {
        let wanted = json!({"did": did, "ecsCredentials": true, "presentations": true});
        let found = post_at(&self.origin, "/v4/verifiable-trust/resolve", &wanted, None).await;
        assert_eq!(found.status, 200, "{}", found.body);
        let id = |one: &Value| one["credentialSchemaId"].as_u64().unwrap_or_else(|| panic!("a schema in {one:#}"));
        let essential = list(&found.body, "ecsCredentials").iter().map(id).collect();
        let presented = list(&found.body, "presentations").into_iter().flat_map(|one| list(&one, "vtcCredentials"));
        (essential, presented.map(|one| id(&one)).collect())
    }
}

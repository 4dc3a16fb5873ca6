//! A network per test, and a client that reads like a story.

use std::time::Duration;

use serde_json::{Map, Value, json};
use svc::{
    client::Client,
    network::{Network, NetworkConfig},
};
use svc_devnet::DevnetConfig;

/// Longest any single expectation may take; a test that needs it has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct World {
    pub network: Network,
    pub client: Client,
}

/// What a tool answered.
#[derive(Debug)]
pub struct Answer {
    pub content: Value,
    pub is_error: bool,
}

/// Phrase of the operator of the scenario `corporation`: a public test vector.
pub const OPERATOR_MNEMONIC: &str = "legal winner thank year wave sausage worth useful legal winner thank yellow";

pub fn config(block_time_ms: u64) -> NetworkConfig {
    NetworkConfig {
        devnet: DevnetConfig { block_time: Some(Duration::from_millis(block_time_ms)), ..DevnetConfig::default() },
        ..NetworkConfig::default()
    }
}

pub async fn world(config: NetworkConfig) -> World {
    let network = Network::launch(config).await.expect("the network starts");
    let client = Client::connect(&network.mcp_url(), &network.bearer).await.expect("the client connects");
    World { network, client }
}

/// A world with quick blocks.
pub async fn quick() -> World {
    world(config(100)).await
}

pub fn arguments(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("arguments are an object, not {other}"),
    }
}

/// Arguments of a valid createEcosystem with a DID of its own.
pub fn ecosystem(name: impl std::fmt::Display) -> Value {
    json!({
        "did": format!("did:web:{name}.example"), "language": "en", "doc_url": format!("https://{name}.example/framework.pdf"),
        "doc_digest_sri": "sha384-Ly4tLCsqKSgnJiUkIyIhIB8eHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgEA",
    })
}

/// Arguments of a valid createCredentialSchema.
pub fn schema(ecosystem: &Value) -> Value {
    let body = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Badge", "description": "A badge",
        "type": "object", "properties": {"credentialSubject": {"type": "object"}},
    });
    json!({
        "ecosystem_id": ecosystem, "json_schema": body.to_string(), "digest_algorithm": "sha384",
        "issuer_grantor_validation_validity_period": 365, "verifier_grantor_validation_validity_period": 365,
        "issuer_validation_validity_period": 365, "verifier_validation_validity_period": {"value": 365},
        "holder_validation_validity_period": 0, "issuer_onboarding_mode": "OPEN", "verifier_onboarding_mode": 1,
        "holder_onboarding_mode": "PERMISSIONLESS", "pricing_asset_type": "TU", "pricing_asset": "tu",
    })
}

/// The smallest arguments that a tool's schema asks for, for schemas as simple as ours.
pub fn sample(tool: &rmcp::model::Tool) -> Value {
    let required = tool.input_schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let value = |name: &str| {
        let schema = &tool.input_schema["properties"][name];
        if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
            return first.clone();
        }
        match &schema["type"] {
            Value::String(kind) if kind == "integer" => json!(1),
            Value::Array(_) => json!(1),
            _ if schema["pattern"].as_str().is_some_and(|pattern| pattern.contains("did:")) => {
                json!("did:web:a.example")
            }
            _ => json!("x"),
        }
    };
    required.iter().filter_map(Value::as_str).map(|name| (name.to_owned(), value(name))).collect::<Map<_, _>>().into()
}

/// An answer must be what the tool's output schema says.
pub fn check_output(tool: &rmcp::model::Tool, answer: &Value) {
    let schema = Value::Object((**tool.output_schema.as_ref().expect("an output schema")).clone());
    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
    let problems: Vec<String> =
        validator.iter_errors(answer).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(problems.is_empty(), "{}: {problems:#?} in {answer:#}", tool.name);
}

pub const CREATE: &str = "svc.ledger.es.createEcosystem";

pub async fn call(client: &Client, tool: &str, given: Value) -> Answer {
    let called = tokio::time::timeout(PATIENCE, client.call(tool, arguments(given))).await.expect("an answer in time");
    let result = called.unwrap_or_else(|error| panic!("{tool}: {error}"));
    Answer { is_error: result.is_error == Some(true), content: result.structured_content.unwrap_or_default() }
}

impl World {
    pub async fn call(&self, tool: &str, given: Value) -> Answer {
        call(&self.client, tool, given).await
    }

    /// A call that must succeed.
    pub async fn ok(&self, tool: &str, given: Value) -> Value {
        let answer = self.call(tool, given).await;
        assert!(!answer.is_error, "{tool}: {:#}", answer.content);
        answer.content
    }

    /// A call that must fail with this code.
    pub async fn fails(&self, tool: &str, given: Value, code: &str) -> Value {
        let answer = self.call(tool, given).await;
        assert!(answer.is_error, "{tool} succeeded: {:#}", answer.content);
        assert_envelope(&answer.content, code);
        answer.content
    }

    pub async fn tool_names(&self) -> Vec<String> {
        let tools = self.client.tools().await.expect("tools are listed");
        tools.into_iter().map(|tool| tool.name.to_string()).collect()
    }

    /// DIDs of all ecosystems on chain, as the ledger itself has them.
    pub fn ecosystems_on_chain(&self) -> Vec<String> {
        use prost::Message;
        use svc_wire::proto::svc::ec::v1::{QueryListEcosystemsRequest, QueryListEcosystemsResponse};
        self.network.devnet.node.inspect(|core| {
            let request = QueryListEcosystemsRequest { response_max_size: 1024, ..Default::default() };
            let path = core.chain.namespace().query_path("ec", "ListEcosystems");
            let bytes =
                svc_devnet::ledger::query(core.state(), &core.chain, core.context(), &path, &request.encode_to_vec())
                    .expect("queried");
            let reply = QueryListEcosystemsResponse::decode(bytes.as_slice()).expect("decodes");
            reply.ecosystems.into_iter().map(|ecosystem| ecosystem.did).collect()
        })
    }

    /// Transactions of the operator that are in blocks.
    pub fn operator_txs_in_blocks(&self) -> usize {
        let address = self.network.seat.operator_address.clone();
        self.network.devnet.node.inspect(|core| {
            let outcomes = core.blocks().iter().flat_map(|block| block.outcomes.iter());
            let is_own = |outcome: &&svc_devnet::ledger::TxOutcome| {
                let text = format!("{address}/");
                outcome.events.iter().any(|event| {
                    event.attributes.iter().any(|(key, value)| key == "acc_seq" && value.starts_with(&text))
                })
            };
            outcomes.filter(is_own).count()
        })
    }

    pub fn height(&self) -> u64 {
        *self.network.devnet.node.heights().borrow()
    }

    /// Makes the corporation an ecosystem's root participant with this DID, whose account is an authorized VS operator.
    pub async fn participate(&self, did: &str) -> u64 {
        let ecosystem = self.ok(CREATE, ecosystem("market")).await["response"]["ecosystem_id"].clone();
        let schema =
            self.ok("svc.ledger.cs.createCredentialSchema", schema(&ecosystem)).await["response"]["id"].clone();
        let ends = "2098-01-01T00:00:00Z";
        let root = json!({
            "schema_id": schema, "did": did, "effective_from": self.soon(), "effective_until": ends,
            "validation_fees": 0, "issuance_fees": 0, "verification_fees": 0,
            "vs_operator": self.network.devnet.address("member"),
            "vs_operator_authz_msg_types": ["/svc.pp.v1.MsgSetParticipantOPToValidated"],
        });
        let made = self.ok("svc.ledger.pp.createRootParticipant", root).await;
        made["response"]["id"]
            .as_str()
            .and_then(|id| id.parse().ok())
            .unwrap_or_else(|| made["response"]["id"].as_u64().expect("an id"))
    }

    /// A moment that is still to come when a transaction made now is in a block.
    fn soon(&self) -> String {
        let now = svc_wire::instant::nanos(&svc_kit::wall::now()) + 60_000_000_000;
        svc_wire::instant::iso_millis(&svc_wire::instant::from_nanos(now))
    }

    /// Runs messages as the corporation itself: a group proposal that its one member decides.
    pub async fn corporation_decides(&self, messages: Value) {
        let devnet = &self.network.devnet;
        let scenario: svc_devnet::scenario::Scenario = serde_json::from_value(json!({
            "description": "a decision",
            "step": [{"name": "decide", "signer": "member", "proposal": "corporation", "messages": messages}],
        }))
        .expect("a scenario");
        devnet.run(&scenario).await.expect("decided");
    }

    /// Waits block by block until something holds.
    pub async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let mut heights = self.network.devnet.node.heights();
        let waited = tokio::time::timeout(PATIENCE, async {
            while !holds().await {
                heights.changed().await.expect("the node makes blocks");
            }
        });
        waited.await.unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"));
    }
}

pub fn assert_envelope(content: &Value, code: &str) {
    assert_eq!(content["code"], code, "{content:#}");
    let mut members: Vec<_> = content.as_object().expect("an object").keys().map(String::as_str).collect();
    members.sort_unstable();
    assert_eq!(members, ["code", "details", "hint", "message", "retryable", "stage"]);
    for text in ["message", "hint", "stage"] {
        assert!(content[text].as_str().is_some_and(|text| !text.is_empty()), "{text} in {content:#}");
    }
}

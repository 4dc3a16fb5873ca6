//! A network per test, with a client and helpers.

use std::time::Duration;

use rmcp::model::{ReadResourceRequestParams, ResourceContents};
use serde_json::{Map, Value, json};
use svc::{
    mcp_client::{McpClient, result_content},
    network::{LocalNetwork, LocalNetworkConfig},
};
use svc_devnet::{DevnetConfig, node::ChangedField};
use svc_test_support::ports::free_address;
use svc_wire::proto_registry::NodeGeneration;

/// Longest wait of a test; a test that reaches it has failed. It is long, because a machine may be busy with other tests.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Pauses between two polls of a state that announces no change. Without a pause the loop occupies a core that other programs need.
pub async fn pause() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}

pub struct TestNetwork {
    pub network: LocalNetwork,
    pub client: McpClient,
}

/// The answer of a tool.
#[derive(Debug)]
pub struct CallResult {
    pub content: Value,
    pub is_error: bool,
}

/// Phrase of the operator in the scenario `corporation`: a public test vector.
pub const OPERATOR_MNEMONIC: &str = "legal winner thank year wave sausage worth useful legal winner thank yellow";

pub fn network_config(block_time_ms: u64) -> LocalNetworkConfig {
    LocalNetworkConfig {
        devnet: DevnetConfig {
            block_time: Some(Duration::from_millis(block_time_ms)),
            // Node and indexer come back at their ports.
            listen: free_address(),
            ..DevnetConfig::default()
        },
        indexer_listen: free_address(),
        ..LocalNetworkConfig::default()
    }
}

pub async fn start_network(config: LocalNetworkConfig) -> TestNetwork {
    let network = LocalNetwork::launch(config).await.expect("the network starts");
    let client = McpClient::connect(&network.mcp_url(), &network.bearer_token).await.expect("the client connects");
    TestNetwork { network, client }
}

/// A network with a short block time.
pub async fn start_quick_network() -> TestNetwork {
    start_network(network_config(100)).await
}

/// A network with a short block time whose operator cannot pay a fee itself.
pub async fn start_penniless_network() -> TestNetwork {
    let scenario = include_str!("../../devnet/scenarios/corporation.toml");
    let poor = scenario.replace("coins = { FEE = 10_000_000 }", "coins = { FEE = 1 }");
    assert_ne!(scenario, poor);
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("penniless.toml");
    std::fs::write(&file, poor).expect("written");
    let mut config = network_config(100);
    config.devnet.scenario = file.to_str().expect("a text").to_owned();
    start_network(config).await
}

pub fn into_arguments(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("arguments are an object, not {other}"),
    }
}

/// Arguments of a valid createEcosystem with a DID of its own.
pub fn ecosystem_arguments(name: impl std::fmt::Display) -> Value {
    json!({
        "did": format!("did:web:{name}.example"), "language": "en", "doc_url": format!("https://{name}.example/framework.pdf"),
        "doc_digest_sri": "sha384-Ly4tLCsqKSgnJiUkIyIhIB8eHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgEA",
    })
}

/// Arguments of a valid createCredentialSchema.
pub fn schema_arguments(ecosystem: &Value) -> Value {
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

/// The smallest arguments that satisfy the schema of a tool. It supports the keywords that the tools use.
pub fn sample_arguments(tool: &rmcp::model::Tool) -> Value {
    let required = tool.input_schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let value = |name: &str| {
        let schema = &tool.input_schema["properties"][name];
        if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
            return first.clone();
        }
        match &schema["type"] {
            Value::String(kind) if kind == "integer" => json!(1),
            _ if name.to_lowercase().ends_with("did") => json!("did:web:a.example"),
            _ => json!("x"),
        }
    };
    required.iter().filter_map(Value::as_str).map(|name| (name.to_owned(), value(name))).collect::<Map<_, _>>().into()
}

/// Asserts that an answer satisfies the output schema of its tool.
pub fn assert_output_schema(tool: &rmcp::model::Tool, answer: &Value) {
    let schema = Value::Object((**tool.output_schema.as_ref().expect("an output schema")).clone());
    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
    let problems: Vec<String> =
        validator.iter_errors(answer).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(problems.is_empty(), "{}: {problems:#?} in {answer:#}", tool.name);
}

pub const CREATE_ECOSYSTEM: &str = "svc.ledger.es.createEcosystem";

pub async fn call_tool(client: &McpClient, tool: &str, given: Value) -> CallResult {
    let called = tokio::time::timeout(TEST_TIMEOUT, client.call_tool(tool, into_arguments(given)))
        .await
        .expect("an answer in time");
    let result = called.unwrap_or_else(|error| panic!("{tool}: {error}"));
    CallResult { is_error: result.is_error == Some(true), content: result_content(&result) }
}

impl TestNetwork {
    pub async fn call_tool(&self, tool: &str, given: Value) -> CallResult {
        call_tool(&self.client, tool, given).await
    }

    /// Calls a tool and asserts that it succeeds.
    pub async fn call_ok(&self, tool: &str, given: Value) -> Value {
        let answer = self.call_tool(tool, given).await;
        assert!(!answer.is_error, "{tool}: {:#}", answer.content);
        answer.content
    }

    /// Calls a tool and asserts that it fails with this code.
    pub async fn call_error(&self, tool: &str, given: Value, code: &str) -> Value {
        let answer = self.call_tool(tool, given).await;
        assert!(answer.is_error, "{tool} succeeded: {:#}", answer.content);
        assert_envelope(&answer.content, code);
        answer.content
    }

    pub async fn tool_names(&self) -> Vec<String> {
        let tools = self.client.list_tools().await.expect("tools are listed");
        tools.into_iter().map(|tool| tool.name.to_string()).collect()
    }

    /// DIDs of all ecosystems on chain, read from the ledger.
    pub fn ecosystems_on_chain(&self) -> Vec<String> {
        use prost::Message;
        use svc_wire::proto::svc::ec::v1::{QueryListEcosystemsRequest, QueryListEcosystemsResponse};
        self.network.devnet.node.read_core(|core| {
            let request = QueryListEcosystemsRequest { response_max_size: 1024, ..Default::default() };
            let path = core.chain.namespace().query_path("ec", "ListEcosystems");
            let bytes =
                svc_ledger::query(core.state(), &core.chain, core.block_context(), &path, &request.encode_to_vec())
                    .expect("queried");
            let reply = QueryListEcosystemsResponse::decode(bytes.as_slice()).expect("decodes");
            reply.ecosystems.into_iter().map(|ecosystem| ecosystem.did).collect()
        })
    }

    /// Transactions of the operator that are in blocks.
    pub fn operator_txs_in_blocks(&self) -> usize {
        let address = self.network.operator_slot.operator_address.clone();
        self.network.devnet.node.read_core(|core| {
            let outcomes = core.blocks().iter().flat_map(|block| block.tx_outcomes.iter());
            let is_own = |outcome: &&svc_ledger::TxOutcome| {
                let text = format!("{address}/");
                outcome.events.iter().any(|event| {
                    event.attributes.iter().any(|(key, value)| key == "acc_seq" && value.starts_with(&text))
                })
            };
            outcomes.filter(is_own).count()
        })
    }

    pub fn height(&self) -> u64 {
        *self.network.devnet.node.watch_heights().borrow()
    }

    /// Replaces the release of the node by one that describes these fields otherwise.
    pub fn upgrade_node(&self, generation: NodeGeneration, fields: &[ChangedField]) {
        let node = &self.network.devnet.node;
        node.stop();
        node.update_faults(|faults| faults.lies.changed_fields = fields.to_vec());
        node.upgrade(generation).expect("upgrades");
        node.start().expect("starts");
    }

    /// Makes the corporation an ecosystem's root participant with this DID, whose account is an authorized VS operator.
    pub async fn create_vs_participant(&self, did: &str) -> u64 {
        let ecosystem =
            self.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments("market")).await["response"]["ecosystem_id"].clone();
        let schema =
            self.call_ok("svc.ledger.cs.createCredentialSchema", schema_arguments(&ecosystem)).await["response"]["id"]
                .clone();
        let ends = "2098-01-01T00:00:00Z";
        let root = json!({
            "schema_id": schema, "did": did, "effective_from": self.near_future(), "effective_until": ends,
            "validation_fees": 0, "issuance_fees": 0, "verification_fees": 0,
            "vs_operator": self.network.devnet.address("member"),
            "vs_operator_authz_msg_types": ["/svc.pp.v1.MsgSetParticipantOPToValidated"],
        });
        let made = self.call_ok("svc.ledger.pp.createRootParticipant", root).await;
        made["response"]["id"]
            .as_str()
            .and_then(|id| id.parse().ok())
            .unwrap_or_else(|| made["response"]["id"].as_u64().expect("an id"))
    }

    /// An instant after the inclusion of a transaction that is sent now.
    pub fn near_future(&self) -> String {
        let now = svc_wire::timestamp::unix_nanos(&svc_kit::wall_clock::now()) + 60_000_000_000;
        svc_wire::timestamp::iso_millis(&svc_wire::timestamp::from_unix_nanos(now))
    }

    /// Runs messages as the corporation: by a group proposal on which its only member votes.
    pub async fn pass_proposal(&self, messages: Value) {
        let devnet = &self.network.devnet;
        let scenario: svc_devnet::scenario::Scenario = serde_json::from_value(json!({
            "description": "a decision",
            "step": [{"name": "decide", "signer": "member", "proposal": "corporation", "messages": messages}],
        }))
        .expect("a scenario");
        devnet.run_steps(&scenario).await.expect("decided");
    }

    /// The content of a resource.
    pub async fn read_resource(&self, uri: &str) -> Value {
        let read = self.client.service().read_resource(ReadResourceRequestParams::new(uri)).await.expect("readable");
        match &read.contents[0] {
            ResourceContents::TextResourceContents { text, .. } => serde_json::from_str(text).expect("JSON"),
            other => panic!("{other:?}"),
        }
    }

    /// Waits, block by block, until a condition holds.
    pub async fn wait_until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let mut heights = self.network.devnet.node.watch_heights();
        let waited = tokio::time::timeout(TEST_TIMEOUT, async {
            while !holds().await {
                heights.changed().await.expect("the node makes blocks");
            }
        });
        waited.await.unwrap_or_else(|_| panic!("{what}: not within {TEST_TIMEOUT:?}"));
    }
}

/// Waits until a condition holds that no event announces.
pub async fn poll_until(expected: &str, holds: impl AsyncFn() -> bool) {
    let waited = tokio::time::timeout(TEST_TIMEOUT, async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("{expected}: not within {TEST_TIMEOUT:?}"));
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

//! The descriptors of a node, and its generation.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use svc_wire::{
    proto::{
        cosmos::auth::v1beta1::{Bech32PrefixRequest, Bech32PrefixResponse},
        svc::cs::v1::QueryGetSchemaAuthorizationPolicyRequest,
    },
    proto_registry::{
        GenerationAnswers, Namespace, NodeGeneration, ProtoRegistry, ProtoRegistryError, describe_differences,
    },
};

use super::{NodeClient, NodeClientError, UpstreamError};

const FILE_DESCRIPTORS: &str = "/cosmos.reflection.v1.ReflectionService/FileDescriptors";
/// Beginning of the error of a query that the node does not have.
const UNKNOWN_QUERY: &str = "unknown query path";
/// Longest wait for one of the answers from which a generation is found.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

impl NodeClient {
    /// The version of the node's application; `None` where it states none. Another version may have other messages.
    ///
    /// # Errors
    /// Every [`NodeClientError`] except `Query`.
    pub async fn application_version(&self) -> Result<Option<String>, NodeClientError> {
        let info = match self.call_raw("abci_info", json!({})).await {
            Ok(info) => info,
            // A proxy may pass only some methods on, and refuses the others in its own way.
            Err(error) if !is_passing(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let members = ["version", "app_version"].map(|member| match &info["response"][member] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        Ok(Some(members.join("/")).filter(|version| version != "/"))
    }
}

/// The messages of a node.
#[derive(Debug, Clone)]
pub struct NodeDescriptors {
    /// The messages that the node serves. Where its descriptors cannot be used, the messages of its generation, or else of the oldest one.
    pub registry: ProtoRegistry,
    /// The reason for which its own cannot be used.
    pub unusable: Option<String>,
    /// Its generation; `None` where neither descriptors nor answers show it.
    pub generation: Option<NodeGeneration>,
}

impl NodeDescriptors {
    /// The generation in words, with the way in which it was found.
    pub fn describe_generation(&self) -> String {
        match (self.generation, &self.unusable) {
            (Some(generation), None) => format!("generation {generation}, by its descriptors"),
            (Some(generation), Some(reason)) => {
                format!("generation {generation}, by its answers, since its descriptors cannot be used ({reason})")
            }
            (None, Some(reason)) => format!("of an unknown generation: its descriptors cannot be used ({reason})"),
            (None, None) => "of an unknown generation".to_owned(),
        }
    }
}

/// The descriptors of a node cannot be read now, or its prefix is no namespace.
#[derive(Debug, thiserror::Error)]
pub enum NodeDescriptorsError {
    /// The node did not answer.
    #[error(transparent)]
    Node(#[from] NodeClientError),
    /// The compiled-in descriptors do not fit the chain.
    #[error(transparent)]
    Registry(#[from] ProtoRegistryError),
}

/// Bech32 prefix of the chain's accounts.
///
/// # Errors
/// Every [`NodeClientError`].
pub async fn query_address_prefix(node: &NodeClient) -> Result<String, NodeClientError> {
    let path = "/cosmos.auth.v1beta1.Query/Bech32Prefix";
    let reply = node.query::<_, Bech32PrefixResponse>(path, &Bech32PrefixRequest {}, 0).await?;
    Ok(reply.bech32_prefix)
}

/// Reads the descriptors of a node. Whether it has none, answers no reflection or too much of it, is one case: the compiled-in ones are
/// used, and the generation is found by the answers of the node.
///
/// # Errors
/// When the node does not answer at all: then nothing is known about its descriptors.
pub async fn read_node_descriptors(node: &NodeClient) -> Result<NodeDescriptors, NodeDescriptorsError> {
    // The answers are those of one node.
    let node = &node.pinned();
    let unusable = match node.query_bytes(FILE_DESCRIPTORS, &[], 0).await {
        Ok(bytes) => match ProtoRegistry::from_live(&bytes) {
            Ok(registry) => {
                let generation = Some(NodeGeneration::of_descriptors(&registry));
                node.set_misread(misread_answers(&registry)?);
                return Ok(NodeDescriptors { registry, unusable: None, generation });
            }
            Err(error) => error.to_string(),
        },
        // Whether the node answers at all is seen by the next question: a long answer may break off each time.
        Err(error) => error.to_string(),
    };
    let prefix = query_address_prefix(node).await?;
    let namespace = Namespace::new(&prefix).map_err(|error| ProtoRegistryError::Descriptors(error.to_string()))?;
    let compiled = ProtoRegistry::compiled(&namespace)?;
    let generation = NodeGeneration::of_answers(&probe(node, &namespace).await?);
    let registry = compiled.of_generation(generation.unwrap_or(NodeGeneration::N0))?;
    Ok(NodeDescriptors { registry, unusable: Some(unusable), generation })
}

/// The queries of a node whose answers would be misread with the compiled-in types.
fn misread_answers(served: &ProtoRegistry) -> Result<BTreeMap<String, String>, ProtoRegistryError> {
    let compiled = ProtoRegistry::compiled(served.namespace())?;
    let answers = served.compare_with_compiled(&compiled).answers;
    Ok(answers.into_iter().map(|(path, differences)| (path, describe_differences(&differences))).collect())
}

/// Whether the next attempt may find an answer: the node is silent, or a proxy before it has no node or no time.
fn is_passing(error: &NodeClientError) -> bool {
    match error {
        NodeClientError::Upstream(UpstreamError::Http { status, .. }) => matches!(status, 429 | 502..=504),
        NodeClientError::Upstream(UpstreamError::Protocol { .. }) => false,
        NodeClientError::Upstream(_) => true,
        _ => false,
    }
}

async fn probe(node: &NodeClient, namespace: &Namespace) -> Result<GenerationAnswers, NodeClientError> {
    let ask = async |module: &str, rpc: &str, request: &[u8]| {
        let path = namespace.query_path(module, rpc);
        let asked = tokio::time::timeout(PROBE_TIMEOUT, node.query_bytes(&path, request, 0)).await;
        match asked.unwrap_or_else(|_| Err(node.unsent_error("no answer in time"))) {
            Ok(answer) => Ok(Ok(answer)),
            Err(error) if is_passing(&error) => Err(error),
            Err(error) => Ok(Err(error)),
        }
    };
    let nothing = prost::Message::encode_to_vec(&QueryGetSchemaAuthorizationPolicyRequest { id: 0 });
    let is_unknown = |error: &NodeClientError| error.to_string().contains(UNKNOWN_QUERY);
    Ok(GenerationAnswers {
        trust_deposit_params: ask("td", "Params", &[]).await?.ok(),
        delegation_params: ask("de", "Params", &[]).await?.ok(),
        // A refusal shows that the query is there.
        has_policies: ask("cs", "GetSchemaAuthorizationPolicy", &nothing)
            .await?
            .map_or_else(|error| !is_unknown(&error), |_| true),
        has_council: ask("poa", "Council", &[]).await?.is_ok(),
    })
}

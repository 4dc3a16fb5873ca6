//! The digests of a genesis: no query of a node lists them, so that they come from the genesis document.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::{Value, json};
use svc_net::upstream::NodeClient;

use crate::{
    block::EntityRef,
    ingest::error::{GenesisFailure, IngestError},
};

/// Most chunks of a genesis document that are read.
const MAX_GENESIS_CHUNKS: u64 = 64;

/// Lists the digests of the genesis. Fails when no node serves a document that can be read.
pub async fn list_genesis_digests(node: &NodeClient) -> Result<Vec<EntityRef>, GenesisFailure> {
    let mut failure = None;
    for one in std::iter::once(node.pinned()).chain(node.alternatives()) {
        match read_genesis(&one).await.and_then(|document| genesis_digests(&document)) {
            Ok(digests) => return Ok(digests),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Err(failure.unwrap_or_else(|| GenesisFailure::new("there is no node")))
}

/// Reads the bytes of the genesis document.
async fn read_genesis(node: &NodeClient) -> Result<Vec<u8>, GenesisFailure> {
    let (mut document, mut chunk) = (Vec::new(), 0);
    loop {
        let part = node.call_raw("genesis_chunked", json!({"chunk": chunk.to_string()})).await;
        let part = part.map_err(|error| GenesisFailure::new(IngestError::Node(error).public_message()))?;
        let total = part["total"].as_str().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        if !(1..=MAX_GENESIS_CHUNKS).contains(&total) {
            return Err(GenesisFailure::new(format!("it has {total} chunks, 1 to {MAX_GENESIS_CHUNKS} are read")));
        }
        let data = STANDARD.decode(part["data"].as_str().unwrap_or_default());
        document.extend(data.map_err(|error| GenesisFailure::new(error.to_string()))?);
        chunk += 1;
        if chunk >= total {
            return Ok(document);
        }
    }
}

/// The part of a genesis document that is read: the rest of the state is not kept in memory.
#[derive(Deserialize)]
struct Genesis {
    app_state: Option<GenesisState>,
}

/// The member of an empty module may be absent.
#[derive(Deserialize)]
struct GenesisState {
    di: Option<GenesisDigests>,
}

#[derive(Deserialize)]
struct GenesisDigests {
    #[serde(default)]
    digests: Value,
}

/// Returns the digests in a genesis document.
fn genesis_digests(document: &[u8]) -> Result<Vec<EntityRef>, GenesisFailure> {
    let genesis: Genesis = serde_json::from_slice(document).map_err(|error| GenesisFailure::new(error.to_string()))?;
    let state = genesis.app_state.ok_or_else(|| GenesisFailure::new("it has no app_state"))?;
    let digests = match state.di.map(|module| module.digests) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(digests)) => digests,
        Some(_) => return Err(GenesisFailure::new("its digests are not a list")),
    };
    let one = |digest: &Value| Some(EntityRef::Digest(digest["digest"].as_str()?.to_owned()));
    digests
        .iter()
        .map(|digest| one(digest).ok_or_else(|| GenesisFailure::new("one of its digests has no text")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_genesis_has_its_digests_or_cannot_be_read() {
        let digest = |text: &str| EntityRef::Digest(text.to_owned());
        for (document, expected) in [
            (
                r#"{"app_state": {"di": {"digests": [{"digest": "a"}, {"digest": "b"}]}}}"#,
                Ok(vec![digest("a"), digest("b")]),
            ),
            (r#"{"app_state": {"di": {"digests": []}}}"#, Ok(vec![])),
            (r#"{"app_state": {"di": {"digests": null}}}"#, Ok(vec![])),
            (r#"{"app_state": {"di": {}}}"#, Ok(vec![])),
            (r#"{"app_state": {}}"#, Ok(vec![])),
            (r#"{"app_state": {"di": {"digests": [{"digest": 7}]}}}"#, Err("one of its digests has no text")),
            (r#"{"app_state": {"di": {"digests": {}}}}"#, Err("its digests are not a list")),
            (r#"{"chain_id": "c"}"#, Err("it has no app_state")),
        ] {
            assert_eq!(genesis_digests(document.as_bytes()), expected.map_err(GenesisFailure::new), "{document}");
        }
        assert!(genesis_digests(b"<html>").is_err());
    }
}

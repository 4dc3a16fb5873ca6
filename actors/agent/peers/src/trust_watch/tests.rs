//! The messages of the trust stream.

use serde_json::json;
use svc_net::websocket::{Reading, StreamProtocol};
use svc_wire::trust_stream::TrustBlock;

use super::core::TrustStream;

#[test]
fn the_stream_is_subscribed_when_it_is_ready_and_its_blocks_are_read() {
    let block = json!({"type": "block", "block": 7, "blockTime": "t", "changes": [{"did": "did:web:a.example"}]});
    let request = r#"{"action":"subscribe","channels":{"trust":true}}"#.to_owned();
    for (text, expected) in [
        (
            json!({"type": "ready", "block": 7, "blockTime": "t", "blockIntervalMs": 1000}).to_string(),
            Ok(Reading { request: Some(request), ..Reading::default() }),
        ),
        (
            json!({"type": "subscribed", "block": 7, "blockTime": "t"}).to_string(),
            Ok(Reading { is_confirmed: true, ..Reading::default() }),
        ),
        (
            block.to_string(),
            serde_json::from_value::<TrustBlock>(block).map(Reading::from).map_err(|error| error.to_string()),
        ),
        (json!({"type": "weather"}).to_string(), Ok(Reading::default())),
        ("{}".to_owned(), Err("the indexer sent a message outside its contract".to_owned())),
        ("no JSON".to_owned(), Err("the indexer sent a message outside its contract".to_owned())),
    ] {
        assert_eq!(TrustStream.read(&text), expected, "{text}");
    }
    assert_eq!(TrustStream.requests(), Vec::<String>::new(), "the indexer speaks first");
}

//! The messages of the graph.

use std::time::Duration;

use svc_net::websocket::{Patience, Reading, StreamProtocol};

use super::core::{GraphStream, MIN_LIVENESS};

#[test]
fn progress_is_read_and_unknown_types_are_ignored() {
    let reached = |height: u64, liveness: Option<Duration>| {
        Ok(Reading { is_confirmed: true, patience: liveness.map(Patience::Socket), ..height.into() })
    };
    for (text, expected) in [
        (
            r#"{"type":"ready","block":-1,"blockTime":"1970-01-01T00:00:00Z","blockIntervalMs":5000}"#,
            reached(0, Some(MIN_LIVENESS)),
        ),
        (
            r#"{"type":"ready","block":9,"blockTime":"t","blockIntervalMs":60000}"#,
            reached(9, Some(Duration::from_secs(120))),
        ),
        (r#"{"type":"block","block":7,"blockTime":"t"}"#, reached(7, None)),
        (r#"{"type":"new","x":1}"#, Ok(Reading::default())),
        ("{}", Err("the graph sent a message outside its contract".to_owned())),
    ] {
        assert_eq!(GraphStream.read(text), expected, "{text}");
    }
}

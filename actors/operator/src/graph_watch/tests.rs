//! The messages of the graph.

use std::time::Duration;

use super::core::{GraphProgress, MIN_LIVENESS, read_message};

#[test]
fn progress_is_read_and_unknown_types_are_ignored() {
    let reached = |height, liveness| GraphProgress::Reached { height, liveness };
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
        (r#"{"type":"new","x":1}"#, GraphProgress::Ignored),
        ("{}", GraphProgress::Broken),
    ] {
        assert_eq!(read_message(text), expected, "{text}");
    }
}

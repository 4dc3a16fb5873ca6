//! The meaning of a tool server's answer to a step of `svc agent init`. Pure.

use serde_json::Value;

use super::init::text;

/// The chain's refusal of a participant whose beginning has passed.
const BEGINS_LATE: &str = "effective_from must be in the future";

/// The end of a sending that a later look at the steps may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendEnd {
    /// The server took it, or the chain has it.
    Taken,
    /// An earlier run has sent it with other times.
    SentEarlier,
    /// Its participant would have begun before the block that was to take it.
    Late,
}

/// The end of a sending with the line that reports it, or the words of a failure.
pub(super) fn judge_answer(is_error: bool, content: &Value) -> Result<(SendEnd, String), String> {
    let details = &content["details"];
    if !is_error {
        let words = format!("block {}, transaction {}", content["block_height"], text(&content["tx_hash"]));
        return Ok((SendEnd::Taken, words));
    }
    if details["idempotency_key"].is_string() {
        return Ok((SendEnd::SentEarlier, "an earlier run has sent it; its outcome is waited for".to_owned()));
    }
    if let Some(stored_at) = details["stored_at"].as_str() {
        return Ok((SendEnd::Taken, format!("it is stored already, since {stored_at}")));
    }
    if text(&content["message"]).contains(BEGINS_LATE) {
        return Ok((SendEnd::Late, "the block came too late for its beginning; another is sent".to_owned()));
    }
    Err(format!("{}: {}", text(&content["code"]), text(&content["message"])))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_ends_the_sending_or_says_what_a_later_look_follows() {
        let late = format!("failed to execute message: {BEGINS_LATE}: invalid request");
        for (is_error, content, expected) in [
            (false, json!({"block_height": 7, "tx_hash": "AB"}), Ok((SendEnd::Taken, "block 7, transaction AB"))),
            (
                true,
                json!({"code": "INPUT_INVALID", "message": "m", "details": {"idempotency_key": "k"}}),
                Ok((SendEnd::SentEarlier, "an earlier run has sent it; its outcome is waited for")),
            ),
            // Another process has stored the digest since the look.
            (
                true,
                json!({"code": "INPUT_INVALID", "message": "m", "details": {"stored_at": "2026-01-01T00:00:00Z"}}),
                Ok((SendEnd::Taken, "it is stored already, since 2026-01-01T00:00:00Z")),
            ),
            (
                true,
                json!({"code": "TX_FAILED", "message": late}),
                Ok((SendEnd::Late, "the block came too late for its beginning; another is sent")),
            ),
            (true, json!({"code": "NO_GRANT", "message": "not granted", "details": {}}), Err("NO_GRANT: not granted")),
        ] {
            let expected = expected.map(|(end, words)| (end, words.to_owned())).map_err(str::to_owned);
            assert_eq!(judge_answer(is_error, &content), expected, "{content}");
        }
    }
}

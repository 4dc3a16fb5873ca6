//! Projections of the groups of corporations, their proposals and votes.

use base64::{Engine, engine::general_purpose::STANDARD};
use prost_types::Any;
use serde_json::{Value, json};
use svc_wire::{
    proto::cosmos::group::v1::{GroupInfo, GroupMember, GroupPolicyInfo, MsgSubmitProposal, Proposal, TallyResult},
    proto_registry::ProtoRegistry,
    timestamp::{self, parse_instant},
};

use super::{enum_or_null, time_or_null};
use crate::block::PrunedProposal;

/// Returns a message as protobuf JSON; an unknown one as its bytes.
fn message_json(registry: &ProtoRegistry, message: &Any) -> Value {
    let decoded = registry.decode(message.type_url.trim_start_matches('/'), &message.value);
    let mut body =
        decoded.ok().filter(Value::is_object).unwrap_or_else(|| json!({"value": STANDARD.encode(&message.value)}));
    body["@type"] = message.type_url.as_str().into();
    body
}

fn tally_json(tally: Option<&TallyResult>) -> Value {
    let zero = TallyResult {
        yes_count: "0".into(),
        abstain_count: "0".into(),
        no_count: "0".into(),
        no_with_veto_count: "0".into(),
    };
    let tally = tally.unwrap_or(&zero);
    json!({
        "yes_count": tally.yes_count, "no_count": tally.no_count, "abstain_count": tally.abstain_count,
        "no_with_veto_count": tally.no_with_veto_count,
    })
}

pub fn group(
    registry: &ProtoRegistry,
    corporation_id: u64,
    group: &GroupInfo,
    policy: &GroupPolicyInfo,
    members: &[GroupMember],
) -> Value {
    let members: Vec<Value> = members
        .iter()
        .filter_map(|member| member.member.as_ref())
        .map(|member| {
            json!({
                "address": member.address, "weight": member.weight, "metadata": member.metadata,
                "added_at": time_or_null(member.added_at.as_ref()),
            })
        })
        .collect();
    json!({
        "corporation_id": corporation_id, "group_id": group.id, "version": group.version,
        "total_weight": group.total_weight, "created_at": time_or_null(group.created_at.as_ref()), "members": members,
        "policy": {
            "address": policy.address, "version": policy.version,
            "decision_policy": policy.decision_policy.as_ref().map(|policy| message_json(registry, policy)),
        },
    })
}

/// Returns the messages as JSON, and encoded as the chain executes them.
fn message_lists(registry: &ProtoRegistry, messages: &[Any]) -> (Value, Value) {
    let shown = messages.iter().map(|message| message_json(registry, message)).collect();
    let raw = messages.iter().map(|message| json!([message.type_url, STANDARD.encode(&message.value)])).collect();
    (shown, raw)
}

/// Returns the messages of a stored proposal.
pub fn stored_messages(body: &Value) -> Vec<Any> {
    let parse = |pair: &Value| {
        let (type_url, value) = (pair[0].as_str()?.to_owned(), STANDARD.decode(pair[1].as_str()?).ok()?);
        Some(Any { type_url, value })
    };
    body["_messages"].as_array().into_iter().flatten().filter_map(parse).collect()
}

/// Returns a proposal of the node, with its tally. Only the store knows its corporation.
pub fn proposal(registry: &ProtoRegistry, entity: &Proposal, votes: Option<&TallyResult>) -> Value {
    let (shown, raw) = message_lists(registry, &entity.messages);
    json!({
        "id": entity.id, "corporation_id": 0, "group_policy_address": entity.group_policy_address,
        "metadata": entity.metadata, "proposers": entity.proposers, "submit_time": time_or_null(entity.submit_time.as_ref()),
        "group_version": entity.group_version, "group_policy_version": entity.group_policy_version,
        "status": enum_or_null(entity.status().as_str_name(), "PROPOSAL_STATUS_"),
        "voting_period_end": time_or_null(entity.voting_period_end.as_ref()),
        "executor_result": enum_or_null(entity.executor_result().as_str_name(), "PROPOSAL_EXECUTOR_RESULT_"),
        "messages": shown, "_messages": raw,
        "final_tally_result": entity.final_tally_result.as_ref().map(|result| tally_json(Some(result))),
        "tally": tally_json(votes.or(entity.final_tally_result.as_ref())),
    })
}

/// Returns a proposal that was decided and executed in the block that submitted it: the node never returned it.
pub fn submitted_proposal(registry: &ProtoRegistry, id: u64, message: &MsgSubmitProposal, time: &str) -> Value {
    let (shown, raw) = message_lists(registry, &message.messages);
    json!({
        "id": id, "corporation_id": 0, "group_policy_address": message.group_policy_address,
        "metadata": message.metadata, "proposers": message.proposers, "submit_time": time, "group_version": null,
        "group_policy_version": null, "status": "SUBMITTED", "voting_period_end": null, "executor_result": "NOT_RUN",
        "messages": shown, "_messages": raw, "final_tally_result": null, "tally": tally_json(None),
    })
}

/// Adds the versions of the group and the end of the voting to a proposal that the node never returned.
pub fn complete_submission(body: &mut Value, group: &Value) {
    body["group_version"] = group["version"].clone();
    body["group_policy_version"] = group["policy"]["version"].clone();
    let period = group["policy"]["decision_policy"]["windows"]["voting_period"].as_str().and_then(parse_seconds);
    let submitted = parse_instant(body, "submit_time");
    if let (Some(period), Some(submitted)) = (period, submitted) {
        body["voting_period_end"] = timestamp::iso_millis(&timestamp::from_unix_nanos(submitted + period)).into();
    }
}

/// Nanoseconds of a duration in protobuf JSON, such as `3600s`.
fn parse_seconds(text: &str) -> Option<i128> {
    let text = text.strip_suffix('s')?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let nanos: i128 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    Some(whole.parse::<i128>().ok()? * 1_000_000_000 + nanos)
}

/// Completes a proposal that the node has deleted, from its last events.
pub fn finalize_proposal(body: &mut Value, pruned: Option<&PrunedProposal>, result: Option<&str>) {
    if let Some(pruned) = pruned {
        body["status"] = pruned.status.as_str().into();
        if let Ok(counts) = serde_json::from_str::<Value>(&pruned.tally) {
            let counts = json!({
                "yes_count": counts["yes_count"], "no_count": counts["no_count"],
                "abstain_count": counts["abstain_count"], "no_with_veto_count": counts["no_with_veto_count"],
            });
            body["final_tally_result"] = counts.clone();
            body["tally"] = counts;
        }
    }
    if let Some(result) = result {
        body["executor_result"] = result.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_submitted_proposal_has_the_versions_of_its_group_and_the_end_of_its_voting() {
        let mut body = json!({"submit_time": "2026-01-01T00:00:00.000Z"});
        let policy = json!({"version": 2, "decision_policy": {"windows": {"voting_period": "90.5s"}}});
        complete_submission(&mut body, &json!({"version": 3, "policy": policy}));
        let expected = json!({
            "submit_time": "2026-01-01T00:00:00.000Z", "group_version": 3, "group_policy_version": 2,
            "voting_period_end": "2026-01-01T00:01:30.500Z",
        });
        assert_eq!(body, expected);
        assert_eq!(["1s", "0.000000001s", "s", "1"].map(parse_seconds), [Some(1_000_000_000), Some(1), None, None]);
    }
}

//! The part of `svc agent check` about trust: the indexer's verdict on the DID, and the ends of everything that it stands on.

use prost_types::Timestamp;
use serde_json::{Value, json};
use svc_agent::{AgentAccount, RegistryEnd, read_ends};
use svc_kit::wall_clock;
use svc_net::upstream::{NodeClient, UpstreamEndpoints, UpstreamError, UpstreamKind, UpstreamOrigins};
use svc_pipeline::RegistryChain;
use svc_trust::RejectionCode;
use svc_wire::timestamp;

use crate::cli::findings::CheckFinding;
use svc_peer::AgentApi;

/// Seconds before an end from which on it is a warning.
const WARNED_SECONDS: i64 = 30 * 86_400;
/// Reasons of a verdict that are shown.
const MAX_REASONS: usize = 4;

/// The verdict of the indexer on the DID, and the ends of the credentials that it presents.
pub(super) async fn check_trust(api: &AgentApi, origins: &UpstreamOrigins, did: &str) -> Vec<CheckFinding> {
    let held = match api.all("/v2/vt/linked-credentials").await {
        Ok(held) => held,
        Err(error) => return vec![CheckFinding::bad("credentials", format!("{error:#}"))],
    };
    let mut findings = vec![check_verdict(api, origins, did, !held.is_empty()).await];
    findings.extend(check_credential_ends(&held));
    findings
}

async fn check_verdict(api: &AgentApi, origins: &UpstreamOrigins, did: &str, has_credentials: bool) -> CheckFinding {
    let subject = "trust";
    let verdict = async {
        let indexer = UpstreamEndpoints::new(UpstreamKind::Indexer, origins).map_err(|error| error.to_string())?;
        match indexer.current().post("resolve", "/v4/verifiable-trust/resolve", &json!({"did": did})).await {
            Ok(answer) => indexer.current().parse_json::<Value>(&answer).map_err(|error| error.to_string()),
            // The indexer evaluates a DID once the registry names it.
            Err(UpstreamError::Http { status: 404, .. }) => Ok(json!({"reasons": [{"code": "not_evaluated"}]})),
            Err(error) => Err(error.to_string()),
        }
    };
    match verdict.await {
        Err(error) => CheckFinding::bad(subject, format!("the indexer gives no verdict: {error}")),
        Ok(verdict) => {
            let is_trusted = verdict["trusted"] == true;
            // An agent that does not answer has no steps done.
            let is_set_up =
                !is_trusted && api.get("/v2/agent/setup").await.is_ok_and(|setup| setup["complete"] == true);
            judge_verdict(subject, &verdict, has_credentials, is_set_up)
        }
    }
}

/// The remedy for a DID that is not trusted.
fn remedy(reasons: &[&Value], is_set_up: bool) -> &'static str {
    let is_about_ecosystem = |reason: &&Value| reason["code"] == RejectionCode::EcosystemNotAllowed.as_str();
    match (is_set_up, reasons.iter().any(is_about_ecosystem)) {
        (false, _) => "`svc agent init` shows the steps",
        (true, true) => {
            "every step of `svc agent init` is done: the operator of the indexer decides which ecosystems count, \
             by its SVC_ESSENTIAL_ECOSYSTEMS"
        }
        (true, false) => "every step of `svc agent init` is done: a verdict follows the registry within seconds",
    }
}

/// A DID that was never set up is no failure of the running agent.
fn judge_verdict(subject: &'static str, verdict: &Value, has_credentials: bool, is_set_up: bool) -> CheckFinding {
    if verdict["trusted"] == true {
        let pattern = verdict["pattern"].as_str().unwrap_or("unknown");
        return CheckFinding::good(subject, format!("the indexer trusts the DID, pattern {pattern}"));
    }
    let all: Vec<&Value> = verdict["reasons"].as_array().into_iter().flatten().collect();
    let reasons: Vec<String> = all.iter().take(MAX_REASONS).map(|reason| describe_reason(reason)).collect();
    let reasons = if reasons.is_empty() { "it states no reason".to_owned() } else { reasons.join("; ") };
    let detail = format!("the indexer does not trust the DID: {reasons}; {}", remedy(&all, is_set_up));
    if has_credentials { CheckFinding::bad(subject, detail) } else { CheckFinding::warning(subject, detail) }
}

fn describe_reason(reason: &Value) -> String {
    let text = |name: &str| reason[name].as_str().unwrap_or_default();
    match text("message") {
        "" => text("code").to_owned(),
        message => format!("{}: {message}", text("code")),
    }
}

/// The ends of participants, records and the allowance, as the node states them.
pub(super) async fn check_registry_ends(
    node: &NodeClient,
    chain: &RegistryChain,
    agent: &AgentAccount,
) -> Vec<CheckFinding> {
    let now = wall_clock::now();
    match read_ends(node, chain, agent, &now).await {
        Err(error) => vec![CheckFinding::bad("ends", error.to_string())],
        Ok(ends) => ends.iter().filter_map(|end| judge_end("ends", end, now.seconds)).collect(),
    }
}

fn check_credential_ends(held: &[Value]) -> Vec<CheckFinding> {
    let now = wall_clock::now().seconds;
    let judge = |one: &Value| {
        let name = one["name"].as_str().unwrap_or_default();
        if one["presented"] != true {
            let reason = one["reason"].as_str().unwrap_or("its digest is not at the node yet");
            return Some(CheckFinding::warning("credentials", format!("{name} waits: {reason}")));
        }
        let until = one["validUntil"].as_str().and_then(timestamp::parse_rfc3339);
        judge_end("credentials", &RegistryEnd { name: name.to_owned(), until }, now)
    };
    held.iter().filter_map(judge).collect()
}

/// An end that is over fails, and a near one is a warning. Without an end there is nothing to say.
fn judge_end(subject: &'static str, end: &RegistryEnd, now: i64) -> Option<CheckFinding> {
    let until = end.until.as_ref()?.seconds;
    let shown = timestamp::iso_seconds(&Timestamp { seconds: until, nanos: 0 });
    let name = &end.name;
    Some(match until - now {
        left if left <= 0 => CheckFinding::bad(subject, format!("{name}: over since {shown}")),
        left if left < WARNED_SECONDS => {
            CheckFinding::warning(subject, format!("{name}: until {shown}, in {} days", left / 86_400))
        }
        _ => CheckFinding::good(subject, format!("{name}: until {shown}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::findings::Grade;

    #[test]
    fn an_end_fails_when_it_is_over_and_warns_within_a_month() {
        const NOW: i64 = 1_800_000_000;
        for (left, expected) in [
            (-1, Some(Grade::Bad)),
            (0, Some(Grade::Bad)),
            (1, Some(Grade::Warning)),
            (30 * 86_400 - 1, Some(Grade::Warning)),
            (30 * 86_400, Some(Grade::Good)),
        ] {
            let until = Some(Timestamp { seconds: NOW + left, nanos: 0 });
            let end = RegistryEnd { name: "service".to_owned(), until };
            assert_eq!(judge_end("ends", &end, NOW).map(|finding| finding.grade), expected, "{left}");
        }
        let endless = RegistryEnd { name: "service".to_owned(), until: None };
        assert!(judge_end("ends", &endless, NOW).is_none());
    }

    #[test]
    fn a_verdict_names_its_reasons() {
        let trusted = judge_verdict("trust", &json!({"trusted": true, "pattern": "self", "reasons": []}), true, true);
        assert!(trusted.grade == Grade::Good && trusted.detail.ends_with("pattern self"));
        let reasons =
            json!([{"code": "holder_revoked", "message": "participant 9"}, {"code": "no_service_credential"}]);
        let refused = judge_verdict("trust", &json!({"trusted": false, "reasons": reasons}), true, false);
        let never_set_up = judge_verdict("trust", &json!({"trusted": false, "reasons": []}), false, false);
        assert_eq!((refused.grade, never_set_up.grade), (Grade::Bad, Grade::Warning));
        assert!(refused.detail.contains("holder_revoked: participant 9; no_service_credential"), "{}", refused.detail);
    }

    #[test]
    fn the_steps_of_init_are_the_remedy_only_while_one_is_left() {
        const OF_INIT: &str = "`svc agent init` shows the steps";
        const OF_INDEXER: &str = "every step of `svc agent init` is done: the operator of the indexer decides";
        for (code, is_set_up, expected) in [
            ("ecosystem_not_allowed", false, OF_INIT),
            ("ecosystem_not_allowed", true, OF_INDEXER),
            ("holder_revoked", false, OF_INIT),
            ("holder_revoked", true, "every step of `svc agent init` is done: a verdict follows"),
        ] {
            let verdict = json!({"trusted": false, "reasons": [{"code": "other"}, {"code": code}]});
            let detail = judge_verdict("trust", &verdict, true, is_set_up).detail;
            assert!(detail.contains(expected), "{detail}");
            assert_eq!(detail.contains(OF_INIT), !is_set_up, "{detail}");
        }
    }
}

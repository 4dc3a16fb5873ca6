//! The findings about the operator's account: the messages that it may send, and the coins that pay for them. Pure.

use std::collections::BTreeSet;

use prost_types::Timestamp;
use serde_json::Value;
use svc_pipeline::{FeeAllowance, FeeBudget, NodeRelease};
use svc_wire::timestamp;

use super::PreflightFinding;
use crate::{
    boot::error::BootSubject,
    snapshot::{CorporationSnapshot, GrantStatus, KnownAllowance},
};

/// Seconds before an end from which on it is a warning.
const WARNED_SECONDS: i64 = 30 * 86_400;
/// Writes that the coins should still pay for.
const WARNED_WRITES: u128 = 10;
/// Gas of a usual write, rounded up.
pub(super) const USUAL_GAS: u64 = 300_000;

/// The coins that are there, or the reason for which they are not known.
pub(super) type KnownCoins = Result<u128, String>;

/// The prices of the chain, and the coins of the account that pays.
pub(super) struct Payment<'a> {
    /// Denom of fees.
    pub denom: &'a str,
    /// Fee of a usual write.
    pub usual_fee: u128,
    /// Coins of the corporation where it has given an allowance, of the operator where it has not.
    pub coins: KnownCoins,
}

/// The message types that the operator may send now, by authorizations of its own and as the VS operator of participants, without those
/// that the node does not have.
pub(super) fn judge_authorizations(
    snapshot: &CorporationSnapshot,
    release: &NodeRelease,
    now: &Timestamp,
) -> PreflightFinding {
    let subject = BootSubject::Authorizations;
    let own =
        snapshot.authorizations.iter().flat_map(|authorization| authorization.msg_types.iter().map(String::as_str));
    // A record of a VS operator is a grant for one participant.
    let of_records =
        snapshot.own_vs_records().flat_map(|(_, record)| record["msg_types"].as_array().into_iter().flatten());
    let types: BTreeSet<&str> = own.chain(of_records.filter_map(Value::as_str)).collect();
    let is_granted = |msg_type: &&str| snapshot.grant_status(msg_type, now) == GrantStatus::Granted;
    let (lacked, granted): (Vec<&str>, Vec<&str>) =
        types.into_iter().filter(is_granted).partition(|msg_type| release.lacks(msg_type));
    let lacked = match lacked.len() {
        0 => String::new(),
        count => format!("; the node does not have {count} more"),
    };
    let soon = in_a_month(now);
    let ends = granted.iter().filter_map(|msg_type| match snapshot.grant_status(msg_type, &soon) {
        GrantStatus::Expired(until) => Some(until),
        GrantStatus::Granted | GrantStatus::NotGranted => None,
    });
    let ends: Vec<String> = ends.collect();
    let count = match granted.len() {
        // A server without grants serves reads.
        0 => {
            let detail = format!("none is valid: reads will work, writes will not{lacked}");
            return PreflightFinding::warning(subject, detail);
        }
        1 => "1 message type is".to_owned(),
        count => format!("{count} message types are"),
    };
    let detail = format!("{count} granted to this operator{lacked}");
    match ends.iter().min() {
        Some(first) => {
            let detail = format!("{detail}; {} end within 30 days, the first at {first}", ends.len());
            PreflightFinding::warning(subject, detail)
        }
        None => PreflightFinding::passed(subject, detail),
    }
}

fn in_a_month(now: &Timestamp) -> Timestamp {
    Timestamp { seconds: now.seconds.saturating_add(WARNED_SECONDS), ..*now }
}

/// The allowance that pays now, with the largest fee that it pays.
pub(super) fn paying_allowance<'a>(
    snapshot: &'a CorporationSnapshot,
    now: &Timestamp,
) -> Option<(&'a FeeAllowance, FeeBudget)> {
    let allowance = snapshot.allowance.given()?;
    let listed = allowance.msg_types.iter().flatten().next().map_or("", String::as_str);
    allowance.budget_for(listed, now).map(|budget| (allowance, budget))
}

/// Whether the payer of fees can pay for writes, and for how long.
pub(super) fn judge_fees(snapshot: &CorporationSnapshot, payment: &Payment<'_>, now: &Timestamp) -> PreflightFinding {
    let subject = BootSubject::Fees;
    if let KnownAllowance::Unknown(unknown) = &snapshot.allowance {
        return PreflightFinding::failed(subject, format!("{unknown}; nothing is signed until the node says it"));
    }
    if snapshot.account_number.is_none() {
        let detail = "the operator's account does not exist yet: it must be sent coins before it writes";
        return PreflightFinding::warning(subject, detail);
    }
    let allowance = paying_allowance(snapshot, now);
    let has_ended = allowance.is_none() && snapshot.allowance.given().is_some();
    let (payer, owner) = match (allowance, has_ended) {
        (Some(_), _) => ("the corporation has given a fee allowance", "the corporation"),
        (None, false) => ("no fee allowance: the operator's own balance pays", "the operator"),
        (None, true) => ("the corporation's fee allowance has ended: the operator's own balance pays", "the operator"),
    };
    let Payment { denom, usual_fee, coins } = payment;
    let few = usual_fee.saturating_mul(WARNED_WRITES);
    let cost = format!("and a write costs about {usual_fee}{denom}");
    let soon = in_a_month(now);
    let end = allowance.and_then(|(allowance, _)| allowance.expiration.as_ref());
    let problems = [
        match coins {
            Err(reason) => Some(format!("the balance of {owner} could not be read: {reason}")),
            Ok(coins) if *coins < few => Some(format!("{owner} has {coins}{denom}, {cost}")),
            Ok(_) => None,
        },
        match allowance {
            Some((_, FeeBudget::UpTo(most))) if most < few => Some(format!("it pays {most}{denom} now, {cost}")),
            _ => None,
        },
        end.filter(|end| timestamp::is_at_or_before(end, &soon))
            .map(|end| format!("it ends at {}", timestamp::iso_seconds(end))),
    ];
    let problems: Vec<String> = problems.into_iter().flatten().collect();
    if problems.is_empty() && !has_ended {
        return PreflightFinding::passed(subject, payer);
    }
    PreflightFinding::warning(subject, [vec![payer.to_owned()], problems].concat().join("; "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::snapshot::{OperatorAuthorization, UnknownPayer};

    const NOW: Timestamp = Timestamp { seconds: 1_000, nanos: 0 };

    fn at(seconds: i64) -> Timestamp {
        Timestamp { seconds, nanos: 0 }
    }

    fn authorization(expiration: Option<i64>, msg_type: &str) -> OperatorAuthorization {
        OperatorAuthorization {
            id: 1,
            msg_types: vec![msg_type.to_owned()],
            expiration: expiration.map(at),
            renews: false,
            body: Value::Null,
        }
    }

    #[test]
    fn each_message_type_counts_once_whether_an_authorization_or_a_record_grants_it() {
        const NONE: &str = "none is valid: reads will work, writes will not";
        const ONE: &str = "1 message type is granted to this operator";
        const TWO: &str = "2 message types are granted to this operator";
        let record = |operator: &str, msg_types: Value, expiration: Value| json!({"id": 1, "vs_operator": operator, "records": [{"msg_types": msg_types, "expiration": expiration}]});
        let (past, future) = (json!("1970-01-01T00:16:40Z"), json!("1970-03-01T00:00:00Z"));
        let (valid, over) = (|msg_type| authorization(None, msg_type), |msg_type| authorization(Some(1_000), msg_type));
        for (authorizations, records, expected) in [
            (vec![], vec![], NONE),
            (vec![valid("/a")], vec![], ONE),
            (vec![over("/a")], vec![], NONE),
            (vec![], vec![record("own", json!(["/a"]), future.clone())], ONE),
            (vec![], vec![record("own", json!(["/a"]), Value::Null)], ONE),
            (vec![], vec![record("own", json!(["/a"]), past.clone())], NONE),
            (vec![], vec![record("other", json!(["/a"]), future.clone())], NONE),
            (vec![valid("/a")], vec![record("own", json!(["/a"]), future.clone())], ONE),
            (vec![valid("/a")], vec![record("own", json!(["/b"]), future.clone())], TWO),
            // One that is over does not hide the other.
            (vec![over("/a")], vec![record("own", json!(["/a", "/b"]), future)], TWO),
            (vec![valid("/a")], vec![record("own", json!(["/b"]), past)], ONE),
        ] {
            let case = format!("{authorizations:?} {records:?}");
            let snapshot = CorporationSnapshot {
                operator: "own".into(),
                authorizations,
                vs_authorizations: records,
                ..CorporationSnapshot::default()
            };
            let finding = judge_authorizations(&snapshot, &NodeRelease::default(), &NOW);
            assert_eq!((finding.detail.as_str(), finding.is_warning), (expected, expected == NONE), "{case}");
            assert!(finding.has_passed, "{case}");
        }
    }

    #[test]
    fn a_grant_that_ends_within_a_month_is_a_warning_unless_another_goes_on() {
        const MONTH: i64 = 30 * 86_400;
        for (authorizations, expected) in [
            (
                vec![authorization(Some(1_001), "/a")],
                Some("; 1 end within 30 days, the first at 1970-01-01T00:16:41.000Z"),
            ),
            (
                vec![authorization(Some(1_000 + MONTH), "/a")],
                Some("; 1 end within 30 days, the first at 1970-01-31T00:16:40.000Z"),
            ),
            (vec![authorization(Some(1_001 + MONTH), "/a")], None),
            (vec![authorization(Some(1_001), "/a"), authorization(None, "/a")], None),
            (vec![OperatorAuthorization { renews: true, ..authorization(Some(1_001), "/a") }], None),
        ] {
            let case = format!("{authorizations:?}");
            let snapshot = CorporationSnapshot { authorizations, ..CorporationSnapshot::default() };
            let finding = judge_authorizations(&snapshot, &NodeRelease::default(), &NOW);
            let expected_detail = format!("1 message type is granted to this operator{}", expected.unwrap_or_default());
            assert_eq!((finding.detail, finding.is_warning), (expected_detail, expected.is_some()), "{case}");
        }
    }

    #[test]
    fn the_payer_of_fees_must_exist_have_coins_and_an_allowance_that_lasts() {
        let given = |budget: FeeBudget, expiration: Option<i64>| {
            KnownAllowance::Given(FeeAllowance {
                msg_types: None,
                expiration: expiration.map(at),
                budget,
                refills_at: None,
                refill: budget,
                encoded: Default::default(),
            })
        };
        let unlimited = |expiration| given(FeeBudget::Unlimited, expiration);
        let absent = || KnownAllowance::Absent;
        let unknown = || KnownAllowance::Unknown(UnknownPayer("no answer".into()));
        let plenty = || Ok(80_u128);
        // (account, allowance, coins) -> (grade, part of the detail)
        for (account, allowance, coins, grade, part) in [
            (Some(1), absent(), plenty(), "OK", "no fee allowance: the operator's own balance pays"),
            (None, absent(), plenty(), "WARN", "does not exist yet"),
            (None, unlimited(None), plenty(), "WARN", "does not exist yet"),
            (Some(1), absent(), Ok(79), "WARN", "the operator has 79u, and a write costs about 8u"),
            (Some(1), absent(), Ok(0), "WARN", "the operator has 0u"),
            (Some(1), absent(), Err("no answer".to_owned()), "WARN", "the operator could not be read: no answer"),
            (Some(1), unlimited(None), plenty(), "OK", "the corporation has given a fee allowance"),
            (Some(1), unlimited(None), Ok(0), "WARN", "the corporation has 0u"),
            (Some(1), unlimited(Some(1_001)), plenty(), "WARN", "it ends at 1970-01-01T00:16:41Z"),
            (Some(1), unlimited(Some(1_000)), plenty(), "WARN", "has ended: the operator's own balance pays"),
            (Some(1), given(FeeBudget::UpTo(79), None), plenty(), "WARN", "it pays 79u now"),
            (Some(1), given(FeeBudget::UpTo(80), None), plenty(), "OK", "the corporation has given a fee allowance"),
            (Some(1), unknown(), plenty(), "FAIL", "nothing is signed until the node says it"),
        ] {
            let case = format!("{account:?} {allowance:?} {coins:?}");
            let snapshot = CorporationSnapshot { account_number: account, allowance, ..CorporationSnapshot::default() };
            let finding = judge_fees(&snapshot, &Payment { denom: "u", usual_fee: 8, coins }, &NOW);
            let found = match (finding.has_passed, finding.is_warning) {
                (false, _) => "FAIL",
                (true, true) => "WARN",
                (true, false) => "OK",
            };
            assert_eq!(found, grade, "{case}: {}", finding.detail);
            assert!(finding.detail.contains(part), "{case}: {}", finding.detail);
        }
    }
}

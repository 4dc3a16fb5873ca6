//! A fee allowance (x/feegrant) from another account to the signing account.

use prost::Message;
use prost_types::{Any, Timestamp};
use svc_net::upstream::{NodeClient, NodeClientError};
use svc_wire::{
    proto::cosmos::{
        base::v1beta1::Coin,
        feegrant::v1beta1::{
            AllowedMsgAllowance, BasicAllowance, PeriodicAllowance, QueryAllowanceRequest, QueryAllowanceResponse,
        },
    },
    timestamp,
};

use crate::write::fee::FeeBudget;

/// A fee allowance.
#[derive(Debug, Clone, PartialEq)]
pub struct FeeAllowance {
    /// Message types it pays for; `None`: any.
    pub msg_types: Option<Vec<String>>,
    /// End of validity; `None` without an end.
    pub expiration: Option<Timestamp>,
    /// Largest fee that it pays now.
    pub budget: FeeBudget,
    /// Time at which a periodic allowance refills its budget.
    pub refills_at: Option<Timestamp>,
    /// Largest fee that it pays from that time on.
    pub refill: FeeBudget,
    /// As the chain encodes it.
    pub encoded: Any,
}

impl FeeAllowance {
    /// Budget for a message type now; `None` when the allowance does not pay for it.
    pub fn budget_for(&self, msg_type: &str, now: &Timestamp) -> Option<FeeBudget> {
        let is_listed = self.msg_types.as_ref().is_none_or(|listed| listed.iter().any(|one| one == msg_type));
        let is_valid = self.expiration.as_ref().is_none_or(|until| !timestamp::is_at_or_before(until, now));
        let is_refilled = self.refills_at.as_ref().is_some_and(|at| timestamp::is_at_or_before(at, now));
        // The chain refills it with the next use: until then the node states the rest of the period before.
        let budget = if is_refilled { self.refill } else { self.budget };
        (is_listed && is_valid).then_some(budget)
    }

    /// Time at which it pays more for a message type than its present period does; `None` where no time brings that.
    pub fn refill_for(&self, msg_type: &str) -> Option<Timestamp> {
        let at = self.refills_at?;
        let pays_more = self.budget != self.refill && self.budget.min(self.refill) == self.budget;
        self.budget_for(msg_type, &at).filter(|_| pays_more).map(|_| at)
    }

    /// An allowance as the chain encodes it; `None` for one that cannot be read. A node may know types that we do not.
    fn parse(encoded: &Any, denom: &str) -> Option<Self> {
        let (msg_types, inner) = match encoded.type_url.as_str() {
            "/cosmos.feegrant.v1beta1.AllowedMsgAllowance" => {
                let filter = AllowedMsgAllowance::decode(encoded.value.as_slice()).ok()?;
                (Some(filter.allowed_messages), filter.allowance?)
            }
            _ => (None, encoded.clone()),
        };
        let amount = |coins: &[Coin]| {
            let own = coins.iter().find(|coin| coin.denom == denom);
            own.and_then(|coin| coin.amount.parse().ok()).unwrap_or(0)
        };
        // A limit in other denoms alone allows no fee.
        let limit =
            |coins: &[Coin]| if coins.is_empty() { FeeBudget::Unlimited } else { FeeBudget::UpTo(amount(coins)) };
        let encoded = encoded.clone();
        match inner.type_url.as_str() {
            "/cosmos.feegrant.v1beta1.BasicAllowance" => {
                let basic = BasicAllowance::decode(inner.value.as_slice()).ok()?;
                let budget = limit(&basic.spend_limit);
                Some(Self {
                    msg_types,
                    expiration: basic.expiration,
                    budget,
                    refills_at: None,
                    refill: budget,
                    encoded,
                })
            }
            "/cosmos.feegrant.v1beta1.PeriodicAllowance" => {
                let periodic = PeriodicAllowance::decode(inner.value.as_slice()).ok()?;
                let basic = periodic.basic.unwrap_or_default();
                // The limit of all periods together bounds each of them.
                let in_all = limit(&basic.spend_limit);
                let bounded = |coins: &[Coin]| FeeBudget::UpTo(amount(coins)).min(in_all);
                let (budget, refill) = (bounded(&periodic.period_can_spend), bounded(&periodic.period_spend_limit));
                let (expiration, refills_at) = (basic.expiration, periodic.period_reset);
                Some(Self { msg_types, expiration, budget, refills_at, refill, encoded })
            }
            _ => None,
        }
    }
}

/// The allowance from `granter` to `grantee` in the newest block; `None` where the node states that there is none.
///
/// # Errors
/// When the node does not answer, or answers with anything else. Whether there is an allowance is not known then.
pub async fn query_fee_allowance(
    node: &NodeClient,
    granter: &str,
    grantee: &str,
    denom: &str,
) -> Result<Option<FeeAllowance>, NodeClientError> {
    let request = QueryAllowanceRequest { granter: granter.to_owned(), grantee: grantee.to_owned() };
    let path = "/cosmos.feegrant.v1beta1.Query/Allowance";
    match node.query::<_, QueryAllowanceResponse>(path, &request, 0).await {
        Ok(reply) => {
            let encoded = reply.allowance.and_then(|grant| grant.allowance).unwrap_or_default();
            FeeAllowance::parse(&encoded, denom).map(Some).ok_or_else(|| unreadable(&encoded.type_url))
        }
        Err(error) if error.is_absence() => Ok(None),
        Err(error) => Err(error),
    }
}

fn unreadable(type_url: &str) -> NodeClientError {
    NodeClientError::unreadable(format!("a fee allowance of the type {type_url:?}, which cannot be read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp { seconds, nanos: 0 }
    }

    #[test]
    fn an_allowance_pays_for_the_types_that_it_lists_while_it_is_valid() {
        let allowance = FeeAllowance {
            msg_types: Some(vec!["/a".into()]),
            expiration: Some(at(100)),
            budget: FeeBudget::UpTo(5),
            refills_at: Some(at(50)),
            refill: FeeBudget::UpTo(8),
            encoded: Any::default(),
        };
        assert_eq!(allowance.budget_for("/a", &at(10)), Some(FeeBudget::UpTo(5)));
        assert_eq!(allowance.budget_for("/a", &at(50)), Some(FeeBudget::UpTo(8)));
        assert_eq!(allowance.budget_for("/b", &at(10)), None);
        assert_eq!(allowance.budget_for("/a", &at(100)), None);
    }

    #[test]
    fn a_refill_is_known_where_it_pays_more_for_the_type() {
        use FeeBudget::{Unlimited, UpTo};
        for (msg_type, expiration, budget, refills_at, refill, expected) in [
            ("/a", None, UpTo(0), Some(at(50)), UpTo(8), Some(at(50))),
            ("/a", Some(at(51)), UpTo(7), Some(at(50)), UpTo(8), Some(at(50))),
            ("/b", None, UpTo(0), Some(at(50)), UpTo(8), None),
            // It ends before its refill.
            ("/a", Some(at(50)), UpTo(0), Some(at(50)), UpTo(8), None),
            // Nothing was spent, or the limit of all periods is used up.
            ("/a", None, UpTo(8), Some(at(50)), UpTo(8), None),
            ("/a", None, UpTo(0), None, UpTo(0), None),
            ("/a", None, Unlimited, None, Unlimited, None),
        ] {
            let msg_types = Some(vec!["/a".to_owned()]);
            let allowance = FeeAllowance { msg_types, expiration, budget, refills_at, refill, encoded: Any::default() };
            assert_eq!(allowance.refill_for(msg_type), expected, "{allowance:?}");
        }
    }

    fn coins(amounts: &[u128]) -> Vec<Coin> {
        amounts.iter().map(|amount| Coin { denom: "usvc".to_owned(), amount: amount.to_string() }).collect()
    }

    #[test]
    fn a_periodic_allowance_pays_the_rest_of_its_period_and_its_limit_from_the_reset_on() {
        use FeeBudget::{Unlimited, UpTo};
        for (in_all, limit, left, before, after) in [
            // As the fees of VS operators have it from the third generation on.
            (&[][..], &[10][..], &[4][..], UpTo(4), UpTo(10)),
            (&[], &[10], &[], UpTo(0), UpTo(10)),
            (&[3], &[10], &[4], UpTo(3), UpTo(3)),
            (&[7], &[10], &[4], UpTo(4), UpTo(7)),
            // Without a limit of its own it pays nothing.
            (&[], &[], &[], UpTo(0), UpTo(0)),
        ] {
            let basic = BasicAllowance { spend_limit: coins(in_all), expiration: None };
            let periodic = PeriodicAllowance {
                basic: Some(basic),
                period: Some(prost_types::Duration { seconds: 60, nanos: 0 }),
                period_spend_limit: coins(limit),
                period_can_spend: coins(left),
                period_reset: Some(at(100)),
            };
            let type_url = "/cosmos.feegrant.v1beta1.PeriodicAllowance".to_owned();
            let parsed = FeeAllowance::parse(&Any { type_url, value: periodic.encode_to_vec() }, "usvc");
            let parsed = parsed.expect("an allowance");
            assert_eq!(parsed.refills_at, Some(at(100)));
            for (time, expected) in [(99, before), (100, after), (1_000, after)] {
                assert_eq!(parsed.budget_for("/a", &at(time)), Some(expected), "{in_all:?} {limit:?} {left:?} {time}");
            }
        }
        for type_url in ["", "/cosmos.feegrant.v2.ScheduledAllowance"] {
            let unknown = Any { type_url: type_url.to_owned(), value: Vec::new() };
            assert_eq!(FeeAllowance::parse(&unknown, "usvc"), None);
            assert!(unreadable(type_url).to_string().contains(type_url));
        }
        let unlimited = BasicAllowance::default();
        let type_url = "/cosmos.feegrant.v1beta1.BasicAllowance".to_owned();
        let parsed = FeeAllowance::parse(&Any { type_url, value: unlimited.encode_to_vec() }, "usvc");
        assert_eq!(parsed.expect("an allowance").budget_for("/a", &at(1)), Some(Unlimited));
    }
}

//! Decision policies: the share or weight of votes that accepts a proposal.

use prost::Message;
use prost_types::Any;
use rust_decimal::Decimal;
use svc_wire::{
    proto::cosmos::group::v1::{PercentageDecisionPolicy, ThresholdDecisionPolicy},
    timestamp,
};

use super::error::invalid;
use crate::error::LedgerError;

const THRESHOLD: &str = "/cosmos.group.v1.ThresholdDecisionPolicy";
/// Type URL of the policy that a share of the weight decides.
pub const PERCENTAGE: &str = "/cosmos.group.v1.PercentageDecisionPolicy";
const MAX_EXECUTION_PERIOD_SECONDS: i128 = 1_209_600;

/// The rule of a decision policy.
enum DecisionRule {
    Threshold(Decimal),
    Percentage(Decimal),
}

/// A decoded decision policy; periods are in nanoseconds.
pub struct DecisionPolicy {
    rule: DecisionRule,
    pub voting_nanos: i128,
    pub min_execution_nanos: i128,
}

impl DecisionPolicy {
    /// Decodes and checks a packed policy; `None` for another type.
    pub fn decode(packed: &Any) -> Result<Option<Self>, LedgerError> {
        let bad = |error: prost::DecodeError| LedgerError::sdk(2, error);
        let (rule, windows) = match packed.type_url.as_str() {
            THRESHOLD => {
                let policy = ThresholdDecisionPolicy::decode(packed.value.as_slice()).map_err(bad)?;
                (DecisionRule::Threshold(parse_positive("threshold", &policy.threshold)?), policy.windows)
            }
            PERCENTAGE => {
                let policy = PercentageDecisionPolicy::decode(packed.value.as_slice()).map_err(bad)?;
                let percentage = parse_positive("percentage", &policy.percentage)?;
                if percentage > Decimal::ONE {
                    return Err(invalid("percentage must be > 0 and <= 1"));
                }
                (DecisionRule::Percentage(percentage), policy.windows)
            }
            _ => return Ok(None),
        };
        let windows = windows.ok_or_else(|| invalid("voting period cannot be zero"))?;
        let nanos = |span: Option<prost_types::Duration>| span.as_ref().map_or(0, timestamp::duration_nanos);
        let (voting_nanos, min_execution_nanos) = (nanos(windows.voting_period), nanos(windows.min_execution_period));
        if voting_nanos <= 0 {
            return Err(invalid("voting period cannot be zero"));
        }
        if min_execution_nanos > voting_nanos + MAX_EXECUTION_PERIOD_SECONDS * 1_000_000_000 {
            return Err(invalid("min_execution_period should be smaller than voting_period + max_execution_period"));
        }
        Ok(Some(Self { rule, voting_nanos, min_execution_nanos }))
    }

    /// Decides whether the proposal passes; `None` while the missing votes can change the result.
    pub fn decide(&self, yes: Decimal, others: Decimal, total: Decimal) -> Option<bool> {
        let undecided = total - yes - others;
        let (needed, share) = match self.rule {
            // A threshold above the total weight requires the total weight.
            DecisionRule::Threshold(threshold) => (threshold.min(total), Decimal::ONE),
            DecisionRule::Percentage(percentage) => (percentage, total),
        };
        if share.is_zero() {
            return Some(false);
        }
        if yes / share >= needed {
            Some(true)
        } else if (yes + undecided) / share < needed {
            Some(false)
        } else {
            None
        }
    }
}

pub fn parse_positive(field: &str, text: &str) -> Result<Decimal, LedgerError> {
    text.parse::<Decimal>()
        .ok()
        .filter(|value| *value > Decimal::ZERO)
        .ok_or_else(|| invalid(format!("{field}: expected a positive decimal, got {text:?}")))
}

pub fn parse_weight(text: &str) -> Decimal {
    text.parse().unwrap_or_default()
}

/// Tells whether a packed message is one of the two decision policies that a corporation can have.
pub fn is_decision_policy(packed: &Any) -> bool {
    matches!(packed.type_url.as_str(), THRESHOLD | PERCENTAGE)
}

//! Decision policies: when the votes of a group suffice.

use prost::Message;
use prost_types::Any;
use rust_decimal::Decimal;
use svc_wire::{
    instant,
    proto::cosmos::group::v1::{PercentageDecisionPolicy, ThresholdDecisionPolicy},
};

use super::{PERCENTAGE, THRESHOLD, invalid};
use crate::ledger::error::LedgerError;

const MAX_EXECUTION_PERIOD_SECONDS: i128 = 1_209_600;

/// The rules of a decision policy.
enum Rule {
    Threshold(Decimal),
    Percentage(Decimal),
}

pub struct Policy {
    rule: Rule,
    pub voting_nanos: i128,
    pub min_execution_nanos: i128,
}

impl Policy {
    /// Reads and checks a packed policy; `None` for another type.
    pub fn read(packed: &Any) -> Result<Option<Self>, LedgerError> {
        let bad = |error: prost::DecodeError| LedgerError::sdk(2, error);
        let (rule, windows) = match packed.type_url.as_str() {
            THRESHOLD => {
                let policy = ThresholdDecisionPolicy::decode(packed.value.as_slice()).map_err(bad)?;
                (Rule::Threshold(positive("threshold", &policy.threshold)?), policy.windows)
            }
            PERCENTAGE => {
                let policy = PercentageDecisionPolicy::decode(packed.value.as_slice()).map_err(bad)?;
                let percentage = positive("percentage", &policy.percentage)?;
                if percentage > Decimal::ONE {
                    return Err(invalid("percentage must be > 0 and <= 1"));
                }
                (Rule::Percentage(percentage), policy.windows)
            }
            _ => return Ok(None),
        };
        let windows = windows.ok_or_else(|| invalid("voting period cannot be zero"))?;
        let nanos = |span: Option<prost_types::Duration>| span.as_ref().map_or(0, instant::span_nanos);
        let (voting_nanos, min_execution_nanos) = (nanos(windows.voting_period), nanos(windows.min_execution_period));
        if voting_nanos <= 0 {
            return Err(invalid("voting period cannot be zero"));
        }
        if min_execution_nanos > voting_nanos + MAX_EXECUTION_PERIOD_SECONDS * 1_000_000_000 {
            return Err(invalid("min_execution_period should be smaller than voting_period + max_execution_period"));
        }
        Ok(Some(Self { rule, voting_nanos, min_execution_nanos }))
    }

    /// Whether `yes` of `total` passes; `None` while it may still.
    pub fn decides(&self, yes: Decimal, others: Decimal, total: Decimal) -> Option<bool> {
        let undecided = total - yes - others;
        let (needed, share) = match self.rule {
            // A threshold above the total weight means all of it.
            Rule::Threshold(threshold) => (threshold.min(total), Decimal::ONE),
            Rule::Percentage(percentage) => (percentage, total),
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

pub fn positive(what: &str, text: &str) -> Result<Decimal, LedgerError> {
    text.parse::<Decimal>()
        .ok()
        .filter(|value| *value > Decimal::ZERO)
        .ok_or_else(|| invalid(format!("{what}: expected a positive decimal, got {text:?}")))
}

pub fn weight(text: &str) -> Decimal {
    text.parse().unwrap_or_default()
}

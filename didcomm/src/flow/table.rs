//! The table of transitions: every change of a flow's state. Its rows are those of the contract, which a test compares.

use super::{
    applicant_rows,
    state::{FlowState, Side, Variant},
    transition::{Condition, Transition},
    trigger::{Guard, Trigger},
    validator_rows,
};

/// Every row.
pub fn transitions() -> impl Iterator<Item = &'static Transition> {
    applicant_rows::ROWS.iter().chain(validator_rows::ROWS)
}

/// The rows of a trigger for a flow in a state, in order.
pub fn rows_of(
    side: Side,
    variant: Variant,
    state: Option<FlowState>,
    trigger: Trigger,
) -> impl Iterator<Item = &'static Transition> {
    transitions().filter(move |row| row.trigger == trigger && row.is_of(side, variant, state))
}

/// The decision about a trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The row that is taken.
    Row(&'static Transition),
    /// There are rows, and this condition of the first of them does not hold.
    Unmet(Condition),
    /// The state has no row for the trigger.
    Elsewhere,
}

/// Decides about a trigger. `holds` says whether a condition holds; it is asked about those of the rows alone.
pub fn decide(
    (side, variant): (Side, Variant),
    state: Option<FlowState>,
    trigger: Trigger,
    holds: impl Fn(Guard) -> bool,
) -> Decision {
    let mut unmet = None;
    for row in rows_of(side, variant, state, trigger) {
        match row.guards.iter().find(|(guard, wanted)| holds(*guard) != *wanted) {
            None => return Decision::Row(row),
            Some(condition) => unmet = unmet.or(Some(*condition)),
        }
    }
    unmet.map_or(Decision::Elsewhere, Decision::Unmet)
}

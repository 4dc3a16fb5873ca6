//! A row of the table of transitions.

use super::{
    state::{FlowState, Side, Variant},
    trigger::{Effect, Guard, Outgoing, Trigger},
};

/// A condition, and whether it has to hold or not to hold.
pub type Condition = (Guard, bool);

pub(super) const fn yes(guard: Guard) -> Condition {
    (guard, true)
}

pub(super) const fn no(guard: Guard) -> Condition {
    (guard, false)
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition {
    /// Name of the row.
    pub id: &'static str,
    /// Side of the flow.
    pub side: Side,
    /// Kind of the flow; `None` for both.
    pub variant: Option<Variant>,
    /// States that it leads out of; none for a flow that begins.
    pub from: &'static [FlowState],
    /// State that it leads to.
    pub to: FlowState,
    /// Cause.
    pub trigger: Trigger,
    /// Conditions, all of which hold.
    pub guards: &'static [Condition],
    /// Changes beside the state.
    pub effects: &'static [Effect],
    /// Message to the peer.
    pub sends: Option<Outgoing>,
}

impl Transition {
    pub(super) const fn new(
        (id, side): (&'static str, Side),
        variant: Option<Variant>,
        from: &'static [FlowState],
        to: FlowState,
        trigger: Trigger,
    ) -> Self {
        Self { id, side, variant, from, to, trigger, guards: &[], effects: &[], sends: None }
    }

    pub(super) const fn when(mut self, guards: &'static [Condition]) -> Self {
        self.guards = guards;
        self
    }

    pub(super) const fn with(mut self, effects: &'static [Effect]) -> Self {
        self.effects = effects;
        self
    }

    pub(super) const fn sends(mut self, message: Outgoing) -> Self {
        self.sends = Some(message);
        self
    }

    /// Whether the row is one of a flow in a state; `None` for a flow that is still to begin.
    pub(super) fn is_of(&self, side: Side, variant: Variant, state: Option<FlowState>) -> bool {
        let is_from = state.map_or(self.from.is_empty(), |state| self.from.contains(&state));
        self.side == side && self.variant.is_none_or(|own| own == variant) && is_from
    }
}

//! The order of the steps of a flow. Pure.

use super::StepEnd;

/// The next act of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Takes a step.
    Step,
    /// Waits for the pause with this number.
    Pause(std::time::Duration, u64),
    /// Is at rest.
    Rest,
}

/// The turn of a session.
#[derive(Debug, Default)]
pub(super) struct Turn {
    is_stepping: bool,
    /// Whether the flow has changed during the step.
    is_woken: bool,
    /// Number of the steps that were taken, which outdates the pauses of before.
    steps: u64,
}

impl Turn {
    fn begin(&mut self) -> Option<Next> {
        (self.is_stepping, self.is_woken) = (true, false);
        self.steps += 1;
        Some(Next::Step)
    }

    /// The flow may have a step.
    pub fn woken(&mut self) -> Option<Next> {
        if self.is_stepping {
            self.is_woken = true;
            return None;
        }
        self.begin()
    }

    /// A pause is over.
    pub fn pause_over(&mut self, number: u64) -> Option<Next> {
        if self.is_stepping || number != self.steps { None } else { self.begin() }
    }

    /// A step has ended.
    pub fn stepped(&mut self, end: StepEnd) -> Option<Next> {
        self.is_stepping = false;
        match end {
            StepEnd::Again => self.begin(),
            _ if self.is_woken => self.begin(),
            StepEnd::After(pause) => Some(Next::Pause(pause, self.steps)),
            StepEnd::AtRest => Some(Next::Rest),
        }
    }
}

//! One step of a setup.

use serde_json::Value;

/// The state of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepState {
    /// The node shows it.
    Done,
    /// It is to be sent, or done by a person.
    Missing,
    /// It was begun, and ends by itself or by the act of another corporation.
    Waiting,
}

impl StepState {
    /// Returns the state as the wire has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Missing => "missing",
            Self::Waiting => "waiting",
        }
    }
}

/// The party that takes a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepActor {
    /// The operator of the agent's corporation, or the agent itself.
    Operator,
    /// Another corporation, or a person outside of the registry.
    Other,
}

impl StepActor {
    /// Returns the party as the wire has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Other => "other",
        }
    }
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub struct SetupStep {
    /// Name of the step.
    pub id: String,
    /// State.
    pub state: StepState,
    /// The party that takes it.
    pub by: StepActor,
    /// Corporation of that party, where the registry states it.
    pub corporation_id: Option<u64>,
    /// The tool that sends it; absent where none does.
    pub tool: Option<&'static str>,
    /// The complete arguments of the tool.
    pub message: Option<Value>,
    /// The setting of the agent that is to change, where one is.
    pub setting: Option<String>,
    /// The fact that decides the state.
    pub reason: String,
    /// Seconds until it ends, where the time of the chain ends it.
    pub ends_in: Option<u64>,
    /// Whether the agent's next look at the node ends it.
    pub(super) is_agents: bool,
}

impl SetupStep {
    pub(super) fn new(id: impl Into<String>, state: StepState, reason: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            state,
            by: StepActor::Operator,
            corporation_id: None,
            tool: None,
            message: None,
            setting: None,
            reason: reason.into(),
            ends_in: None,
            is_agents: false,
        }
    }

    /// The step with the corporation that takes it.
    pub(super) fn of(self, corporation_id: u64, own: u64) -> Self {
        let by = if corporation_id == own { StepActor::Operator } else { StepActor::Other };
        Self { by, corporation_id: Some(corporation_id), ..self }
    }

    /// The step that is not the corporation's, where the registry names none.
    pub(super) fn by_other(self) -> Self {
        Self { by: StepActor::Other, corporation_id: None, ..self }
    }

    /// The step that the chain's time ends after so many seconds.
    pub(super) fn ending_in(self, seconds: i64) -> Self {
        Self { ends_in: Some(u64::try_from(seconds).unwrap_or_default()), ..self }
    }

    /// The step that the agent's next look at the node ends.
    pub(super) fn by_agent(self) -> Self {
        Self { is_agents: true, ..self }
    }

    pub(super) fn with_message(self, tool: &'static str, message: Value) -> Self {
        Self { tool: Some(tool), message: Some(message), ..self }
    }
}

/// The steps in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// The steps.
    pub steps: Vec<SetupStep>,
}

impl Setup {
    /// Whether the node shows something to the agent's next look at it that the credentials lack.
    pub(crate) fn has_agent_step(&self) -> bool {
        self.steps.iter().any(|step| step.is_agents)
    }

    /// Whether nothing is left to do.
    pub fn is_complete(&self) -> bool {
        self.steps.iter().all(|step| step.state == StepState::Done)
    }
}

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
    /// Whether a step is left that the agent takes by itself.
    pub(crate) fn has_agent_step(&self) -> bool {
        self.steps.iter().any(|step| {
            let is_agents = step.by == StepActor::Operator && step.setting.is_none() && !step.id.ends_with("-issuer");
            step.state == StepState::Waiting && is_agents
        })
    }

    /// Whether nothing is left to do.
    pub fn is_complete(&self) -> bool {
        self.steps.iter().all(|step| step.state == StepState::Done)
    }
}

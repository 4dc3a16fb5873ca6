//! Flows: participants that are validated, and credentials that are issued between two agents.
//!
//! ```text
//! message, read of the node, call, own result -> cause -> step: table of transitions -> next record, message
//! ```
//!
//! The table is that of the contract, which knows no other change of a state. A record says everything that its flow needs: an agent that
//! starts again goes on from it.

mod applicant_rows;
mod arrival;
mod beginning;
mod chain_read;
mod named;
mod outcome;
mod outgoing;
mod progress;
mod record;
mod record_parts;
mod report;
mod silence;
mod state;
mod step;
mod table;
#[cfg(test)]
mod tests;
mod transition;
mod trigger;
mod validator_rows;
mod work;

pub use self::{
    arrival::{Arrived, FlowArrival, RequestFault, take},
    beginning::{NewFlow, begin, is_replaced},
    chain_read::{OnboardingState, ParticipantRead, RoundStart, validator_trigger},
    outgoing::{MessageParts, credential_message, declined_offer, message_of, refusal_message, unknown_flow_message},
    progress::Progress,
    record::{
        ALREADY_ISSUED, CredentialStage, CredentialTerms, Exchange, Fees, FlowCredential, FlowRecord, FlowTx,
        HeldOffer, KeptKind, KeptMessage, Notice, OobLink, PastRound, Submission, TxStatus, Validation,
    },
    report::{ReportMeaning, report_meaning},
    silence::{AwaitedAnswer, PATIENCE_MILLIS, PEER_SILENT},
    state::{ConnectionState, FlowState, PendingAction, Side, Variant},
    step::{Cause, Step, step},
    table::{Decision, decide, rows_of, transitions},
    transition::{Condition, Transition},
    trigger::{Effect, Guard, Outgoing, Trigger, TriggerKind},
    work::{FlowWork, next_work},
};

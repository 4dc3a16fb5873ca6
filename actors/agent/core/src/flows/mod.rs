//! The decisions of flows: conditions, messages, times and payments. The states and their table are in `svc_didcomm::flow`.

mod decision;
mod facts;
mod heard;
mod hearing;
mod messages;
mod payment;
mod peer_generation;
mod record_json;
mod schedule;
#[cfg(test)]
mod testing;
mod write;

pub use decision::{ValidationTerms, credential_terms, wrong_state};
pub use facts::{RequestFacts, ShownParticipant, is_session_id, issuance_facts, onboarding_facts};
pub use heard::{HeardFacts, PeerStanding, RequestedFlow};
pub use hearing::{FlowQuery, FlowRows, Heard, HeardMessage};
pub use messages::messages_of;
pub use payment::{PaymentStep, SessionPayment, is_own_session, session_payment, unknown_records};
pub use peer_generation::PeerGeneration;
pub use record_json::{UnansweredMessage, flow_json, unanswered_json};
pub use schedule::{BLOCKED_PAUSE, next_look, pause_of};
pub use write::{ContentKind, FlowBefore, FlowContent, FlowWrite};

//! The next step of an agent's own for a flow. Pure: it follows from the record, so that an agent that starts again goes on.

use super::{
    record::{CredentialStage, FlowRecord, TxStatus},
    state::{ConnectionState, FlowState, Side},
};

/// A step that reads or writes elsewhere. Its end is an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowWork {
    /// Judges the validator and the ecosystem, and sends the opening message.
    Open,
    /// Reads the node until it shows that the offer may be taken.
    JudgeOffer,
    /// Checks the credential that has come, and stores it.
    CheckCredential,
    /// Sends the validation, or finds its block.
    SendValidation,
    /// Checks the claims, and offers a credential.
    Offer,
    /// Signs the credential, and stores it.
    Sign,
    /// Pays for the credential and anchors it, or finds the block of that.
    Anchor,
    /// Counts the paid records once more, and sends the credential.
    Deliver,
    /// Looks at the node for a validation or a credential whose block the chain has lost, and sends it again where the node lacks it.
    LookAgain,
}

/// The next step of a flow; none while it waits for its peer, for people or for the chain.
pub fn next_work(record: &FlowRecord) -> Option<FlowWork> {
    use FlowState as S;
    if record.lacks_validation() || record.unproven_credential().is_some() {
        return Some(FlowWork::LookAgain);
    }
    // A flow that was rejected and validated all the same offers nothing until its applicant begins again.
    let may_offer = record.is_holder && record.connection_state == ConnectionState::Established;
    match (record.side, record.state) {
        (Side::Applicant, S::AwaitingOp) => Some(FlowWork::Open),
        (Side::Applicant, state) => {
            let has_credential = record.received.is_some() && state == S::CredOffered;
            let has_offer = record.held_offer.is_some();
            has_offer.then_some(FlowWork::JudgeOffer).or_else(|| has_credential.then_some(FlowWork::CheckCredential))
        }
        (Side::Validator, S::ValidationTxSubmitted) => Some(FlowWork::SendValidation),
        (Side::Validator, S::Validated) if may_offer => Some(FlowWork::Offer),
        (Side::Validator, S::CredOffered) => issuing_work(record),
        (Side::Validator, _) => None,
    }
}

/// The next step towards the credential that was requested.
fn issuing_work(record: &FlowRecord) -> Option<FlowWork> {
    let exchange = record.exchange.as_ref().filter(|exchange| exchange.is_requested && !exchange.is_delivered);
    exchange?;
    let Some(credential) = &record.credential else { return Some(FlowWork::Sign) };
    match credential.stage {
        CredentialStage::Received => Some(FlowWork::Sign),
        CredentialStage::Signed => {
            let has_failed = credential.tx.as_ref().is_some_and(|tx| tx.status == TxStatus::Failed);
            (!has_failed).then_some(FlowWork::Anchor)
        }
        CredentialStage::Anchored | CredentialStage::Delivered | CredentialStage::Held => Some(FlowWork::Deliver),
        CredentialStage::Revoked => None,
    }
}

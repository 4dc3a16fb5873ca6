//! The values that the validation of a renewal has to repeat: the chain names only the first that differs.

use prost::Message;
use svc_pipeline::EncodedMessage;
use svc_wire::{
    error_envelope::{ErrorEnvelope, FailureCode},
    proto::svc::pp::v1::{
        MsgSetParticipantOpToValidated, Participant, QueryGetParticipantRequest, QueryGetParticipantResponse,
    },
};

use super::context::WriteContext;

/// Sentence of the chain for a value that differs.
const REFUSED: &str = "cannot be changed during renewal";

/// Adds the values of the participant to a refusal of that kind. Others, and one whose participant cannot be read, stay as they are.
pub(super) async fn with_terms_to_repeat(
    context: &WriteContext,
    message: &EncodedMessage,
    mut envelope: ErrorEnvelope,
) -> ErrorEnvelope {
    let is_refused = envelope.code == FailureCode::SimulationFailed && envelope.message.contains(REFUSED);
    if !is_refused || !message.msg_type().ends_with(".MsgSetParticipantOPToValidated") {
        return envelope;
    }
    let Ok(asked) = MsgSetParticipantOpToValidated::decode(message.message.value.as_slice()) else { return envelope };
    let path = context.registry.namespace().query_path("pp", "GetParticipant");
    let request = QueryGetParticipantRequest { id: asked.id };
    let found = context.pipeline.node().query::<_, QueryGetParticipantResponse>(&path, &request, 0).await;
    if let Some(participant) = found.ok().and_then(|answer| answer.participant) {
        envelope.hint = terms_hint(&participant);
    }
    envelope
}

fn terms_hint(participant: &Participant) -> String {
    let Participant { validation_fees, issuance_fees, verification_fees, .. } = participant;
    let discounts = (participant.issuance_fee_discount, participant.verification_fee_discount);
    format!(
        "nothing was sent; a renewal repeats these values: validation_fees {validation_fees}, issuance_fees {issuance_fees}, \
         verification_fees {verification_fees}, issuance_fee_discount {}, verification_fee_discount {}",
        discounts.0, discounts.1
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_has_all_five_values() {
        let participant = Participant {
            validation_fees: 7,
            issuance_fees: 0,
            verification_fees: 3,
            issuance_fee_discount: 10_000,
            ..Participant::default()
        };
        assert_eq!(
            terms_hint(&participant),
            "nothing was sent; a renewal repeats these values: validation_fees 7, issuance_fees 0, verification_fees 3, \
             issuance_fee_discount 10000, verification_fee_discount 0"
        );
    }
}

//! Writes through the operator.

use std::sync::Arc;

use serde_json::Value;
use svc_pipeline::{EncodedMessage, FeeLimits, InFlightTx, WriteIntent, WriteOrigin};
use svc_wire::error_envelope::ErrorEnvelope;
use tracing::Span;

use super::Operator;
use crate::{
    error::chain_changed_error,
    write::{
        active::ActiveWrite,
        admission::{AdmissionDecision, AdmittedWrite},
        execution,
        grant::check_grant,
        recorded,
        request::{self, FeeEstimate, WriteRequest, WriteRequester},
        stored_digest::refuse_stored_digest,
    },
};

impl Operator {
    /// Refuses a message that the corporation does not grant to this operator now, and any while the chain has another history.
    pub fn check_permission(&self, message: &EncodedMessage) -> Result<(), ErrorEnvelope> {
        self.check_history()?;
        check_grant(self.context(), message)
    }

    /// Refuses every write while the chain has another history than the journal.
    fn check_history(&self) -> Result<(), ErrorEnvelope> {
        self.pipeline().journal().chain_change().map_or(Ok(()), |change| Err(chain_changed_error(&change)))
    }

    /// Encodes the message of a request with the server's accounts in it.
    pub fn encode_message(&self, request: &WriteRequest) -> Result<EncodedMessage, ErrorEnvelope> {
        request::encode_message(self.context(), request)
    }

    /// The message as the chain will read it, decoded from the bytes that the signer signs.
    pub fn decode_message(&self, message: &EncodedMessage) -> Value {
        request::decode_message(self.context(), message)
    }

    /// Selects the fee payer and simulates the write. Nothing is signed and nothing is sent.
    pub async fn estimate_fee(
        &self,
        message: &EncodedMessage,
        requester: WriteRequester<'_>,
    ) -> Result<FeeEstimate, ErrorEnvelope> {
        request::estimate_fee(self.context(), message, requester).await
    }

    /// Starts a write. It goes on when the caller goes away, and when the caller's wait is over.
    ///
    /// Under an idempotency key of a principal a write happens once: the same write under the same key joins the active one, or gets
    /// its answer. A digest that the node has is refused; while another write stores it, this one waits for that answer first.
    pub fn execute(
        &self,
        message: EncodedMessage,
        origin: WriteOrigin,
        idempotency_key: Option<String>,
        fee_limits: FeeLimits,
    ) -> Result<ActiveWrite, ErrorEnvelope> {
        // A block of the journal may be gone: no key is answered by its record either.
        self.check_history()?;
        let span = Span::current();
        let intent = Arc::new(WriteIntent::new(message, origin, idempotency_key, &span).with_fee_limits(fee_limits));
        let handle = match self.0.writes.admit(&intent, span)? {
            AdmissionDecision::Joined { handle } => handle,
            AdmissionDecision::Admitted(admitted) => {
                let AdmittedWrite { permit, task, handle, earlier } = *admitted;
                // The task holds the operator, which therefore outlives its active writes.
                let operator = self.clone();
                let work = async move {
                    let context = operator.context();
                    if let Some(earlier) = earlier {
                        let _ = earlier.answer().await;
                    }
                    let answer = match recorded::find_answer(context, &intent).await {
                        Some(answer) => Some(answer),
                        None => refuse_stored_digest(context, &intent.encoded).await.err().map(Err),
                    };
                    match answer {
                        Some(answer) => task.finish(context.pipeline.actors(), answer),
                        None => execution::execute(task, context).await,
                    }
                };
                self.0.writes.start(work, permit)?;
                handle
            }
        };
        Ok(ActiveWrite::new(handle, self.context().clone()))
    }

    /// Follows the transactions of a write of an earlier process to their outcome.
    pub(super) fn resume_write(&self, transactions: Vec<InFlightTx>) {
        let Some(intent) = transactions.first().map(|tx| Arc::clone(&tx.intent)) else { return };
        if let Ok(AdmissionDecision::Admitted(admitted)) = self.0.writes.admit(&intent, Span::none()) {
            let AdmittedWrite { permit, task, .. } = *admitted;
            let context = self.context().clone();
            // A server that is full before it serves leaves the write to the next start.
            let _ = self.0.writes.start(async move { execution::resume(task, &context, transactions).await }, permit);
        }
    }

    /// Whether this write is known under this key of the principal, so that it needs no further confirmation; an error when the key belongs to another
    /// message.
    pub async fn is_known_write(
        &self,
        principal: &str,
        key: &str,
        message: &EncodedMessage,
    ) -> Result<bool, ErrorEnvelope> {
        let digest = match self.0.writes.find_digest(principal, key) {
            Some(digest) => Some(digest),
            None => recorded::find_digest(self.context(), principal, key).await,
        };
        match digest {
            Some(digest) => recorded::matches_digest(&digest, message, key).map(|()| true),
            None => Ok(false),
        }
    }
}

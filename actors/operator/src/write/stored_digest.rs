//! A digest that the chain has already: to store it again changes nothing, and would be paid for.

use prost::Message;
use serde_json::json;
use svc_net::upstream::NodeClientError;
use svc_pipeline::EncodedMessage;
use svc_wire::{
    error_envelope::{ErrorEnvelope, FailureCode},
    proto::svc::di::v1::{MsgStoreDigest, QueryGetDigestRequest, QueryGetDigestResponse},
    timestamp,
};

use super::context::WriteContext;
use crate::error::node_error;

/// Whether the message has no effect behind an equal one.
pub(super) fn is_stored_once(message: &EncodedMessage) -> bool {
    message.msg_type().ends_with(".di.v1.MsgStoreDigest")
}

/// Refuses to store a digest that the node has.
///
/// # Errors
/// Where the digest is stored, and where the node does not say it.
pub(crate) async fn refuse_stored_digest(
    context: &WriteContext,
    message: &EncodedMessage,
) -> Result<(), ErrorEnvelope> {
    if !is_stored_once(message) {
        return Ok(());
    }
    let Ok(MsgStoreDigest { digest, .. }) = MsgStoreDigest::decode(message.message.value.as_slice()) else {
        return Ok(());
    };
    let path = context.registry.namespace().query_path("di", "GetDigest");
    let request = QueryGetDigestRequest { digest };
    match context.pipeline.node().query::<_, QueryGetDigestResponse>(&path, &request, 0).await {
        Ok(QueryGetDigestResponse { digest: Some(stored) }) => {
            let since = stored.created.as_ref().map(timestamp::iso_seconds).unwrap_or_default();
            let reason = format!("the digest is stored already, since {since}");
            let details = json!({"violations": [{"pointer": "/digest", "reason": reason}], "stored_at": since});
            let hint = "nothing was sent, and nothing is to be done";
            Err(ErrorEnvelope::new(FailureCode::InputInvalid, reason, hint).with_details(details))
        }
        // A digest that the chain would refuse is refused by its simulation.
        Ok(QueryGetDigestResponse { digest: None }) => Ok(()),
        Err(NodeClientError::Query { .. }) => Ok(()),
        Err(error) => Err(node_error(&error)),
    }
}

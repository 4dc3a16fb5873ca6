//! The protocol of the trust stream, as the watch uses it: every change of a verdict. Pure.

use serde_json::json;
use svc_net::{
    block_subscription::OUTSIDE_CONTRACT,
    websocket::{Reading, StreamProtocol},
};
use svc_wire::{
    event_stream::StreamMessage,
    trust_stream::{TrustBlock, TrustMessage},
};

/// The changes of all verdicts.
#[derive(Debug, Clone)]
pub(super) struct TrustStream;

impl StreamProtocol for TrustStream {
    type Frame = TrustBlock;

    fn read(&mut self, text: &str) -> Result<Reading<TrustBlock>, String> {
        match serde_json::from_str::<TrustMessage>(text) {
            Ok(StreamMessage::Ready { .. }) => {
                let request = json!({"action": "subscribe", "channels": {"trust": true}}).to_string();
                Ok(Reading { request: Some(request), ..Reading::default() })
            }
            Ok(StreamMessage::Subscribed { .. }) => Ok(Reading { is_confirmed: true, ..Reading::default() }),
            Ok(StreamMessage::Block(block)) => Ok(block.into()),
            Ok(StreamMessage::Unknown) => Ok(Reading::default()),
            Err(_) => Err(OUTSIDE_CONTRACT.to_owned()),
        }
    }
}

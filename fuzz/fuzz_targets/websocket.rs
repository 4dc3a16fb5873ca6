//! Feeds random bytes to a WebSocket as a server reads it, with the limits of the block subscription, and each text to the parser of control
//! messages.
#![no_main]

use std::sync::LazyLock;

use futures::StreamExt;
use libfuzzer_sys::fuzz_target;
use svc_indexer::{ControlMessage, MAX_CONTROL_MESSAGE_BYTES};
use tokio::{io::AsyncWriteExt, runtime::Runtime};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        protocol::{Role, WebSocketConfig},
    },
};

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime"));

fuzz_target!(|data: &[u8]| {
    RUNTIME.block_on(async {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let _ = client.write_all(data).await;
        let _ = client.shutdown().await;
        let limits = WebSocketConfig::default()
            .max_message_size(Some(MAX_CONTROL_MESSAGE_BYTES))
            .max_frame_size(Some(MAX_CONTROL_MESSAGE_BYTES))
            .read_buffer_size(1024)
            .write_buffer_size(0);
        let mut socket = WebSocketStream::from_raw_socket(server, Role::Server, Some(limits)).await;
        while let Some(Ok(message)) = socket.next().await {
            if let Message::Text(text) = message {
                assert!(text.len() <= MAX_CONTROL_MESSAGE_BYTES);
                let _ = ControlMessage::<()>::parse(text.as_str());
            }
        }
    });
});

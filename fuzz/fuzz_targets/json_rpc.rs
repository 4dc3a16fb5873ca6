//! Feeds random bodies to the check of JSON-RPC messages and to the MCP library's parser. Neither may panic, and no message that the library
//! takes is refused by the check.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rmcp::model::ClientJsonRpcMessage;
use svc::mcp::check_message;

fuzz_target!(|data: &[u8]| {
    let checked = check_message(data);
    if let Err((code, reason)) = &checked {
        assert!(matches!(code, -32700 | -32600) && !reason.is_empty());
    }
    if serde_json::from_slice::<ClientJsonRpcMessage>(data).is_ok() {
        assert!(checked.is_ok(), "{checked:?}");
    }
});

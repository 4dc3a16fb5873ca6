//! The sentences with which CometBFT's mempool refuses a transaction before CheckTx.

use svc_wire::{chain_error::ChainError, comet_rpc::RpcError};

use super::{node_client::NodeClientError, upstream_error::UpstreamError};

/// `tx already exists in cache` — CometBFT mempool, `ErrTxInCache`.
pub(super) fn is_in_mempool_cache(error: &RpcError) -> bool {
    error.data.contains("tx already exists in cache")
}

/// A refusal before CheckTx, as the code of the SDK with the same meaning. `None` for any other error.
pub(super) fn mempool_refusal(error: &NodeClientError) -> Option<ChainError> {
    let (code, raw_log) = match error {
        NodeClientError::Rpc { error, .. } => (refusal_code(&error.data)?, error.data.clone()),
        // A proxy in front of the node limits requests.
        NodeClientError::Upstream(UpstreamError::Http { status: 429, body, .. }) => (MEMPOOL_FULL, body.clone()),
        NodeClientError::Upstream(_) | NodeClientError::Disputed(_) | NodeClientError::Query { .. } => return None,
    };
    Some(ChainError { codespace: "sdk".to_owned(), code, raw_log })
}

const MEMPOOL_FULL: u32 = 20;
const TX_TOO_LARGE: u32 = 21;

/// Texts of the errors of the CometBFT mempool: `ErrMempoolIsFull`, `ErrRecheckFull`, `ErrTxTooLarge`, `ErrPreCheck`.
fn refusal_code(text: &str) -> Option<u32> {
    let codes = [
        ("mempool is full", MEMPOOL_FULL),
        ("mempool is still rechecking", MEMPOOL_FULL),
        ("Tx too large", TX_TOO_LARGE),
        ("tx pre check", TX_TOO_LARGE),
    ];
    codes.into_iter().find(|(words, _)| text.contains(words)).map(|(_, code)| code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::UpstreamKind;

    #[test]
    fn refusals_of_the_mempool_are_refusals_of_the_chain() {
        let rpc = |data: &str| NodeClientError::Rpc {
            method: "broadcast_tx_sync",
            error: RpcError { code: -32603, message: "Internal error".to_owned(), data: data.to_owned() },
        };
        let http =
            |status| UpstreamError::Http { kind: UpstreamKind::Rpc, status, body: "slow down".to_owned() }.into();
        for (error, code) in [
            (rpc("mempool is full: number of txs 5000 (max: 5000), total txs bytes 9 (max: 1073741824)"), Some(20)),
            (rpc("mempool is still rechecking after a new committed block, so it is considered as full"), Some(20)),
            (rpc("Tx too large. Max size is 1048576, but got 1048577"), Some(21)),
            (rpc("tx pre check: tx size is too big: 9, max: 8"), Some(21)),
            (rpc("error on broadcastTxCommit"), None),
            (http(429), Some(20)),
            (http(502), None),
        ] {
            assert_eq!(mempool_refusal(&error).map(|refusal| refusal.code), code, "{error}");
        }
    }
}

//! Tests with the client tendermint-rpc, and the checks of a light client on its answers.

use futures::StreamExt;
use serde_json::json;
use tendermint::{
    block::{Commit, CommitSig, Height},
    vote::{Type, ValidatorIndex, Vote},
};
use tendermint_rpc::{
    Client, HttpClient, Order, SubscriptionClient, WebSocketClient,
    client::CompatMode,
    event::EventData,
    query::{EventType, Query},
};

use super::harness::{call_ok, devnet, payment};

/// Returns the vote of a commit and the signature of the validator over it.
fn vote(commit: &Commit) -> (Vote, tendermint::Signature) {
    let CommitSig::BlockIdFlagCommit { validator_address, timestamp, signature } = &commit.signatures[0] else {
        panic!("not a commit: {commit:?}");
    };
    let vote = Vote {
        vote_type: Type::Precommit,
        height: commit.height,
        round: commit.round,
        block_id: Some(commit.block_id),
        timestamp: Some(*timestamp),
        validator_address: *validator_address,
        validator_index: ValidatorIndex::try_from(0u32).expect("an index"),
        signature: None,
        extension: Vec::new(),
        extension_signature: None,
    };
    (vote, signature.clone().expect("signed"))
}

#[tokio::test]
async fn every_method_of_the_http_client_is_answered() {
    let devnet = devnet("corporation").await;
    let client = HttpClient::builder(devnet.node.origin().parse().expect("a URL"))
        .compat_mode(CompatMode::V0_38)
        .build()
        .expect("a client");
    let status = client.status().await.expect("status");
    assert_eq!(CompatMode::from_version(status.node_info.version).expect("known"), CompatMode::V0_38);
    client.health().await.expect("health");
    client.net_info().await.expect("net_info");
    client.abci_info().await.expect("abci_info");
    let genesis: tendermint::Genesis<serde_json::Value> = client.genesis().await.expect("genesis");
    assert_eq!(genesis.chain_id.as_str(), "svc-devnet-1");
    let tx = payment(&devnet, 0, 5);
    let sent = client.broadcast_tx_sync(tx.bytes.clone()).await.expect("sent");
    assert_eq!((sent.code.value(), sent.hash.to_string()), (0, tx.hash.clone()));
    devnet.node.produce_block().expect("made");
    let newest = client.latest_block().await.expect("a block");
    let height = newest.block.header.height;
    for at in 1..=height.value() {
        let at = Height::try_from(at).expect("a height");
        let block = client.block(at).await.expect("block");
        assert_eq!(block.block.header.hash(), block.block_id.hash, "the header's Merkle root at {at}");
        let signed = client.commit(at).await.expect("commit").signed_header;
        assert_eq!(signed.commit.block_id, block.block_id);
        let validators = client.validators(at, tendermint_rpc::Paging::Default).await.expect("validators");
        let set = tendermint::validator::Set::without_proposer(validators.validators.clone());
        assert_eq!(set.hash(), signed.header.validators_hash);
        let (vote, signature) = vote(&signed.commit);
        let bytes = vote.into_signable_vec(signed.header.chain_id.clone());
        validators.validators[0]
            .verify_signature::<tendermint::crypto::default::signature::Verifier>(&bytes, &signature)
            .expect("signed");
        let results = client.block_results(at).await.expect("results");
        assert_eq!(results.height, at);
        if at.value() > 1 {
            let before = client.block(Height::try_from(at.value() - 1).expect("a height")).await.expect("block");
            assert_eq!(block.block.header.last_block_id, Some(before.block_id));
            assert!(block.block.header.time > before.block.header.time);
        }
    }
    let by_hash = client.block_by_hash(newest.block_id.hash).await.expect("block_by_hash");
    assert_eq!(by_hash.block.expect("there").header, newest.block.header);
    client.header(height).await.expect("header");
    client.blockchain(1u32, 2u32).await.expect("blockchain");
    client.consensus_params(height).await.expect("consensus_params");
    let found = client.tx(sent.hash, false).await.expect("tx");
    assert_eq!(found.height, height);
    let query = Query::eq("tx.height", height.value())
        .and_exists("transfer.amount")
        .and_eq("transfer.recipient", devnet.address("member"));
    let searched = client.tx_search(query, false, 1, 10, Order::Descending).await.expect("tx_search");
    assert_eq!(searched.total_count, 1);
    let blocks =
        client.block_search(Query::gte("block.height", 2u64), 1, 10, Order::Ascending).await.expect("block_search");
    assert_eq!(u64::from(blocks.total_count), height.value() - 1);
    let path = Some("/cosmos.auth.v1beta1.Query/Bech32Prefix".to_owned());
    let reply = client.abci_query(path, Vec::new(), None, false).await.expect("abci_query");
    assert_eq!(reply.value, b"\x0a\x03svc");
    let refused = client.broadcast_tx_sync(b"nothing".to_vec()).await.expect("answered");
    assert_eq!((refused.code.value(), refused.codespace.as_str()), (2, "sdk"));
    client.broadcast_tx_async(payment(&devnet, 0, 6).bytes).await.expect("sent");
}

#[tokio::test]
async fn the_websocket_client_subscribes() {
    let devnet = devnet("empty").await;
    let url = format!("{}/websocket", devnet.node.origin().replace("http", "ws"));
    let (client, driver) = WebSocketClient::builder(url.parse().expect("a URL"))
        .compat_mode(CompatMode::V0_38)
        .build()
        .await
        .expect("connects");
    let driver = tokio::spawn(driver.run());
    let mut blocks = client.subscribe(EventType::NewBlock.into()).await.expect("subscribed");
    let mut txs = client.subscribe(EventType::Tx.into()).await.expect("subscribed");
    assert_eq!(client.status().await.expect("status").sync_info.latest_block_height.value(), 1);
    let tx = payment(&devnet, 0, 5);
    let sent = client.broadcast_tx_sync(tx.bytes).await.expect("sent");
    assert!(sent.code.is_ok());
    devnet.node.produce_block().expect("made");
    let block = blocks.next().await.expect("told").expect("an event");
    let EventData::NewBlock { block: Some(block), .. } = block.data else { panic!("{block:?}") };
    assert_eq!((block.header.height.value(), block.data.len()), (2, 1));
    let event = txs.next().await.expect("told").expect("an event");
    assert!(matches!(event.data, EventData::Tx { .. }), "{event:?}");
    drop((blocks, txs));
    client.close().expect("closes");
    driver.await.expect("ends").expect("well");
    call_ok(&devnet, "health", json!({})).await;
}

//! The indexer on PostgreSQL, in a server that the test starts.

use serde_json::Value;
use svc_indexer::{IndexerConfig, TrustConfig, read_endpoints};
use svc_test_support::postgres_server::PostgresServer;

use super::{
    IndexerReplica, MARKETPLACE_SCENARIO, await_indexed, await_verdicts, read_ok, read_shapes::send_sample,
    start_chain_and_indexer,
};

/// Without the messages of reasons: a failed lookup of a name may appear as one or as a timeout.
fn without_messages(mut body: Value) -> Value {
    for reason in body["reasons"].as_array_mut().into_iter().flatten() {
        reason["message"].take();
    }
    // It moves by the clock.
    if let Some(age) = body.get_mut("block_age_seconds") {
        age.take();
    }
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn postgresql_gives_the_same_answers_as_sqlite() {
    let Some(postgres) = PostgresServer::start(None) else {
        eprintln!("skipped: Debian's package postgresql is not installed");
        return;
    };
    let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let origin = grounds.indexer_origin();
    let newest = read_ok(&origin, "/v4/indexer/block-height").await["height"].as_u64().expect("a height");
    // The chain produces no block with which a late verdict could be published.
    let trust = TrustConfig {
        essential_schemas: svc::network::essential_schemas(&grounds.devnet),
        wait_limit: Some(super::super::harness::TEST_TIMEOUT),
        ..TrustConfig::default()
    };
    let config = IndexerConfig { trust, ..IndexerConfig::new(grounds.devnet.node.origin(), postgres.url()) };
    let replica = IndexerReplica::launch(config.clone()).await;
    await_verdicts(&replica.origin, newest).await;
    for endpoint in read_endpoints().expect("the table of reads") {
        for at in [newest, newest - 2, newest / 2] {
            let [lite, postgres] = [
                send_sample(&origin, endpoint, &grounds, Some(at)).await,
                send_sample(&replica.origin, endpoint, &grounds, Some(at)).await,
            ];
            let path = &endpoint.path;
            let [lite, postgres] = [lite, postgres].map(|answer| (answer.status, without_messages(answer.body)));
            assert_eq!(lite, postgres, "{path} at {at}");
        }
    }
    for path in [
        "/v4/participant/list?only_slashed=true&min_weight=1&sort=id",
        "/v4/ecosystem/list?participant_corporation_id=3&archived=false",
        "/v4/indexer/events?dids=did:web:grantor.devnet.example&corporation_id=3&limit=5",
        "/v4/corporation/list?did=%27%3B%20DROP%20TABLE%20entity%3B--",
    ] {
        assert_eq!(read_ok(&replica.origin, path).await, read_ok(&origin, path).await, "{path}");
    }
    // The indexer continues at its checkpoint, and refuses the database of another chain.
    drop(replica);
    let again = IndexerReplica::launch(config.clone()).await;
    let height = super::produce_blocks(&grounds, 2).await;
    await_indexed(&again.origin, height).await;
    let other = super::super::harness::network_config(100);
    let other = svc_devnet::Devnet::launch(svc_devnet::DevnetConfig { chain_id: "other-1".to_owned(), ..other.devnet });
    let other = other.await.expect("another chain");
    let refused = svc_indexer::Indexer::launch(IndexerConfig::new(other.node.origin(), postgres.url())).await;
    let error = refused.err().expect("refused").to_string();
    assert!(error.contains("holds chain \"svc-devnet-1\""), "{error}");
}

//! Beginning in the middle of a chain.

use svc_indexer::IndexerConfig;

use super::{Replica, grounds, ok, wait_for};

#[tokio::test(flavor = "multi_thread")]
async fn an_indexer_that_begins_late_knows_what_was_there() {
    let grounds = grounds("marketplace").await;
    let origin = grounds.indexer_origin();
    let newest = ok(&origin, "/v4/indexer/block-height").await["height"].as_u64().expect("a height");
    let config = IndexerConfig {
        start: Some(newest - 1),
        ..IndexerConfig::new(grounds.devnet.node.origin(), "sqlite::memory:")
    };
    let replica = Replica::launch(config).await;
    let late = &replica.origin;
    wait_for(late, newest).await;
    // Sums over the past cannot be known; what is there now is the same.
    for path in [
        "/v4/corporation/list?gf_data=all",
        "/v4/delegation/operator-authorizations",
        "/v4/delegation/vs-operator-authorizations",
        "/v4/exchange-rate/list",
        "/v4/group/get/1",
        "/v4/trust-deposit/get/2",
        "/v4/participant/participant-session/6ba7b810-9dad-41d1-80b4-00c04fd430c8",
        "/v4/stats/count-participants?entity_kind=0&role_type=0",
    ] {
        assert_eq!(ok(late, path).await, ok(&origin, path).await, "{path}");
    }
    for (path, key) in [("/v4/participant/list", "participants"), ("/v4/credential-schema/list", "schemas")] {
        let [own, other] = [ok(&origin, path).await, ok(late, path).await];
        let shown = |body: &serde_json::Value| -> Vec<_> {
            let rows = body[key].as_array().expect("rows").iter();
            rows.map(|row| {
                (row["id"].clone(), row["did"].clone(), row["participant_state"].clone(), row["weight"].clone())
            })
            .collect()
        };
        assert_eq!(shown(&own), shown(&other), "{path}");
    }
}

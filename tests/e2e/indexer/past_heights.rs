//! Reads at past heights: lists and single reads return the state of their height.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{MARKETPLACE_SCENARIO, read_ok, read_ok_at, start_chain_and_indexer};

fn rows<'a>(body: &'a Value, key: &str) -> &'a [Value] {
    body[key].as_array().map_or_else(|| panic!("no {key} in {body}"), Vec::as_slice)
}

/// Returns the height of the first activity with a message.
async fn height_of(origin: &str, history: &str, msg: &str) -> u64 {
    let body = read_ok(origin, &format!("{history}?limit=1024&sort=id")).await;
    let found = rows(&body, "activity").iter().find(|row| row["msg"] == msg);
    found.and_then(|row| row["block_height"].as_u64()).unwrap_or_else(|| panic!("no {msg} in {body}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_at_a_past_height_filters_the_state_of_that_height() {
    let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let origin = grounds.indexer_origin();
    let id = grounds.devnet.saved_values["diploma_issuer"].clone();
    let history = format!("/v4/participant/history/{id}");
    let started = height_of(&origin, &history, "StartParticipantOP").await;
    let validated = height_of(&origin, &history, "SetParticipantOPToValidated").await;
    let pending = "/v4/participant/list?op_state=PENDING&limit=1024";
    let number: u64 = id.parse().expect("an id");
    let has = |body: &Value| rows(body, "participants").iter().any(|row| row["id"] == number);
    // Only the version that is valid at the height decides whether an entity matches, neither an older nor a newer one.
    assert!(!has(&read_ok_at(&origin, pending, Some(started - 1)).await));
    assert!(has(&read_ok_at(&origin, pending, Some(started)).await));
    assert!(has(&read_ok_at(&origin, pending, Some(validated - 1)).await));
    assert!(!has(&read_ok_at(&origin, pending, Some(validated)).await));
    // Pending tasks at a past height count each participant once.
    let tasks = read_ok_at(
        &origin,
        &format!("/v4/participant/pending/flat?corporation_id={}", grounds.devnet.saved_values["grantor_id"]),
        Some(validated - 1),
    )
    .await;
    assert_eq!(rows(&tasks, "ecosystems")[0]["pending_tasks"], 1, "{tasks}");
    // State and measures are those of the height.
    let path = format!("/v4/participant/get/{id}");
    let before = &read_ok_at(&origin, &path, Some(validated - 1)).await["participant"];
    let after = &read_ok_at(&origin, &path, Some(validated)).await["participant"];
    assert_eq!((&before["participant_state"], &after["participant_state"]), (&"INACTIVE".into(), &"ACTIVE".into()));
    let count = "/v4/stats/count-participants?entity_kind=2&entity_id=1&role_type=3";
    let at = async |height| read_ok_at(&origin, count, Some(height)).await["participants"].as_u64().expect("a count");
    assert_eq!((at(validated - 1).await, at(validated).await), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn time_alone_changes_states_and_counts() {
    let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let origin = grounds.indexer_origin();
    let id = grounds.devnet.saved_values["badge_issuer"].clone();
    let created = height_of(&origin, &format!("/v4/participant/history/{id}"), "SelfCreateParticipant").await;
    let newest = read_ok(&origin, "/v4/indexer/block-height").await["height"].as_u64().expect("a height");
    let state = async |height| {
        read_ok_at(&origin, &format!("/v4/participant/get/{id}"), Some(height)).await["participant"]["participant_state"]
            .clone()
    };
    assert_eq!((state(created).await, state(newest).await), ("FUTURE".into(), "ACTIVE".into()));
    // At every height the measure of active participants equals the count of their states.
    for height in (created - 3..=newest).step_by(3) {
        let active =
            read_ok_at(&origin, "/v4/participant/list?participant_state=ACTIVE&limit=1024", Some(height)).await;
        let counted = read_ok_at(&origin, "/v4/stats/snapshot", Some(height)).await;
        assert_eq!(
            rows(&active, "participants").len() as u64,
            counted["participants"].as_u64().expect("a count"),
            "at {height}"
        );
        let weight: u64 =
            rows(&read_ok_at(&origin, "/v4/participant/list?limit=1024", Some(height)).await, "participants")
                .iter()
                .filter_map(|row| row["deposit"].as_u64())
                .sum();
        assert_eq!(counted["weight"].as_u64(), Some(weight), "at {height}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_of_a_history_and_of_a_list_can_be_read() {
    let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let origin = grounds.indexer_origin();
    let id = grounds.devnet.saved_values["diploma_issuer"].clone();
    for (path, key) in [
        (format!("/v4/participant/history/{id}"), "activity"),
        ("/v4/participant/list".to_owned(), "participants"),
        ("/v4/group/proposals".to_owned(), "proposals"),
        ("/v4/delegation/operator-authorizations".to_owned(), "authorizations"),
    ] {
        let whole = read_ok(&origin, &format!("{path}?limit=1024&sort=id")).await;
        let expected: Vec<u64> = rows(&whole, key).iter().filter_map(|row| row["id"].as_u64()).collect();
        assert!(expected.len() > 2, "{path}");
        let (mut up, mut low) = (Vec::new(), 0);
        loop {
            let page = read_ok(&origin, &format!("{path}?limit=2&sort=%2Bid&min_id={low}")).await;
            up.extend(rows(&page, key).iter().filter_map(|row| row["id"].as_u64()));
            if rows(&page, key).len() < 2 {
                break;
            }
            low = up.last().expect("a row") + 1;
        }
        assert_eq!(up, expected, "{path} ascending");
        let (mut down, mut high) = (Vec::new(), u64::MAX);
        loop {
            let page = read_ok(&origin, &format!("{path}?limit=2&max_id={high}")).await;
            down.extend(rows(&page, key).iter().filter_map(|row| row["id"].as_u64()));
            if rows(&page, key).len() < 2 {
                break;
            }
            high = *down.last().expect("a row");
        }
        down.reverse();
        assert_eq!(down, expected, "{path} descending");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_of_several_entities_and_granularities_count_each_change_once() {
    let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let origin = grounds.indexer_origin();
    let range = "timestamp_from=2000-01-01T00:00:00Z&timestamp_until=2100-01-01T00:00:00Z";
    let of = async |rest: &str| read_ok(&origin, &format!("/v4/stats/stats?{range}&{rest}")).await;
    let both = of("entity_type=CREDENTIAL_SCHEMA&entity_ids=1,2").await;
    let named: BTreeSet<u64> =
        rows(&both, "buckets").iter().filter_map(|bucket| bucket["entity_id"].as_u64()).collect();
    assert_eq!(named, BTreeSet::from([1, 2]));
    let weight = |body: &Value| body["total"]["delta_weight"].as_u64().expect("a weight");
    let [one, two] = [
        of("entity_type=CREDENTIAL_SCHEMA&entity_ids=1").await,
        of("entity_type=CREDENTIAL_SCHEMA&entity_ids=2").await,
    ];
    assert_eq!(weight(&both), weight(&one) + weight(&two));
    for granularity in ["HOUR", "DAY", "MONTH"] {
        let single = of(&format!("entity_type=CREDENTIAL_SCHEMA&entity_ids=1&granularity={granularity}")).await;
        assert_eq!(weight(&single), weight(&one), "{granularity}");
        let buckets = rows(&single, "buckets");
        let mut sum = 0;
        for bucket in buckets {
            sum += bucket["delta_weight"].as_i64().expect("a figure");
            assert_eq!(
                bucket["cumulative_weight"].as_i64(),
                Some(sum),
                "{granularity}: cumulative is what moved so far"
            );
        }
        // A bucket is the same by its key and by its id.
        let stamp = buckets[0]["timestamp"].as_str().expect("a time");
        let key = format!("granularity={granularity}&timestamp={stamp}&entity_type=CREDENTIAL_SCHEMA&entity_id=1");
        let by_key = read_ok(&origin, &format!("/v4/stats/get?{key}")).await;
        let by_id = read_ok(&origin, &format!("/v4/stats/get?id={}", by_key["id"])).await;
        assert_eq!(by_key, by_id);
    }
    let schema = read_ok(&origin, "/v4/credential-schema/get/1").await;
    assert_eq!(schema["schema"]["weight"].as_u64(), Some(weight(&one)), "since the origin everything moved in");
}

#[tokio::test(flavor = "multi_thread")]
async fn rates_prices_deposits_and_groups_match_the_chain() {
    let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let origin = grounds.indexer_origin();
    let value = |name: &str| grounds.devnet.saved_values[name].clone();
    let rate = value("tu_rate");
    let newest = read_ok(&origin, "/v4/indexer/block-height").await["height"].as_u64().expect("a height");
    for at in [None, Some(newest - 5)] {
        let found = read_ok_at(&origin, &format!("/v4/exchange-rate/get?id={rate}"), at).await;
        assert_eq!(found["exchange_rate"]["id"].to_string(), rate, "the rate's own id, at any height");
    }
    let pair = "base_asset_type=TU&base_asset=tu&quote_asset_type=COIN&quote_asset=usvc";
    let price =
        read_ok(&origin, &format!("/v4/exchange-rate/price?{pair}&amount=1234567890123456789012345678901234567890"))
            .await;
    assert_eq!(price["price"], "1296296284629629628462962962846296296284500000", "exact beyond any machine integer");
    let same = "base_asset_type=FIAT&base_asset=EUR&quote_asset_type=FIAT&quote_asset=EUR";
    let same = read_ok(&origin, &format!("/v4/exchange-rate/price?{same}&amount=00012")).await;
    assert_eq!((&same["price"], same.get("rate")), (&Value::from("12"), None));

    // Beneficiaries in the order in which the chain pays.
    let ask = format!(
        "/v4/participant/beneficiaries?issuer_participant_id={}&verifier_participant_id={}",
        value("diploma_issuer"),
        value("diploma_verifier")
    );
    let body = read_ok(&origin, &ask).await;
    let order: Vec<String> = rows(&body, "participants").iter().map(|row| row["id"].to_string()).collect();
    let expected = ["issuer_grantor", "diploma_root", "diploma_issuer", "verifier_grantor"].map(value);
    assert_eq!(order, expected);

    // The group of each corporation. Its member has no pending vote: every proposal was executed.
    let member = &grounds.devnet.accounts["member"].address;
    let memberships = read_ok(&origin, &format!("/v4/group/corporations-by-member?account={member}")).await;
    assert_eq!(rows(&memberships, "memberships").len(), 4);
    let pending = read_ok(&origin, &format!("/v4/group/proposals?pending_voter={member}")).await;
    assert_eq!(rows(&pending, "proposals").len(), 0);
    let done = read_ok(&origin, "/v4/group/proposals?status=ACCEPTED").await;
    assert!(rows(&done, "proposals").iter().all(|proposal| proposal["executor_result"] == "SUCCESS"));
    assert_eq!(rows(&done, "proposals").len(), 4);
    assert_eq!(
        read_ok(&origin, &format!("/v4/group/votes?voter={member}")).await["votes"].as_array().map(Vec::len),
        Some(4)
    );

    // The document of a schema under its canonical `$id`, and the schema's own text byte for byte.
    let document = read_ok(&origin, "/v4/credential-schema/js/1").await;
    assert_eq!(document["$id"], "vpr:svc:svc-devnet-1:cs:1");
}

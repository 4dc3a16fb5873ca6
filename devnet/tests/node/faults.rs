//! Tests of faults, ordered in the process and at the control endpoint.

use std::time::Duration;

use serde_json::{Value, json};

use super::harness::{
    WebSocketClient, base64, broadcast, call, call_ok, devnet, payment, payment_with_gas_limit, post, post_control,
    simulated_gas,
};

fn included(devnet: &svc_devnet::Devnet) -> Vec<String> {
    devnet.node.read_core(|core| {
        core.latest().map(|block| block.txs.iter().map(|tx| svc_wire::tx::tx_hash(tx)).collect()).unwrap_or_default()
    })
}

#[tokio::test]
async fn transactions_are_dropped_held_reordered_and_refused() {
    let devnet = devnet("empty").await;
    post_control(&devnet, "/faults", json!({"drop_after_check": 1})).await;
    let lost = payment(&devnet, 0, 1);
    assert_eq!(broadcast(&devnet, &lost).await["code"], 0);
    devnet.node.produce_block().expect("made");
    assert!(included(&devnet).is_empty() && devnet.node.read_core(|core| core.find_tx(&lost.hash).is_none()));

    post_control(&devnet, "/faults", json!({"hold_blocks": 2})).await;
    let held = payment(&devnet, 0, 2);
    broadcast(&devnet, &held).await;
    for expected in [vec![], vec![], vec![held.hash.clone()]] {
        post_control(&devnet, "/blocks", json!({})).await;
        assert_eq!(included(&devnet), expected);
    }

    post_control(&devnet, "/faults", json!({"reorder_blocks": 1})).await;
    let (first, second) = (payment(&devnet, 0, 3), payment(&devnet, 1, 4));
    broadcast(&devnet, &first).await;
    broadcast(&devnet, &second).await;
    devnet.node.produce_block().expect("made");
    assert_eq!(included(&devnet), [second.hash, first.hash]);
    let codes: Vec<u32> =
        devnet.node.read_core(|core| core.latest().expect("a block").tx_outcomes.iter().map(|one| one.code).collect());
    assert_eq!(codes, [32, 0], "the later sequence came first");

    let refusal = json!({"times": 1, "codespace": "sdk", "code": 13, "log": "ordered"});
    post_control(&devnet, "/faults", json!({"refuse": refusal})).await;
    let tx = payment(&devnet, 0, 5);
    let answer = broadcast(&devnet, &tx).await;
    assert_eq!((&answer["code"], &answer["log"]), (&json!(13), &json!("ordered")));
    assert_eq!(broadcast(&devnet, &tx).await["code"], 0);

    post_control(&devnet, "/faults", json!({"mempool_full": true})).await;
    let error = call(&devnet, "broadcast_tx_sync", json!({"tx": base64(&payment(&devnet, 1, 6).bytes)}))
        .await
        .expect_err("full");
    assert!(
        error["data"].as_str().is_some_and(|text| text.starts_with("mempool is full: number of txs 5000")),
        "{error}"
    );
    post_control(&devnet, "/faults", json!({"mempool_full": false, "fail_simulations": [1, "out of luck"]})).await;
    let request = devnet.node.read_core(|core| {
        core.chain
            .registry
            .encode("cosmos.tx.v1beta1.SimulateRequest", &json!({"tx_bytes": base64(&tx.bytes)}))
            .expect("encodes")
    });
    let params = json!({"path": "/cosmos.tx.v1beta1.Service/Simulate", "data": hex::encode(request)});
    assert_eq!(call_ok(&devnet, "abci_query", params.clone()).await["response"]["log"], "out of luck");
    assert_ne!(call_ok(&devnet, "abci_query", params).await["response"]["log"], "out of luck");
}

#[tokio::test]
async fn websockets_are_cut_stalled_and_lose_blocks() {
    let devnet = devnet("empty").await;
    let mut socket = WebSocketClient::connect(&devnet).await;
    socket.call("subscribe", json!({"query": "tm.event='NewBlockHeader'"})).await;
    let height = |message: Option<Value>| message.expect("told")["result"]["data"]["value"]["header"]["height"].clone();
    post_control(&devnet, "/faults", json!({"lose_events": 1})).await;
    post_control(&devnet, "/blocks", json!({"count": 2})).await;
    assert_eq!(height(socket.next().await), "3", "the first was lost");
    post_control(&devnet, "/faults", json!({"stall_websockets": true})).await;
    post_control(&devnet, "/blocks", json!({"count": 2})).await;
    let silent = tokio::time::timeout(Duration::from_millis(100), socket.next()).await;
    assert!(silent.is_err(), "stalled: {silent:?}");
    post_control(&devnet, "/faults", json!({"stall_websockets": false})).await;
    assert_eq!((height(socket.next().await), height(socket.next().await)), (json!("4"), json!("5")));
    post_control(&devnet, "/websockets/cut", json!({})).await;
    assert_eq!(socket.next().await, None);
    let began = std::time::Instant::now();
    post_control(&devnet, "/faults", json!({"delay_ms": 50})).await;
    call_ok(&devnet, "health", json!({})).await;
    assert!(began.elapsed() >= Duration::from_millis(50));
    post_control(&devnet, "/faults", json!({"delay_ms": 600_000, "delay_method": "abci_info"})).await;
    call_ok(&devnet, "health", json!({})).await;
}

#[tokio::test]
async fn the_clock_moves_the_node_restarts_and_a_key_is_used_elsewhere() {
    let devnet = devnet("corporation").await;
    let time = |status: &Value| {
        svc_wire::timestamp::parse_rfc3339(status["time"].as_str().expect("a time")).expect("a time").seconds
    };
    let (_, before) = post_control(&devnet, "/blocks", json!({})).await;
    post_control(&devnet, "/clock", json!({"seconds": 86_400})).await;
    let (_, after) = post_control(&devnet, "/blocks", json!({})).await;
    assert_eq!(time(&after) - time(&before), 86_401);
    let (status, restarted) = post_control(&devnet, "/restart", json!({"down_ms": 10})).await;
    assert_eq!((status, &restarted["app_hash"]), (200, &after["app_hash"]));
    call_ok(&devnet, "health", json!({})).await;
    let (status, used) = post_control(&devnet, "/foreign", json!({"account": "member"})).await;
    assert_eq!((status, &used["address"]), (200, &json!(devnet.address("member"))));
    devnet.send_foreign_tx("member").await.expect("used");
}

#[tokio::test]
async fn the_control_endpoint_refuses_browsers_and_malformed_orders() {
    let devnet = devnet("empty").await;
    let address = devnet.control.as_ref().expect("controlled").address;
    assert!(address.ip().is_loopback());
    let client = reqwest::Client::new();
    for (name, value) in [("origin", "http://127.0.0.1:3000"), ("host", "evil.example")] {
        let answer = client.get(format!("http://{address}/")).header(name, value).send().await.expect("answers");
        assert_eq!(answer.status().as_u16(), 403, "{name}");
    }
    for (path, body, status) in [
        ("/faults", json!({"no_such_fault": 1}), 400),
        ("/faults", json!({"drop_after_check": -1}), 400),
        ("/faults", json!([]), 400),
        ("/faults", json!({"garble": {"times": 1, "how": "no_such_way"}}), 400),
        ("/blocks", json!({"count": 1_000_000}), 400),
        ("/clock", json!({"hours": 1}), 400),
        ("/snapshots/none/load", json!({}), 404),
        ("/foreign", json!({"account": "nobody"}), 400),
    ] {
        let (found, answer) = post_control(&devnet, path, body.clone()).await;
        assert_eq!(found, status, "{path} {body}");
        assert!(answer["error"].as_str().is_some_and(|text| !text.is_empty()), "{path} {answer}");
    }
    assert_eq!(devnet.node.read_core(|core| core.height()), 1);
}

#[tokio::test]
async fn requests_with_garbled_answers_are_executed() {
    let devnet = devnet("empty").await;
    for (position, how) in ["malformed", "wrong_id", "html", "empty", "cut"].into_iter().enumerate() {
        let garble = json!({"times": 1, "method": "broadcast_tx_sync", "how": how});
        let (status, told) = post_control(&devnet, "/faults", json!({"garble": garble})).await;
        assert_eq!((status, &told["faults"]["garble"]["how"]), (200, &json!(how)));
        call_ok(&devnet, "health", json!({})).await;
        let tx = payment(&devnet, 0, position as u64 + 1);
        let params = json!({"tx": base64(&tx.bytes)});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "broadcast_tx_sync", "params": params}).to_string();
        let answer = reqwest::Client::new().post(devnet.node.origin()).body(body.clone()).send().await;
        if how == "cut" {
            let read = async { answer?.text().await };
            assert!(read.await.is_err(), "the body is whole");
        } else {
            let answer = answer.expect("answers");
            let status = answer.status().as_u16();
            let kind = answer.headers()["content-type"].to_str().expect("a text").to_owned();
            let text = answer.text().await.expect("a body");
            let json = serde_json::from_str::<Value>(&text);
            match how {
                "malformed" => assert!(status == 200 && text.starts_with('{') && json.is_err(), "{text}"),
                "wrong_id" => {
                    let json = json.expect("JSON");
                    assert_eq!((status, &json["id"], &json["result"]["code"]), (200, &json!(2), &json!(0)));
                }
                "html" => assert!(status == 502 && kind == "text/html" && text.starts_with("<html>"), "{kind} {text}"),
                _ => assert!(status == 200 && text.is_empty(), "{text}"),
            }
        }
        let error = call(&devnet, "broadcast_tx_sync", params).await.expect_err("it is there");
        assert_eq!(error["data"], "tx already exists in cache");
        devnet.node.produce_block().expect("made");
        assert_eq!(included(&devnet), [tx.hash]);
    }
    post_control(&devnet, "/faults", json!({"garble": {"times": 1, "how": "wrong_id"}})).await;
    let batch = ["one", "two"].map(|id| json!({"jsonrpc": "2.0", "id": id, "method": "health"}));
    let (_, answers) = post(&devnet, json!(batch).to_string()).await;
    assert_eq!((&answers[0]["id"], &answers[1]["id"]), (&json!("one-other"), &json!("two-other")));
    let (_, answers) = post(&devnet, json!(batch).to_string()).await;
    assert_eq!((&answers[0]["id"], &answers[1]["id"]), (&json!("one"), &json!("two")));
}

#[tokio::test]
async fn understated_gas_fails_in_the_block() {
    let devnet = devnet("empty").await;
    let used = simulated_gas(&devnet, &devnet, &payment(&devnet, 0, 1)).await;
    post_control(&devnet, "/faults", json!({"understate_gas_percent": 90})).await;
    let understated = simulated_gas(&devnet, &devnet, &payment(&devnet, 0, 1)).await;
    assert_eq!(understated, used * 90 / 100);
    let tx = payment_with_gas_limit(&devnet, 0, 1, understated);
    assert_eq!(broadcast(&devnet, &tx).await["code"], 0);
    let block = devnet.node.produce_block().expect("made");
    assert_eq!((block.tx_outcomes[0].codespace.as_str(), block.tx_outcomes[0].code), ("sdk", 11));
}

#[tokio::test]
async fn a_transaction_dropped_on_recheck_can_be_sent_again() {
    let devnet = devnet("empty").await;
    let (dropped, next) = (payment(&devnet, 0, 1), payment(&devnet, 1, 2));
    broadcast(&devnet, &dropped).await;
    broadcast(&devnet, &next).await;
    post_control(&devnet, "/faults", json!({"hold_blocks": 1, "drop_on_recheck": 1})).await;
    devnet.node.produce_block().expect("made");
    assert_eq!(devnet.node.read_core(|core| core.mempool_txs().len()), 0, "the next does not pass without it");
    assert_eq!(broadcast(&devnet, &next).await["code"], 32);
    assert_eq!(broadcast(&devnet, &dropped).await["code"], 0);
    assert_eq!(broadcast(&devnet, &next).await["code"], 0);
    post_control(&devnet, "/faults", json!({"hold_blocks": 1})).await;
    devnet.node.produce_block().expect("made");
    assert_eq!(devnet.node.read_core(|core| core.mempool_txs().len()), 2, "once only");
    devnet.node.produce_block().expect("made");
    assert_eq!(included(&devnet), [dropped.hash, next.hash]);
}

//! Tests of the RPC methods over POST, GET and in batches.

use serde_json::{Value, json};

use super::harness::{WebSocketClient, base64, broadcast, call, call_ok, devnet, get, get_unescaped, payment, post};

#[tokio::test]
async fn every_method_has_the_answer_format_of_cometbft() {
    let devnet = devnet("corporation").await;
    let tx = payment(&devnet, 0, 5);
    assert_eq!(broadcast(&devnet, &tx).await["hash"], tx.hash);
    let waiting = call_ok(&devnet, "unconfirmed_txs", json!({})).await;
    assert_eq!((&waiting["n_txs"], &waiting["txs"][0]), (&json!("1"), &json!(base64(&tx.bytes))));
    assert_eq!(call_ok(&devnet, "num_unconfirmed_txs", json!({})).await["total_bytes"], tx.bytes.len().to_string());
    let height = devnet.node.produce_block().expect("made").height;
    let status = call_ok(&devnet, "status", json!({})).await;
    assert_eq!(status["sync_info"]["latest_block_height"], height.to_string());
    assert_eq!(status["node_info"]["network"], "svc-devnet-1");
    assert_eq!(call_ok(&devnet, "health", json!({})).await, json!({}));
    assert_eq!(call_ok(&devnet, "net_info", json!({})).await["n_peers"], "0");
    let block = call_ok(&devnet, "block", json!({"height": height.to_string()})).await;
    assert_eq!(block["block"]["data"]["txs"], json!([base64(&tx.bytes)]));
    assert_eq!(block["block"]["last_commit"]["block_id"], block["block"]["header"]["last_block_id"]);
    let hash = block["block_id"]["hash"].as_str().expect("a hash").to_owned();
    let by_hash = call_ok(&devnet, "block_by_hash", json!({"hash": base64(&hex::decode(&hash).expect("hex"))})).await;
    assert_eq!(by_hash, block);
    assert_eq!(call_ok(&devnet, "block_by_hash", json!({"hash": base64(&[7; 32])})).await["block"], Value::Null);
    let header = call_ok(&devnet, "header", json!({"height": height.to_string()})).await["header"].clone();
    assert_eq!(header, block["block"]["header"]);
    let commit = call_ok(&devnet, "commit", json!({})).await;
    assert_eq!((&commit["signed_header"]["header"], &commit["canonical"]), (&header, &json!(false)));
    assert_eq!(call_ok(&devnet, "commit", json!({"height": "1"})).await["canonical"], true);
    let results = call_ok(&devnet, "block_results", json!([height.to_string()])).await;
    assert_eq!((&results["txs_results"][0]["code"], &results["height"]), (&json!(0), &json!(height.to_string())));
    let metas = call_ok(&devnet, "blockchain", json!({"minHeight": "1", "maxHeight": "2"})).await;
    assert_eq!(metas["block_metas"][0]["header"]["height"], "2", "newest first");
    assert_eq!(metas["last_height"], height.to_string());
    let validators = call_ok(&devnet, "validators", json!({})).await;
    assert_eq!(validators["validators"][0]["address"], header["proposer_address"]);
    let params = call_ok(&devnet, "consensus_params", json!({})).await;
    assert_eq!(params["consensus_params"]["block"], json!({"max_bytes": "22020096", "max_gas": "-1"}));
    let genesis = call_ok(&devnet, "genesis", json!({})).await["genesis"].clone();
    assert_eq!(genesis["app_state"]["bank"]["balances"][0]["address"], devnet.address("member"));
    let chunk = call_ok(&devnet, "genesis_chunked", json!({"chunk": 0})).await;
    assert_eq!((&chunk["total"], &chunk["data"]), (&json!("1"), &json!(base64(genesis.to_string().as_bytes()))));
    let found =
        call_ok(&devnet, "tx", json!({"hash": base64(&hex::decode(&tx.hash).expect("hex")), "prove": false})).await;
    assert_eq!((&found["height"], &found["index"]), (&json!(height.to_string()), &json!(0)));
    let query = format!("tx.height={height} AND transfer.recipient='{}'", devnet.address("member"));
    let searched = call_ok(&devnet, "tx_search", json!({"query": query, "order_by": "desc"})).await;
    assert_eq!((&searched["total_count"], &searched["txs"][0]["hash"]), (&json!("1"), &json!(tx.hash)));
    let blocks = call_ok(&devnet, "block_search", json!({"query": "block.height>=2 AND block.height<4"})).await;
    assert_eq!(blocks["total_count"], "2");
    let info = call_ok(&devnet, "abci_info", json!({})).await;
    assert_eq!(info["response"]["last_block_height"], height.to_string());
    let next = payment(&devnet, 0, 6);
    let checked = call_ok(&devnet, "check_tx", json!({"tx": base64(&next.bytes)})).await;
    assert_eq!(
        (&checked["code"], &call_ok(&devnet, "num_unconfirmed_txs", json!({})).await["n_txs"]),
        (&json!(0), &json!("0"))
    );
    assert_eq!(call_ok(&devnet, "broadcast_tx_async", json!({"tx": base64(&next.bytes)})).await["hash"], next.hash);
    let error = call(&devnet, "broadcast_tx_async", json!({"tx": base64(&next.bytes)})).await.expect_err("known");
    assert_eq!((&error["code"], &error["data"]), (&json!(-32603), &json!("tx already exists in cache")));
}

#[tokio::test]
async fn broadcast_commit_waits_for_the_block() {
    let devnet = devnet("empty").await;
    let tx = payment(&devnet, 0, 5);
    let request = call(&devnet, "broadcast_tx_commit", json!({"tx": base64(&tx.bytes)}));
    let make = async {
        let waits = || devnet.node.read_core(|core| core.mempool_txs().len() == 1);
        while !waits() {
            tokio::task::yield_now().await;
        }
        devnet.node.produce_block().expect("made").height
    };
    let (answer, height) = tokio::join!(request, make);
    let answer = answer.expect("committed");
    assert_eq!((&answer["height"], &answer["tx_result"]["code"]), (&json!(height.to_string()), &json!(0)));
    let refused = call_ok(&devnet, "broadcast_tx_commit", json!({"tx": base64(b"nothing")})).await;
    assert_eq!((&refused["check_tx"]["code"], &refused["height"]), (&json!(2), &json!("0")));
}

#[tokio::test]
async fn uris_quote_text_and_unknown_paths_are_not_found() {
    let devnet = devnet("corporation").await;
    let (status, answer) = get(&devnet, "/block?height=1").await;
    assert_eq!((status, &answer["id"], &answer["result"]["block"]["header"]["height"]), (200, &json!(-1), &json!("1")));
    let (_, answer) = get(&devnet, "/abci_query?path=%22/cosmos.auth.v1beta1.Query/Bech32Prefix%22&data=0x").await;
    assert_eq!(answer["result"]["response"]["value"], base64(b"\x0a\x03svc"));
    let (status, answer) = get(&devnet, "/tx?hash=0x00").await;
    assert_eq!(
        (status, &answer["error"]["code"], &answer["error"]["data"]),
        (500, &json!(-32603), &json!("tx (00) not found"))
    );
    let (status, answer) = get(&devnet, "/block?height=x").await;
    assert_eq!((status, &answer["error"]["code"]), (500, &json!(-32602)));
    for path in ["/nothing", "/a/b", "/subscribe?query=%22a%22"] {
        assert_eq!(get(&devnet, path).await.0, 404, "{path}");
    }
    for path in ["/nothing", "/subscribe"] {
        let answer = reqwest::Client::new().post(format!("{}{path}", devnet.node.origin())).send().await;
        assert_eq!(answer.expect("answers").status(), 404, "{path}");
    }
    // Quotes are taken as they are. Numbers come with and without quotes, and bytes as the quoted ones or as hex.
    for (path, is_accepted) in [
        ("/tx_search?query=\"tx.height>0\"&per_page=1", true),
        ("/tx_search?query=%22tx.height>0%22&per_page=\"1\"&unknown=1", true),
        ("/tx_search?query=0x74782e6865696768743e30", true),
        ("/tx_search?query=tx.height>0", false),
        ("/block?height=\"1\"", true),
        ("/block?height=0x01", false),
        ("/block_by_hash?hash=\"abc\"", true),
        ("/block_by_hash?hash=YWJj", false),
        ("/check_tx?tx=0xzz", false),
        ("/check_tx?tx=\"nothing\"", true),
    ] {
        let (status, answer) = get_unescaped(&devnet, path).await;
        assert_eq!(answer["error"]["code"] != -32602, is_accepted, "{path}: {answer}");
        assert_eq!(status == 200, is_accepted, "{path}: {answer}");
    }
    let (status, page) = get(&devnet, "/").await;
    assert!(status == 200 && page.as_str().is_some_and(|page| page.contains("/block_results?height=_")), "{page}");
}

/// One hash in 4,096 begins with `0x` in base64.
#[tokio::test]
async fn a_text_in_a_json_body_is_base64_even_behind_0x() {
    let devnet = devnet("empty").await;
    let hash = |text: &str| json!({"hash": text});
    let text = base64(&[vec![0xd3, 0x1c, 0x3f], vec![7; 29]].concat());
    assert!(text.starts_with("0xw/"), "{text}");
    let error = call(&devnet, "tx", hash(&text)).await.expect_err("not found");
    assert_eq!(error["data"], format!("tx (D31C3F{}) not found", "07".repeat(29)));
    let error = call(&devnet, "tx", hash("0xD5")).await.expect_err("not found");
    assert_eq!(error["data"], "tx (D310F9) not found", "{error}");
    let error = call(&devnet, "tx", hash("0xzz=")).await.expect_err("not base64");
    assert_eq!(error["code"], -32602);
}

#[tokio::test]
async fn bad_requests_have_the_codes_of_json_rpc() {
    let devnet = devnet("empty").await;
    let (status, answer) = post(&devnet, "{").await;
    assert_eq!((status, &answer["error"]["code"]), (500, &json!(-32700)));
    let (status, answer) = post(&devnet, vec![b' '; 1_000_001]).await;
    assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32600)));
    let cases = [
        ("nothing", json!({}), -32601, ""),
        ("block", json!({"height": "x"}), -32602, "height"),
        ("block", json!(["1", "2"]), -32602, "expected 1 parameters"),
        ("block", json!("1"), -32602, "unknown type"),
        ("block", json!({"height": "0"}), -32603, "must be greater than 0"),
        ("block", json!({"height": "99"}), -32603, "less than or equal to the current blockchain height 1"),
        ("blockchain", json!({"minHeight": "5"}), -32603, "can't be greater than max height"),
        ("tx", json!({"hash": "%%"}), -32602, "not base64"),
        ("tx", json!({"hash": base64(&[1; 32]), "prove": true}), -32603, "not found"),
        ("tx_search", json!({"query": ""}), -32603, "cannot be empty"),
        ("tx_search", json!({"query": "a ="}), -32603, "failed to parse query"),
        (
            "tx_search",
            json!({"query": "tx.height>0", "page": 2}),
            -32603,
            "page should be within [1, 1] range, given 2",
        ),
        ("tx_search", json!({"query": "tx.height>0", "order_by": "up"}), -32603, "order_by"),
        ("validators", json!({"page": "3"}), -32603, "page should be within"),
        ("genesis_chunked", json!({"chunk": 1}), -32603, "chunks"),
        ("abci_query", json!({"path": "/x", "data": "zz"}), -32602, "data"),
        ("broadcast_tx_sync", json!({}), -32602, "tx is missing"),
    ];
    for (method, params, code, text) in cases {
        let error = call(&devnet, method, params.clone()).await.expect_err(method);
        assert_eq!(error["code"], code, "{method} {params}: {error}");
        assert!(error["data"].as_str().unwrap_or_default().contains(text), "{method} {params}: {error}");
    }
    for height in ["-1", "99"] {
        let answer = call_ok(&devnet, "abci_query", json!({"path": "/x", "data": "", "height": height})).await;
        assert_eq!(
            (&answer["response"]["code"], &answer["response"]["codespace"]),
            (&json!(18), &json!("sdk")),
            "{height}"
        );
    }
    // A batch is answered in order; a notification has no answer.
    let batch = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "health"}, {"jsonrpc": "2.0", "method": "health"},
        {"jsonrpc": "2.0", "id": "b", "method": "nothing"}, 7,
    ]);
    let (status, answers) = post(&devnet, batch.to_string()).await;
    assert_eq!(status, 200);
    assert_eq!(answers[0], json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    assert_eq!((&answers[1]["id"], &answers[1]["error"]["code"]), (&json!("b"), &json!(-32601)));
    assert_eq!((answers.as_array().map(Vec::len), &answers[2]["error"]["code"]), (Some(3), &json!(-32700)));
    // The same over a WebSocket.
    let mut socket = WebSocketClient::connect(&devnet).await;
    socket.send("{".into()).await;
    assert_eq!(socket.next().await.expect("answered")["error"]["code"], -32700);
    assert_eq!(socket.call("status", json!({})).await["result"]["sync_info"]["latest_block_height"], "1");
}

#[tokio::test]
async fn queries_at_past_heights_are_answered() {
    let devnet = devnet("corporation").await;
    let member = devnet.address("member").to_owned();
    let request = devnet.node.read_core(|core| {
        let request = json!({"address": member, "denom": "usvc"});
        core.chain.registry.encode("cosmos.bank.v1beta1.QueryBalanceRequest", &request).expect("encodes")
    });
    let mut held = Vec::new();
    for height in 1..=3 {
        let params = json!({"path": "/cosmos.bank.v1beta1.Query/Balance", "data": hex::encode(&request), "height": height.to_string()});
        let answer = call_ok(&devnet, "abci_query", params).await["response"].clone();
        assert_eq!((&answer["code"], &answer["height"]), (&json!(0), &json!(height.to_string())));
        held.push(answer["value"].clone());
    }
    assert!(held[0] != held[1] && held[1] != held[2], "{held:?}");
}

#[tokio::test]
async fn the_transaction_service_answers_over_abci_query() {
    let devnet = devnet("empty").await;
    let tx = payment(&devnet, 0, 5);
    broadcast(&devnet, &tx).await;
    devnet.node.produce_block().expect("made");
    let ask = async |method: &str, request: Value| {
        let (input, output) =
            (format!("cosmos.tx.v1beta1.{method}Request"), format!("cosmos.tx.v1beta1.{method}Response"));
        let data = devnet.node.read_core(|core| core.chain.registry.encode(&input, &request)).expect("encodes");
        let path = format!("/cosmos.tx.v1beta1.Service/{method}");
        let answer =
            call_ok(&devnet, "abci_query", json!({"path": path, "data": hex::encode(data)})).await["response"].clone();
        use base64::{Engine, engine::general_purpose::STANDARD};
        let value = STANDARD.decode(answer["value"].as_str().unwrap_or_default()).expect("base64");
        if answer["code"] != 0 {
            return Err(answer["code"].as_u64().expect("a code"));
        }
        Ok(devnet.node.read_core(|core| core.chain.registry.decode(&output, &value)).expect("decodes"))
    };
    let found = ask("GetTx", json!({"hash": tx.hash})).await.expect("found");
    assert_eq!((&found["tx_response"]["txhash"], &found["tx_response"]["code"]), (&json!(tx.hash), &json!(0)));
    assert_eq!(ask("GetTx", json!({"hash": "00"})).await, Err(22));
    assert_eq!(ask("GetTx", json!({})).await, Err(18));
    let listed = ask("GetTxsEvent", json!({"query": "tx.height=2"})).await.expect("listed");
    assert_eq!((&listed["total"], &listed["tx_responses"][0]["height"]), (&json!("1"), &json!("2")));
    assert_eq!(ask("GetTxsEvent", json!({"query": "="})).await, Err(18));
    assert_eq!(ask("Simulate", json!({})).await, Err(18));
    let next = payment(&devnet, 0, 6);
    use base64::{Engine, engine::general_purpose::STANDARD};
    let simulated = ask("Simulate", json!({"tx_bytes": STANDARD.encode(&next.bytes)})).await.expect("simulated");
    assert!(
        simulated["gas_info"]["gas_used"].as_str().is_some_and(|gas| gas.parse::<u64>().is_ok_and(|gas| gas > 10_000))
    );
}

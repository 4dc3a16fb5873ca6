//! REST and gRPC beside the RPC: the same answers, and the errors of a node's gateway.

use base64::{Engine, prelude::BASE64_STANDARD};
use prost::Message;
use serde_json::{Value, json};
use svc_devnet::{Devnet, DevnetConfig};
use svc_wire::{
    proto::cosmos::{
        bank::v1beta1::{QueryAllBalancesRequest, QueryAllBalancesResponse},
        base::node::v1beta1::{ConfigRequest, ConfigResponse},
        tx::v1beta1::{BroadcastMode, BroadcastTxRequest, BroadcastTxResponse},
    },
    proto_registry::NodeGeneration,
};
use tonic::{Code, client::Grpc, transport::Channel};
use tonic_prost::ProstCodec;

use super::harness::{call_ok, config, payment};

async fn start(scenario: &str) -> Devnet {
    start_as(NodeGeneration::N0, scenario).await
}

async fn start_as(generation: NodeGeneration, scenario: &str) -> Devnet {
    let free = Some(([127, 0, 0, 1], 0).into());
    let config = DevnetConfig { rest_listen: free, grpc_listen: free, generation, ..config(scenario) };
    Devnet::launch(config).await.expect("starts")
}

async fn rest(devnet: &Devnet, path: &str) -> (u16, Value, Option<String>) {
    let url = format!("{}{path}", devnet.node.rest_origin().expect("it is served"));
    let answer = reqwest::get(url).await.expect("an answer");
    let height =
        answer.headers().get("x-cosmos-block-height").map(|height| height.to_str().expect("a text").to_owned());
    (answer.status().as_u16(), answer.json().await.expect("JSON"), height)
}

/// The answer of `abci_query` as the gateway prints it.
async fn by_rpc(devnet: &Devnet, method: &str, request: (&str, Value), response: &str) -> Value {
    let registry = devnet.node.read_core(|core| core.chain.registry.clone());
    let data = hex::encode(registry.encode(request.0, &request.1).expect("encodes"));
    let answer = call_ok(devnet, "abci_query", json!({"path": method, "data": data})).await;
    let value = answer["response"]["value"].as_str().unwrap_or_default();
    registry.decode(response, &BASE64_STANDARD.decode(value).expect("base64")).expect("decodes")
}

async fn grpc<Q, R>(
    devnet: &Devnet,
    method: &'static str,
    request: Q,
    height: Option<&'static str>,
) -> Result<tonic::Response<R>, tonic::Status>
where
    Q: Message + Send + Sync + 'static,
    R: Message + Default + Send + Sync + 'static,
{
    let address = devnet.node.grpc_address().expect("it is served");
    let channel = Channel::from_shared(format!("http://{address}")).expect("a URL").connect().await.expect("connects");
    let mut client = Grpc::new(channel);
    client.ready().await.expect("ready");
    let mut request = tonic::Request::new(request);
    if let Some(height) = height {
        request.metadata_mut().insert("x-cosmos-block-height", height.parse().expect("a value"));
    }
    client.unary(request, method.parse().expect("a path"), ProstCodec::<Q, R>::default()).await
}

#[tokio::test]
async fn rest_has_the_answers_of_the_rpc() {
    let devnet = start("marketplace").await;
    let member = devnet.address("member").to_owned();
    let diploma = devnet.address("diploma").to_owned();
    let policy = devnet.address("registry").to_owned();
    for (path, method, request, given, response) in [
        (
            "/co/v1/list",
            "/svc.co.v1.Query/ListCorporations",
            "svc.co.v1.QueryListCorporationsRequest",
            json!({}),
            "svc.co.v1.QueryListCorporationsResponse",
        ),
        (
            "/svc/pp/v1/list?response_max_size=3",
            "/svc.pp.v1.Query/ListParticipants",
            "svc.pp.v1.QueryListParticipantsRequest",
            json!({"response_max_size": 3}),
            "svc.pp.v1.QueryListParticipantsResponse",
        ),
        (
            &*format!("/svc/cs/v1/get/{diploma}"),
            "/svc.cs.v1.Query/GetCredentialSchema",
            "svc.cs.v1.QueryGetCredentialSchemaRequest",
            json!({"id": diploma}),
            "svc.cs.v1.QueryGetCredentialSchemaResponse",
        ),
        (
            &*format!("/cosmos/bank/v1beta1/balances/{member}?pagination.limit=1&pagination.reverse=true"),
            "/cosmos.bank.v1beta1.Query/AllBalances",
            "cosmos.bank.v1beta1.QueryAllBalancesRequest",
            json!({"address": member, "pagination": {"limit": 1, "reverse": true}}),
            "cosmos.bank.v1beta1.QueryAllBalancesResponse",
        ),
        (
            &*format!("/cosmos/auth/v1beta1/accounts/{member}"),
            "/cosmos.auth.v1beta1.Query/Account",
            "cosmos.auth.v1beta1.QueryAccountRequest",
            json!({"address": member}),
            "cosmos.auth.v1beta1.QueryAccountResponse",
        ),
        (
            &*format!("/cosmos/group/v1/group_policy_info/{policy}"),
            "/cosmos.group.v1.Query/GroupPolicyInfo",
            "cosmos.group.v1.QueryGroupPolicyInfoRequest",
            json!({"address": policy}),
            "cosmos.group.v1.QueryGroupPolicyInfoResponse",
        ),
    ] {
        let (status, answer, height) = rest(&devnet, path).await;
        assert_eq!(status, 200, "{path}: {answer}");
        assert_eq!(answer, by_rpc(&devnet, method, (request, given), response).await, "{path}");
        assert_eq!(height, Some(devnet.node.watch_heights().borrow().to_string()), "{path}");
    }
    // The queries of command lines and wallets.
    let found = async |path: &str| {
        let (status, answer, _) = rest(&devnet, path).await;
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    };
    for path in [
        "/cosmos/mint/v1beta1/params",
        "/cosmos/gov/v1/params/voting",
        "/cosmos/distribution/v1beta1/params",
        "/cosmos/slashing/v1beta1/params",
        "/cosmos/upgrade/v1beta1/current_plan",
        "/svc-labs/svc/xr/v1/params",
    ] {
        found(path).await;
    }
    let supply = found("/cosmos/bank/v1beta1/supply").await;
    assert_eq!(supply["supply"][1]["denom"], "usvc", "{supply}");
    assert_eq!(found("/cosmos/bank/v1beta1/denom_owners/uother").await["denom_owners"][0]["address"], member);
    let spendable = found(&format!("/cosmos/bank/v1beta1/spendable_balances/{member}")).await;
    assert_eq!(spendable["balances"], found(&format!("/cosmos/bank/v1beta1/balances/{member}")).await["balances"]);
    let accounts = found("/cosmos/auth/v1beta1/accounts?pagination.limit=2").await;
    for (place, kind) in [(0, "ModuleAccount"), (1, "BaseAccount")] {
        let expected = format!("/cosmos.auth.v1beta1.{kind}");
        assert_eq!(accounts["accounts"][place]["@type"], expected, "{accounts}");
    }
    let modules = found("/cosmos/auth/v1beta1/module_accounts").await;
    let deposits = modules["accounts"].as_array().and_then(|all| all.iter().find(|one| one["name"] == "td")).cloned();
    let deposits = deposits.expect("the account of deposits");
    assert_eq!(deposits["permissions"], json!(["burner"]), "{modules}");
    let address = deposits["base_account"]["address"].as_str().expect("an address");
    for path in ["module_accounts/td".to_owned(), format!("accounts/{address}")] {
        assert_eq!(found(&format!("/cosmos/auth/v1beta1/{path}")).await["account"], deposits, "{path}");
    }
    let groups = found("/cosmos/group/v1/groups").await["groups"].clone();
    assert!(groups.as_array().is_some_and(|groups| groups.len() >= 4), "{groups}");
    let of_group = found("/cosmos/group/v1/group_policies_by_group/1").await["group_policies"][0].clone();
    let admin = of_group["admin"].as_str().expect("an account");
    let of_admin = found(&format!("/cosmos/group/v1/group_policies_by_admin/{admin}")).await;
    assert_eq!(of_admin["group_policies"][0], of_group);
    let by_admin =
        found(&format!("/cosmos/group/v1/groups_by_admin/{}", groups[0]["admin"].as_str().expect("an account"))).await;
    assert_eq!(by_admin["groups"][0], groups[0]);
    found(&format!("/cosmos/group/v1/votes_by_voter/{member}")).await;
    assert_eq!(found("/cosmos/staking/v1beta1/validators").await["validators"], json!([]));
    assert_eq!(
        found(&format!("/cosmos/staking/v1beta1/delegations/{member}")).await["delegation_responses"],
        json!([])
    );
    assert_eq!(found("/cosmos/staking/v1beta1/pool").await["pool"]["bonded_tokens"], "1000000000");
    let versions = found("/cosmos/upgrade/v1beta1/module_versions?module_name=pp").await;
    assert_eq!(versions["module_versions"], json!([{"name": "pp", "version": "1"}]));
    let voting = found("/cosmos/gov/v1beta1/params/voting").await;
    assert!(voting["voting_params"]["voting_period"].is_string() && voting["tally_params"].is_null(), "{voting}");
    let tallying = found("/cosmos/gov/v1beta1/params/tallying").await;
    let quorum = BASE64_STANDARD.decode(tallying["tally_params"]["quorum"].as_str().expect("a text")).expect("base64");
    assert_eq!(quorum, b"334000000000000000");
    let votes = found("/cosmos/gov/v1beta1/proposals/1/votes").await;
    assert_eq!(votes["votes"], json!([]), "a decided proposal has its tally alone");
    let tally = found("/cosmos/gov/v1beta1/proposals/1/tally").await;
    let newer = found("/cosmos/gov/v1/proposals/1/tally").await;
    assert_eq!(tally["tally"]["yes"], newer["tally"]["yes_count"], "{tally}");
    assert_eq!(rest(&devnet, "/cosmos/gov/v1beta1/proposals").await.0, 500, "no proposal has legacy content");
    let info = found("/cosmos/base/tendermint/v1beta1/node_info").await;
    assert_eq!(info["default_node_info"]["network"], "svc-devnet-1", "{info}");
    assert_eq!(found("/cosmos/base/tendermint/v1beta1/syncing").await["syncing"], false);
    let newest = found("/cosmos/base/tendermint/v1beta1/blocks/latest").await;
    let height = newest["block"]["header"]["height"].as_str().expect("a height").to_owned();
    assert_eq!(found(&format!("/cosmos/base/tendermint/v1beta1/blocks/{height}")).await, newest);
    let by_rpc = call_ok(&devnet, "block", json!({"height": height})).await;
    let hash = BASE64_STANDARD.decode(newest["block_id"]["hash"].as_str().expect("a hash")).expect("base64");
    assert_eq!(by_rpc["block_id"]["hash"], hex::encode_upper(hash));
    assert_eq!(newest["block"]["data"], by_rpc["block"]["data"]);
    let proposer = newest["sdk_block"]["header"]["proposer_address"].as_str().expect("an address");
    assert!(proposer.starts_with("svcvalcons1"), "{proposer}");
    let set = found("/cosmos/base/tendermint/v1beta1/validatorsets/latest").await;
    assert_eq!((&set["validators"][0]["address"], &set["block_height"]), (&json!(proposer), &json!(height)));
    assert_eq!(set["validators"][0]["pub_key"]["@type"], "/cosmos.crypto.ed25519.PubKey");
    assert_eq!(rest(&devnet, "/cosmos/base/tendermint/v1beta1/blocks/999999").await.0, 400);
    let consensus = found("/cosmos/consensus/v1/params").await["params"].clone();
    let by_rpc = call_ok(&devnet, "consensus_params", json!({})).await["consensus_params"].clone();
    assert_eq!((&consensus["block"], &consensus["validator"]), (&by_rpc["block"], &by_rpc["validator"]));
}

#[tokio::test]
async fn the_gateway_of_rest_refuses_in_its_own_form_and_reads_past_heights() {
    let devnet = start("corporation").await;
    for (path, status, code) in [
        ("/cosmos/auth/v1beta1/accounts/nobody", 404, 5),
        ("/svc/cs/v1/get/77", 404, 5),
        ("/svc/cs/v1/get/x", 400, 3),
        ("/cosmos/bank/v1beta1/balances/a?pagination.limit=x", 400, 3),
        ("/no/such/path", 501, 12),
    ] {
        let (found, answer, _) = rest(&devnet, path).await;
        assert_eq!(
            (found, &answer["code"], &answer["details"]),
            (status, &json!(code), &json!([])),
            "{path}: {answer}"
        );
        let message = answer["message"].as_str().expect("a message");
        assert!(!message.is_empty() && !message.ends_with("key not found"), "{path}: {message}");
    }
    let origin = devnet.node.rest_origin().expect("it is served");
    let balances = format!("{origin}/cosmos/bank/v1beta1/balances/{}", devnet.address("operator"));
    let at = async |height: &str| {
        let request = reqwest::Client::new().get(&balances).header("x-cosmos-block-height", height);
        let answer = request.send().await.expect("an answer");
        (answer.headers()["x-cosmos-block-height"].clone(), answer.json::<Value>().await.expect("JSON"))
    };
    let (height, then) = at("1").await;
    assert_eq!((height.to_str().expect("a text"), &then["balances"][0]["amount"]), ("1", &json!("10000000")));

    // A transaction is simulated and broadcast over REST, and found there once it is in a block.
    let tx = payment(&devnet, 0, 5);
    let bytes = BASE64_STANDARD.encode(&tx.bytes);
    let client = reqwest::Client::new();
    let simulated =
        client.post(format!("{origin}/cosmos/tx/v1beta1/simulate")).body(json!({"tx_bytes": bytes}).to_string());
    let simulated: Value = simulated.send().await.expect("an answer").json().await.expect("JSON");
    assert!(
        simulated["gas_info"]["gas_used"].as_str().is_some_and(|gas| gas.parse::<u64>().is_ok_and(|gas| gas > 50_000)),
        "{simulated}"
    );
    let sent = json!({"tx_bytes": bytes, "mode": "BROADCAST_MODE_SYNC"}).to_string();
    let sent = client.post(format!("{origin}/cosmos/tx/v1beta1/txs")).body(sent).send().await.expect("an answer");
    let sent: Value = sent.json().await.expect("JSON");
    assert_eq!((&sent["tx_response"]["code"], &sent["tx_response"]["txhash"]), (&json!(0), &json!(tx.hash)));
    let (status, missing, _) = rest(&devnet, &format!("/cosmos/tx/v1beta1/txs/{}", tx.hash)).await;
    assert_eq!((status, &missing["code"]), (404, &json!(5)));
    let height = devnet.node.produce_block().expect("made").height;
    let (_, found, _) = rest(&devnet, &format!("/cosmos/tx/v1beta1/txs/{}", tx.hash)).await;
    assert_eq!(found["tx_response"]["height"], height.to_string());
    let (_, listed, _) = rest(&devnet, &format!("/cosmos/tx/v1beta1/txs?query=tx.height={height}")).await;
    assert_eq!(listed["tx_responses"][0]["txhash"], tx.hash, "{listed}");
    let refused = json!({"tx_bytes": BASE64_STANDARD.encode(b"none")}).to_string();
    let refused =
        client.post(format!("{origin}/cosmos/tx/v1beta1/simulate")).body(refused).send().await.expect("an answer");
    let refused: Value = refused.json().await.expect("JSON");
    assert!(refused["message"].as_str().is_some_and(|text| text.contains("with gas used")), "{refused}");
}

/// The very bytes with which the SDK's client in Go simulates a payment of the member: its public key has no bytes, and its fee is 0.
const SIMULATED_BY_GO: &str = "CocBCoQBChwvY29zbW9zLmJhbmsudjFiZXRhMS5Nc2dTZW5kEmQKKnN2YzE5cmw0Y20yaG1yOGFmeTRrbGRweHozZmthNGpndXEwYWZ1N2s2OBIqc3ZjMWF2Z3loNzd5Y245OTdqYTQ1cTVxOHNzOHk5bXI0MjRqNHgzY3NuGgoKBHVzdmMSAjExEjoKKwohCh8vY29zbW9zLmNyeXB0by5zZWNwMjU2azEuUHViS2V5EgQKAggBGAMSCwoJCgR1c3ZjEgEwGgA=";

#[tokio::test]
async fn the_simulation_of_a_client_in_go_is_taken() {
    let devnet = start("corporation").await;
    let origin = devnet.node.rest_origin().expect("it is served");
    let simulated = reqwest::Client::new().post(format!("{origin}/cosmos/tx/v1beta1/simulate"));
    let simulated = simulated.body(json!({"tx_bytes": SIMULATED_BY_GO}).to_string()).send().await.expect("an answer");
    let simulated: Value = simulated.json().await.expect("JSON");
    assert!(simulated["gas_info"]["gas_used"].is_string(), "{simulated}");
}

#[tokio::test]
async fn grpc_has_the_same_answers_and_survives_a_restart_of_the_node() {
    let devnet = start("corporation").await;
    let request = QueryAllBalancesRequest { address: devnet.address("member").to_owned(), ..Default::default() };
    let method = "/cosmos.bank.v1beta1.Query/AllBalances";
    let answer = grpc::<_, QueryAllBalancesResponse>(&devnet, method, request.clone(), None).await.expect("an answer");
    let height = devnet.node.watch_heights().borrow().to_string();
    assert_eq!(
        answer.metadata().get("x-cosmos-block-height").and_then(|height| height.to_str().ok()),
        Some(height.as_str())
    );
    let (_, shown, _) = rest(&devnet, &format!("/cosmos/bank/v1beta1/balances/{}", request.address)).await;
    assert_eq!(answer.get_ref().balances[0].amount, shown["balances"][0]["amount"]);
    let then = grpc::<_, QueryAllBalancesResponse>(&devnet, method, request, Some("1")).await.expect("an answer");
    assert_ne!(then.get_ref().balances, answer.get_ref().balances, "the first block is before the steps");
    let unknown = grpc::<_, ConfigResponse>(&devnet, "/cosmos.nothing.v1.Query/Params", ConfigRequest {}, None).await;
    assert_eq!(unknown.expect_err("unknown").code(), Code::Unimplemented);
    let missing = QueryAllBalancesRequest { address: "a".into(), ..Default::default() };
    let missing = grpc::<_, ConfigResponse>(&devnet, "/cosmos.auth.v1beta1.Query/AccountInfo", missing, None).await;
    assert_eq!(missing.expect_err("no account").code(), Code::NotFound);
    let tx = payment(&devnet, 0, 5);
    let sent = BroadcastTxRequest { tx_bytes: tx.bytes.clone(), mode: BroadcastMode::Sync.into() };
    let sent = grpc::<_, BroadcastTxResponse>(&devnet, "/cosmos.tx.v1beta1.Service/BroadcastTx", sent, None).await;
    assert_eq!(
        sent.expect("accepted").get_ref().tx_response.as_ref().map(|answer| answer.txhash.clone()),
        Some(tx.hash)
    );

    let (address, origin) = (devnet.node.grpc_address(), devnet.node.rest_origin());
    devnet.node.stop();
    devnet.node.start().expect("starts again");
    assert_eq!((devnet.node.grpc_address(), devnet.node.rest_origin()), (address, origin));
    let config =
        grpc::<_, ConfigResponse>(&devnet, "/cosmos.base.node.v1beta1.Service/Config", ConfigRequest {}, None).await;
    assert_eq!(config.expect("an answer").get_ref().minimum_gas_price, "0.025000000000000000usvc");
}

#[tokio::test]
async fn the_registry_s_paths_are_those_of_the_generation_also_after_an_upgrade() {
    let (old, new) = (["/svc/cs/v1/list", "/svc-labs/svc/xr/v1/params"], ["/cs/v1/list", "/xr/v1/params"]);
    let assert_served = async |devnet: &Devnet, served: [&str; 2], gone: [&str; 2]| {
        // Both forms of these are the same.
        for path in served.into_iter().chain(["/co/v1/list", "/cosmos/bank/v1beta1/supply"]) {
            let (status, answer, _) = rest(devnet, path).await;
            assert_eq!(status, 200, "{path}: {answer}");
        }
        for path in gone {
            let (status, answer, _) = rest(devnet, path).await;
            assert_eq!((status, &answer["code"]), (501, &json!(12)), "{path}: {answer}");
        }
    };
    let devnet = start("corporation").await;
    assert_served(&devnet, old, new).await;
    devnet.node.stop();
    devnet.node.upgrade(NodeGeneration::N1).expect("upgrades");
    devnet.node.start().expect("starts again");
    assert_served(&devnet, new, old).await;
    let newest = start_as(NodeGeneration::N4, "corporation").await;
    assert_served(&newest, new, old).await;
    let schema = rest(&newest, "/cs/v1/get/77").await;
    assert_eq!((schema.0, &schema.1["code"]), (404, &json!(5)), "{}: the method has the path", schema.1);
}

#[tokio::test]
async fn a_node_with_a_council_has_its_members_over_rest_and_an_older_one_no_such_path() {
    let devnet = start_as(NodeGeneration::N4, "corporation").await;
    let (status, council, _) = rest(&devnet, "/poa/v1/council").await;
    assert_eq!((status, &council["authority"]), (200, &json!(devnet.address("gov"))), "{council}");
    assert_eq!(council["members"], json!([devnet.address("member")]));
    let older = start("corporation").await;
    let (status, answer, _) = rest(&older, "/poa/v1/council").await;
    assert_eq!((status, &answer["code"]), (501, &json!(12)), "{answer}");
}

#[tokio::test]
async fn pages_of_every_origin_ask_the_rpc_and_rest_as_at_a_public_node() {
    let devnet = start("corporation").await;
    let client = reqwest::Client::new();
    let rest = devnet.node.rest_origin().expect("it is served");
    for (url, method, header) in [
        (format!("{rest}/cosmos/base/tendermint/v1beta1/node_info"), "GET", "x-cosmos-block-height"),
        (format!("{}/", devnet.node.origin()), "POST", "content-type"),
        (format!("{}/status", devnet.node.origin()), "GET", "x-requested-with"),
    ] {
        let asks = client.request(reqwest::Method::OPTIONS, &url).header("origin", "https://page.example");
        let asks =
            asks.header("access-control-request-method", method).header("access-control-request-headers", header);
        let answer = asks.send().await.expect("answered");
        assert!(answer.status().is_success(), "{url}: {}", answer.status());
        let allowed = |name: &str| answer.headers()[name].to_str().expect("a text").to_owned();
        assert_eq!(allowed("access-control-allow-origin"), "*", "{url}");
        assert!(allowed("access-control-allow-methods").contains(method), "{url}");
        assert!(allowed("access-control-allow-headers").contains(header), "{url}");
        let answer = client.get(&url).header("origin", "https://page.example").send().await.expect("answered");
        assert_eq!(answer.headers()["access-control-allow-origin"], "*", "{url}");
    }
}

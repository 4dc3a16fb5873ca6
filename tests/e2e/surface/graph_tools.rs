//! Graph tools: requests in the shapes of the graph's contract, and reads that wait for its progress.

use serde_json::{Value, json};

use crate::e2e::{
    fakes::FakeGraph,
    harness::{assert_output_schema, network_config, sample_arguments, start_network},
};

#[tokio::test(flavor = "multi_thread")]
async fn every_graph_tool_follows_the_contract_and_its_output_schema() {
    let graph = FakeGraph::start().await;
    let world =
        start_network(svc::network::LocalNetworkConfig { graph: Some(graph.origin.clone()), ..network_config(100) })
            .await;
    let tools = world.client.list_tools().await.expect("tools are listed");
    let graph_tools: Vec<_> = tools.iter().filter(|tool| tool.name.starts_with("svc.graph.")).collect();
    assert_eq!(graph_tools.len(), 24);
    for tool in graph_tools {
        let given = match &*tool.name {
            "svc.graph.path.shortest" => {
                json!({"from": {"type": "Did", "id": "did:web:a.example"}, "to": {"type": "Corporation", "id": 1}})
            }
            _ => sample_arguments(tool),
        };
        let answer = world.call_ok(&tool.name, given.clone()).await;
        assert_output_schema(tool, &answer);
        let asked = graph.queries().pop().expect("asked");
        if tool.name.contains(".search.") {
            let surface = asked["surface"].as_str().expect("a surface").to_lowercase();
            let verb = tool.name.rsplit('.').next().expect("a verb").to_lowercase();
            assert!(surface.ends_with(&verb), "{}: {asked}", tool.name);
        } else {
            assert_eq!(asked["input"], given, "{}", tool.name);
            assert!(asked.get("cursor").is_none(), "null is refused there: {asked}");
        }
    }
    let page = json!({"did": "did:web:a.example", "limit": 5, "cursor": "abc"});
    world.call_ok("svc.graph.did.linkedVps", page).await;
    let asked = graph.queries().pop().expect("asked");
    assert_eq!((&asked["limit"], &asked["cursor"]), (&json!(5), &json!("abc")));
    let error =
        world.call_error("svc.graph.did.trustSummary", json!({"did": "did:web:unknown.example"}), "NOT_FOUND").await;
    assert_eq!((&error["details"]["kind"], &error["details"]["status"]), (&json!("graph"), &json!(404)));
    let filter = json!({"filters": {"Did.color": "red"}});
    let error = world.call_error("svc.graph.search.did", filter, "INPUT_INVALID").await;
    assert_eq!(error["details"]["violations"][0]["pointer"], "/filters/Did.color");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_read_waits_for_min_height() {
    let graph = FakeGraph::start().await;
    let mut config = network_config(100);
    config.graph = Some(graph.origin.clone());
    config.indexer_timeout = std::time::Duration::from_secs(2);
    let world = start_network(config).await;
    graph.height.send_replace(10);
    world
        .wait_until("the status shows the graph", async || {
            world.call_ok("svc.wallet.getStatus", json!({})).await["graph_ws"]["last_height"] == 10
        })
        .await;
    let ask = |height: u64| json!({"did": "did:web:a.example", "min_height": height});
    world.call_ok("svc.graph.did.trustSummary", ask(10)).await;
    let error = world.call_error("svc.graph.did.trustSummary", ask(12), "INDEXER_BEHIND").await;
    assert_eq!((&error["details"]["reader"], &error["retryable"]), (&json!("graph"), &json!(true)));
    let waiting = world.call_ok("svc.graph.did.trustSummary", ask(12));
    let (answer, ()) = tokio::join!(waiting, async {
        graph.height.send_replace(12);
    });
    assert_eq!(answer["query"], Value::from("A1"));
}

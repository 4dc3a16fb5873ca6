//! Pages of another origin read the index, as a browser lets them.

use reqwest::{Client, Method};

use super::{MARKETPLACE_SCENARIO, start_chain_and_indexer};

const PAGE: &str = "https://search.example";

#[tokio::test]
async fn pages_of_every_origin_read_with_all_headers_and_metrics_are_not_for_them() {
    let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let client = Client::new();
    let url = |path: &str| format!("{}{path}", grounds.indexer_origin());
    for (method, path) in [("GET", "/v4/ecosystem/list"), ("POST", "/v4/verifiable-trust/resolve")] {
        let asks = client
            .request(Method::OPTIONS, url(path))
            .header("origin", PAGE)
            .header("access-control-request-method", method)
            .header("access-control-request-headers", "at-block-height,content-type,traceparent");
        let answer = asks.send().await.expect("answered");
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        let allowed = |name: &str| answer.headers()[name].to_str().expect("a text").to_owned();
        assert_eq!(allowed("access-control-allow-origin"), "*");
        assert_eq!(allowed("access-control-allow-headers"), "*");
        assert!(allowed("access-control-allow-methods").contains(method), "{path}");
    }
    let asks = client.get(url("/v4/ecosystem/list")).header("origin", PAGE).header("at-block-height", "1");
    let answer = asks.send().await.expect("answered");
    assert_eq!(answer.headers()["access-control-allow-origin"], "*");
    let exposed = answer.headers()["access-control-expose-headers"].to_str().expect("a text").to_owned();
    let own = answer.headers().keys().map(|name| name.as_str());
    let own: Vec<&str> = own.filter(|name| name.starts_with("x-") || *name == "at-block-height").collect();
    assert!(own.len() > 4, "{own:?}");
    for name in own {
        assert!(exposed.split(',').any(|one| one.trim() == name), "{name} is not in {exposed}");
    }
    // A page learns that something does not exist.
    for path in ["/v4/ecosystem/get/999", "/v4/nothing", "/nothing"] {
        let answer = client.get(url(path)).header("origin", PAGE).send().await.expect("answered");
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["access-control-allow-origin"]),
            (404, &"*".parse().expect("a value"))
        );
    }
    let metrics = client.get(url("/metrics")).header("origin", PAGE).send().await.expect("answered");
    assert!(!metrics.headers().contains_key("access-control-allow-origin"));
}

//! The tools of reads.

use super::*;

#[test]
fn arguments_become_path_query_body_and_header() {
    let tool = |operation: &str| IdxTool { endpoint: find_endpoint(operation).expect("known") };
    let request = tool("es.getEcosystem").build_request(&json!({"id": "7", "gf_data": "all", "at_block_height": 5}));
    let query = vec![("gf_data".to_owned(), "all".to_owned())];
    let expected = IndexerRequest { path: "/v4/ecosystem/get/7".into(), query, body: None, at_block_height: Some(5) };
    assert_eq!(request, expected);
    let request = tool("indexer.listEvents").build_request(&json!({"dids": ["did:web:a", "did:web:b"], "limit": 3}));
    assert_eq!(request.query[0].1, "did:web:a,did:web:b");
    let request = tool("di.getDigest").build_request(&json!({"digest": "sha384-a/b+c="}));
    assert!(request.path.ends_with("/sha384-a%2Fb%2Bc%3D"), "{}", request.path);
    let request = tool("vt.resolve").build_request(&json!({"did": "did:web:a", "services": true, "min_height": 4}));
    assert_eq!(request.body, Some(json!({"did": "did:web:a", "services": true})));
}

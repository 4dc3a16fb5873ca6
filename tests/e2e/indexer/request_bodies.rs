//! Reads with a JSON body: an error names the invalid member.

use serde_json::{Value, json};
use svc_indexer::read_endpoints;
use svc_wire::indexer_reads::{HttpMethod, ReadParamType};

use super::{ReadResponse, post_at, read_at, send_read, start_chain_and_indexer};

const AUTHORIZATION: &str = "/v4/trqp/v2/authorization";

/// Returns a valid body with one member changed.
fn with(operation: &str, name: &str, value: &Value) -> Value {
    let mut question = match operation {
        "vt.resolve" => json!({"did": "did:a"}),
        _ => json!({"authority_id": "did:a", "entity_id": "did:e", "action": "issue", "resource": "vpr:svc:c:cs:1"}),
    };
    question[name] = value.clone();
    question
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_body_is_refused_with_the_name_of_the_member() {
    let grounds = start_chain_and_indexer("empty").await;
    let origin = grounds.indexer_origin();
    let wrong =
        [json!(5), json!(true), json!([]), json!(["issue"]), json!({}), json!("a\u{0}b"), json!("x".repeat(3_000))];
    let mut asked = 0;
    for endpoint in
        read_endpoints().expect("the table of reads").iter().filter(|endpoint| endpoint.method == HttpMethod::Post)
    {
        for param in &endpoint.params {
            let missing = param.required.then_some([json!(null), json!("")]).into_iter().flatten();
            for value in wrong.iter().cloned().chain(missing) {
                let is_usable = match param.param_type {
                    ReadParamType::Object => value.is_object(),
                    ReadParamType::Selector => value.is_object() || value.is_boolean(),
                    ReadParamType::Flag => value.is_boolean(),
                    _ => false,
                };
                if is_usable {
                    continue;
                }
                let body = with(&endpoint.operation, &param.name, &value);
                let read = post_at(&origin, &endpoint.path, &body, None).await;
                assert_eq!((read.status, &read.body["code"]), (400, &json!(400)), "{body}: {}", read.body);
                let text = read.body["error"].as_str().expect("a text");
                assert!(text.starts_with(&format!("{}: ", param.name)) && text.len() < 400, "{body}: {text}");
                asked += 1;
            }
        }
        let of_trqp = [
            (
                "resource",
                json!("vpr:svc:c:es:1"),
                "resource: \"vpr:svc:c:es:1\" is not vpr:<word>:<chain id>:cs:<schema id>",
            ),
            ("context", json!({"time": "soon"}), "context.time: \"soon\" is not an RFC 3339 instant"),
            ("context", json!({"session_id": "x"}), "context.session_id: \"x\" is not a UUID"),
        ];
        let of_trust = [
            ("did", json!("web:a"), "did: \"web:a\" is not a DID"),
            (
                "presentations",
                json!({"invalidCredentialIds": "yes"}),
                "presentations.invalidCredentialIds: \"yes\" is not true or false",
            ),
            (
                "ecosystems",
                json!({"all": true}),
                "ecosystems: \"all\" is not one of its members: includeArchived, credentialSchemas",
            ),
        ];
        for (name, value, expected) in if endpoint.operation == "vt.resolve" { of_trust } else { of_trqp } {
            let read = post_at(&origin, &endpoint.path, &with(&endpoint.operation, name, &value), None).await;
            assert_eq!((read.status, &read.body["error"]), (400, &json!(expected)));
        }
    }
    assert!(asked > 70, "{asked}");

    let client = reqwest::Client::new();
    let url = format!("{origin}{AUTHORIZATION}");
    let sent = async |content_type: &str, body: String| {
        let request = client.post(&url).header("content-type", content_type).body(body);
        let ReadResponse { status, body, .. } = send_read(request, None).await;
        (status, body["error"].as_str().unwrap_or_default().to_owned())
    };
    let good = with("trqp.authorize", "action", &json!("issue")).to_string();
    for (content_type, body, status, expected) in [
        ("application/json", String::new(), 400, "body: is not JSON: EOF while parsing a value at line 1 column 0"),
        ("application/json", good[..20].to_owned(), 400, "body: is not JSON: EOF while parsing a string at line 1"),
        ("application/json", "[]".to_owned(), 400, "body: an array is not an object"),
        (
            "application/json",
            good.replacen('{', r#"{"action":"verify","#, 1),
            400,
            "body: \"action\" is given more than once",
        ),
        ("application/json", "[".repeat(30_000), 400, "body: is nested in more than 16 levels"),
        ("application/json", " ".repeat(64 * 1024) + &good, 413, "body: longer than 65536 bytes"),
        ("text/plain", good.clone(), 400, "content-type: \"text/plain\" is not application/json"),
        ("application/x-www-form-urlencoded", "action=issue".to_owned(), 400, "content-type: "),
        ("application/json; charset=utf-8", good.clone(), 200, ""),
        ("Application/LD+json", good.clone(), 200, ""),
    ] {
        let (found, text) = sent(content_type, body).await;
        assert!(found == status && text.starts_with(expected), "{content_type}: {found} {text}");
    }
    let bare = send_read(client.post(&url).body(good.clone()), None).await;
    assert_eq!((bare.status, &bare.body["authorized"]), (200, &json!(false)), "no type is taken for JSON");
    assert_eq!(bare.headers["x-crawling-status"], "active");
    // Parameters in the query are not accepted, and the height is checked as in every read.
    let stray = post_at(&origin, &format!("{AUTHORIZATION}?action=issue"), &json!({}), None).await;
    assert_eq!(stray.body["error"], "authority_id: is required");
    let late = post_at(&origin, AUTHORIZATION, &serde_json::from_str(&good).expect("JSON"), Some(99_999)).await;
    assert!(
        late.body["error"].as_str().expect("a text").starts_with("At-Block-Height: 99999 is above"),
        "{}",
        late.body
    );
    assert_eq!(late.status, 400);

    // Other methods and unknown entities have the usual answers.
    let not_found = json!({"error": "Not found", "code": 404});
    for read in [
        read_at(&origin, AUTHORIZATION, None).await,
        send_read(client.put(&url).body(good.clone()), None).await,
        send_read(client.delete(&url), None).await,
        post_at(&origin, "/v4/trqp/v2/profile", &json!({}), None).await,
        read_at(&origin, "/v4/trqp/v2/unknown", None).await,
    ] {
        assert_eq!((read.status, &read.body), (404, &not_found));
    }
}

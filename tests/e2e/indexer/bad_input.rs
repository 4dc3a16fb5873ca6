//! Invalid input: each parameter of each read, and malformed messages and frames of subscribers.

use futures::{SinkExt, StreamExt};
use serde_json::Value;
use svc_indexer::{openapi, read_endpoints};
use svc_wire::indexer_reads::{HttpMethod, ParamLocation, ReadEndpoint, ReadParam, ReadParamType};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_tungstenite::tungstenite::{Message, protocol::frame::coding::CloseCode};

use super::{super::harness::TEST_TIMEOUT, connect, next_message, produce_blocks, read_at, start_chain_and_indexer};

/// Values that only text parameters accept.
const WRONG_VALUES: [&str; 12] = [
    "-1",
    "1.5",
    "1e3",
    "0x10",
    "99999999999999999999999999",
    "'; DROP TABLE entity; --",
    "1 OR 1=1",
    "{\"$ne\":null}",
    "[1]",
    "\u{0}",
    "é\u{202e}",
    "../../etc/passwd",
];

/// Whether a parameter type refuses a value. Texts accept all but control characters.
fn is_refused(kind: &str, value: &str) -> bool {
    match kind {
        "string" => value.contains(char::is_control),
        "digits" => value.len() > 2_048 || value.contains(|c: char| !c.is_ascii_digit()),
        _ => true,
    }
}

/// Returns a valid id for the path of an endpoint.
fn an_id(endpoint: &ReadEndpoint) -> &'static str {
    let is_uuid = |param: &ReadParam| param.name == "id" && matches!(param.param_type, ReadParamType::Uuid);
    if endpoint.params.iter().any(is_uuid) { "018f4c5e-7a2b-4c3d-8e9f-0a1b2c3d4e5f" } else { "1" }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_parameter_refuses_invalid_values_by_name() {
    let grounds = start_chain_and_indexer("corporation").await;
    let origin = grounds.indexer_origin();
    let document = openapi().expect("a document");
    let mut asked = 0;
    // Parameters in a body have their own test.
    for endpoint in
        read_endpoints().expect("the table of reads").iter().filter(|endpoint| endpoint.method == HttpMethod::Get)
    {
        for param in &endpoint.params {
            let described = document["paths"][&endpoint.path]["get"]["parameters"].as_array().expect("parameters");
            let own = described.iter().find(|one| one["name"] == param.name.as_str()).expect("described");
            let is_text = own["schema"]["type"] == "string"
                && ["enum", "format", "pattern"].iter().all(|key| own["schema"].get(*key).is_none());
            let is_list = matches!(param.name.as_str(), "entity_ids" | "cursor");
            let kind = match own["schema"]["format"].as_str() {
                Some("uuid") => "uuid",
                _ if own["schema"].get("pattern").is_some() => "digits",
                _ if is_text && !is_list => "string",
                _ => "other",
            };
            let long = "9".repeat(3_000);
            for value in WRONG_VALUES.into_iter().chain([long.as_str()]) {
                let escaped: String = url::form_urlencoded::byte_serialize(value.as_bytes()).collect();
                let escaped = escaped.replace('+', "%20");
                // The other required parameters are present.
                let others: String = endpoint
                    .params
                    .iter()
                    .filter(|other| {
                        other.required && other.location == ParamLocation::Query && other.name != param.name
                    })
                    .filter(|other| matches!(other.param_type, ReadParamType::Id | ReadParamType::Uint))
                    .map(|other| format!("&{}=1", other.name))
                    .collect();
                let path = match endpoint.path.contains(&format!("{{{}}}", param.name)) {
                    true => endpoint.path.replace(&format!("{{{}}}", param.name), &escaped),
                    false => format!(
                        "{}?{}={escaped}{others}",
                        endpoint
                            .path
                            .replace("{id}", an_id(endpoint))
                            .replace("{corporation_id}", "1")
                            .replace("{digest}", "x"),
                        param.name
                    ),
                };
                let read = read_at(&origin, &path, None).await;
                asked += 1;
                assert!(read.status < 500, "{path}: {} {}", read.status, read.body);
                // A valid cursor has this form.
                if (param.name.as_str(), value) == ("cursor", "1.5") {
                    continue;
                }
                let is_too_long =
                    value.len() > 2_048 && !matches!(param.name.as_str(), "dids" | "policy_address" | "entity_ids");
                if is_refused(kind, value) || is_too_long {
                    assert_eq!(read.status, 400, "{path}: {}", read.body);
                    assert_eq!(read.body["code"], 400);
                    let text = read.body["error"].as_str().expect("a text");
                    assert!(text.contains(param.name.as_str()), "{path}: {text:?} does not name {}", param.name);
                    assert!(text.len() < 400, "{path}: a complaint is short");
                }
            }
        }
    }
    assert!(asked > 1_500, "{asked}");
    for (header, status) in [("-1", 400), ("x", 400), ("1.0", 400), ("99999999", 400), ("0", 200), ("1", 200)] {
        let response = reqwest::Client::new()
            .get(format!("{origin}/v4/corporation/list"))
            .header("At-Block-Height", header)
            .send()
            .await
            .expect("answered");
        assert_eq!(response.status().as_u16(), status, "At-Block-Height: {header}");
        if status == 400 {
            let body: Value = response.json().await.expect("JSON");
            assert!(body["error"].as_str().expect("a text").starts_with("At-Block-Height"), "{body}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_errors_have_equal_statuses() {
    let grounds = start_chain_and_indexer("corporation").await;
    let origin = grounds.indexer_origin();
    for endpoint in read_endpoints().expect("the table of reads") {
        if endpoint.path.contains("{id}") || endpoint.path.contains("{corporation_id}") {
            let fill = |id: &str| endpoint.path.replace("{id}", id).replace("{corporation_id}", id);
            let is_uuid = endpoint.operation.contains("Session");
            let missing = if is_uuid { "00000000-0000-0000-0000-000000000000" } else { "999999" };
            let [bad, none] =
                [read_at(&origin, &fill("no-number!"), None).await, read_at(&origin, &fill(missing), None).await];
            assert_eq!((bad.status, none.status), (400, 404), "{}: {} {}", endpoint.path, bad.body, none.body);
        }
        if endpoint.params.iter().any(|param| param.name == "limit") {
            let required: String = endpoint
                .params
                .iter()
                .filter(|param| param.required && !endpoint.path.contains(&param.name))
                .map(|param| format!("&{}=1", param.name))
                .collect();
            let path = endpoint.path.replace("{id}", an_id(endpoint)).replace("{corporation_id}", "1");
            let limit = endpoint.params.iter().find(|param| param.name == "limit").and_then(|param| param.max);
            let above = (limit.expect("a bound") + 1).to_string();
            for limit in ["0", &above, "x"] {
                let read = read_at(&origin, &format!("{path}?limit={limit}{required}"), None).await;
                assert_eq!(read.status, 400, "{path} limit={limit}: {}", read.body);
            }
        }
    }
    for (path, status) in [
        ("/v4/corporation/unknown/1", 404),
        ("/v4/unknown/get/1", 404),
        ("/v4/exchange-rate/price?base_asset_type=TU&base_asset=a&quote_asset_type=COIN&quote_asset=b&amount=1", 404),
        ("/v4/di/get/unknown", 404),
        ("/v4/stats/get", 400),
        ("/v4/stats/get?id=1&granularity=HOUR", 400),
        ("/v4/stats/snapshot?entity_type=ECOSYSTEM", 400),
        ("/v4/stats/snapshot?entity_id=1", 400),
        ("/v4/governance-framework/list", 400),
        ("/v4/governance-framework/list?ecosystem_id=1&corporation_id=1", 400),
        ("/v4/group/votes", 400),
        ("/v4/participant/beneficiaries", 400),
        ("/v4/indexer/snapshot?did=x", 400),
    ] {
        assert_eq!(read_at(&origin, path, None).await.status, status, "{path}");
    }
    let posted =
        reqwest::Client::new().post(format!("{origin}/v4/corporation/list")).body("{").send().await.expect("answered");
    assert_eq!(posted.status().as_u16(), 404, "a wrong method is not found");
}

/// Sends raw bytes after the handshake on a new socket, and returns the answer.
async fn exchange_raw_bytes(origin: &str, bytes: &[u8]) -> Vec<u8> {
    let address = origin.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.expect("connects");
    let request = format!(
        "GET /v4/indexer/subscribe HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.expect("sent");
    stream.write_all(bytes).await.expect("sent");
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    // A reset after the close frame ends the connection too.
    let _ = tokio::time::timeout(TEST_TIMEOUT, read).await.expect("the server ends it");
    answer
}

/// Returns a client's frame: FIN and opcode, a mask of zeros, the payload.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match payload.len() {
        length @ 0..126 => bytes.push(0x80 | u8::try_from(length).expect("short")),
        length => {
            bytes.push(0x80 | 127);
            bytes.extend((length as u64).to_be_bytes());
        }
    }
    bytes.extend([0; 4]);
    bytes.extend(payload);
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_frames_close_only_their_own_connection() {
    let grounds = start_chain_and_indexer("empty").await;
    let origin = grounds.indexer_origin();
    let mut bystander = connect(&origin).await;
    bystander.send(Message::text(r#"{"action":"subscribe"}"#)).await.expect("sent");
    for expected in ["ready", "subscribed"] {
        assert_eq!(next_message(&mut bystander).await.expect("open")["type"], expected);
    }
    let unmasked = [&[0x81, 2][..], b"{}"].concat();
    for (what, bytes, code) in [
        ("invalid UTF-8 in a text", frame(0x81, &[0xff, 0xfe]), CloseCode::Invalid),
        ("an unmasked frame", unmasked, CloseCode::Protocol),
        ("a reserved opcode", frame(0x83, b"x"), CloseCode::Protocol),
        ("reserved bits", frame(0xf1, b"x"), CloseCode::Protocol),
        ("a continuation of nothing", frame(0x80, b"x"), CloseCode::Protocol),
        ("a fragmented control frame", frame(0x09, b"x"), CloseCode::Protocol),
        ("a frame of 65 KiB", frame(0x81, &[b'x'; 65 * 1024 + 1]), CloseCode::Size),
        (
            "a message of two halves of 40 KiB",
            [frame(0x01, &[b'x'; 40 * 1024]), frame(0x80, &[b'x'; 40 * 1024])].concat(),
            CloseCode::Size,
        ),
        ("binary that is no JSON", frame(0x82, &[0xff]), CloseCode::Policy),
    ] {
        let answer = exchange_raw_bytes(&origin, &bytes).await;
        let code: u16 = code.into();
        let is_told = answer.windows(4).any(|window| window[0] == 0x88 && window[2..] == code.to_be_bytes());
        assert!(is_told, "{what}: no close {code} in {:?}", String::from_utf8_lossy(&answer));
    }
    // A fragmented message with a ping between the fragments is valid.
    let mut halves = frame(0x01, br#"{"action":"#);
    halves.extend(frame(0x89, b"?"));
    halves.extend(frame(0x80, br#""pause"}"#));
    let answer = exchange_raw_bytes(&origin, &halves).await;
    assert!(String::from_utf8_lossy(&answer).contains("Unknown action"));

    let height = produce_blocks(&grounds, 2).await;
    let mut last = 0;
    while last < height {
        last = next_message(&mut bystander).await.expect("open")["block"].as_u64().expect("a height");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_above_the_limit_is_refused_at_once() {
    let grounds = start_chain_and_indexer("empty").await;
    let config = svc_indexer::IndexerConfig::new(grounds.devnet.node.origin(), "sqlite::memory:");
    let replica = super::IndexerReplica::launch_with_connection_limit(config, 1).await;
    let origin = replica.origin.clone();
    let mut first = connect(&origin).await;
    assert_eq!(next_message(&mut first).await.expect("open")["type"], "ready");
    let url = origin.replace("http", "ws") + "/v4/indexer/subscribe";
    let (mut refused, _) = tokio_tungstenite::connect_async(url).await.expect("connects");
    let end = loop {
        match tokio::time::timeout(TEST_TIMEOUT, refused.next()).await.expect("in time") {
            Some(Ok(Message::Close(frame))) => break frame.expect("with a code"),
            Some(Ok(_)) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((end.code, end.reason.as_str()), (CloseCode::Again, "Server overloaded"));
}

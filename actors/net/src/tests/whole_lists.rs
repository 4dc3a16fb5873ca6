//! Lists of a node that are longer than it gives at once, over real sockets.

use base64::{Engine, engine::general_purpose::STANDARD};
use prost::Message;
use serde_json::{Value, json};
use svc_wire::{
    proto::svc::pp::v1::{Participant, QueryListParticipantsRequest, QueryListParticipantsResponse},
    timestamp,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::upstream::NodeClient;

const PATH: &str = "/svc.pp.v1.Query/ListParticipants";

/// The answer of a node with these participants: in the order of their changes, from an instant on, and no more than it is asked for.
fn answer(all: &[Participant], request: &Value) -> Value {
    let data = hex::decode(request["params"]["data"].as_str().expect("data")).expect("hex");
    let wanted = QueryListParticipantsRequest::decode(data.as_slice()).expect("a request");
    let after = wanted.modified_after.map_or(i64::MIN, |instant| instant.seconds);
    let shown = all.iter().filter(|one| one.modified.is_some_and(|instant| instant.seconds >= after));
    let participants: Vec<Participant> = shown.take(wanted.response_max_size as usize).cloned().collect();
    let value = STANDARD.encode(QueryListParticipantsResponse { participants }.encode_to_vec());
    let response = json!({"code": 0, "log": "", "codespace": "", "height": "9", "value": value});
    json!({"jsonrpc": "2.0", "id": request["id"], "result": {"response": response}})
}

async fn serve(mut stream: TcpStream, all: Vec<Participant>) {
    let mut received = Vec::new();
    let mut part = [0; 4_096];
    loop {
        let text = String::from_utf8_lossy(&received).into_owned();
        let request = text.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str::<Value>(body).ok());
        if let Some(request) = request {
            let body = answer(&all, &request).to_string();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all((head + &body).as_bytes()).await.expect("written");
            received.clear();
            continue;
        }
        match stream.read(&mut part).await {
            Ok(read) if read > 0 => received.extend_from_slice(&part[..read]),
            _ => return,
        }
    }
}

/// Lists participants of which each instant has so many.
async fn list(count: u64, per_instant: u64) -> Result<Vec<u64>, String> {
    let participant = |id: u64| {
        let seconds = i128::from(id / per_instant);
        let modified = Some(timestamp::from_unix_nanos(seconds * 1_000_000_000));
        Participant { id, modified, ..Participant::default() }
    };
    let all: Vec<Participant> = (0..count).map(participant).collect();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let origin = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, all.clone()));
        }
    });
    let node = NodeClient::new(origin).expect("a client");
    let found = node.list_participants(PATH, QueryListParticipantsRequest::default()).await;
    found.map(|all| all.into_iter().map(|one| one.id).collect()).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_list_of_participants_is_read_to_its_end_or_refused() {
    for (count, per_instant) in [(0, 1), (3, 1), (1_023, 2_000), (1_024, 1), (3_000, 1), (3_000, 700), (3_000, 1_023)] {
        let expected: Vec<u64> = (0..count).collect();
        assert_eq!(list(count, per_instant).await, Ok(expected), "{count} of which {per_instant} share an instant");
    }
    // More share an instant than the node gives, and the rest cannot be asked for.
    for (count, per_instant) in [(1_024, 2_000), (3_000, 1_025)] {
        let error = list(count, per_instant).await.expect_err("cut");
        assert!(error.contains("may be cut: the node gives 1024 entries at most"), "{error}");
    }
}

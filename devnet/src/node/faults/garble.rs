//! Garbled answers, as proxies, full disks and broken connections cause them.

use std::io;

use axum::{
    body::{Body, Bytes},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use futures::stream;
use serde_json::{Value, json};

use super::GarbleKind;

const JSON: (header::HeaderName, &str) = (header::CONTENT_TYPE, "application/json");
const PROXY_ERROR_PAGE: &str =
    "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body><h1>502 Bad Gateway</h1></body>\r\n</html>";

/// Garbles an answer.
pub fn garble_response(how: GarbleKind, mut answer: Value) -> Response {
    match how {
        GarbleKind::Malformed => ([JSON], truncated_half(&answer)).into_response(),
        GarbleKind::WrongId => {
            match &mut answer {
                Value::Array(batch) => batch.iter_mut().for_each(replace_id),
                one => replace_id(one),
            }
            ([JSON], answer.to_string()).into_response()
        }
        GarbleKind::Html => {
            (StatusCode::BAD_GATEWAY, [(header::CONTENT_TYPE, "text/html")], PROXY_ERROR_PAGE).into_response()
        }
        GarbleKind::Empty => ([JSON], Body::empty()).into_response(),
        GarbleKind::Cut => {
            let length = (header::CONTENT_LENGTH, answer.to_string().len().to_string());
            let half = Bytes::from(truncated_half(&answer));
            let parts = stream::unfold(Some(half), async |half| match half {
                Some(half) => Some((Ok(half), None)),
                None => {
                    // The yield lets the first half be flushed; the error then ends the connection.
                    tokio::task::yield_now().await;
                    Some((Err(io::Error::from(io::ErrorKind::ConnectionReset)), None))
                }
            });
            ([(JSON.0, JSON.1.to_owned()), length], Body::from_stream(parts)).into_response()
        }
    }
}

fn truncated_half(answer: &Value) -> Vec<u8> {
    let mut bytes = answer.to_string().into_bytes();
    bytes.truncate(bytes.len() / 2);
    bytes
}

/// Replaces the id of an answer by another id of the same type.
fn replace_id(answer: &mut Value) {
    answer["id"] = match &answer["id"] {
        Value::String(id) => format!("{id}-other").into(),
        id => json!(id.as_i64().map_or(0, |id| id.wrapping_add(1))),
    };
}

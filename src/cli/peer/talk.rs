//! `svc peer talk`: lines to a peer and from it, as basic messages over DIDComm.

use std::{
    io::{BufRead, stdin},
    time::Duration,
};

use serde_json::{Value, json};
use svc_peer::{AgentApi, AgentApiError, PeerClient, PeerError, PeerFailure, PeerStep, agent_failed};
use tokio::sync::mpsc;

use super::text;
use crate::cli::{
    agent::urlencoding,
    output::{is_output_closed, print_line, visible_json},
};

/// Lines of standard input that wait.
const WAITING_LINES: usize = 64;
/// Messages of a page.
const PAGE: usize = 500;
/// Seconds of one wait for lines of the peer.
const WAIT_SECONDS: u64 = 20;
/// Looks at the delivery of the last line, and the pause between them.
const DELIVERY_LOOKS: u32 = 60;
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// Talks until standard input ends and its lines were delivered.
pub(super) async fn run(client: &PeerClient, did: &str, as_json: bool) -> anyhow::Result<()> {
    let api = client.agent();
    let failed = |error: AgentApiError| agent_failed(PeerStep::Request, error);
    let connection = api.post_json("/v2/didcomm/connections", &json!({"did": did})).await.map_err(failed)?;
    let id = text(&connection["id"]).to_owned();
    let list = format!("/v2/didcomm/basic-messages?connectionId={}", urlencoding(&id));
    // Lines of before are not shown again.
    let mut newest = newest_cursor(api, &list, "receiver").await.map_err(failed)?;
    let sent_before = newest_cursor(api, &list, "sender").await.map_err(failed)?;
    let mut typed = typed_lines();
    let mut last_sent = None;
    loop {
        let page = page_behind(&list, "receiver", WAIT_SECONDS, newest.as_deref());
        tokio::select! {
            line = typed.recv() => match line {
                None => break,
                Some(line) if line.is_empty() => {}
                Some(line) => {
                    let body = json!({"connectionId": id, "content": line});
                    let sent = api.post_json("/v2/didcomm/basic-messages", &body).await.map_err(failed)?;
                    last_sent = Some(text(&sent["id"]).to_owned());
                }
            },
            heard = api.get(&page) => {
                let mut heard = heard.map_err(failed)?;
                print_heard(&heard["items"], as_json)?;
                newest = heard["nextCursor"].take().as_str().map(str::to_owned).or(newest);
                if is_output_closed() {
                    return Ok(());
                }
            }
        }
    }
    match last_sent {
        Some(sent) => await_delivery(api, did, &page_behind(&list, "sender", 0, sent_before.as_deref()), &sent).await,
        None => Ok(()),
    }
}

/// The path of a page of messages behind a cursor.
fn page_behind(list: &str, role: &str, wait: u64, cursor: Option<&str>) -> String {
    let cursor = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
    format!("{list}&role={role}&limit={PAGE}&wait={wait}{cursor}")
}

/// The cursor behind the newest line of a side; none when there is none.
async fn newest_cursor(api: &AgentApi, list: &str, role: &str) -> Result<Option<String>, AgentApiError> {
    let mut newest: Option<String> = None;
    loop {
        let page = api.get(&page_behind(list, role, 0, newest.as_deref())).await?;
        if page["items"].as_array().is_none_or(Vec::is_empty) {
            return Ok(newest);
        }
        newest = page["nextCursor"].as_str().map(str::to_owned);
    }
}

/// The lines of standard input, which a thread of its own reads: a read cannot be interrupted.
fn typed_lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(WAITING_LINES);
    std::thread::spawn(move || {
        for line in stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn print_heard(items: &Value, as_json: bool) -> anyhow::Result<()> {
    for message in items.as_array().into_iter().flatten() {
        if as_json {
            print_line(visible_json(&message.to_string()));
        } else {
            print_line(text(&message["content"]));
        }
    }
    Ok(())
}

/// Waits until the last line was delivered: messages of a connection go in their order. `first` is the page with the first line.
async fn await_delivery(api: &AgentApi, did: &str, first: &str, sent: &str) -> anyhow::Result<()> {
    let lost = |code: &str, message: String, hint: &str| -> anyhow::Result<()> {
        Err(PeerError::new((PeerStep::Request, PeerFailure::Unreachable), code, message, hint).into())
    };
    let mut page = first.to_owned();
    for _ in 0..DELIVERY_LOOKS {
        let messages = api.get(&page).await.map_err(|error| agent_failed(PeerStep::Request, error))?;
        let items = messages["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        match items.iter().find(|one| one["id"] == sent).map(|one| text(&one["delivery"])) {
            Some("delivered") => return Ok(()),
            Some("waiting") => tokio::time::sleep(BETWEEN_LOOKS).await,
            None if !items.is_empty() => {
                let (path, _) = first.split_once("&cursor=").unwrap_or((first, ""));
                page = format!("{path}&cursor={}", text(&messages["nextCursor"]));
            }
            _ => {
                let message = format!("{did} has not taken the last line");
                return lost("UNDELIVERED", message, "see the connection in /v2/didcomm/connections of your agent");
            }
        }
    }
    let message = format!("the last line still waits in the outbox of your agent for {did}");
    lost("WAITING", message, "your agent goes on trying; nothing has to be sent again")
}

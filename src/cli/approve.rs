//! `svc approve`: shows the calls that wait for another principal, and decides one of them.

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::{
    confirm::ask_person_about,
    connection::{ClientArgs, http_client, take_bearer_token},
    output::{OutputForm, print_content, print_line},
};
use crate::secrets::ProcessSecrets;

/// Lists the waiting calls, or decides the one of `id`.
pub(super) async fn run(
    id: Option<&str>,
    is_declined: bool,
    is_confirmed: bool,
    server: &ClientArgs,
    secrets: &mut ProcessSecrets,
) -> anyhow::Result<()> {
    let url = server.url.trim_end_matches('/');
    let base = url.strip_suffix("/mcp").unwrap_or(url).to_owned() + "/approvals";
    let token = take_bearer_token(secrets)?;
    let client = http_client()?;
    let answer = client.get(&base).bearer_auth(token.expose_secret()).send().await;
    let listed = read_answer(answer.with_context(|| format!("no answer from {base}"))?).await?;
    let Some(id) = id else {
        return if server.json { print_content(&listed, OutputForm::Json) } else { print_waiting(&listed) };
    };
    let approvals = listed["approvals"].as_array().into_iter().flatten();
    let Some(call) = approvals.into_iter().find(|call| call["id"] == id) else {
        bail!("no call waits under the id {id:?}; svc approve lists those that do");
    };
    if !is_declined && !is_confirmed {
        ask_person_about(&describe(call))?;
    }
    let decision = json!({"approve": !is_declined, "digest": call["digest"]});
    let sent = client.post(format!("{base}/{id}")).bearer_auth(token.expose_secret()).json(&decision).send().await;
    let decided = read_answer(sent.with_context(|| format!("no answer from {base}"))?).await?;
    print_content(&decided, OutputForm::chosen(server.json, false))
}

async fn read_answer(answer: reqwest::Response) -> anyhow::Result<Value> {
    let status = answer.status();
    let body: Value = answer.json().await.unwrap_or_default();
    if status.is_success() {
        return Ok(body);
    }
    bail!("{status}: {}", body["message"].as_str().unwrap_or("the server has refused it"))
}

fn print_waiting(listed: &Value) -> anyhow::Result<()> {
    let calls = listed["approvals"].as_array().map(Vec::as_slice).unwrap_or_default();
    if calls.is_empty() {
        print_line("no call waits for an approval");
    }
    for (number, call) in calls.iter().enumerate() {
        if number > 0 {
            print_line("");
        }
        print_line(describe(call));
    }
    Ok(())
}

fn describe(call: &Value) -> String {
    let text = |name: &str| call[name].as_str().unwrap_or_default();
    let decided = call["decided_by"].as_str().map(|by| format!(" by {by}")).unwrap_or_default();
    let (id, principal, state) = (text("id"), text("principal"), text("state"));
    format!("{id}  of {principal}, {}, {state}{decided}\n{}", text("requested_at"), text("shown"))
}

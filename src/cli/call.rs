//! `svc call`: calls a tool of a running server.

use std::io::{IsTerminal, Write};

use anyhow::bail;
use tokio::sync::mpsc;

use super::{
    arguments::{parse_arguments, read_words},
    confirm::confirm,
    connection::ClientArgs,
    output::print_content,
    tools::{find_listed, similar_names},
};
use crate::{
    mcp_client::{ServerNotification, result_content},
    secrets::ProcessSecrets,
    visible_text::visible,
};

/// Longest arguments, with room for the rest of a request of 1 MiB.
const MAX_ARGUMENT_BYTES: usize = 1_000_000;

/// Calls a tool and prints its answer. On a terminal it shows the progress of a write. Fails when the tool fails.
pub(super) async fn run(
    tool: &str,
    words: &[String],
    is_confirmed: bool,
    server: &ClientArgs,
    secrets: &mut ProcessSecrets,
) -> anyhow::Result<()> {
    let words = read_words(words)?;
    let (client, notifications) = server.connect_with_notifications(secrets).await?;
    let progress = std::io::stderr().is_terminal().then(|| tokio::spawn(print_progress(notifications)));
    let outcome = async {
        let tools = client.list_tools().await?;
        let listed = find_listed(tool, &tools);
        // A tool that is not listed is called too: the server's error names the reason.
        let schema = listed.map(|one| one.input_schema.clone()).unwrap_or_default();
        let arguments = parse_arguments(&words, &schema)?;
        let size = serde_json::to_vec(&arguments)?.len();
        if size > MAX_ARGUMENT_BYTES {
            bail!("the arguments have {size} bytes; a server takes at most {MAX_ARGUMENT_BYTES}");
        }
        confirm(tool, &arguments, is_confirmed)?;
        let result = client.call_tool(tool, arguments).await?;
        if listed.is_none() && result.is_error == Some(true) {
            let similar = similar_names(tool, &tools);
            let hint =
                if similar.is_empty() { String::new() } else { format!("; similar names: {}", similar.join(", ")) };
            let error = result_content(&result);
            bail!("{}{hint}", error["message"].as_str().unwrap_or("there is no such tool"));
        }
        Ok(result)
    }
    .await;
    client.close().await;
    if let Some(progress) = progress {
        let _ = progress.await;
    }
    let result = outcome?;
    let content = result_content(&result);
    print_content(&content, server.form())?;
    if result.is_error == Some(true) {
        bail!("{} failed: {}", tool, content["code"].as_str().unwrap_or("error"));
    }
    Ok(())
}

/// Shows the newest step in one line of standard error, and clears the line at the end.
async fn print_progress(mut notifications: mpsc::Receiver<ServerNotification>) {
    let mut has_printed = false;
    while let Some(notification) = notifications.recv().await {
        if let ServerNotification::CallProgressed(step) = notification {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[2K… {}", visible(&step));
            has_printed = true;
        }
    }
    if has_printed {
        let _ = write!(std::io::stderr().lock(), "\r\x1b[2K");
    }
}

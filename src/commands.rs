//! What people do with a running server: call a tool, look at the tools, read a resource.

use std::io::{IsTerminal, Write};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    cli::ServerArgs,
    client::{Client, News, arguments, explain, rows_of, similar, table},
    output,
    secrets::Secrets,
    serve::stop_signal,
};

fn token(secrets: &mut Secrets) -> anyhow::Result<svc_wire::secret::Secret> {
    secrets
        .take("MCP_BEARER_TOKEN")
        .filter(|token| !token.expose().is_empty())
        .context("MCP_BEARER_TOKEN is not set: the server printed or was given it")
}

async fn connect(server: &ServerArgs, secrets: &mut Secrets) -> anyhow::Result<Client> {
    Client::connect(&server.url, token(secrets)?.expose()).await
}

/// Calls a tool and prints what it answers. On a terminal the steps of a write are told on the way.
pub async fn call(tool: &str, words: &[String], server: &ServerArgs, secrets: &mut Secrets) -> anyhow::Result<()> {
    let (client, news) = Client::listen(&server.url, token(secrets)?.expose()).await?;
    let teller = std::io::stderr().is_terminal().then(|| tokio::spawn(tell(news)));
    let outcome = async {
        let tools = client.tools().await?;
        // A server may list names with underscores.
        let dotted = |name: &str| name.replace('_', ".");
        let found = tools.iter().find(|one| dotted(&one.name) == dotted(tool));
        // A tool that is not listed is asked all the same: it answers why, and with what was typed.
        let schema = found.map(|one| one.input_schema.clone()).unwrap_or_default();
        let result = client.call(tool, arguments(words, &schema)?).await?;
        if found.is_none() && result.is_error == Some(true) {
            let near = similar(tool, &tools);
            let hint = if near.is_empty() { String::new() } else { format!("; near it: {}", near.join(", ")) };
            let why = result.structured_content.unwrap_or_default();
            bail!("{}{hint}", why["message"].as_str().unwrap_or("there is no such tool"));
        }
        Ok(result)
    }
    .await;
    client.close().await;
    if let Some(teller) = teller {
        let _ = teller.await;
    }
    let result = outcome?;
    let content = result.structured_content.unwrap_or_default();
    show(&content, server.json)?;
    if result.is_error == Some(true) {
        bail!("{} failed: {}", tool, content["code"].as_str().unwrap_or("error"));
    }
    Ok(())
}

/// One line that is written over and over, and gone at the end.
async fn tell(mut news: mpsc::Receiver<News>) {
    let mut has_told = false;
    while let Some(one) = news.recv().await {
        if let News::Progress(step) = one {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[2K… {step}");
            has_told = true;
        }
    }
    if has_told {
        let _ = write!(std::io::stderr().lock(), "\r\x1b[2K");
    }
}

fn show(content: &Value, as_json: bool) -> anyhow::Result<()> {
    let text = if as_json { serde_json::to_string_pretty(content)? } else { table(&rows_of(content)) };
    output::line(text.trim_end());
    Ok(())
}

/// Lists the tools, or explains one.
pub async fn tools(name: Option<&str>, server: &ServerArgs, secrets: &mut Secrets) -> anyhow::Result<()> {
    let client = connect(server, secrets).await?;
    let tools = client.tools().await;
    client.close().await;
    let tools = tools?;
    let Some(name) = name else {
        if server.json {
            output::line(serde_json::to_string_pretty(&tools)?);
            return Ok(());
        }
        let rows: Vec<_> =
            tools.iter().map(|tool| (tool.name.to_string(), tool.title.clone().unwrap_or_default())).collect();
        output::line(table(&rows).trim_end());
        return Ok(());
    };
    let Some(tool) = tools.iter().find(|tool| tool.name == name) else {
        let near = similar(name, &tools);
        let hint =
            if near.is_empty() { "`svc tools` lists them".to_owned() } else { format!("near it: {}", near.join(", ")) };
        bail!("the server lists no tool {name:?}; {hint}");
    };
    output::line(if server.json { serde_json::to_string_pretty(tool)? } else { explain(tool) }.trim_end());
    Ok(())
}

/// Lists the resources, or reads one, once or whenever it changes.
pub async fn resource(
    uri: Option<&str>,
    watch: bool,
    server: &ServerArgs,
    secrets: &mut Secrets,
) -> anyhow::Result<()> {
    let Some(uri) = uri else {
        let client = connect(server, secrets).await?;
        let resources = client.resources().await;
        client.close().await;
        let resources = resources?;
        if server.json {
            output::line(serde_json::to_string_pretty(&resources)?);
            return Ok(());
        }
        let rows: Vec<_> =
            resources.iter().map(|one| (one.uri.clone(), one.description.clone().unwrap_or_default())).collect();
        output::line(table(&rows).trim_end());
        return Ok(());
    };
    let (client, mut news) = Client::listen(&server.url, token(secrets)?.expose()).await?;
    if watch {
        // Before the first read, so that no change falls between.
        client.subscribe(uri).await?;
    }
    show(&client.read(uri).await?, server.json)?;
    if watch {
        let stop = stop_signal()?;
        tokio::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                told = news.recv() => match told {
                    Some(News::Updated(changed)) if changed == uri => {
                        if !server.json {
                            output::line("");
                        }
                        show(&client.read(uri).await?, server.json)?;
                    }
                    Some(_) => {}
                    None => bail!("the server has closed the connection"),
                },
            }
        }
    }
    client.close().await;
    Ok(())
}

/// Names or values that continue a word, one a line.
pub async fn complete(tool: &str, word: &str, server: &ServerArgs, secrets: &mut Secrets) -> anyhow::Result<()> {
    let client = connect(server, secrets).await?;
    let found = async {
        let tools = client.tools().await?;
        let Some(known) = tools.iter().find(|one| one.name == tool) else {
            return Ok(tools.iter().map(|one| one.name.to_string()).filter(|name| name.starts_with(tool)).collect());
        };
        match word.split_once('=') {
            Some((name, begun)) => {
                let values = client.complete(tool, name, begun).await?;
                Ok(values.into_iter().map(|value| format!("{name}={value}")).collect())
            }
            None => {
                let none = json!({});
                let names =
                    known.input_schema.get("properties").unwrap_or(&none).as_object().cloned().unwrap_or_default();
                Ok(names.keys().filter(|name| name.starts_with(word)).map(|name| format!("{name}=")).collect())
            }
        }
    };
    let found: anyhow::Result<Vec<String>> = found.await;
    client.close().await;
    found?.iter().for_each(output::line);
    Ok(())
}

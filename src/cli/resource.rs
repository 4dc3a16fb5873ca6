//! `svc resource`: lists the resources of a running server, or reads one.

use anyhow::bail;

use super::{
    connection::ClientArgs,
    output::{is_output_closed, print_content, print_json, print_line, render_table},
};
use crate::{mcp_client::ServerNotification, secrets::ProcessSecrets, shutdown::stop_signal};

/// Prints the list of resources, or the content of the resource `uri`: once, or after each change until a stop signal.
pub(super) async fn run(
    uri: Option<&str>,
    watch: bool,
    server: &ClientArgs,
    secrets: &mut ProcessSecrets,
) -> anyhow::Result<()> {
    let Some(uri) = uri else { return list(server, secrets).await };
    let (client, mut notifications) = server.connect_with_notifications(secrets).await?;
    if watch {
        // The subscription precedes the first read, so that no change falls between them.
        client.subscribe_resource(uri).await?;
    }
    print_content(&client.read_resource(uri).await?, server.form())?;
    if watch {
        let stop = stop_signal()?;
        tokio::pin!(stop);
        while !is_output_closed() {
            tokio::select! {
                () = &mut stop => break,
                notification = notifications.recv() => match notification {
                    Some(ServerNotification::ResourceUpdated(changed)) if changed == uri => {
                        if !server.json {
                            print_line("");
                        }
                        print_content(&client.read_resource(uri).await?, server.form())?;
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

async fn list(server: &ClientArgs, secrets: &mut ProcessSecrets) -> anyhow::Result<()> {
    let client = server.connect(secrets).await?;
    let resources = client.list_resources().await;
    client.close().await;
    let resources = resources?;
    if server.json {
        print_json(&resources)?;
        return Ok(());
    }
    let rows: Vec<_> =
        resources.iter().map(|one| (one.uri.clone(), one.description.clone().unwrap_or_default())).collect();
    print_line(render_table(&rows).trim_end());
    Ok(())
}

//! A devnet whose tool server also serves the fixtures of the official MCP conformance suite, until SIGTERM. The first line of its output
//! is a JSON object with the URL and the bearer token.

mod suite;

use std::{net::TcpListener, sync::Arc, time::Duration};

use serde_json::json;
use svc::{
    listener::ListenerConfig,
    mcp::{HttpServer, HttpServerConfig, SessionLimits, ToolNames},
    network::{LocalNetwork, LocalNetworkConfig},
    principals::PrincipalDirectory,
};
use svc_devnet::DevnetConfig;
use svc_wire::secret::SecretString;
use tokio::signal::unix::{SignalKind, signal};

use suite::ConformanceFixtures;

const BLOCK_TIME: Duration = Duration::from_millis(500);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut stop = signal(SignalKind::terminate())?;
    let devnet = DevnetConfig { block_time: Some(BLOCK_TIME), ..DevnetConfig::default() };
    let network = LocalNetwork::launch(LocalNetworkConfig { devnet, ..LocalNetworkConfig::default() }).await?;
    let bearer = SecretString::new(network.bearer_token.clone());
    let config = HttpServerConfig {
        principals: PrincipalDirectory::open(&bearer, None, ToolNames::load()?)?,
        oauth: None,
        peers: None,
        allowed_hosts: Vec::new(),
        sessions: SessionLimits::default(),
        listener: ListenerConfig::for_local_network(),
    };
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let tool_server = Arc::clone(&network.tool_server);
    let server = HttpServer::start_extended(listener, tool_server, config, &ConformanceFixtures)?;
    let told = json!({"mcp": format!("http://{}/mcp", server.address), "bearer": network.bearer_token});
    {
        use std::io::Write;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{told}")?;
        out.flush()?;
    }
    stop.recv().await;
    server.stop(Duration::from_secs(2)).await;
    network.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

//! A caller: it decides about a peer, obtains access through its own agent, and reads the page.

use std::io::Write;

use svc_net::host_policy::HostPolicy;
use svc_peer::{AgentApi, CallOptions, PeerCall, PeerClient};

pub async fn run(agent: &str, endpoint: &str, hosts: HostPolicy) -> anyhow::Result<()> {
    let client = PeerClient::new(AgentApi::new(agent.parse()?, "at this place")?, hosts)?;
    let endpoint = client.find_endpoint(endpoint).await?;
    let page = client.call(&endpoint, &PeerCall::Page(String::new()), &CallOptions::default()).await?;
    // A terminal would obey some characters of a stranger's page.
    let shown: String = page.text.chars().map(|one| if one.is_control() && one != '\n' { '?' } else { one }).collect();
    std::io::stdout().write_all(shown.as_bytes())?;
    Ok(())
}

//! A running agent with its listeners: the admin API, its local socket, and the public files of the DID.

use std::{
    collections::BTreeSet,
    net::{SocketAddr, TcpListener},
    os::unix::fs::MetadataExt,
    path::PathBuf,
    time::Duration,
};

use anyhow::Context;
use ipnet::IpNet;
use svc_agent::{Agent, AgentBootError, AgentConfig};
use tokio::{task::JoinSet, time::timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    api::AdminApi,
    caller::CallerRules,
    local_socket::bind_socket,
    public::{PublicApi, public_router},
    routes::{serve_address, serve_socket},
};
use crate::listener::{self, ListenerConfig, bind_listener, starting::StartupResponder};

/// The listener of the admin API, and the trust in its callers.
#[derive(Debug, Clone)]
pub struct AdminConfig {
    /// Address.
    pub bind: SocketAddr,
    /// Networks whose callers are trusted.
    pub trusted_networks: Vec<IpNet>,
    /// Host names of trusted callers, beside loopback names and the bound address.
    pub allowed_hosts: BTreeSet<String>,
    /// Host of the public origin: requests to it are external.
    pub public_host: Option<String>,
}

/// The listeners of an agent.
#[derive(Debug, Clone)]
pub struct AgentServerConfig {
    /// The admin API.
    pub admin: AdminConfig,
    /// Address of the public files.
    pub public: SocketAddr,
    /// Socket of the local commands.
    pub socket: Option<PathBuf>,
    /// Limits and encryption of both listeners.
    pub listener: ListenerConfig,
}

/// The ports of an agent, which are taken before its start: a wrong one fails at once.
pub struct AgentListeners {
    admin: TcpListener,
    public: TcpListener,
}

impl AgentListeners {
    /// Takes both ports.
    pub fn bind(config: &AgentServerConfig) -> anyhow::Result<Self> {
        let bind = |name: &str, address: SocketAddr| {
            bind_listener(address).with_context(|| format!("{name}: cannot listen on {address}"))
        };
        let admin = bind("ADMIN_API_PORT", config.admin.bind)?;
        Ok(Self { admin, public: bind("PUBLIC_API_PORT", config.public)? })
    }

    /// Returns the addresses of the admin API and of the public files.
    pub fn addresses(&self) -> std::io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.admin.local_addr()?, self.public.local_addr()?))
    }
}

/// A running agent with its listeners.
pub struct AgentServer {
    /// The agent.
    pub agent: Agent,
    /// Address of the admin API.
    pub admin: SocketAddr,
    /// Address of the public files.
    pub public: SocketAddr,
    stop_admin: CancellationToken,
    stop_public: CancellationToken,
    serving: JoinSet<std::io::Result<()>>,
    /// The local socket, and its inode: another process may have put its own there.
    socket: Option<(PathBuf, u64)>,
}

impl AgentServer {
    /// Starts the agent, and then serves it.
    pub async fn start(
        agent: AgentConfig,
        config: AgentServerConfig,
        listeners: AgentListeners,
    ) -> anyhow::Result<Self> {
        let location = agent.location.clone();
        // The agent compares its log with that at its public URL, which may lead here.
        let starting = StartupResponder::start(
            "public",
            listeners.public.try_clone()?,
            &config.listener,
            || None,
            |routes| routes,
        )?;
        let launched = Agent::launch(agent).await.map_err(|error: AgentBootError| anyhow::Error::new(error));
        starting.stop().await;
        let agent = launched?;
        let (admin, public) = listeners.addresses()?;
        let AdminConfig { trusted_networks, allowed_hosts, public_host, .. } = config.admin;
        let rules = CallerRules { trusted_networks, allowed_hosts, public_host, bound: admin };
        let api = AdminApi::new(agent.clone(), rules);
        let (stop_admin, stop_public) = (api.shutdown_token(), CancellationToken::new());
        let mut serving = JoinSet::new();
        let socket = match config.socket {
            None => None,
            Some(path) => {
                let made = bind_socket(&path).with_context(|| format!("SVC_AGENT_SOCKET: {}", path.display()))?;
                serving.spawn(serve_socket(made, api.clone()));
                let inode = std::fs::metadata(&path)?.ino();
                Some((path, inode))
            }
        };
        serving.spawn(serve_address(listeners.admin, api, config.listener.clone()));
        let files = public_router(PublicApi {
            keeper: agent.keeper().clone(),
            location,
            peers: agent.peers().clone(),
            access: agent.access().clone(),
        });
        let served = listener::serve("public", listeners.public, files, &config.listener, stop_public.clone())?;
        serving.spawn(async move { AbortOnDropHandle::new(served).await.map_err(std::io::Error::other) });
        Ok(Self { agent, admin, public, stop_admin, stop_public, serving, socket })
    }

    /// Returns the DID.
    pub fn did(&self) -> String {
        self.agent.keeper().published().document.did().to_owned()
    }

    /// Waits until the agent must end, and returns the reason.
    pub async fn wait_until_ended(&mut self) -> String {
        let Self { agent, serving, .. } = self;
        loop {
            let ended = tokio::select! {
                reason = agent.wait_until_ended() => return reason,
                ended = serving.join_next() => ended,
            };
            match ended {
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(error))) => return format!("a listener failed: {error}"),
                Some(Err(error)) => return format!("a listener failed: {error}"),
                None => return agent.wait_until_ended().await,
            }
        }
    }

    /// Takes no further requests, answers the open ones, and stops the agent. The public files are served until the changes that wait
    /// are published.
    pub async fn stop(mut self, wait_limit: Duration) {
        self.stop_admin.cancel();
        let begun = tokio::time::Instant::now();
        // The public listener goes on meanwhile: a change is answered when its version is served.
        while self.serving.len() > 1 {
            let left = wait_limit.saturating_sub(begun.elapsed());
            if timeout(left, self.serving.join_next()).await.is_err() {
                break;
            }
        }
        let left = wait_limit.saturating_sub(begun.elapsed());
        self.agent.shutdown(left.max(Duration::from_secs(1))).await;
        self.stop_public.cancel();
        let _ = timeout(Duration::from_secs(1), self.serving.join_next()).await;
        self.serving.shutdown().await;
        if let Some((path, inode)) = &self.socket
            && std::fs::metadata(path).is_ok_and(|found| found.ino() == *inode)
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

//! The directory of the agents of a demo.

use std::{
    io::Write,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::PathBuf,
};

use svc_peer::AgentAddress;

use crate::{
    cli::devnet::network_config::access_settings,
    network::{LocalAgent, LocalAgentConfig},
};

/// The conditions of the demo.
pub(super) const CONDITIONS: &str = "\
[[endpoint]]
id = \"mcp\"
material = \"bearer\"
scopes = [\"mcp:read\"]
default_scopes = [\"mcp:read\"]
allow = \"*\"
";

/// The directory of the agents, with the file of conditions. It is removed at the end.
pub(super) struct DemoHome(PathBuf);

impl DemoHome {
    /// Makes it for its owner alone.
    pub fn make() -> anyhow::Result<Self> {
        let directory = std::env::temp_dir().join(format!("svc-demo-{}", uuid::Uuid::new_v4().simple()));
        std::fs::DirBuilder::new().mode(0o700).create(&directory)?;
        let home = Self(directory);
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600).open(home.conditions())?.write_all(CONDITIONS.as_bytes())?;
        Ok(home)
    }

    fn conditions(&self) -> PathBuf {
        self.0.join("access.toml")
    }

    /// Gives the agents their directory.
    pub fn keep(&self, agents: &mut LocalAgentConfig) {
        agents.home = Some(self.0.clone());
    }

    /// Gives the agents their directory, and the first one its conditions.
    pub fn configure(&self, agents: &mut LocalAgentConfig) {
        self.keep(agents);
        agents.access = vec![access_settings(&self.conditions())];
        agents.waits_for_setup = true;
    }

    /// The socket of an agent.
    pub fn socket(&self, agent: &LocalAgent) -> AgentAddress {
        AgentAddress::Socket(self.0.join(format!("{}.sock", agent.name)))
    }
}

impl Drop for DemoHome {
    fn drop(&mut self) {
        // A directory that stays is of no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

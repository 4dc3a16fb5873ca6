//! Both sides of the peer flow without any front end of `svc`: a website that takes tokens and credentials of peers, and a caller.
//!
//! ```sh
//! cargo run --example peer -- website --issuer did:web:a.example --audience https://a.example/read --listen 127.0.0.1:8080
//! cargo run --example peer -- call unix:/run/svc/agent.sock did:web:a.example#read
//! ```

mod caller;
mod website;

use std::{net::SocketAddr, sync::Arc};

use clap::Parser;
use svc_net::host_policy::HostPolicy;
use svc_peer::verifier::{PresentationRules, PresentationVerifier, TokenVerifier};

use website::Website;

#[derive(Parser)]
enum Side {
    /// Serves `/read` to peers with a token of an agent, and `/members` to peers with a credential.
    Website {
        /// DID of the agent that grants access.
        #[arg(long)]
        issuer: String,
        /// URL of the page `/read` in its document.
        #[arg(long)]
        audience: String,
        /// Address to listen on.
        #[arg(long, default_value = "127.0.0.1:8080")]
        listen: SocketAddr,
        /// Let documents lie at private addresses.
        #[arg(long)]
        allow_private: bool,
        #[command(flatten)]
        members: Members,
    },
    /// Reads a page of a peer through the own agent.
    Call {
        /// The own agent: unix:PATH, or the origin of its admin API.
        agent: String,
        /// DID URL of the endpoint.
        endpoint: String,
        /// Let endpoints lie at private addresses.
        #[arg(long)]
        allow_private: bool,
    },
}

/// The page for holders of a credential: all of these, or none.
#[derive(clap::Args)]
struct Members {
    /// URL of the page `/members` in the document.
    #[arg(long, requires_all = ["schema", "credential_issuer", "indexer", "schema_prefix"])]
    members_audience: Option<String>,
    /// Schema of the credential.
    #[arg(long)]
    schema: Option<u64>,
    /// DID of its issuer.
    #[arg(long)]
    credential_issuer: Option<String>,
    /// Origin of an indexer of the registry.
    #[arg(long)]
    indexer: Option<String>,
    /// vpr:NAMESPACE:CHAIN:cs:
    #[arg(long)]
    schema_prefix: Option<String>,
}

impl Members {
    fn rules(self, hosts: HostPolicy) -> Option<PresentationRules> {
        Some(PresentationRules {
            audience: self.members_audience?,
            schema_id: self.schema?,
            issuer: self.credential_issuer?,
            indexer: self.indexer?,
            schema_prefix: self.schema_prefix?,
            hosts,
        })
    }
}

fn hosts(allows_private: bool) -> HostPolicy {
    if allows_private { HostPolicy::AllowPrivate } else { HostPolicy::PublicOnly }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Side::parse() {
        Side::Website { issuer, audience, listen, allow_private, members } => {
            let hosts = hosts(allow_private);
            let members = members
                .rules(hosts)
                .map(PresentationVerifier::new)
                .transpose()
                .map_err(|error| anyhow::anyhow!(error))?;
            let site = Website { tokens: TokenVerifier::new(&issuer, &audience, hosts)?, members };
            let listener = tokio::net::TcpListener::bind(listen).await?;
            axum::serve(listener, website::router(Arc::new(site))).await?;
            Ok(())
        }
        Side::Call { agent, endpoint, allow_private } => caller::run(&agent, &endpoint, hosts(allow_private)).await,
    }
}

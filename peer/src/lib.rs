//! The peer flow: decide whether a DID is trusted, obtain access to one of its endpoints over DIDComm, and call the endpoint with it.
//!
//! [`PeerClient`] does the three steps over the admin API of the caller's own agent, which holds the keys of its DID. [`verifier`] is the other
//! side: an endpoint that takes tokens and presentations of peers.
//!
//! This crate has no command line, no configuration and no actors. It decides nothing about trust: the own agent does.
//!
//! ```no_run
//! use svc_net::host_policy::HostPolicy;
//! use svc_peer::{AgentApi, CallOptions, PeerCall, PeerClient};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let agent = AgentApi::new("unix:/run/svc/agent.sock".parse()?, "at its socket")?;
//! let client = PeerClient::new(agent, HostPolicy::PublicOnly)?;
//! let endpoint = client.find_endpoint("did:web:peer.example#mcp").await?;
//! let tools = client.call(&endpoint, &PeerCall::ListTools, &CallOptions::default()).await?;
//! println!("{}", tools.text);
//! # Ok(())
//! # }
//! ```

mod agent_api;
mod call;
mod client;
mod error;
mod json_member;
mod material;
mod resolution;
pub mod verifier;

pub use self::{
    agent_api::{AgentAddress, AgentApi, AgentApiError, InvalidAgentAddress},
    call::{CallAnswer, EndpointProtocol, PeerCall},
    client::{AccessQuestion, CallOptions, PeerClient, agent_failed, not_spoken},
    error::{PeerError, PeerFailure, PeerStep},
    material::{AccessMaterial, MaterialKind},
    resolution::{PeerEndpoint, PeerResolution, TrustReason},
};

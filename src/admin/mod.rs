//! The agent's two HTTP surfaces: the admin API for its owner, and the public files of its DID. Each route parses the request, asks one
//! handle and shapes the answer.

mod access;
mod access_bodies;
mod agent_info;
mod answer;
mod api;
mod caller;
mod credential_bodies;
mod credentials;
mod docs_page;
mod events;
mod export;
mod flow_bodies;
mod flows;
mod key_bodies;
mod keys;
mod local_socket;
mod login;
mod page;
mod peer_bodies;
mod peer_exchanges;
mod peer_resolution_bodies;
mod peers;
mod public;
mod request;
mod routes;
mod schema;
mod server;
mod service_endpoints;
mod setup;

pub use api::AdminApi;
pub use caller::CallerRules;
pub use local_socket::{SOCKET_PATH, bind_socket, is_short_enough};
pub use public::{PublicApi, public_router};
pub use routes::{openapi, router, serve_address, serve_socket};
pub use server::{AdminConfig, AgentListeners, AgentServer, AgentServerConfig};
pub use setup::setup_body;

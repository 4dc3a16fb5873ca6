//! The agent's two HTTP surfaces: the admin API for its owner, and the public files of its DID. Each route parses the request, asks one
//! handle and shapes the answer.

mod agent_info;
mod api;
mod caller;
mod docs_page;
mod flows;
mod format;
mod identity;
mod local_socket;
mod peers;
mod public;
mod routes;
mod server;
mod store;

pub use api::AdminApi;
pub use caller::CallerRules;
pub use identity::setup::setup_body;
pub use local_socket::{SOCKET_PATH, bind_socket, is_short_enough};
pub use public::{PublicApi, public_router};
pub use routes::{openapi, router, serve_address, serve_socket};
pub use server::{AdminConfig, AgentListeners, AgentServer, AgentServerConfig};

//! An agent of the registry's first generation, as a script: its log, document, credentials and messages have the forms of that software, and
//! it reads the forms that it knows. Agents of this project meet it as they meet deployed ones.
//!
//! [`FirstAgent::start`] opens the inbox of a service of the scenario (`form = "first_generation"`). Its ecosystem, its participants and its
//! trust come from the scenario; [`FirstAgent::publish_schema`] publishes the credential of its schema. `applicant` and `validator` have its
//! two sides of a flow.
//!
//! The script does less than the software: it keeps nothing, has one flow at a time, and takes no other DID in a connection.

mod agent;
mod applicant;
mod error;
mod publication;
mod validator;

pub use agent::FirstAgent;
pub use applicant::AppliedFlow;
pub use error::FirstAgentError;
pub use validator::ReceivedRequest;
